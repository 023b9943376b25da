//! How the machine's processor is had: by the host's own where that works, by emulation everywhere.

use std::fs::File;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Kernel, Vm, parts};
use crate::tools::Missing;

/// Time that a machine may take that has only to boot under KVM. It takes less than a second where KVM works; elsewhere it keeps a
/// processor busy for all of that time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first kernel whose allocator needs a correct `cmpxchg16b` at boot; that of emulators up to QEMU 7.2 makes it panic.
const NEEDS_CX16: (u32, u32) = (6, 12);

/// Accelerators of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accel {
    /// The host's processor.
    Kvm,
    /// Emulation.
    Tcg,
}

impl Accel {
    /// QEMU's arguments for a kernel of this version.
    pub(super) fn arguments(self, version: (u32, u32)) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "max"],
            Self::Tcg if version >= NEEDS_CX16 => ["-accel", "tcg", "-cpu", "max,-cx16"],
            Self::Tcg => ["-accel", "tcg", "-cpu", "max"],
        }
    }
}

/// KVM if a machine boots with it, else emulation; `BRINDLE_VM_ACCEL` overrides.
///
/// # Errors
/// Names what this machine lacks to run any.
pub(super) fn best() -> Result<Accel, Missing> {
    static BEST: OnceLock<Result<Accel, Missing>> = OnceLock::new();
    BEST.get_or_init(|| match std::env::var("BRINDLE_VM_ACCEL").as_deref() {
        Ok("kvm") => Ok(Accel::Kvm),
        Ok("tcg") => Ok(Accel::Tcg),
        Ok(other) => Err(Missing::new(format!("BRINDLE_VM_ACCEL is kvm or tcg, not {other}"))),
        Err(_) if kvm_boots()? => Ok(Accel::Kvm),
        Err(_) => Ok(Accel::Tcg),
    })
    .clone()
}

/// Whether KVM is there, may be used, and carries a kernel to its first program: in a machine within a machine it may
/// do the first two alone.
fn kvm_boots() -> Result<bool, Missing> {
    if File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(false);
    }
    let vm = Vm::emulated(parts(Kernel::Release)?);
    Ok(Vm { accel: Accel::Kvm, ..vm }.limit(PATIENCE).run("true").is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_hides_what_newer_kernels_trip_over() {
        assert_eq!(Accel::Tcg.arguments((6, 1))[3], "max");
        assert_eq!(Accel::Tcg.arguments((6, 12))[3], "max,-cx16");
        assert_eq!(Accel::Kvm.arguments((7, 0))[3], "max");
    }
}

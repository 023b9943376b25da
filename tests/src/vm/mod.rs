//! A stock Debian kernel in QEMU, with members as its disks and a shell script as its only program.
//!
//! No root, no KVM and no network at run time: the kernel's package is downloaded once, emulation boots it in two
//! to three seconds, and the members are plain files of the host. The kernel log and the script's output go to one serial
//! line, what the script reports to another, so that neither can garble the other.

mod cpio;
mod initramfs;
mod kernel;
mod machine;
mod modules;
mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

pub use machine::Machine;
pub use report::{Failure, Report};

use crate::tools::{self, Missing};
use kernel::Kernel;

/// Disks that one machine may have. They are the units of one SCSI controller: as many virtio disks, each with a
/// controller and interrupts of its own, would take half a minute to boot and leave none for the serial lines.
pub const MAX_DISKS: usize = 250;

/// Everything that is needed to boot; found once per test binary.
#[derive(Debug)]
struct Parts {
    qemu: PathBuf,
    kernel: PathBuf,
    /// Uncompressed cpio archive; the script of each run is put behind it.
    initramfs: Vec<u8>,
}

fn parts() -> Result<&'static Parts, Missing> {
    static PARTS: OnceLock<Result<Parts, Missing>> = OnceLock::new();
    let find = || {
        let kernel = Kernel::find()?;
        let initramfs = initramfs::build(&kernel)?;
        Ok(Parts { qemu: tools::find("qemu-system-x86_64")?, kernel: kernel.image, initramfs })
    };
    PARTS.get_or_init(find).as_ref().map_err(Clone::clone)
}

/// A machine about to be booted.
///
/// The script runs under `sh -eu` with busybox, mdadm and these helpers:
///
/// - `/dev/member/N` is disk N, from 0, in the order in which disks were added;
/// - `step NAME COMMAND...` runs a command and lets a failure name it;
/// - `put KEY VALUE` hands a value to the test.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use brindle_tests::vm::Vm;
/// let report = Vm::new()?.disks(["a.img", "b.img"]).run("put version \"$(mdadm --version 2>&1)\"")?;
/// assert!(report["version"].starts_with("mdadm"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a machine does nothing before `run`"]
pub struct Vm {
    parts: &'static Parts,
    disks: Vec<PathBuf>,
    sector: u32,
    limit: Duration,
}

impl Vm {
    /// A machine without disks.
    ///
    /// # Errors
    /// Names what this machine lacks to run it.
    pub fn new() -> Result<Self, Missing> {
        Ok(Self { parts: parts()?, disks: Vec::new(), sector: 512, limit: Duration::from_secs(180) })
    }

    /// Adds raw images as disks, writable.
    ///
    /// # Panics
    /// With more than [`MAX_DISKS`].
    pub fn disks(mut self, images: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.disks.extend(images.into_iter().map(|p| p.as_ref().to_path_buf()));
        assert!(self.disks.len() <= MAX_DISKS, "{} disks do not fit", self.disks.len());
        self
    }

    /// Logical and physical sector size of all disks, in bytes; 512 if not said.
    pub fn sector(mut self, bytes: u32) -> Self {
        self.sector = bytes;
        self
    }

    /// How long the machine may run before it counts as hung; three minutes if not said.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Boots, runs `script` to its end and powers off.
    ///
    /// # Errors
    /// The script failed, the kernel panicked or complained, or time ran out; with the log of all that happened.
    ///
    /// # Panics
    /// If the host cannot start QEMU or write temporary files.
    pub fn run(self, script: &str) -> Result<Report, Failure> {
        self.start(script).finish()
    }

    /// Switches the machine on, which runs `script` and powers off, and does not wait.
    ///
    /// # Panics
    /// If the host cannot start QEMU or write temporary files.
    pub fn start(self, script: &str) -> Machine {
        let dir = tempfile::tempdir().expect("a folder for the machine");
        let initramfs = dir.path().join("initramfs");
        std::fs::write(&initramfs, initramfs::with_script(&self.parts.initramfs, script, self.disks.len()))
            .expect("the initramfs is written");
        let (console, results) = (dir.path().join("console"), dir.path().join("results"));
        let command = self.command(&initramfs, &console, &results);
        Machine::start(command, dir, self.limit)
    }

    fn command(&self, initramfs: &Path, console: &Path, results: &Path) -> Command {
        let mut qemu = Command::new(&self.parts.qemu);
        // Emulation by default: nested KVM fails in ways that look like bugs of ours, and boots take seconds anyway.
        let accel = std::env::var("BRINDLE_VM_ACCEL").unwrap_or_else(|_| "tcg".to_owned());
        qemu.args(["-accel", &accel, "-cpu", "max", "-m", "512", "-no-reboot", "-nodefaults", "-nographic"]);
        qemu.arg("-kernel").arg(&self.parts.kernel).arg("-initrd").arg(initramfs);
        // A panic or an oops ends the machine at once instead of hanging it until the limit.
        qemu.args(["-append", "console=ttyS0 panic=-1 oops=panic quiet loglevel=5 rdinit=/init"]);
        for log in [console, results] {
            qemu.arg("-serial").arg(format!("file:{}", log.display()));
        }
        qemu.args(["-device", "virtio-scsi-pci,id=scsi"]);
        for (i, disk) in self.disks.iter().enumerate() {
            // No flush reaches the host's disk: it is the emulated machine that may crash, never the host.
            let path = disk.display().to_string().replace(',', ",,");
            qemu.arg("-drive")
                .arg(format!("file={path},if=none,id=d{i},format=raw,cache=unsafe,discard=unmap"));
            qemu.arg("-device").arg(format!(
                "scsi-hd,bus=scsi.0,scsi-id=0,lun={i},drive=d{i},logical_block_size={sector},physical_block_size={sector}",
                sector = self.sector
            ));
        }
        qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        qemu
    }
}

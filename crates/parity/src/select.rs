//! The kernels that this CPU can run, and the best one.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::{Kernel, passes};
#[cfg(target_arch = "aarch64")]
use crate::neon;
use crate::portable;
#[cfg(target_arch = "x86_64")]
use crate::x86::{avx2, avx2_gfni, avx512, gfni};

/// Whether this CPU has all of these x86 features. Without `std`, whether the compiler assumes so.
#[cfg(target_arch = "x86_64")]
macro_rules! detected {
    ($($feature:tt)+) => {{
        #[cfg(feature = "std")]
        let detected = $(std::arch::is_x86_feature_detected!($feature) &&)+ true;
        #[cfg(not(feature = "std"))]
        let detected = $(cfg!(target_feature = $feature) &&)+ true;
        detected
    }};
}

/// All kernels of this architecture, slowest first. Each asks for exactly the features that its
/// `run` enables: that makes handing it out sound.
static KERNELS: &[Kernel] = &[
    Kernel { name: "portable", detected: || true, passes: passes!(portable::run) },
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "avx2", detected: || detected!("avx2"), passes: passes!(avx2::run) },
    // For processors with GFNI and without AVX-512.
    #[cfg(target_arch = "x86_64")]
    Kernel { name: "avx2-gfni", detected: || detected!("gfni" "avx2"), passes: passes!(avx2_gfni::run) },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "avx512",
        detected: || detected!("avx512f" "avx512bw" "avx512vl"),
        passes: passes!(avx512::run),
    },
    #[cfg(target_arch = "x86_64")]
    Kernel {
        name: "avx512-gfni",
        detected: || detected!("gfni" "avx512f" "avx512bw" "avx512vl"),
        passes: passes!(gfni::run),
    },
    // Every AArch64 target with an operating system has NEON; the compiler knows of the others.
    #[cfg(target_arch = "aarch64")]
    Kernel { name: "neon", detected: || cfg!(target_feature = "neon"), passes: passes!(neon::run) },
];

/// All kernels that this CPU can run, `portable` first and the best last.
pub fn available() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter().filter(|kernel| (kernel.detected)())
}

/// The best kernel for this CPU, chosen at the first call.
///
/// Without the feature `std` the CPU is not asked: only what the crate was compiled for counts.
pub fn kernel() -> &'static Kernel {
    /// One more than the index of the choice, 0 before it. Two threads may both choose at first;
    /// they come to the same result.
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    let mut chosen = CHOSEN.load(Ordering::Relaxed);
    if chosen == 0 {
        let best = KERNELS.iter().rposition(|kernel| (kernel.detected)());
        chosen = 1 + best.unwrap_or(0);
        CHOSEN.store(chosen, Ordering::Relaxed);
    }
    &KERNELS[chosen - 1]
}

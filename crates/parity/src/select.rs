//! Which kernels this CPU can run, and which one is best.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::{Kernel, passes};
use crate::portable;

/// All kernels of this architecture, slowest first.
static KERNELS: &[Kernel] = &[Kernel { name: "portable", detected: || true, passes: passes!(portable::run) }];

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

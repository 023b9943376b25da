//! Resources used by this process, as the kernel counts them.

use std::fs;
use std::time::Instant;

use brindle_lab::report::Usage;

/// Ticks of /proc in a second: the kernel's promise to programs.
const TICKS: f64 = 100.0;

/// Counts since a moment.
pub(crate) struct Meter {
    begun: Instant,
    counts: [u64; 5],
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { begun: Instant::now(), counts: counts() }
    }

    pub(crate) fn stop(&self) -> Usage {
        let now = counts();
        let [user, system, switches, major, minor] =
            core::array::from_fn(|at| now[at].saturating_sub(self.counts[at]));
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        let share = |ticks: u64| ticks as f64 / TICKS * 100.0 / seconds;
        Usage { user: share(user), system: share(system), switches, major, minor }
    }
}

/// Ticks of the process and of the kernel for it, context switches, faults that read and others; zeroes where there is no /proc.
fn counts() -> [u64; 5] {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name before it may hold anything.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let field = |at: usize| fields.split_whitespace().nth(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let switches =
        status.lines().filter_map(|line| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok());
    [field(11), field(12), switches.sum(), field(9), field(7)]
}

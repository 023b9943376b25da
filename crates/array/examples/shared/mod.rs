//! Parts that the measuring examples share.

use rustix::time::{ClockId, clock_gettime};

/// How often each target has its turn.
pub(crate) const TURNS: usize = 9;

/// The middle one of an odd number of values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The arguments of an example.
pub(crate) struct Arguments {
    pub(crate) markdown: bool,
    /// For each row.
    pub(crate) seconds: f64,
    /// Only rows whose names begin so.
    pub(crate) only: String,
}

/// Reads the arguments; exits with `usage` if there is one that means nothing.
pub(crate) fn arguments(usage: &str, seconds: f64) -> Arguments {
    let mut said = Arguments { markdown: false, seconds, only: String::new() };
    for arg in std::env::args().skip(1) {
        match arg.parse() {
            Ok(number) if number > 0.0 => said.seconds = number,
            _ if arg == "--markdown" => said.markdown = true,
            _ if arg.starts_with("--only=") => said.only = arg["--only=".len()..].to_owned(),
            _ => {
                eprintln!("{usage}");
                std::process::exit(2);
            }
        }
    }
    said
}

/// Numbers without pattern: a linear congruential generator (Knuth, MMIX), scaled rather than divided.
pub(crate) fn next(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((u128::from(*state) * u128::from(end)) >> 64) as u64
}

/// Processor time of this thread, in nanoseconds; time spent in other programs is not counted.
pub(crate) fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

//! The figures of one line, and the forms they are printed in.

use std::fmt::Write;

use crate::measure::{BLOCK, Place, Work};

/// Medians of one kernel in GB/s of data (10^9 bytes).
pub(crate) struct Figures {
    kernel: &'static str,
    rate: f64,
    isal: Option<Theirs>,
}

/// ISA-L's functions beside a kernel.
struct Theirs {
    set: &'static str,
    rate: f64,
    /// Median of each round's ratio of ours to this.
    ratio: f64,
}

/// One line of the table: all kernels at the same work.
pub(crate) struct Line {
    pub(crate) work: Work,
    pub(crate) place: Place,
    pub(crate) members: usize,
    pub(crate) kernels: Vec<Figures>,
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Figures {
    /// `rates`: those of the kernel first, then of ISA-L's `set`, if it has one; entry i of each is from round i.
    pub(crate) fn new(kernel: &'static str, set: Option<&'static str>, rates: &[Vec<f64>]) -> Self {
        let ours = &rates[0];
        let isal = set.zip(rates.get(1)).map(|(set, theirs)| Theirs {
            set,
            rate: median(theirs.iter().copied()),
            ratio: median(ours.iter().zip(theirs).map(|(a, b)| a / b)),
        });
        Self { kernel, rate: median(ours.iter().copied()), isal }
    }
}

/// The setup: the CPU, and the file of ISA-L, whose name has its version.
pub(crate) struct Setup {
    cpu: String,
    isal: String,
}

impl Setup {
    /// Asks Linux; what it does not tell stays "unknown".
    pub(crate) fn new() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            let value = lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next();
            value.unwrap_or("unknown").to_owned()
        };
        // Clouds call processors of several generations by one name.
        let cpu = format!(
            "{} (family {}, model {}, stepping {})",
            field("model name"),
            field("cpu family"),
            field("model"),
            field("stepping")
        );
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let isal =
            maps.lines().find_map(|line| line.rsplit('/').next().filter(|name| name.starts_with("libisal")));
        Self { cpu, isal: isal.unwrap_or("unknown").to_owned() }
    }
}

/// A table for people: aligned columns that are Markdown, too.
pub(crate) fn table(setup: &Setup, lines: &[Line]) -> String {
    let mut text = format!("CPU: {}; ISA-L: {}\n\n", setup.cpu, setup.isal);
    text += "| what        | where    | data members |";
    let kernels = lines.first().map_or(&[][..], |line| &line.kernels);
    for kernel in kernels {
        let _ = write!(text, " {:>24} |", kernel.kernel);
    }
    text += "\n|-------------|----------|-------------:|";
    for _ in kernels {
        text += "-------------------------:|";
    }
    text += "\n";
    for Line { work, place, members, kernels } in lines {
        let _ = write!(text, "| {:<11} | {:<8} | {members:>12} |", work.name(), place.name());
        for Figures { rate, isal, .. } in kernels {
            let cell = isal.as_ref().map_or_else(
                || format!("{rate:.1}"),
                |isal| format!("{rate:.1} ({:.2}x {})", isal.ratio, isal.set),
            );
            let _ = write!(text, " {cell:>24} |");
        }
        text += "\n";
    }
    text
}

/// All figures: an object with the CPU and a list of one entry for each line and kernel.
pub(crate) fn json(setup: &Setup, lines: &[Line]) -> String {
    let each = |line: &Line| {
        let figures = line.kernels.iter().map(|figures| {
            serde_json::json!({
                "work": line.work.name(),
                "place": line.place.name(),
                "data_members": line.members,
                "kernel": figures.kernel,
                "gb_per_s": figures.rate,
                "isal_set": figures.isal.as_ref().map(|isal| isal.set),
                "isal_gb_per_s": figures.isal.as_ref().map(|isal| isal.rate),
                "ratio": figures.isal.as_ref().map(|isal| isal.ratio),
            })
        });
        figures.collect::<Vec<_>>()
    };
    serde_json::json!({
        "cpu": setup.cpu,
        "isal": setup.isal,
        "block_bytes": BLOCK,
        "lines": lines.iter().flat_map(each).collect::<Vec<_>>(),
    })
    .to_string()
        + "\n"
}

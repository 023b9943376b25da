//! The figures of one line, and the forms they are printed in.

use std::fmt::Write;

use crate::measure::{BLOCK, Place, Work};

/// Medians in GB/s of data (10^9 bytes), and of the ratios of each round.
pub(crate) struct Figures {
    work: &'static str,
    place: &'static str,
    members: usize,
    cached: f64,
    streaming: Option<f64>,
    isal: f64,
    cached_ratio: f64,
    streaming_ratio: Option<f64>,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Figures {
    /// `rates`: those of Brindle first, of ISA-L last; entry i of each is from round i.
    pub(crate) fn new(work: Work, place: Place, members: usize, rates: &mut [Vec<f64>]) -> Self {
        let (isal, brindle) = rates.split_last_mut().expect("ISA-L is a contender");
        let ratio =
            |rates: &Vec<f64>| median(&mut rates.iter().zip(&*isal).map(|(a, b)| a / b).collect::<Vec<_>>());
        let ratios: Vec<_> = brindle.iter().map(ratio).collect();
        let medians: Vec<_> = brindle.iter_mut().map(|rates| median(rates)).collect();
        Self {
            work: work.name(),
            place: place.name(),
            members,
            cached: medians[0],
            streaming: medians.get(1).copied(),
            isal: median(isal),
            cached_ratio: ratios[0],
            streaming_ratio: ratios.get(1).copied(),
        }
    }
}

/// What ran: the CPU, the kernel, and the file of ISA-L, whose name has its version.
pub(crate) struct Setup {
    kernel: &'static str,
    cpu: String,
    isal: String,
}

impl Setup {
    /// Asks Linux; what it does not tell stays "unknown".
    pub(crate) fn new(kernel: &'static str) -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let isal =
            maps.lines().find_map(|line| line.rsplit('/').next().filter(|name| name.starts_with("libisal")));
        let name = |name: Option<&str>| name.unwrap_or("unknown").to_owned();
        Self { kernel, cpu: name(cpu.map(|(_, name)| name)), isal: name(isal) }
    }
}

/// A table for people: aligned columns that are Markdown, too.
pub(crate) fn table(setup: &Setup, figures: &[Figures]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "CPU: {}; kernel: {}; ISA-L: {}\n", setup.cpu, setup.kernel, setup.isal);
    text += "| what        | where    | data members | ISA-L |       cached |    streaming |\n";
    text += "|-------------|----------|-------------:|------:|-------------:|-------------:|\n";
    for line in figures {
        let cell = |rate: f64, ratio: f64| format!("{rate:.1} ({ratio:.2}x)");
        let streaming = line.streaming.zip(line.streaming_ratio).map_or(String::new(), |(a, b)| cell(a, b));
        let _ = writeln!(
            text,
            "| {:<11} | {:<8} | {:>12} | {:>5.1} | {:>12} | {streaming:>12} |",
            line.work,
            line.place,
            line.members,
            line.isal,
            cell(line.cached, line.cached_ratio),
        );
    }
    text
}

/// All figures: an object with the kernel's name and a list of lines.
pub(crate) fn json(setup: &Setup, figures: &[Figures]) -> String {
    let lines: Vec<_> = figures
        .iter()
        .map(|line| {
            serde_json::json!({
                "work": line.work,
                "place": line.place,
                "data_members": line.members,
                "isal_gb_per_s": line.isal,
                "cached_gb_per_s": line.cached,
                "cached_ratio": line.cached_ratio,
                "streaming_gb_per_s": line.streaming,
                "streaming_ratio": line.streaming_ratio,
            })
        })
        .collect();
    serde_json::json!({
        "cpu": setup.cpu,
        "kernel": setup.kernel,
        "isal": setup.isal,
        "block_bytes": BLOCK,
        "lines": lines,
    })
    .to_string()
        + "\n"
}

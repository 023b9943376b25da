//! How close predictions come to published figures: of single drives, to which models were fitted, and of md arrays over
//! them, to which nothing was fitted but the constants of `drive::constants`.
//!
//! `cargo run --profile bench -p brindle-lab --example accuracy`

#[expect(dead_code, reason = "tests tell which cells differ, and how")]
#[path = "../tests/lab/made/md_bytes.rs"]
mod md_bytes;
#[path = "../tests/lab/made/published.rs"]
mod published;

use std::collections::BTreeMap;

use brindle_lab::drive::{Fitted, Measure, table};
use brindle_lab::predict::{Kernel, compare};
use md_bytes::{Compared, Kind, compare_all};
use published::{Point, bitmaps, evo850, few_jobs, mean_error, p3700, raid0, raid6, raid10};

fn main() {
    println!("## Arrays\n");
    let mirrors = |kernel, wanted: &'static str| raid10(kernel, move |pattern, _| pattern == wanted);
    let (reads, writes) = (mirrors(Kernel::PUBLISHED, "randread"), mirrors(Kernel::PUBLISHED, "randwrite"));
    let usual = mirrors(Kernel::USUAL, "randread");
    let few = few_jobs();
    let all = raid0(|_| true);
    let parity = raid6(|_| true);
    let marked = bitmaps(|_| true);
    let by_load = [
        ("RAID 10 n2", "random reads", &reads[..]),
        ("RAID 10 n2", "the same as by Linux 6.12, which is not what was measured", &usual[..]),
        ("RAID 10 n2", "random writes", &writes[..]),
        ("RAID 0", "4K, up to 65 % reads", &all[..5]),
        ("RAID 0", "4K, 95 % reads and more", &all[5..]),
        ("RAID 6", "4K, up to 65 % reads", &parity[..5]),
        ("RAID 6", "4K, 95 % reads and more", &parity[5..]),
        ("RAID 0, RAID 10 f2", "reads in sequence of four jobs", &few[..]),
        ("RAID 5", "4K random writes with a bitmap, consumer NVMe", &marked[..]),
    ];
    println!("| level | load | rows | mean error | greatest |\n|---|---|---:|---:|---:|");
    for (level, load, points) in by_load {
        let greatest =
            points.iter().map(Point::error).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
        println!("| {level} | {load} | {} | {:.1} % | {greatest:+.1} % |", points.len(), mean_error(points));
    }
    println!();
    let beside_each_other = beside(&reads, &usual);
    let both: Vec<Point> = reads.into_iter().chain(writes).collect();
    arrays("md RAID 10 n2, 4 x 850 EVO, chunk 32K, one request in flight, MiB/s", &both);
    println!("{beside_each_other}");
    let (most, last) = all.split_at(5);
    arrays("md RAID 0, 12 x P3700, 4K, 2048 in flight, IOPS: up to 65 % reads", most);
    arrays("The same from 95 % reads on, where md's own cost decides", last);
    arrays(
        "md RAID 0 of four and RAID 10 f2 of two NVMe drives, chunk 64K, four jobs with 256 in flight each, IOPS",
        &few,
    );
    arrays("md RAID 6, 12 x P3700, chunk 16K, 4K, 2048 in flight, IOPS", &parity);
    arrays(
        "md RAID 5, 5 x 980 PRO, chunk 64K, 4K writes, taken to be random and one in flight, the first 30 seconds, IOPS",
        &marked,
    );
    println!("## Bytes of each member\n");
    println!(
        "| requests | kernel | level | cells | held | equal | in order | cache is full | chance | heads |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|---:|");
    for (which, in_flight, kernel) in [
        ("bytes", "one in flight", "6.1"),
        ("bytes", "one in flight", "6.12"),
        ("deep", "32 in flight", "6.1"),
    ] {
        moved(in_flight, kernel, &compare_all(which, kernel));
    }
    println!();
    println!("## Single drives: the fits' own errors\n");
    single("850 EVO", &evo850(), &[include_str!("../reference/evo850-single.csv")]);
    let p3700_tables =
        [include_str!("../reference/p3700-single.csv"), include_str!("../reference/p3700-latency.csv")];
    single("P3700", &p3700(), &p3700_tables);
}

fn arrays(title: &str, points: &[Point]) {
    println!("{title}: mean absolute error {:.1} %\n", mean_error(points));
    println!("| load | published | predicted | error |\n|---|---:|---:|---:|");
    for point in points {
        let Point { load, published, predicted } = point;
        println!("| {load} | {published:.0} | {predicted:.0} | {:+.1} % |", point.error());
    }
    println!();
}

/// A table of random reads of the RAID 10, by the rules of the kernel that was measured and by those of the usual one.
fn beside(published: &[Point], usual: &[Point]) -> String {
    let mut table =
        "Its random reads by Linux 4.11, and by 6.12, which is the default and not what was measured:\n\n\
        | load | published | 4.11 | error | 6.12 | error |\n|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for (old, new) in published.iter().zip(usual) {
        let [one, other] =
            [old, new].map(|point| format!("{:.0} | {:+.1} %", point.predicted, point.error()));
        table += &format!("| {} | {:.0} | {one} | {other} |\n", old.load, old.published);
    }
    table
}

/// A row for each level, and how many cells are of each kind.
fn moved(in_flight: &str, kernel: &str, cells: &[Compared]) {
    let mut levels: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    cells.iter().for_each(|cell| levels.entry(&cell.level).or_default().push(cell));
    for (level, cells) in levels {
        let of = |kind| cells.iter().filter(move |cell| cell.kind == kind);
        let told =
            |kind| format!("{} of {}", of(kind).filter(|cell| cell.is_equal).count(), of(kind).count());
        let (held, equal) = (of(Kind::Held).count(), of(Kind::Held).filter(|cell| cell.is_equal).count());
        let others = [Kind::InOrder, Kind::CacheIsFull, Kind::Chance, Kind::Heads].map(told).join(" | ");
        println!("| {in_flight} | {kernel} | RAID {level} | {} | {held} | {equal} | {others} |", cells.len());
    }
}

fn single(name: &str, fitted: &Fitted, texts: &[&str]) {
    println!("{name}:\n\n| row | measured | model | error |\n|---|---:|---:|---:|");
    for text in texts {
        let table = table(name, text).expect("a table");
        for compared in compare(&fitted.drive, &table.rows).expect("a comparison") {
            let row = &compared.row;
            let unit = match row.measure {
                Measure::Alone => "MiB/s, one in flight",
                Measure::Saturated => "IOPS, 2048 in flight",
                Measure::Latency | Measure::Longest => "ms, one in flight",
            };
            let left_out = fitted.left_out.iter().any(|(_, line, _)| *line == row.line && texts.len() == 1);
            let order = if row.random { "random" } else { "sequential" };
            println!(
                "| {order} {}K, {} % reads, {unit}{} | {} | {:.4} | {:+.1} % |",
                row.size >> 10,
                row.reads,
                if left_out { " (disturbed, not fitted)" } else { "" },
                row.value,
                compared.model,
                compared.error()
            );
        }
    }
    println!();
}

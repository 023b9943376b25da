//! How members, partitions and file systems lie.

use brindle_format::alignment::{Kind, Partition, Striping};
use brindle_layout::Size;

use super::facts::{ArrayContent, Drive, Facts, Md};
use super::finding::{Finding, Prediction};
use super::simulator::{NO_MODEL, Simulator, Under, compared, load};

/// The alignment of partitioning programs: a multiple of any unit that a drive may prefer.
const MIB: u64 = 1 << 20;

/// Partitions of the array, and what its file systems know of it.
pub(super) fn judge(facts: &Facts, md: Option<&Md>, simulator: Option<&dyn Simulator>) -> Vec<Finding> {
    let content = match &facts.content {
        Ok(content) => content,
        Err(why) => return vec![Finding::unknown("file system", "the array can't be read", why.clone())],
    };
    let mut findings = Vec::new();
    if content.partitioned {
        let parts = content.parts.iter().zip(1..);
        findings.extend(parts.map(|((part, _), number)| partition(facts, *part, number, simulator)));
    }
    for ((part, striping), number) in content.parts.iter().zip(1..) {
        let device = device(md, content.partitioned.then_some(number));
        match striping {
            Some(striping) => findings.push(striped(facts, *striping, &device, simulator)),
            None if !content.partitioned => findings.push(unnamed(facts, content, &device, simulator)),
            None => {
                let found =
                    format!("none that is told of stripes, in partition {number} at byte {}", part.start);
                findings.push(Finding::unknown("file system", found, "only ext4 and XFS are looked into"));
            }
        }
    }
    findings
}

fn device(md: Option<&Md>, partition: Option<u32>) -> String {
    let name = md.map_or_else(|| "/dev/nbd0".to_owned(), |md| format!("/dev/{}", md.name));
    partition.map_or_else(|| name.clone(), |number| format!("{name}p{number}"))
}

fn partition(facts: &Facts, part: Partition, number: u32, simulator: Option<&dyn Simulator>) -> Finding {
    let found = format!("partition {number} begins at byte {}", part.start);
    let Some(row) = facts.row().filter(|_| facts.has_parity()).or_else(|| facts.chunk()) else {
        return Finding::fine("partition", found, "the level has no chunks");
    };
    let whole = if facts.has_parity() { "row" } else { "chunk" };
    if part.start.is_multiple_of(row) {
        return Finding::fine("partition", found, format!("that is a multiple of a {whole} ({})", Size(row)));
    }
    let start = part.start.next_multiple_of(row);
    let finding = Finding::change(
        "partition",
        found,
        format!(
            "that is not a multiple of a {whole} ({}): what is aligned within it is not on the members",
            Size(row)
        ),
        format!(
            "parted ARRAY mkpart primary {start}B 100%   # after a backup: partitions can't be moved in place"
        ),
        NO_MODEL,
    );
    compared(finding, simulator, suffers(facts), |simulator| {
        let at = |at: u64| beginning(facts, simulator, row, at % row, format!("a partition at byte {at}"));
        Ok([at(part.start)?, at(start)?])
    })
}

/// The kind of load that suffers most where things don't begin with rows.
fn suffers(facts: &Facts) -> Under<'static> {
    if facts.has_parity() {
        // One after the other they would fill the rows between them.
        Under::load("writes of the size of a row, at random places").at_most("all of them are of that size")
    } else {
        Under::load("random reads of the size of a chunk").at_most("all of them are of that size")
    }
}

/// A row of parity that is written whole, else what is of the size of a chunk, from a byte in it on.
fn beginning(
    facts: &Facts,
    simulator: &dyn Simulator,
    row: u64,
    at: u64,
    with: String,
) -> Result<Prediction, String> {
    let rw = if facts.has_parity() { "randwrite" } else { "randread" };
    let (row, offset) = (row.to_string(), at.to_string());
    simulator.array(with, load(&[("rw", rw), ("bs", &row), ("offset", &offset), ("iodepth", "4")]))
}

/// The gain for large files that begin at a row, where the file system knows the rows, over files that begin within
/// one.
fn along_rows(finding: Finding, facts: &Facts, simulator: Option<&dyn Simulator>) -> Finding {
    let Some(row) = facts.row().filter(|_| facts.has_parity()).or_else(|| facts.chunk()) else {
        return finding;
    };
    // In whole blocks of a file system.
    let middle = (row / 2).next_multiple_of(4096) % row;
    let whole = if facts.has_parity() { "rows" } else { "chunks" };
    compared(finding, simulator, suffers(facts), |simulator| {
        let at = |at: u64, with: &str| beginning(facts, simulator, row, at, with.to_owned());
        Ok([
            at(middle, &format!("files that begin amid {whole}, as they may now"))?,
            at(0, &format!("files that begin with {whole}"))?,
        ])
    })
}

/// Advice for an array without a file system: the options to make one with.
fn unnamed(
    facts: &Facts,
    content: &ArrayContent,
    device: &str,
    simulator: Option<&dyn Simulator>,
) -> Finding {
    let found = if content.named.is_empty() {
        "none that is known".to_owned()
    } else {
        format!("{}: not told of stripes", content.named.join(", "))
    };
    let advice = "ext4 and XFS are told of the array when they are made";
    let finding = Finding::unknown("file system", found, advice);
    match wanted(facts) {
        Some((unit, width)) => {
            let command = format!(
                "mkfs.ext4 -E stride={},stripe-width={} {device}   # or mkfs.xfs -d su={unit},sw={} {device}",
                unit / 4096,
                width / 4096,
                width / unit
            );
            along_rows(finding.with_command(command), facts, simulator)
        }
        None => finding,
    }
}

/// Bytes of a chunk and of a row, where a file system should know them.
fn wanted(facts: &Facts) -> Option<(u64, u64)> {
    Some((facts.chunk()?, facts.row()?))
}

fn striped(facts: &Facts, reported: Striping, device: &str, simulator: Option<&dyn Simulator>) -> Finding {
    let name = match reported.kind {
        Kind::Ext => "ext4",
        Kind::Xfs => "XFS",
    };
    let words = |unit: u64, width: u64| match reported.kind {
        Kind::Ext => format!("stride={},stripe_width={}", unit / reported.block, width / reported.block),
        Kind::Xfs => format!("su={unit},sw={}", width.checked_div(unit).unwrap_or(0)),
    };
    let found = match reported.unit {
        0 => format!("{name} with blocks of {}, told of no stripes", Size(reported.block)),
        _ => format!(
            "{name} with {} ({} and {})",
            words(reported.unit, reported.width),
            Size(reported.unit),
            Size(reported.width)
        ),
    };
    let Some((unit, width)) = wanted(facts) else {
        return Finding::fine("file system", found, format!("{} has no stripes to know", facts.level.name()));
    };
    if (reported.unit, reported.width) == (unit, width) {
        return Finding::fine("file system", found, "that is this array's chunk and row");
    }
    if unit < reported.block {
        let why = format!("a chunk of {} is less than its block: it can't be told", Size(unit));
        return Finding::unknown("file system", found, why);
    }
    let command = match reported.kind {
        Kind::Ext => format!("tune2fs -E {} {device}", words(unit, width)),
        // In sectors of 512 bytes; kept by the file system from then on.
        Kind::Xfs => format!("mount -o sunit={},swidth={} {device} MOUNTPOINT", unit / 512, width / 512),
    };
    let advice = format!("this array's chunk and row make it {}", words(unit, width));
    along_rows(Finding::change("file system", found, advice, command, NO_MODEL), facts, simulator)
}

/// Where the array's data begins on each member.
pub(super) fn members(facts: &Facts, drives: &[Drive], simulator: Option<&dyn Simulator>) -> Vec<Finding> {
    let member = |(member, drive): (&super::facts::MemberPath, &Drive)| {
        let start = drive.start;
        let at = start.unwrap_or(0) + member.data_offset;
        let found = match start {
            Some(start) => format!("the partition begins at byte {start}, the data at byte {at} of the disk"),
            None => format!("the data begins at byte {at}"),
        };
        let block = drive.physical_block.unwrap_or(4096).max(drive.optimal_io.unwrap_or(0)).max(1);
        let finding = if at.is_multiple_of(MIB) || at.is_multiple_of(block) {
            Finding::fine(
                "alignment",
                found,
                format!("that is a multiple of {}", Size(if at.is_multiple_of(MIB) { MIB } else { block })),
            )
        } else {
            let finding = Finding::change(
                "alignment",
                found,
                format!(
                    "that is not a multiple of {}: writes reach into two blocks of the drive, which it reads first",
                    Size(block)
                ),
                "parted DISK mkpart primary 1MiB 100%   # anew, member by member: fail, partition, add, wait",
                NO_MODEL,
            );
            let under = Under::load(
                "random writes of a block of one drive, each a read and a write where it reaches into two",
            );
            let under = under.at_most("all of them are of that size");
            compared(finding, simulator, under, |simulator| simulator.astride(block))
        };
        finding.of_member(&member.path)
    };
    facts.members.iter().zip(drives).map(member).collect()
}

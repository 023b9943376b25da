//! What can be set of a running array.

use brindle_layout::{Layout, Level};
use brindle_planner::reliability::{Case, Class, Effort, Group, HOURS_PER_YEAR, Weibull, estimate};

use super::array::{Bitmap, Facts};
use super::finding::Finding;
use super::simulated::{NO_MODEL, Simulator, compared, load};
use super::sysfs::{Drive, Md};
use crate::units::Bytes;

/// Rows for which a stripe cache should have room, so that whole ones come together.
const ROWS: u64 = 16;
/// Least and most entries of a stripe cache that are advised; md takes up to 32768.
const CACHE: (u64, u64) = (1024, 16384);
/// Component bytes above which mdadm makes a bitmap by itself.
const LARGE: u64 = 100 << 30;
/// Bits for less than this cost more writes than they save in a resync.
const SMALL_BIT: u64 = 4 << 20;
/// Bytes of a request of the kernel that reads ahead.
const READ: u64 = 128 << 10;
const NO_MD: &str =
    "the kernel runs no array on these members, or sysfs does not tell: name the array, as in /dev/md0";

/// Whether it is whole.
pub(super) fn state(facts: &Facts) -> Finding {
    if facts.missing > 0 {
        let found = format!("{} of {} members are missing", facts.missing, facts.raid_devices);
        return Finding::change(
            "state",
            found,
            "redundancy comes first: give it drives to rebuild on",
            "mdadm /dev/mdN --add DEVICE   # or brindle add --array MEMBER... -- DEVICE",
            "what `brindle reliability` tells of a whole array",
        );
    }
    match facts.in_doubt {
        true => Finding::unknown(
            "state",
            "redundancy is not known true",
            "a resync makes it so: it runs when the array does",
        ),
        false => Finding::fine("state", "all members are there", "nothing to do"),
    }
}

pub(super) fn judge(
    facts: &Facts,
    md: Option<&Md>,
    drives: &[Drive],
    simulator: Option<&Simulator>,
) -> Vec<Finding> {
    let mut findings = vec![read_ahead(facts, md, simulator)];
    if facts.has_parity() {
        findings.push(stripe_cache(facts, md));
    }
    if facts.level.is_redundant() {
        findings.push(bitmap(facts, md, simulator));
        findings.extend(scrub(facts, md, drives));
    }
    findings
}

/// Two rows: while one is sent to whoever reads, the next is fetched from all members.
fn read_ahead(facts: &Facts, md: Option<&Md>, simulator: Option<&Simulator>) -> Finding {
    let Some((md, kib)) = md.and_then(|md| Some((md, md.number("queue/read_ahead_kb")?))) else {
        return Finding::unknown("read-ahead", "not known", NO_MD);
    };
    let found = Bytes(kib << 10).to_string();
    let Some(row) = facts.row() else {
        return Finding::fine("read-ahead", found, "the level has no rows to fetch whole");
    };
    let wanted = 2 * row;
    if kib << 10 >= wanted {
        return Finding::fine("read-ahead", found, format!("that is two rows ({}) or more", Bytes(wanted)));
    }
    let finding = Finding::change(
        "read-ahead",
        found,
        format!("two rows are {}: less leaves members idle in sequential reads", Bytes(wanted)),
        format!("blockdev --setra {} /dev/{}", wanted / 512, md.name),
        NO_MODEL,
    );
    // A reader without requests of its own in flight has as many as are read ahead.
    let ahead = |simulator: &Simulator, bytes: u64| {
        let depth = (bytes / READ).max(1).to_string();
        let job = load(&[("rw", "read"), ("bs", &READ.to_string()), ("iodepth", &depth)])?;
        simulator.array(format!("read-ahead {}", Bytes(bytes)), job)
    };
    compared(finding, simulator, "sequential reads, one after the other", |simulator| {
        Ok([ahead(simulator, kib << 10)?, ahead(simulator, wanted)?])
    })
}

fn stripe_cache(facts: &Facts, md: Option<&Md>) -> Finding {
    let entries = md.and_then(|md| Some((md, md.number("md/stripe_cache_size")?)));
    let (Some((md, entries)), Some(chunk)) = (entries, facts.chunk()) else {
        return Finding::unknown("stripe cache", "not known", NO_MD);
    };
    // An entry is a page of each member.
    let pages = (chunk / 4096).max(1);
    let memory = |entries: u64| Bytes(entries * 4096 * facts.raid_devices as u64);
    let found = format!("{entries} entries, {} of memory", memory(entries));
    let wanted = (ROWS * pages).next_power_of_two().clamp(CACHE.0, CACHE.1);
    if entries >= wanted {
        return Finding::fine("stripe cache", found, format!("that holds {} rows", entries / pages));
    }
    Finding::change(
        "stripe cache",
        found,
        format!(
            "that holds {:.1} rows; {wanted} hold {}, for {}",
            entries as f64 / pages as f64,
            wanted / pages,
            memory(wanted)
        ),
        format!("echo {wanted} > /sys/block/{}/md/stripe_cache_size", md.name),
        "not predicted: the simulator runs Brindle's engine, which has no stripe cache",
    )
}

fn bitmap(facts: &Facts, md: Option<&Md>, simulator: Option<&Simulator>) -> Finding {
    let name = md.map_or_else(|| "ARRAY".to_owned(), |md| format!("/dev/{}", md.name));
    match &facts.bitmap {
        Bitmap::Unreadable(why) => Finding::unknown("bitmap", "can't be read", why.clone()),
        Bitmap::None if facts.component <= LARGE => {
            let why = "a resync after a crash goes over all of the array, which is small";
            Finding::fine("bitmap", "none", why)
        }
        Bitmap::None => Finding::change(
            "bitmap",
            "none",
            "a crash while it is written to costs a resync of all of it",
            format!("mdadm --grow --bitmap=internal {name}   # or brindle grow --bitmap internal"),
            resync_saved(facts, simulator),
        ),
        Bitmap::Chunk(chunk) if *chunk < SMALL_BIT && facts.component > LARGE => Finding::change(
            "bitmap",
            format!("a bit for each {}", Bytes(*chunk)),
            "so fine a bitmap is written often while clients write",
            format!(
                "mdadm --grow --bitmap=none {name} && mdadm --grow --bitmap=internal --bitmap-chunk=64M {name}"
            ),
            "not predicted: writes are simulated without a bitmap",
        ),
        Bitmap::Chunk(chunk) => {
            let bits = facts.component.div_ceil((*chunk).max(1));
            Finding::fine(
                "bitmap",
                format!("a bit for each {}", Bytes(*chunk)),
                format!("{bits} bits: few to write, and little to resync"),
            )
        }
    }
}

/// A resync reads and writes members from end to end, as fast as a drive reads.
fn resync_saved(facts: &Facts, simulator: Option<&Simulator>) -> String {
    let size = Bytes(facts.component);
    let Some(simulator) = simulator else {
        return format!("{NO_MODEL}; a resync of {size} of each member is saved");
    };
    let reads = load(&[("rw", "read"), ("bs", "1m"), ("iodepth", "4")]);
    match reads.and_then(|job| simulator.drive("sequential reads".to_owned(), job)) {
        Ok(speed) => format!(
            "after a crash seconds instead of {:.1} hours, in which {size} of each member are read at {:.1} MiB/s of {} drives; \
             writes are simulated without a bitmap",
            facts.component as f64 / 1_048_576.0 / speed.mb_s / 3600.0,
            speed.mb_s,
            simulator.drive
        ),
        Err(why) => format!("not predicted: {why}; a resync of {size} of each member is saved"),
    }
}

/// When the last check was, nobody keeps; what it found, md does while it runs.
fn scrub(facts: &Facts, md: Option<&Md>, drives: &[Drive]) -> Vec<Finding> {
    let why = "neither superblocks nor sysfs say when the last check was; one a month finds defects before a second drive fails \
               (see brindle reliability --scrub)";
    let command = md.map_or_else(
        || "brindle check MEMBER...".to_owned(),
        |md| format!("echo check > /sys/block/{}/md/sync_action", md.name),
    );
    let finding = Finding::unknown("scrub", "not known", why).with_command(command);
    let mut findings = vec![Finding { expected: checks_give(facts, drives), ..finding }];
    let Some(md) = md else { return findings };
    let last = md.text("md/last_sync_action").unwrap_or_default();
    if let Some(mismatches) = md.number("md/mismatch_cnt").filter(|count| *count > 0) {
        findings.push(Finding::change(
            "mismatches",
            format!("{mismatches} sectors, by the last {last}"),
            "copies or parity disagree: find out which is wrong before it is made the same",
            "brindle repair --locate MEMBER...   # of the stopped array",
            "not predicted: this is about content, not speed",
        ));
    } else if last == "check" {
        findings.push(Finding::fine(
            "mismatches",
            "none",
            "the last check since the array was started found all redundancy true",
        ));
    }
    findings
}

/// What a check a month gives: the probability of a loss in five years with and without, as `brindle reliability` has it.
fn checks_give(facts: &Facts, drives: &[Drive]) -> Option<String> {
    let count = u32::try_from(facts.raid_devices).ok()?;
    let (drives_of, bears, groups) = match (facts.level, facts.shape) {
        (Level::Raid1, _) => (count, count - 1, 1),
        (Level::Raid4 | Level::Raid5, _) => (count, 1, 1),
        (Level::Raid6, _) => (count, 2, 1),
        (Level::Raid10, Layout::Raid10(layout))
            if (layout.near, layout.far) == (2, 1) && count.is_multiple_of(2) =>
        {
            (2, 1, count / 2)
        }
        _ => return None,
    };
    let flash = drives.iter().any(|drive| drive.kind().is_some_and(|kind| kind != "hdd-7200"));
    let class = Class::named(if flash { "ssd-2022" } else { "hdd-2025" })?;
    let lost = |scrub: Option<&str>| {
        let case = Case {
            group: Group::new(drives_of, bears, facts.component),
            groups,
            failures: class.failures(),
            repairs: "2/12+6".parse().ok()?,
            delay: Weibull::constant(0.0),
            defects: class.defects,
            scrub: scrub.and_then(|scrub| scrub.parse().ok()),
            wrong_pull: 0.0,
            batch: None,
            hours: 5.0 * HOURS_PER_YEAR,
        };
        let effort = Effort { histories: 10_000, ..Effort::default() };
        estimate(&case, &effort, &|_, _| ()).ok().map(|found| found.loss.value * 100.0)
    };
    let (with, without) = (lost(Some("3/730+6"))?, lost(None)?);
    Some(format!(
        "{with:.2} % instead of {without:.2} % that data is lost in five years (drives of class {})",
        class.name
    ))
}

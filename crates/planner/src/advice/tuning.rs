//! Settings of a running array.

use brindle_layout::Size;

use super::bitmap::bitmap;
use super::facts::{Drive, Facts, Md};
use super::finding::Finding;
use super::loss_risk::{LossRisk, percent};
use super::simulator::{NO_MODEL, Simulator, Under, compared, load};

/// Rows for which a stripe cache should have room, so that whole ones come together.
const ROWS: u64 = 16;
/// Least and most entries of a stripe cache that are advised; md takes up to 32768.
const CACHE: (u64, u64) = (1024, 16384);
/// Bytes of a request of the kernel that reads ahead.
const READ: u64 = 128 << 10;
/// Bytes that the kernel reads ahead by default.
const USUAL: u64 = 128 << 10;
const NO_MD: &str =
    "the kernel runs no array on these members, or sysfs does not tell: name the array, as in /dev/md0";

/// Whether it is whole.
pub(super) fn state(facts: &Facts, drives: &[Drive], simulator: Option<&dyn Simulator>) -> Finding {
    if facts.missing > 0 {
        let found = format!("{} of {} members are missing", facts.missing, facts.raid_devices);
        return Finding::change(
            "state",
            found,
            "redundancy comes first: give it drives to rebuild on",
            "mdadm /dev/mdN --add DEVICE   # or brindle add --array MEMBER... -- DEVICE",
            whole_again(facts, drives, simulator).unwrap_or_else(|| {
                "not predicted: no closed form, and no history, of such a group".to_owned()
            }),
        );
    }
    match facts.in_doubt {
        true => Finding::unknown(
            "state",
            "redundancy may be out of sync",
            "a resync corrects that: it runs while the array does",
        ),
        false => Finding::fine("state", "all members are there", "nothing to do"),
    }
}

/// The gain of having all members again: the probability of a loss in a month.
fn whole_again(facts: &Facts, drives: &[Drive], simulator: Option<&dyn Simulator>) -> Option<String> {
    const DAYS: f64 = 30.0;
    let whole = LossRisk::of(facts, drives, simulator)?.in_days(DAYS);
    let (then, now) = (whole.loss()?, whole.clone().lacking(facts.missing)?.loss()?);
    Some(format!(
        "{} instead of {}{} that data is lost in {DAYS} days (drives of class {})",
        percent(then),
        if whole.is_of_several() { "at least " } else { "" },
        percent(now),
        whole.class.name
    ))
}

pub(super) fn judge(
    facts: &Facts,
    md: Option<&Md>,
    drives: &[Drive],
    simulator: Option<&dyn Simulator>,
) -> Vec<Finding> {
    let mut findings = vec![read_ahead(facts, md, simulator)];
    if facts.has_parity() {
        findings.push(stripe_cache(facts, md, simulator));
    }
    if facts.level.is_redundant() {
        findings.push(bitmap(facts, md, simulator));
        findings.extend(scrub(facts, md, drives, simulator));
    }
    findings
}

/// Two rows: while one is sent to whoever reads, the next is fetched from all members. Never less than the kernel's default, which
/// small requests of a reader need.
fn read_ahead(facts: &Facts, md: Option<&Md>, simulator: Option<&dyn Simulator>) -> Finding {
    let known = md.and_then(|md| Some((md, md.read_ahead?)));
    let found = known.map_or_else(|| "not known".to_owned(), |(_, bytes)| Size(bytes).to_string());
    let Some(row) = facts.row() else {
        return Finding::fine("read-ahead", found, "the level has no rows to fetch whole");
    };
    let (rows, wanted) = (Size(2 * row), USUAL.max(2 * row));
    let (finding, now) = match known {
        Some((_, bytes)) if bytes >= wanted => {
            return Finding::fine("read-ahead", found, format!("that is two rows ({rows}) or more"));
        }
        Some((md, bytes)) => {
            let why = match 2 * row < USUAL {
                true => format!(
                    "that is less than other devices have ({}), though two rows are {rows}",
                    Size(USUAL)
                ),
                false => format!("two rows are {rows}: less leaves members idle in sequential reads"),
            };
            let command = format!("blockdev --setra {} /dev/{}", wanted / 512, md.name);
            (Finding::change("read-ahead", found, why, command, NO_MODEL), bytes)
        }
        None if wanted == USUAL => {
            let why = format!("two rows are {rows}, and the default of {} is as much or more", Size(USUAL));
            return Finding::fine("read-ahead", found, why);
        }
        None => {
            let why = format!("{NO_MD}; two rows are {rows}, other devices have {}", Size(USUAL));
            let command =
                format!("blockdev --setra {} DEVICE   # /dev/mdN, or /dev/nbdN of a client", wanted / 512);
            (Finding::unknown("read-ahead", found, why).with_command(command), USUAL)
        }
    };
    // A reader without requests of its own in flight has as many as are read ahead.
    let ahead = |simulator: &dyn Simulator, bytes: u64| {
        let depth = (bytes / READ).max(1).to_string();
        let job = load(&[("rw", "read"), ("bs", &bytes.clamp(4096, READ).to_string()), ("iodepth", &depth)]);
        simulator.array(format!("read-ahead {}", Size(bytes)), job)
    };
    let under = Under::load("sequential reads, one after the other")
        .at_most("the reader takes no time, and all that is read ahead is in flight");
    compared(finding, simulator, under, |simulator| Ok([ahead(simulator, now)?, ahead(simulator, wanted)?]))
}

/// Rows that come together in it are written whole, so many at a time as it holds.
fn stripe_cache(facts: &Facts, md: Option<&Md>, simulator: Option<&dyn Simulator>) -> Finding {
    // An entry is a page of each member.
    let pages = (facts.chunk().unwrap_or(0) / 4096).max(1);
    let entries = md.and_then(|md| Some((md, md.stripe_cache?)));
    let Some((md, entries)) = entries else {
        let why = format!("{NO_MD}; brindle serve has none, and needs none to write whole rows");
        return Finding::unknown("stripe cache", "not known", why);
    };
    let memory = |entries: u64| Size(entries * 4096 * facts.raid_devices as u64);
    let found = format!("{entries} entries, {} of memory", memory(entries));
    let wanted = (ROWS * pages).next_power_of_two().clamp(CACHE.0, CACHE.1);
    if entries >= wanted {
        return Finding::fine("stripe cache", found, format!("that holds {} rows", entries / pages));
    }
    let finding = Finding::change(
        "stripe cache",
        found,
        format!(
            "that holds {:.1} rows; {wanted} hold {}, for {}",
            entries as f64 / pages as f64,
            wanted / pages,
            memory(wanted)
        ),
        format!("echo {wanted} > /sys/block/{}/md/stripe_cache_size", md.name),
        NO_MODEL,
    );
    let rows = |simulator: &dyn Simulator, entries: u64| {
        let (row, rows) = (facts.row().unwrap_or(4096).to_string(), (entries / pages).max(1).to_string());
        let job = load(&[("rw", "write"), ("bs", &row), ("iodepth", &rows)]);
        simulator.array(format!("{entries} entries"), job)
    };
    let under = Under::load("sequential writes of as many whole rows at a time as it holds, one at least");
    let under = under.at_most("rows come as fast as they are written");
    compared(finding, simulator, under, |simulator| Ok([rows(simulator, entries)?, rows(simulator, wanted)?]))
}

/// When the last check was, nobody keeps; what it found, md does while it runs.
fn scrub(
    facts: &Facts,
    md: Option<&Md>,
    drives: &[Drive],
    simulator: Option<&dyn Simulator>,
) -> Vec<Finding> {
    let why = "neither superblocks nor sysfs say when the last check was; one a month finds defects before a second drive fails \
               (see brindle reliability --scrub)";
    let command = md.map_or_else(
        || "brindle check MEMBER...".to_owned(),
        |md| format!("echo check > /sys/block/{}/md/sync_action", md.name),
    );
    let finding = Finding::unknown("scrub", "not known", why).with_command(command);
    let mut findings = vec![Finding { expected: checks_give(facts, drives, simulator), ..finding }];
    let Some(md) = md else { return findings };
    let last = md.last_action.as_deref().unwrap_or_default();
    if let Some(mismatches) = md.mismatches.filter(|count| *count > 0) {
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
            "the last check since the array was started found all redundancy in sync",
        ));
    }
    findings
}

/// The gain of a monthly check: the probability of a loss in five years with and without.
fn checks_give(facts: &Facts, drives: &[Drive], simulator: Option<&dyn Simulator>) -> Option<String> {
    let risk = LossRisk::of(facts, drives, simulator)?;
    let (with, without) = (risk.loss()?, risk.clone().unscrubbed().loss()?);
    Some(format!(
        "{} instead of {} that data is lost in five years (drives of class {})",
        percent(with),
        percent(without),
        risk.class.name
    ))
}

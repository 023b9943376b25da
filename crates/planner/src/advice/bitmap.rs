//! The write-intent bitmap of a running array.

use brindle_layout::Size;

use super::facts::{Bitmap, Facts, Md};
use super::finding::{Finding, Prediction};
use super::simulator::{NO_MODEL, Simulator, Under, compared, costing, load};

/// Component bytes above which mdadm makes a bitmap by itself.
const LARGE: u64 = 100 << 30;
/// A resync of fewer seconds is not worth the writes of a bitmap.
const SHORT: f64 = 60.0;
/// Bits for less than this cost more writes than they save in a resync.
const SMALL_BIT: u64 = 4 << 20;
/// The bitmap chunk that mdadm chooses for most arrays.
const USUAL_BIT: u64 = 64 << 20;
/// Chunks that are tried where writes wait for bits.
const BITS: [u64; 4] = [USUAL_BIT, 256 << 20, 1 << 30, 2 << 30];
/// A bitmap costs little that leaves so much.
const MOST: f64 = 0.8;
/// Writes that meet bits, in words and in fio's.
const AT_RANDOM: &str = "random writes of 4 KiB, four in flight";
const WRITES: [(&str, &str); 3] = [("rw", "randwrite"), ("bs", "4k"), ("iodepth", "4")];
/// Writes that come by finer bits more often.
const IN_SEQUENCE: &str = "sequential writes of 1 MiB, four in flight";
const STREAM: [(&str, &str); 3] = [("rw", "write"), ("bs", "1m"), ("iodepth", "4")];

pub(super) fn bitmap(facts: &Facts, md: Option<&Md>, simulator: Option<&dyn Simulator>) -> Finding {
    let name = md.map_or_else(|| "ARRAY".to_owned(), |md| format!("/dev/{}", md.name));
    let change = |now: Option<u64>, found: String, why: &str, command: String| {
        let finding = Finding::change("bitmap", found, why, command, NO_MODEL);
        // Of a bitmap that is there `waits` has looked at random writes already.
        let (what, words) = if now.is_none() { (AT_RANDOM, &WRITES) } else { (IN_SEQUENCE, &STREAM) };
        let both = |simulator: &dyn Simulator| {
            let bit = if now.is_none() { new_bit(simulator).unwrap_or(USUAL_BIT) } else { USUAL_BIT };
            Ok([simulator.with_bitmap(now, load(words))?, simulator.with_bitmap(Some(bit), load(words))?])
        };
        match now {
            // It is for the time after a crash, and costs some speed.
            None => costing(finding, simulator, what, both),
            Some(_) => compared(finding, simulator, Under::load(what), both),
        }
    };
    if let Bitmap::Chunk(chunk) = facts.bitmap
        && let Some(finding) = waits(&name, chunk, simulator)
    {
        return finding;
    }
    match &facts.bitmap {
        Bitmap::Unreadable(why) => Finding::unknown("bitmap", "can't be read", why.clone()),
        Bitmap::None if facts.component <= LARGE => {
            let why = "a resync after a crash goes over all of the array, which is small";
            Finding::fine("bitmap", "none", why)
        }
        Bitmap::None => {
            let saved = match resync(facts, simulator) {
                Ok((seconds, _)) if seconds < SHORT => {
                    let why =
                        format!("a resync after a crash goes over all of the array in {seconds:.0} seconds");
                    return Finding::fine("bitmap", "none", why);
                }
                Ok((_, saved)) | Err(saved) => saved,
            };
            let bit = simulator.map_or(Some(USUAL_BIT), new_bit);
            let words = match bit {
                Some(bit) if bit > USUAL_BIT => format!(" --bitmap-chunk={}", words_of(bit)),
                _ => String::new(),
            };
            let command =
                format!("mdadm --grow --bitmap=internal{words} {name}   # or brindle grow --bitmap internal");
            let why = match bit {
                Some(_) => "a crash while it is written to costs a resync of all of it",
                None => {
                    "a crash while it is written to costs a resync of all of it; but on these drives, whose cache is lost with the power, \
                     random writes wait for bits of any chunk"
                }
            };
            let finding = change(None, "none".to_owned(), why, command);
            let expected = match &finding.expected {
                Some(writes) if simulator.is_some() => format!("{saved}; {writes}"),
                _ => saved,
            };
            finding.expecting(expected)
        }
        Bitmap::Chunk(chunk) if *chunk < SMALL_BIT && facts.component > LARGE => change(
            Some(*chunk),
            format!("a bit for each {}", Size(*chunk)),
            "so fine a bitmap is written often while clients write",
            format!(
                "mdadm --grow --bitmap=none {name} && mdadm --grow --bitmap=internal --bitmap-chunk=64M {name}"
            ),
        ),
        Bitmap::Chunk(chunk) => {
            let bits = facts.component.div_ceil((*chunk).max(1));
            Finding::fine(
                "bitmap",
                format!("a bit for each {}", Size(*chunk)),
                format!("{bits} bits: few to write, and little to resync"),
            )
        }
    }
}

/// A bit's chunk as mdadm takes it.
fn words_of(bit: u64) -> String {
    match bit >> 30 {
        0 => format!("{}M", bit >> 20),
        gib => format!("{gib}G"),
    }
}

/// The chunk of a bitmap that does not exist yet: larger than mdadm's where drives lose their cache with the power, if that helps; none if no
/// chunk does.
fn new_bit(simulator: &dyn Simulator) -> Option<u64> {
    let waits = simulator.volatile_flush().and_then(|_| simulator.with_bitmap(None, load(&WRITES)).ok());
    let Some(without) = waits else { return Some(USUAL_BIT) };
    quick_bit(simulator, 0, &without).map_or(Some(USUAL_BIT), |quick| Some(quick?.0))
}

/// The smallest chunk above this one that leaves most of the random writes that there are without a bitmap.
fn quick_bit(
    simulator: &dyn Simulator,
    above: u64,
    without: &Prediction,
) -> Result<Option<(u64, Prediction)>, String> {
    for bit in BITS.into_iter().filter(|bit| *bit > above) {
        let with = simulator.with_bitmap(Some(bit), load(&WRITES))?;
        if with.iops >= MOST * without.iops {
            return Ok(Some((bit, with)));
        }
    }
    Ok(None)
}

/// Drives whose cache is lost with the power make each write wait that sets a bit: whether that is much, and a larger chunk avoids it.
fn waits(name: &str, chunk: u64, simulator: Option<&dyn Simulator>) -> Option<Finding> {
    let (simulator, flush) =
        simulator.and_then(|simulator| Some((simulator, simulator.volatile_flush()?)))?;
    let found = format!("a bit for each {}", Size(chunk));
    let both = [Some(chunk), None].map(|bitmap| simulator.with_bitmap(bitmap, load(&WRITES)));
    let [Ok(with), Ok(without)] = both else { return None };
    if with.iops >= MOST * without.iops {
        return None;
    }
    let drives = simulator.name();
    let why = format!(
        "a write that finds its bit clear waits until that is stable, {flush:.1} ms or twice that on {drives} drives, whose cache is lost \
         with the power: {:.0} {AT_RANDOM}, are done a second with it, and {:.0} without",
        with.iops, without.iops
    );
    match quick_bit(simulator, chunk, &without) {
        Ok(Some((bit, quick))) => {
            let bits = words_of(bit);
            let command = format!(
                "mdadm --grow --bitmap=none {name} && mdadm --grow --bitmap=internal --bitmap-chunk={bits} {name}"
            );
            let why = format!("{why}; bits for {bits} stay set after a minute of such writes");
            let finding = Finding::change("bitmap", found, why, command, NO_MODEL);
            Some(compared(finding, Some(simulator), Under::load(AT_RANDOM), |_| Ok([with, quick])))
        }
        _ => {
            let why = format!(
                "{why}; no larger chunk avoids it: drives do that keep their cache, or no bitmap, at the price of a whole resync after a crash"
            );
            Some(Finding { predicted: vec![with, without], ..Finding::unknown("bitmap", found, why) })
        }
    }
}

/// The time of a resync in seconds, and what a bitmap saves of it. A resync reads and writes members from end to end, as fast as a drive reads.
fn resync(facts: &Facts, simulator: Option<&dyn Simulator>) -> Result<(f64, String), String> {
    let size = Size(facts.component);
    let Some(simulator) = simulator else {
        return Err(format!("{NO_MODEL}; a resync of {size} of each member is saved"));
    };
    let reads = load(&[("rw", "read"), ("bs", "1m"), ("iodepth", "4")]);
    let speed = simulator.drive("sequential reads".to_owned(), reads);
    let speed =
        speed.map_err(|why| format!("not predicted: {why}; a resync of {size} of each member is saved"))?;
    let seconds = facts.component as f64 / 1_048_576.0 / speed.mb_s;
    let long = match seconds < 2.0 * 3600.0 {
        true => format!("{:.0} minutes", seconds / 60.0),
        false => format!("{:.1} hours", seconds / 3600.0),
    };
    let words = format!(
        "after a crash seconds instead of {long}, in which {size} of each member are read at {:.1} MiB/s of {} drives",
        speed.mb_s,
        simulator.name()
    );
    Ok((seconds, words))
}

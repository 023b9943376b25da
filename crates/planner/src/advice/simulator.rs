//! The expected gain of a change: the array, or one of its drives, in a simulator as it is and as it would be.

use super::finding::{Finding, Prediction};

/// Why nothing is predicted where nobody says what the drives are.
pub(super) const NO_MODEL: &str =
    "not predicted: the members are no block devices whose kind is known; name a model with --drive";

/// The least gain that counts: half a per cent.
const GAIN: f64 = 1.005;

/// A load in fio's words.
pub type Load = Vec<(String, String)>;

/// The array or the drive that a load is predicted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The array without changes.
    Array,
    /// The array with a write-intent bitmap of so many bytes to a bit, or none.
    WithBitmap(Option<u64>),
    /// One of its drives.
    Drive,
    /// The drive without a write cache.
    DriveWithoutCache,
    /// The drive with a queue of this depth.
    DriveChoosing(u32),
}

/// Predictions for drives of the array's kind, and for the array that they make.
pub trait Simulator {
    /// The name of the model of its drives.
    fn name(&self) -> &str;

    /// Whether the drives that were named have no heads; none if none were.
    fn named_flash(&self) -> Option<bool>;

    /// Milliseconds in which a drive without a head makes stable what its volatile cache holds; none where the cache outlives the power.
    fn volatile_flush(&self) -> Option<f64>;

    /// Runs a load. `with` says what is set so.
    ///
    /// # Errors
    /// Why there is no prediction, for people.
    fn predict(&self, on: On, with: String, load: Load) -> Result<Prediction, String>;
}

impl dyn Simulator + '_ {
    /// The array under a load.
    pub(super) fn array(&self, with: String, load: Load) -> Result<Prediction, String> {
        self.predict(On::Array, with, load)
    }

    /// One drive under a load.
    pub(super) fn drive(&self, with: String, load: Load) -> Result<Prediction, String> {
        self.predict(On::Drive, with, load)
    }

    /// One drive that acknowledges no write before it is on the platter.
    pub(super) fn drive_without_cache(&self, with: String, load: Load) -> Result<Prediction, String> {
        self.predict(On::DriveWithoutCache, with, load)
    }

    /// The array under a load, with a write-intent bitmap of so many bytes to a bit, or none.
    pub(super) fn with_bitmap(&self, bitmap: Option<u64>, load: Load) -> Result<Prediction, String> {
        let with = bitmap
            .map_or("no bitmap".to_owned(), |bit| format!("a bit for each {}", brindle_layout::Size(bit)));
        self.predict(On::WithBitmap(bitmap), with, load)
    }

    /// A drive on which each write touches two blocks, which are read first, and the same drive with aligned writes.
    pub(super) fn astride(&self, block: u64) -> Result<[Prediction; 2], String> {
        let of = |rw: &str, bytes: u64, with: &str| {
            self.drive_without_cache(with.to_owned(), load(&[("rw", rw), ("bs", &bytes.to_string())]))
        };
        let (reads, writes) = (of("randread", 2 * block, "")?, of("randwrite", 2 * block, "")?);
        let iops = 1.0 / (1.0 / reads.iops + 1.0 / writes.iops);
        let now = Prediction {
            with: "blocks read and written".to_owned(),
            chunk: None,
            iops,
            mb_s: iops * block as f64 / 1_048_576.0,
        };
        Ok([now, of("randwrite", block, "blocks written")?])
    }

    /// A disk with this queue depth, and this many requests in flight.
    pub(super) fn choosing(&self, among: u32, flight: u32) -> Result<Prediction, String> {
        let load = load(&[("rw", "randread"), ("bs", "4k"), ("iodepth", &flight.to_string())]);
        self.predict(On::DriveChoosing(among), format!("the nearest of {among}"), load)
    }
}

/// A load in fio's words.
pub(super) fn load(words: &[(&str, &str)]) -> Load {
    words.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The load under which a change is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Under<'a> {
    /// In words.
    load: &'a str,
    /// Why the gain is the most that there can be, where it is.
    bound: Option<&'a str>,
}

impl<'a> Under<'a> {
    /// A load as users have it.
    pub(super) fn load(load: &'a str) -> Self {
        Self { load, bound: None }
    }

    /// A load that gains as much as any can, and why.
    pub(super) fn at_most(self, why: &'a str) -> Self {
        Self { bound: Some(why), ..self }
    }
}

/// A finding with what the simulator says of it as it is and as it would be; no change if that is no gain. Without drives that it
/// knows, or where it can't tell, the finding says so.
pub(super) fn compared(
    finding: Finding,
    simulator: Option<&dyn Simulator>,
    under: Under<'_>,
    both: impl FnOnce(&dyn Simulator) -> Result<[Prediction; 2], String>,
) -> Finding {
    weighed(finding, simulator, both, |finding, [now, then], drives| {
        let (load, percent) = (under.load, (then.iops / now.iops - 1.0) * 100.0);
        if then.iops < now.iops * GAIN {
            return finding
                .without_gain(&format!("{now} as it is, {then} after it, in {load}, on {drives} drives"));
        }
        let gain = match under.bound {
            None => format!("{percent:+.0} %"),
            Some(why) => format!("at most {percent:+.0} %, a bound: {why}"),
        };
        finding.expecting(format!("{then} instead of {now} ({gain}) in {load}, on {drives} drives"))
    })
}

/// A finding with the cost of a change that is not for speed.
pub(super) fn costing(
    finding: Finding,
    simulator: Option<&dyn Simulator>,
    load: &str,
    both: impl FnOnce(&dyn Simulator) -> Result<[Prediction; 2], String>,
) -> Finding {
    weighed(finding, simulator, both, |finding, [now, then], drives| {
        let lost = (1.0 - then.iops / now.iops) * 100.0;
        let cost = match lost < 0.5 {
            true => format!("it costs nothing in {load}: {then}, on {drives} drives"),
            false => format!("it costs {lost:.0} % in {load}: {then} are left of {now}, on {drives} drives"),
        };
        finding.expecting(cost)
    })
}

/// A finding with both predictions, put into words; without them it says why.
fn weighed(
    finding: Finding,
    simulator: Option<&dyn Simulator>,
    both: impl FnOnce(&dyn Simulator) -> Result<[Prediction; 2], String>,
    words: impl FnOnce(Finding, &[Prediction; 2], &str) -> Finding,
) -> Finding {
    let Some(simulator) = simulator else { return finding.expecting(NO_MODEL) };
    match both(simulator) {
        Ok(both) => {
            let finding = words(finding, &both, simulator.name());
            Finding { predicted: both.into(), ..finding }
        }
        Err(why) => finding.expecting(format!("not predicted: {why}")),
    }
}

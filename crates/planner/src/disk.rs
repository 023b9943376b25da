//! Drives as a plan takes them: how large, how fast, how dear.

use crate::load::Load;
use crate::queued::Queued;

/// A drive. Sizes are bytes, rates bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    /// Bytes.
    pub size: u64,
    /// Small random reads a second.
    pub read_iops: f64,
    /// Small random writes a second.
    pub write_iops: f64,
    /// Bytes a second read one after the other, if that is known.
    pub read_rate: Option<f64>,
    /// Bytes a second written one after the other, if that is known.
    pub write_rate: Option<f64>,
    /// Bytes a second at which all of it is read, or written, from end to end, if that is known: of a disk less than at its
    /// beginning, where the tracks are long.
    pub whole_rate: Option<f64>,
    /// Its speed at the load by the number of requests in flight, where a model gives it.
    pub queued: Option<Queued>,
    /// The price of one, in any currency.
    pub price: Option<f64>,
}

/// Drives that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Set {
    /// How many.
    pub count: u32,
    /// Each drive of the set.
    pub disk: Disk,
}

/// A figure of a drive that makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what} {value} makes no sense: it must be from {least} to {most}")]
pub struct DiskError {
    /// The figure, by the name of its flag.
    pub what: &'static str,
    /// As given.
    pub value: f64,
    /// The smallest value.
    pub least: &'static str,
    /// The largest value.
    pub most: &'static str,
}

/// Most drives of a set: as many members as an array of md may have.
pub(crate) const MOST_DRIVES: u32 = 384;

impl Disk {
    /// Whether all figures are possible for a drive. Size: at least a MB and at most 10 PB, so that the bytes of all
    /// drives can be counted. Speed: from 0.1 to a billion requests a second, and from a KB to a TB a second. Price:
    /// from nothing to a billion.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), DiskError> {
        let range = |what, value: f64, (low, high): (f64, f64), (least, most)| {
            let fine = value.is_finite() && (low..=high).contains(&value);
            fine.then_some(()).ok_or(DiskError { what, value, least, most })
        };
        range("size", self.size as f64, (1e6, 1e16), ("1 MB", "10 PB"))?;
        for iops in [self.read_iops, self.write_iops] {
            range("iops", iops, (0.1, 1e9), ("0.1", "a billion"))?;
        }
        for rate in [self.read_rate, self.write_rate, self.whole_rate].into_iter().flatten() {
            range("mb-s", rate / 1e6, (1e-3, 1e6), ("0.001", "a million"))?;
        }
        self.price.map_or(Ok(()), |price| range("price", price, (0.0, 1e9), ("0", "a billion")))
    }

    /// The capacity and speed that an array gets which treats both alike: the smaller and slower of each.
    pub(crate) fn least(self, other: Self) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| Some(a?.min(b?));
        Self {
            size: self.size.min(other.size),
            read_iops: self.read_iops.min(other.read_iops),
            write_iops: self.write_iops.min(other.write_iops),
            read_rate: both(self.read_rate, other.read_rate),
            write_rate: both(self.write_rate, other.write_rate),
            whole_rate: both(self.whole_rate, other.whole_rate),
            queued: self.queued.zip(other.queued).map(|(own, other)| own.least(other)),
            price: None,
        }
    }

    /// The drive with `depth` requests of the load in flight on it. Without a model their number
    /// changes nothing. Requests of another size than 4 KiB take longer by the time of their further bytes, where the rate is known.
    pub(crate) fn under(self, load: &Load, depth: u32) -> Self {
        if let Some(queued) = &self.queued {
            let (read_iops, write_iops) = queued.at(depth);
            return Self { read_iops, write_iops, ..self };
        }
        let slower = |iops: f64, rate: Option<f64>, bytes: u64| match rate {
            Some(rate) => 1.0 / (1.0 / iops + bytes.saturating_sub(4096) as f64 / rate),
            None => iops,
        };
        Self {
            read_iops: slower(self.read_iops, self.read_rate, load.read_size),
            write_iops: slower(self.write_iops, self.write_rate, load.write_size),
            ..self
        }
    }
}

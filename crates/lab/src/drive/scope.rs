//! The loads that a model was fitted to, and what is beyond them.

use super::Drive;
use super::table::{Measure, Table};
use crate::job::{Direction, Job};

/// The measured requests that a model was fitted to: bytes of the smallest and of the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// With one in flight.
    pub one: Option<(u64, u64)>,
    /// With as many in flight as the drive has use for.
    pub many: Option<(u64, u64)>,
}

impl Scope {
    pub(super) fn of(tables: &[Table]) -> Self {
        let sizes = |of: &[Measure]| {
            let rows = tables.iter().flat_map(|table| &table.rows);
            let sizes: Vec<u64> = rows.filter(|row| of.contains(&row.measure)).map(|row| row.size).collect();
            Some((*sizes.iter().min()?, *sizes.iter().max()?))
        };
        Self { one: sizes(&[Measure::Alone, Measure::Latency]), many: sizes(&[Measure::Saturated]) }
    }
}

impl Drive {
    /// Sentences on what of a load nothing was measured for: the model goes on there as between its last points. `chunk` is that of an
    /// array of such drives, which cuts requests. None of models that were fitted to nothing, whose figures are a data sheet's.
    pub fn beyond(&self, job: &Job, chunk: Option<u64>) -> Vec<String> {
        let Some(Scope { one, many }) = self.fitted else { return Vec::new() };
        let in_flight = u64::from(job.depth()) * u64::from(job.numjobs);
        let (own, other, named) = match in_flight {
            0 | 1 => (one, many, "one request in flight"),
            _ => (many, one, "many requests in flight"),
        };
        let mut reported = Vec::new();
        if own.is_none() {
            reported.push(format!(
                "{} was fitted to no load with {named}, and this one has {in_flight}",
                self.name
            ));
        }
        let Some((least, most)) = own.or(other) else { return reported };
        let cut = |bytes: u64| chunk.map_or(bytes, |chunk| bytes.min(chunk.max(1)));
        let asked = [Direction::Read, Direction::Write].into_iter().filter(|way| job.access.has(*way));
        let sizes =
            asked.map(|way| &job.blocks[way.index()]).map(|blocks| (cut(blocks.least()), cut(blocks.most())));
        let all = sizes.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        if let Some((from, to)) = all.filter(|(from, to)| *from < least || *to > most) {
            reported.push(format!(
                "{} was fitted to requests of {} to {} KiB, and members get {} to {} KiB of this load",
                self.name,
                kib(least),
                kib(most),
                kib(from),
                kib(to)
            ));
        }
        reported
    }
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{parse, shipped};
    use crate::job::{Blocks, IoPattern, Kinds};

    #[test]
    fn what_was_not_measured_is_named() {
        let of = |name: &str, way: Direction, kib: u64, iodepth: u32, chunk| {
            let drive = parse(name, shipped(name).unwrap()).unwrap();
            let access = IoPattern { kinds: Kinds::One(way), random: true, step: 0 };
            let blocks = core::array::from_fn(|_| Blocks::One(kib << 10));
            drive.beyond(&Job { access, blocks, iodepth, ..Job::default() }, chunk)
        };
        let (reads, writes) = (Direction::Read, Direction::Write);
        assert_eq!(of("evo850", reads, 64, 1, None), [""; 0]);
        let deep = of("evo850", reads, 64, 32, None);
        assert!(
            deep.len() == 1 && deep[0].contains("many requests in flight, and this one has 32"),
            "{deep:?}"
        );
        let small = of("evo850", writes, 4, 1, None);
        assert!(small.len() == 1 && small[0].contains("members get 4 to 4 KiB"), "{small:?}");
        // An array cuts what is larger than a chunk.
        assert_eq!(of("p3700", reads, 4096, 32, Some(65_536)), [""; 0]);
        assert_eq!(of("p3700", reads, 4096, 32, None).len(), 1);
        assert_eq!(of("p3700", reads, 64, 1, None).len(), 1);
        assert_eq!(of("nvme", reads, 65536, 1, None), [""; 0]);
    }
}

//! The greatest speed of arrays, counted from the speed of their drives: no queueing, no processor, no cache.

use crate::configuration::{Configuration, Part, Scheme};
use crate::disk::Disk;
use crate::load::Load;
use crate::queued::mean;

/// Bytes of a chunk: what `brindle create` takes.
const CHUNK: f64 = 524_288.0;

/// The greatest speed of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Small random reads a second.
    pub read_iops: f64,
    /// Small random writes a second.
    pub write_iops: f64,
    /// Bytes a second of one reader that goes forward, if the drives' is known.
    pub read_rate: Option<f64>,
    /// Bytes a second of one writer that goes forward, if the drives' is known.
    pub write_rate: Option<f64>,
    /// Requests a second of the load, if one is given; of a sequential one only where rates are known.
    pub load_iops: Option<f64>,
}

/// The speed of all parts together. With evenly drawn addresses each part gets its share of the room, and the busiest
/// part is the limit.
pub fn speed(configuration: &Configuration, load: Option<&Load>) -> Speed {
    let all = configuration.net() as f64;
    let least = |of: &dyn Fn(&Part) -> Option<f64>| {
        let each = configuration.parts.iter().map(|part| Some(of(part)? * all / part.net() as f64));
        each.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(f64::INFINITY, f64::min))
    };
    Speed {
        read_iops: least(&|part| Some(reads(part, part.disk))).unwrap_or(0.0),
        write_iops: least(&|part| Some(writes(part, part.disk))).unwrap_or(0.0),
        read_rate: least(&read_rate),
        write_rate: least(&write_rate),
        load_iops: load.and_then(|load| least(&|part| load_iops(part, load))),
    }
}

/// Any drive that has a byte answers for it; a RAID-Z block is spread over all drives of its vdev, which answer as one.
fn reads(part: &Part, disk: Disk) -> f64 {
    let of_group = match part.scheme {
        Scheme::RaidZ(_) => 1,
        Scheme::DedicatedParity => part.width - 1,
        _ => part.width,
    };
    f64::from(of_group * part.groups) * disk.read_iops
}

/// Each copy is written; a write to a part of a row reads and writes as much as it must.
fn writes(part: &Part, disk: Disk) -> f64 {
    let width = f64::from(part.width);
    let (read, write) = (1.0 / disk.read_iops, 1.0 / disk.write_iops);
    let of_group = match part.scheme {
        Scheme::Stripe => width / write,
        Scheme::Mirror | Scheme::RaidZ(_) => 1.0 / write,
        Scheme::Raid10(layout) => width / f64::from(layout.copies()) / write,
        Scheme::DedicatedParity => {
            let (parity, others) = dedicated(width, disk);
            parity.min(others)
        }
        Scheme::Parity(parity) => {
            let parity = f64::from(parity);
            width / (old_blocks(width, parity) * read + (1.0 + parity) * write)
        }
    };
    f64::from(part.groups) * of_group
}

/// RAID 4: the one drive with parity takes part in each write, the others in turn. What it allows, and what they do.
fn dedicated(width: f64, disk: Disk) -> (f64, f64) {
    let (read, write) = (1.0 / disk.read_iops, 1.0 / disk.write_iops);
    let others = width - 1.0;
    // The rest of the row is read where that is no more than old data and parity.
    if others - 1.0 <= 2.0 {
        (1.0 / write, others / ((others - 1.0) * read + write))
    } else {
        (1.0 / (read + write), others / (read + write))
    }
}

/// Drives' worth of data that one stream moves at once.
fn data_drives(part: &Part) -> f64 {
    let width = f64::from(part.width);
    let of_group = match part.scheme {
        Scheme::Stripe => width,
        Scheme::Mirror => 1.0,
        Scheme::Raid10(layout) => width / f64::from(layout.copies()),
        Scheme::DedicatedParity => width - 1.0,
        Scheme::Parity(parity) | Scheme::RaidZ(parity) => width - f64::from(parity),
    };
    of_group * f64::from(part.groups)
}

/// Far copies are read as RAID 0 is.
fn read_rate(part: &Part) -> Option<f64> {
    let drives = match part.scheme {
        Scheme::Raid10(layout) if layout.far > 1 && !layout.offset => f64::from(part.width),
        _ => data_drives(part),
    };
    Some(drives * part.disk.read_rate?)
}

/// Whole rows need no old bytes.
fn write_rate(part: &Part) -> Option<f64> {
    Some(data_drives(part) * part.disk.write_rate?)
}

fn load_iops(part: &Part, load: &Load) -> Option<f64> {
    let mixed = |reads: f64, writes: f64| {
        let of = |share: f64, rate: f64| if share > 0.0 { share / rate } else { 0.0 };
        1.0 / (of(load.reads, reads) + of(1.0 - load.reads, writes))
    };
    if !load.random {
        let rate = |rate: Option<f64>, size: u64| rate.map(|rate| rate / size.max(1) as f64);
        let (reads, writes) = alongside(part, load);
        let reads = if load.reads > 0.0 { rate(read_rate(part), load.read_size)?.min(reads) } else { 0.0 };
        let writes =
            if load.reads < 1.0 { rate(write_rate(part), load.write_size)?.min(writes) } else { 0.0 };
        return Some(mixed(reads, writes));
    }
    let stations = match part.scheme {
        Scheme::RaidZ(_) => part.groups,
        _ => part.drives(),
    };
    if part.scheme == Scheme::DedicatedParity {
        // Reads pass by the drive with parity, before which all writes wait.
        let width = f64::from(part.width);
        let parity = dedicated(width, part.disk.under(load, load.depth)).0 / (1.0 - load.reads);
        let others = mean(in_flight(part, load), stations, |depth| {
            let disk = part.disk.under(load, depth);
            mixed(reads(part, disk), dedicated(width, disk).1)
        });
        return Some(parity.min(others));
    }
    Some(mean(in_flight(part, load), stations, |depth| {
        let disk = part.disk.under(load, depth);
        mixed(reads(part, disk), writes(part, disk))
    }))
}

/// Reads and writes a second of a load that goes forward, as far as what is in flight reaches: it lies in neighbouring chunks, on so
/// many drives, which share it. Without a model nothing limits them, nor where a vdev of RAID-Z has all of a block.
fn alongside(part: &Part, load: &Load) -> (f64, f64) {
    if part.disk.queued.is_none() || matches!(part.scheme, Scheme::RaidZ(_)) {
        return (f64::INFINITY, f64::INFINITY);
    }
    let depth = f64::from(load.depth.max(1));
    let reached = |size: u64| {
        let size = size as f64;
        (((depth - 1.0) * size) / CHUNK + (size / CHUNK).max(1.0)).min(data_drives(part))
    };
    let of = |size: u64, rate: &dyn Fn(Disk) -> f64| {
        let drives = reached(size);
        drives * rate(part.disk.under(load, (depth / drives) as u32))
    };
    (of(load.read_size, &|disk| disk.read_iops), of(load.write_size, &|disk| disk.write_iops))
}

/// The average number of operations in flight on drives, for the requests in flight. A write is on all drives that
/// have its copies. With parity it is first on the drives that give old blocks, then on those that take new ones: so
/// it takes twice as long as a read.
fn in_flight(part: &Part, load: &Load) -> f64 {
    let (reads, writes) = (load.reads, 1.0 - load.reads);
    let each = match part.scheme {
        Scheme::Stripe | Scheme::RaidZ(_) => 1.0,
        Scheme::Mirror => reads + writes * f64::from(part.width),
        Scheme::Raid10(layout) => reads + writes * f64::from(layout.copies()),
        Scheme::DedicatedParity | Scheme::Parity(_) => {
            let parity = f64::from(part.scheme.tolerance(part.width));
            let operations = old_blocks(f64::from(part.width), parity) + 1.0 + parity;
            (reads + writes * operations) / (reads + writes * 2.0)
        }
    };
    f64::from(load.depth.max(1)) * each
}

/// The blocks that a write to a part of a row reads: old data and old parity, or the rest of the row, whichever is
/// less.
pub(crate) fn old_blocks(width: f64, parity: f64) -> f64 {
    (1.0 + parity).min(width - 1.0 - parity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::configurations;
    use crate::disk::Set;
    use crate::testing::{disk, set};

    fn of(sets: &[Set], level: &str, config: &str, load: Option<&Load>) -> Speed {
        let all = configurations(sets);
        let one = all.iter().find(|one| one.level() == level && one.config() == config);
        speed(one.unwrap_or_else(|| panic!("{level} {config}")), load)
    }

    #[test]
    fn small_requests_cost_what_the_levels_make_of_them() {
        let small = |drives, level, config| {
            let speed = of(&[set(drives)], level, config, None);
            (speed.read_iops.round(), speed.write_iops.round())
        };
        assert_eq!(small(4, "raid0", "4"), (800.0, 800.0));
        assert_eq!(small(4, "raid10", "2x(1+1)"), (800.0, 400.0));
        assert_eq!(small(6, "raid5", "5+1"), (1200.0, 300.0));
        assert_eq!(small(6, "raid6", "4+2"), (1200.0, 200.0));
        // With two data drives there is only one other to read.
        assert_eq!(small(3, "raid5", "2+1"), (600.0, 200.0));
        assert_eq!(small(6, "raid4", "5+1"), (1000.0, 100.0));
        assert_eq!(small(4, "raid4", "3+1"), (600.0, 200.0));
        assert_eq!(small(6, "raidz", "5+1"), (200.0, 200.0));
        assert_eq!(small(6, "raidz10", "2x(2+1)"), (400.0, 400.0));
        assert_eq!(small(6, "raid50", "2x(2+1)"), (1200.0, 400.0));
    }

    #[test]
    fn streams_move_what_the_data_drives_do() {
        let fast = Set { count: 6, disk: Disk { read_rate: Some(2e8), write_rate: Some(1e8), ..disk() } };
        let rates = |level, config| {
            let speed = of(&[fast], level, config, None);
            (speed.read_rate.expect("known") / 1e8, speed.write_rate.expect("known") / 1e8)
        };
        assert_eq!(rates("raid6", "4+2"), (8.0, 4.0));
        assert_eq!(rates("raid10", "3x(1+1)"), (6.0, 3.0));
        assert_eq!(rates("raid10", "f2 over 6"), (12.0, 3.0));
        assert_eq!(rates("raid50", "2x(2+1)"), (8.0, 4.0));
        assert_eq!(of(&[set(6)], "raid6", "4+2", None).read_rate, None);
    }

    #[test]
    fn a_load_is_as_fast_as_its_parts_and_its_depth_allow() {
        let load = Load { reads: 0.5, random: true, read_size: 4096, write_size: 4096, depth: 1000 };
        let iops = |load: &Load| of(&[set(4)], "raid10", "2x(1+1)", Some(load)).load_iops.expect("random");
        assert!((iops(&load) - 1.0 / (0.5 / 800.0 + 0.5 / 400.0)).abs() < 0.1);
        // One read in flight keeps one drive of four busy, one write two.
        let reads = Load { reads: 1.0, ..load };
        assert!((iops(&Load { depth: 1, ..reads }) * 4.0 - iops(&reads)).abs() < 0.1);
        let writes = Load { reads: 0.0, ..load };
        assert!((iops(&Load { depth: 1, ..writes }) - 400.0 * (1.0 - 0.75 * 0.75)).abs() < 0.1);
        let stream = Load { random: false, ..load };
        assert_eq!(of(&[set(4)], "raid10", "2x(1+1)", Some(&stream)).load_iops, None);
    }

    /// A disk that does three times as much with 32 in flight as with one.
    fn disks(count: u32, load: &Load, level: &str, config: &str) -> f64 {
        let rates = [80.0, 80.0, 100.0, 140.0, 190.0, 240.0, 240.0, 240.0];
        let queued = Some(crate::Queued::new(rates, rates));
        let rate = Some(2e8);
        let disk =
            Disk { queued, read_iops: 240.0, write_iops: 240.0, read_rate: rate, write_rate: rate, ..disk() };
        of(&[Set { count, disk }], level, config, Some(load)).load_iops.expect("known")
    }

    #[test]
    fn disks_do_what_their_share_of_the_requests_lets_them() {
        let load = Load { reads: 1.0, random: true, read_size: 4096, write_size: 4096, depth: 8 };
        let iops = |load: &Load, level, config| disks(8, load, level, config);
        // One in flight is at one drive, and waits for its head.
        assert!((iops(&Load { depth: 1, ..load }, "raid0", "8") - 80.0).abs() < 1e-9);
        // With eight for each drive each does 140, not the 240 that it would do with 32: some have more to choose from, some less.
        let (some, plenty) = (Load { depth: 64, ..load }, Load { depth: 4096, ..load });
        let found = iops(&some, "raid0", "8");
        assert!((8.0 * 125.0..8.0 * 145.0).contains(&found), "{found}");
        assert!((iops(&plenty, "raid0", "8") - 8.0 * 240.0).abs() < 1.0);
        // A write to RAID 10 is two operations: twice as many wait at each drive, and twice as many are to be done.
        let writes = Load { reads: 0.0, ..some };
        let twice = Load { depth: 128, ..some };
        assert!((iops(&writes, "raid10", "4x(1+1)") * 2.0 - iops(&twice, "raid10", "4x(1+1)")).abs() < 1e-6);
        // One to RAID 5 reads two blocks and then writes two: half of its four operations wait at a time.
        let four = Load { depth: 128, reads: 1.0, ..some };
        assert!((iops(&writes, "raid5", "7+1") * 4.0 - iops(&four, "raid5", "7+1")).abs() < 1e-6);
        // Reads pass by the one drive with parity, which allows 120 writes with all of them before it.
        let found = iops(&Load { reads: 0.7, ..some }, "raid4", "7+1");
        assert!((found - 120.0 / 0.3).abs() < 1.0, "{found}");
        // A vdev answers as one drive, which has all requests to choose from.
        assert!((iops(&load, "raidz2", "6+2") - 140.0).abs() < 1e-9);
    }

    #[test]
    fn a_stream_is_on_as_many_drives_as_it_reaches() {
        let load = Load { reads: 1.0, random: false, read_size: 65536, write_size: 65536, depth: 1 };
        let iops = |depth, read_size| disks(4, &Load { depth, read_size, ..load }, "raid0", "4");
        assert!((iops(1, 65536) - 80.0).abs() < 1e-9, "one request is at one drive");
        assert!((iops(1, 1 << 20) - 2.0 * 80.0).abs() < 1e-9, "a request over two chunks is at two");
        assert!(iops(9, 65536) > 2.0 * 80.0 && iops(9, 65536) < 2.0 * 140.0);
        // At the end the drives' bandwidth is all there is.
        assert!((iops(1024, 8 << 20) - 8e8 / f64::from(8 << 20)).abs() < 1e-6);
    }

    #[test]
    fn unlike_parts_are_as_fast_as_the_one_that_is_busiest() {
        // Twice the room on half the drives: two thirds of the requests go to drives that do no more.
        let large = Set { count: 2, disk: Disk { size: disk().size * 2, ..disk() } };
        let speed = of(&[Set { count: 4, disk: disk() }, large], "raid10+raid1", "2x(1+1) & 1+1", None);
        assert_eq!((speed.read_iops.round(), speed.write_iops.round()), (800.0, 400.0));
    }
}

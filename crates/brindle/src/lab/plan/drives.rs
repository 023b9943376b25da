//! From flags to drives.

use brindle_lab::drive::{self, Drive, SHIPPED};
use brindle_lab::job::{Direction, IoPattern, Job, Kinds};
use brindle_lab::predict::{alone, job};
use brindle_planner::{DEPTHS, Disk, DiskError, ParseError, Queued, Set, number, second_set};

use crate::base::failure::Failure;
use crate::base::models::model;
use crate::flags::cli::{Drives, Pair, parse_pair};
use crate::lab::predict::load::{AskedLoad, as_loaded};

/// A drive with its model, if there is one: shipped, from a file, or made of the figures that were given.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) disk: Disk,
    pub(super) model: Option<Drive>,
    /// The model's name; none if it was made of figures.
    pub(super) named: Option<String>,
}

/// Drives of one kind, in one number or another.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) counts: Vec<u32>,
    pub(super) known: Known,
}

/// All kinds: the first, and what stands beside it.
/// `link` is the bandwidth that they share, in bytes a second.
pub(super) fn kinds(
    args: &Drives,
    asked: Option<&AskedLoad>,
    link: Option<u64>,
) -> Result<Vec<Kind>, Failure> {
    let said = Said {
        size: args.size,
        iops: args.iops,
        mb_s: args.mb_s,
        drive: args.drive.clone(),
        price: args.price,
        link,
    };
    let first = Kind { counts: args.drives.0.clone(), known: known(&said, asked, None)? };
    let Some(text) = &args.and else { return Ok(vec![first]) };
    let wrong = |why: ParseError| Failure::Usage(format!("--and {text}: {why}"));
    let (count, size, items) = second_set(text).map_err(wrong)?;
    // Properties that are not given are those of the first kind.
    let mut other = Said { size: Some(size), ..said };
    for (name, value) in items {
        match name {
            "iops" => (other.iops, other.drive) = (Some(parse_pair(value).map_err(wrong)?), None),
            "mb_s" => other.mb_s = Some(parse_pair(value).map_err(wrong)?),
            "price" => other.price = Some(number(value).map_err(wrong)?),
            _ => (other.drive, other.iops, other.mb_s) = (Some(value.to_owned()), None, None),
        }
    }
    let second = Kind { counts: vec![count], known: known(&other, asked, Some(text))? };
    Ok(vec![first, second])
}

/// All ways to take one number of each kind.
pub(super) fn sets(kinds: &[Kind]) -> Vec<Vec<Set>> {
    let mut all: Vec<Vec<Set>> = vec![Vec::new()];
    for kind in kinds {
        let with = |before: &Vec<Set>| {
            let more =
                |count: &u32| [before.as_slice(), &[Set { count: *count, disk: kind.known.disk }]].concat();
            kind.counts.iter().map(more).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

struct Said {
    size: Option<u64>,
    iops: Option<Pair>,
    mb_s: Option<Pair>,
    drive: Option<String>,
    price: Option<f64>,
    link: Option<u64>,
}

/// `and` is the text of a second set, which is named where a figure makes no sense.
fn known(said: &Said, asked: Option<&AskedLoad>, and: Option<&str>) -> Result<Known, Failure> {
    let wrong = |why: DiskError| match and {
        Some(text) => Failure::Usage(format!("--and {text}: {why}")),
        None => Failure::Usage(format!("--{why}")),
    };
    let mut found = match &said.drive {
        Some(named) => of_model(named, said)?,
        None => of_figures(said)?,
    };
    found.disk.check().map_err(wrong)?;
    if let (Some(model), Some(link)) = (&mut found.model, said.link) {
        *model = model.on_link(link);
    }
    // Figures that were given stand, whatever a model says beside them.
    let by_model = found.named.is_none() || said.iops.is_none();
    if let (Some(model), Some(asked), true) = (&found.model, asked, by_model) {
        found.disk.queued = Some(queued(model, asked)?);
    }
    Ok(found)
}

/// The model's speed at a load by itself, with more and more in flight.
fn queued(model: &Drive, asked: &AskedLoad) -> Result<Queued, Failure> {
    let model = as_loaded(model, &asked.job);
    let rates = |direction: Direction| -> Result<[f64; DEPTHS.len()], Failure> {
        let mut rates = [0.0; DEPTHS.len()];
        for (rate, depth) in rates.iter_mut().zip(DEPTHS) {
            let access = IoPattern { kinds: Kinds::One(direction), ..asked.job.access };
            let job = Job { access, iodepth: depth, numjobs: 1, one_at_a_time: false, ..asked.job.clone() };
            *rate = alone(&model, job)?.outcome.mixed().iops();
        }
        Ok(rates)
    };
    Ok(Queued::new(rates(Direction::Read)?, rates(Direction::Write)?))
}

fn of_figures(said: &Said) -> Result<Known, Failure> {
    let lacks = |what: &str| {
        let models = SHIPPED.map(|(name, _)| name).join(", ");
        Failure::Usage(format!(
            "say of the drives which they are, --drive NAME ({models}, or a file), or what they do, --size and --iops: {what} is missing"
        ))
    };
    let iops = said.iops.ok_or_else(|| lacks("--iops"))?;
    let disk = Disk {
        size: said.size.ok_or_else(|| lacks("--size"))?,
        read_iops: iops.reads,
        write_iops: iops.writes,
        read_rate: said.mb_s.map(|rate| rate.reads * 1e6),
        write_rate: said.mb_s.map(|rate| rate.writes * 1e6),
        whole_rate: said.mb_s.map(|rate| rate.reads.min(rate.writes) * 1e6),
        queued: None,
        price: said.price,
    };
    let text = said.mb_s.filter(|_| disk.check().is_ok()).map(|rate| as_model(&disk, rate));
    let model = text.map(|text| drive::parse("--iops and --mb-s", &text)).transpose()?;
    Ok(Known { disk, model, named: None })
}

/// A model from a drive's bandwidth and IOPS alone. It serves one request at a time, and a request that does not
/// continue the one before it waits for a seek.
fn as_model(disk: &Disk, rate: Pair) -> String {
    let kind = |name: &str, iops: f64, rate: f64| {
        let moved = |kib: f64| kib * 1024.0 / rate;
        let wait = (1e6 / iops - moved(4.0)).max(0.0);
        let (least, most) = (moved(4.0), moved(1024.0));
        format!(
            "[{name}]\nlatency_us = [[0, {wait:.3}]]\nstream_us = [[0, 0.0]]\noccupancy_us = [[4.0, {least:.3}], [1024.0, {most:.3}]]\n"
        )
    };
    format!(
        "name = \"as given\"\nsource = \"--iops and --mb-s\"\nsize_gb = {:.6}\nunits = 1\nflush_us = 0.0\n{}{}",
        disk.size as f64 / 1e9,
        kind("read", disk.read_iops, rate.reads),
        kind("write", disk.write_iops, rate.writes)
    )
}

/// The model's speed by itself: 4 KiB at random with as much in flight as it has use for, and 1 MiB in sequence.
fn of_model(named: &str, said: &Said) -> Result<Known, Failure> {
    let mut model = model(named)?;
    if let Some(size) = said.size {
        model.size = size;
    }
    let does = |model: &Drive, rw: &str, bs: &str, depth: &str| {
        let asked = job(&[("rw", rw), ("bs", bs), ("iodepth", depth)])?;
        Ok::<_, Failure>(alone(model, asked)?.outcome.mixed())
    };
    let at_random = model.without_write_cache();
    let random = |rw: &str| Ok::<_, Failure>(does(&at_random, rw, "4k", "128")?.iops());
    let stream = |rw: &str| Ok::<_, Failure>(does(&model, rw, "1m", "8")?.bandwidth());
    let iops = match said.iops {
        Some(iops) => iops,
        None => Pair { reads: random("randread")?, writes: random("randwrite")? },
    };
    let rate = match said.mb_s {
        Some(rate) => Pair { reads: rate.reads * 1e6, writes: rate.writes * 1e6 },
        None => Pair { reads: stream("read")?, writes: stream("write")? },
    };
    let whole = match said.mb_s {
        Some(_) => rate.reads.min(rate.writes),
        None => whole(&model, "read")?.min(whole(&model, "write")?),
    };
    let disk = Disk {
        size: model.size,
        read_iops: iops.reads,
        write_iops: iops.writes,
        read_rate: Some(rate.reads),
        write_rate: Some(rate.writes),
        whole_rate: Some(whole),
        queued: None,
        price: said.price,
    };
    Ok(Known { disk, model: Some(model), named: Some(named.to_owned()) })
}

/// Bytes a second over all of a drive, from what it does at places that are spread over it: a disk is slower at its end.
fn whole(model: &Drive, rw: &str) -> Result<f64, Failure> {
    const PLACES: [&str; 5] = ["10%", "30%", "50%", "70%", "90%"];
    let mut seconds = 0.0;
    for place in PLACES {
        let asked = job(&[("rw", rw), ("bs", "1m"), ("iodepth", "8"), ("offset", place)])?;
        seconds += 1.0 / alone(model, asked)?.outcome.mixed().bandwidth();
    }
    Ok(PLACES.len() as f64 / seconds)
}

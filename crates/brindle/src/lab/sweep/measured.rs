//! The points of a sweep on real members, one after the other: each array is created again on the first of them.

use core::time::Duration;
use std::path::{Path, PathBuf};

use brindle_format::md::Uuid;
use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use brindle_lab::job::Job;
use brindle_lab::points::{Bench, Came, FILE, Measuring, Nested, timed};
use brindle_lab::predict::Shape;
use brindle_lab::run::{RunError, Terms, memory_for};
use brindle_lab::sweep::{Finished, Point};
use brindle_layout::Level;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::points_file::{OWN, PointsFile};
use super::shape;
use crate::base::failure::Failure;
use crate::base::random::random_uuid;
use crate::base::units::Bytes;
use crate::commands::create;
use crate::devices::world::{World, WorldOptions};
use crate::flags::cli::{Create, Metadata, Sweep};
use crate::lab::bench::disks::{self, Disks};
use crate::lab::bench::rounds;
use crate::lab::bench::target::{On, Opened};
use crate::lab::bench::usage::Meter;
use crate::lab::bench::watch::StopSignal;

/// The parameters that all points have in common. All points are checked first, so that nothing is destroyed for
/// words that mean nothing.
pub(super) fn head(args: &Sweep, points: &[Point]) -> Result<Value, Failure> {
    check_memory(args, points)?;
    for point in points {
        let wanted = match Nested::of(point)? {
            _ if point.level == FILE && args.file.is_some() => 0,
            Some(nested) => nested.map_or(0, |nested| nested.members),
            None => shape(point)?.map_or(1, |shape| shape.members.into()),
        };
        if let Some(Ok(nested)) = Nested::of(point)? {
            nested.can_join(&args.destroy)?;
        }
        if wanted > args.destroy.len() {
            let named = args.destroy.len();
            return Err(Failure::Usage(format!("--members {wanted}, but --destroy names {named}")));
        }
    }
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "members": args.destroy.iter().map(|member| member.display().to_string()).collect::<Vec<_>>(),
        "file": args.file.as_ref().map(|file| file.display().to_string()),
        "runtime_ms": args.runtime.0,
        "ramp_ms": args.ramp_time.0,
        "tuning": format!("{:?}", args.tuning),
        OWN: random_uuid()?.to_string(),
    }))
}

/// Said before hours of other points are measured: with more memory it is another sweep.
fn check_memory(args: &Sweep, points: &[Point]) -> Result<(), Failure> {
    let (there, mut needed, mut count) = (Tuning::from(args.tuning).for_requests(), 0, 0);
    for point in points {
        let of_point = memory_for(&timed(point, times(args))?);
        count += usize::from(of_point > there);
        needed = needed.max(of_point);
    }
    if count == 0 {
        return Ok(());
    }
    let why = RunError::Memory { needed, there };
    Err(Failure::Usage(format!("{count} of {} points: {why}", points.len())))
}

/// Times of each load: before anything of it counts, and after that.
fn times(args: &Sweep) -> [Duration; 2] {
    [args.ramp_time, args.runtime].map(|span| Duration::from_millis(span.0))
}

/// Measures points; each is kept as soon as it is finished. Fewer come back if somebody asked for the end.
pub(super) fn run(
    args: &Sweep,
    open: &[&Point],
    kept: &PointsFile,
    bar: &ProgressBar,
) -> Result<Vec<Finished>, Failure> {
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let uuid = kept.head[OWN].as_str().and_then(|text| Uuid::parse_str(text).ok());
    let uuid = uuid.ok_or_else(|| Failure::Usage(format!("points.jsonl:1: {OWN}: no UUID")))?;
    let devices = Devices { args, kept, bar, uuid, signal: StopSignal::new()? };
    devices.prepare()?;
    let memory = devices.terms().memory;
    Measuring::new(&devices, &args.destroy, args.file.as_ref(), times(args), memory).run(open)
}

/// Devices that the user gives up, and arrays on them.
struct Devices<'a> {
    args: &'a Sweep,
    kept: &'a PointsFile,
    bar: &'a ProgressBar,
    /// The UUID of all arrays that the sweep makes. It tells arrays that an interrupted sweep left from those of
    /// others.
    uuid: Uuid,
    signal: StopSignal,
}

impl Devices<'_> {
    /// Examines the members that will be overwritten, and fills them if asked for.
    fn prepare(&self) -> Result<(), Failure> {
        let opening = WorldOptions { access: DeviceAccess::Write, force: false, ..WorldOptions::LOOK };
        let mut world = World::new(opening)?;
        let all: Vec<PathBuf> = self.args.destroy.iter().chain(&self.args.file).cloned().collect();
        let set = world.open_each(&all)?;
        if !self.args.force {
            let others =
                set.members.iter().filter(|member| !member.array().is_some_and(|uuid| self.is_own(uuid)));
            create::refuse_occupied(&world, others)?;
        }
        drop(world);
        if self.args.precondition {
            let opened = self.devices(&self.args.destroy)?;
            let fill = Job { loops: 1, ..rounds::precondition() };
            rounds::once(&opened, &[fill], self.terms(), &self.signal, self.bar)?;
            opened.close()?;
        }
        Ok(())
    }

    fn terms(&self) -> Terms {
        Terms::new(0, Tuning::from(self.args.tuning).for_requests())
    }

    fn on(&self) -> On<'_> {
        On::nothing(self.args.tuning.into())
    }

    /// The UUID of an array beneath that of a point, which has number 0.
    fn own(&self, number: u16) -> Uuid {
        Uuid::from_u128(self.uuid.as_u128() ^ u128::from(number))
    }

    /// Whether this sweep made an array, before it was interrupted.
    fn is_own(&self, uuid: Uuid) -> bool {
        self.uuid.as_u128() ^ uuid.as_u128() <= u128::from(u16::MAX)
    }
}

impl Bench for Devices<'_> {
    type Error = Failure;
    type Opened = Opened;

    fn shape(&self, point: &Point) -> Result<Option<Shape>, Failure> {
        shape(point)
    }

    fn devices(&self, names: &[PathBuf]) -> Result<Opened, Failure> {
        Opened::open(&On { device: names, ..self.on() }, true)
    }

    fn make(&self, point: &Point, names: &[PathBuf], number: u16) -> Result<Result<(), String>, Failure> {
        match create::make(&array(point, names)?, self.own(number)) {
            Ok(_) => Ok(Ok(())),
            Err(Failure::Create(why)) => Ok(Err(why.to_string())),
            Err(failure) => Err(failure),
        }
    }

    fn array(&self, names: &[PathBuf]) -> Result<Opened, Failure> {
        Opened::open(&On { array: names, ..self.on() }, true)
    }

    fn sizes(&self, opened: &Opened) -> Vec<u64> {
        opened.limits().iter().map(|limits| limits.size).collect()
    }

    /// An error that ends a load early ends the point, too.
    fn run(&self, opened: &Opened, load: &Job, names: &[PathBuf]) -> Result<Result<Came, String>, Failure> {
        let (meter, disks) = (Meter::start(), Disks::under(names.iter().map(PathBuf::as_path)));
        let outcomes =
            match rounds::once(opened, std::slice::from_ref(load), self.terms(), &self.signal, self.bar) {
                Err(Failure::Run(why)) => return Ok(Err(why.to_string())),
                outcomes => outcomes?,
            };
        let (usage, disks) = (meter.stop(), disks.since());
        let Some((first, others)) = outcomes.split_first() else { return Ok(Err("ended early".to_owned())) };
        let mut outcome = first.clone();
        others.iter().for_each(|other| outcome.merge(other));
        if let Some(trouble) = outcome.trouble {
            return Ok(Err(trouble.to_string()));
        }
        let busiest = disks.iter().map(|disk| disk.busy / 100.0).reduce(f64::max);
        Ok(Ok(Came { all: outcome.mixed(), busiest, processor: (usage.user + usage.system) / 100.0 }))
    }

    fn close(&self, opened: Opened) -> Result<(), Failure> {
        opened.close()
    }

    fn is_asked(&self) -> bool {
        self.signal.is_asked()
    }

    fn keep(&self, finished: &Finished) -> Result<(), Failure> {
        self.kept.keep(finished)?;
        self.bar.inc(1);
        Ok(())
    }
}

/// The array of a point, as `create` takes it.
fn array(point: &Point, names: &[PathBuf]) -> Result<Create, Failure> {
    let chunk = Bytes::parse_kib(&point.chunk).map_err(Failure::Usage)?;
    let has_chunks = point.level.parse().is_ok_and(Level::has_chunks);
    Ok(Create {
        name: Some("sweep".to_owned()),
        level: point.level.clone(),
        layout: Some(point.layout.clone()).filter(|layout| !layout.is_empty()),
        chunk: has_chunks.then_some(chunk),
        metadata: Metadata::V1_2,
        bitmap: None,
        bitmap_chunk: None,
        write_behind: None,
        size: None,
        data_offset: None,
        // The old content of the members is worthless, so that redundancy need not agree with it.
        assume_clean: true,
        raid_devices: None,
        spares: 0,
        write_mostly: Vec::new(),
        failfast: Vec::new(),
        // Looked at before the first array was made.
        force: true,
        json: false,
        members: names.to_vec(),
    })
}

/// The facts of the environment for the report.
pub(super) fn facts(args: &Sweep) -> Vec<(String, String)> {
    let member = |path: &PathBuf| (path.display().to_string(), disks::about(Path::new(path)));
    let world = ("world".to_owned(), "measured: the engine on these members, in this process".to_owned());
    std::iter::once(world).chain(args.destroy.iter().chain(&args.file).map(member)).collect()
}

/// How each point is run by itself.
pub(super) fn command(args: &Sweep) -> String {
    let members: Vec<String> = args.destroy.iter().map(|member| member.display().to_string()).collect();
    let (runtime, ramp) = (args.runtime.0, args.ramp_time.0);
    let file = args.file.as_ref().map_or_else(String::new, |file| format!("--file {} ", file.display()));
    format!(
        "brindle sweep --force --runtime {runtime}ms --ramp-time {ramp}ms {file}--destroy {}",
        members.join(" ")
    )
}

//! The points of a sweep on real members, one after the other: each array is made anew on the first of them.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brindle_format::md::Uuid;
use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use brindle_lab::job::{Job, Logs};
use brindle_lab::measure::Tally;
use brindle_lab::predict::{Counted, Shape};
use brindle_lab::run::{RunError, Terms, memory_for};
use brindle_lab::sweep::{Aside, Figures, Finished, Point};
use brindle_layout::{Geometry, Level};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::kept::{OWN, PointsFile};
use super::nested::Nested;
use super::shape;
use crate::bench::disks::{self, Disks};
use crate::bench::rounds;
use crate::bench::target::{On, Opened};
use crate::bench::usage::Meter;
use crate::bench::watch::Ending;
use crate::cli::{Create, Metadata, Sweep};
use crate::create;
use crate::failure::Failure;
use crate::random::random_uuid;
use crate::units::Bytes;
use crate::world::{Opening, World};

/// Steps of a run over time.
const STEPS: u32 = 50;
/// A load that was given so long and had no answer has none.
const LONGEST: Duration = Duration::from_secs(60);

/// The level of what stands beside the arrays: a file.
pub(super) const FILE: &str = "file";

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
        let of_point = memory_for(&job(args, point)?);
        count += usize::from(of_point > there);
        needed = needed.max(of_point);
    }
    if count == 0 {
        return Ok(());
    }
    let why = RunError::Memory { needed, there };
    Err(Failure::Usage(format!("{count} of {} points: {why}", points.len())))
}

/// A point's load: it runs for the time that was asked for, however large the array is.
fn job(args: &Sweep, point: &Point) -> Result<Job, Failure> {
    let job = brindle_lab::predict::job(&point.words())?;
    let [ramp_time, runtime] = [args.ramp_time, args.runtime].map(|span| Duration::from_millis(span.0));
    let logs = Logs { average: Some(runtime / STEPS), ..Logs::default() };
    Ok(Job { time_based: true, ramp_time, runtime: Some(runtime), logs, ..job })
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
    let mut run = Running {
        args,
        kept,
        bar,
        uuid,
        ending: Ending::new()?,
        known: RefCell::default(),
        done: Vec::new(),
    };
    run.prepare()?;
    let array =
        |point: &Point| [&point.level, &point.layout, &point.members, &point.chunk].map(String::clone);
    for points in open.chunk_by(|one, other| array(one) == array(other)) {
        run.on_one_array(points)?;
    }
    Ok(run.done)
}

struct Running<'a> {
    args: &'a Sweep,
    kept: &'a PointsFile,
    bar: &'a ProgressBar,
    /// Of all arrays that the sweep makes: what it left behind when it was interrupted is its own.
    uuid: Uuid,
    ending: Ending,
    /// Bytes a second of loads on members without an array.
    known: RefCell<BTreeMap<String, f64>>,
    done: Vec<Finished>,
}

/// The results of a load.
struct Came {
    all: Tally,
    busiest: Option<f64>,
    processor: f64,
}

impl Running<'_> {
    /// Looks at what is to be destroyed, and fills it where that is asked for.
    fn prepare(&self) -> Result<(), Failure> {
        let opening = Opening { access: DeviceAccess::Write, force: false, ..Opening::LOOK };
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
            let opened = self.members(&self.args.destroy)?;
            let fill = Job { loops: 1, ..rounds::precondition() };
            rounds::once(&opened, &[fill], self.terms(), &self.ending, self.bar)?;
            opened.close()?;
        }
        Ok(())
    }

    fn terms(&self) -> Terms {
        Terms { chance: 0, memory: Tuning::from(self.args.tuning).for_requests(), hollow: false }
    }

    fn members(&self, names: &[PathBuf]) -> Result<Opened, Failure> {
        Opened::open(&On { device: names, ..On::nothing(self.args.tuning.into()) }, true)
    }

    /// The UUID of an array beneath that of a point, which has number 0.
    fn own(&self, number: u16) -> Uuid {
        Uuid::from_u128(self.uuid.as_u128() ^ u128::from(number))
    }

    /// Whether this sweep made an array, before it was interrupted.
    fn is_own(&self, uuid: Uuid) -> bool {
        self.uuid.as_u128() ^ uuid.as_u128() <= u128::from(u16::MAX)
    }

    /// All points of one array, with what stands beside them: that comes first, since it overwrites the array.
    fn on_one_array(&mut self, points: &[&Point]) -> Result<(), Failure> {
        if let Some(file) = self.args.file.as_ref().filter(|_| points[0].level == FILE) {
            let loads = self.beside_drives(points, &self.args.destroy)?;
            let opened = self.members(std::slice::from_ref(file))?;
            return self.measure(opened, loads, std::slice::from_ref(file));
        }
        match Nested::of(points[0])? {
            Some(Ok(nested)) => return self.on_nested(&nested, points),
            Some(Err(why)) => return self.refuse(points, &why),
            None => {}
        }
        let Some(shape) = shape(points[0])? else {
            let opened = self.members(&self.args.destroy[..1])?;
            let loads = points.iter().map(|point| (*point, Aside::default())).collect();
            return self.measure(opened, loads, &self.args.destroy[..1]);
        };
        let names = &self.args.destroy[..shape.members.into()];
        let geometry = match self.geometry(&shape, names)? {
            Ok(geometry) => geometry,
            Err(why) => return self.refuse(points, &why),
        };
        let mut loads = Vec::with_capacity(points.len());
        for point in points {
            loads.push((*point, self.beside(point, names, &geometry)?));
            if self.ending.is_asked() {
                return Ok(());
            }
        }
        if let Err(why) = made(&self.array(points[0], names)?, self.uuid)? {
            return self.refuse(points, &why);
        }
        let opened = Opened::open(&On { array: names, ..On::nothing(self.args.tuning.into()) }, true)?;
        self.measure(opened, loads, names)
    }

    /// The same of RAID 0 over arrays. How many operations it costs the drives at least is not counted.
    fn on_nested(&mut self, nested: &Nested<'_>, points: &[&Point]) -> Result<(), Failure> {
        let names = &self.args.destroy[..nested.members];
        let loads = self.beside_drives(points, names)?;
        let level =
            |level: &str| Point { level: level.to_owned(), layout: String::new(), ..points[0].clone() };
        for (number, group) in (1..).zip(names.chunks(nested.each)) {
            if let Err(why) = made(&self.array(&level(nested.inner), group)?, self.own(number))? {
                return self.refuse(points, &why);
            }
        }
        let arrays = nested.joined(names);
        if let Err(why) = made(&self.array(&level("0"), &arrays)?, self.uuid)? {
            return self.refuse(points, &why);
        }
        let opened = Opened::open(&On { array: &arrays, ..On::nothing(self.args.tuning.into()) }, true)?;
        self.measure(opened, loads, names)
    }

    /// Loads, and what they come to on drives without an array.
    fn beside_drives<'p>(
        &self,
        points: &[&'p Point],
        names: &[PathBuf],
    ) -> Result<Vec<(&'p Point, Aside)>, Failure> {
        let of = |point: &&'p Point| {
            let jbod = self.alone(&job(self.args, point)?, names)?;
            Ok((*point, Aside { jbod, ..Aside::default() }))
        };
        points.iter().map(of).collect()
    }

    /// About that which the array will have: its members are a little smaller than they are by themselves.
    fn geometry(&self, shape: &Shape, names: &[PathBuf]) -> Result<Result<Geometry, String>, Failure> {
        let opened = self.members(names)?;
        let unit = shape.chunk.max(4096);
        let sizes: Vec<u64> = opened.limits().iter().map(|limits| limits.size / unit * unit).collect();
        opened.close()?;
        Ok(Geometry::new(shape.level, shape.layout, shape.chunk, &sizes).map_err(|why| why.to_string()))
    }

    /// The array of a point, as `create` takes it.
    fn array(&self, point: &Point, names: &[PathBuf]) -> Result<Create, Failure> {
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

    /// The load on the members by themselves, and the fewest operations that it can cost them.
    fn beside(&self, point: &Point, names: &[PathBuf], geometry: &Geometry) -> Result<Aside, Failure> {
        let load = job(self.args, point)?;
        let counted = Counted::of(&load, Some(geometry), names.len() as u16, self.terms().memory);
        let limit = match counted {
            Some(counted) => self.alone(&counted.load, names)?.map(|bytes| bytes * counted.asked),
            None => None,
        };
        Ok(Aside { jbod: self.alone(&load, names)?, limit, ..Aside::default() })
    }

    /// Bytes a second of a load on members without an array, to which requests go in turn; none if they can't carry it.
    fn alone(&self, load: &Job, names: &[PathBuf]) -> Result<Option<f64>, Failure> {
        let question = format!(
            "{:?} {:?} {} {} {} {:?}",
            load.access,
            load.blocks,
            load.reads,
            load.depth(),
            load.numjobs,
            load.distribution
        );
        let key = format!("{} {question}", names.len());
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(Some(*known));
        }
        let opened = self.members(names)?;
        let came = self.one(&opened, load, names);
        opened.close()?;
        let Ok(came) = came? else { return Ok(None) };
        let found = came.all.bandwidth();
        self.known.borrow_mut().insert(key, found);
        Ok(Some(found))
    }

    fn measure(
        &mut self,
        opened: Opened,
        loads: Vec<(&Point, Aside)>,
        names: &[PathBuf],
    ) -> Result<(), Failure> {
        for (point, beside) in loads {
            let came = self.one(&opened, &job(self.args, point)?, names)?;
            if self.ending.is_asked() {
                break;
            }
            let (figures, refused) = match came {
                Ok(came) => {
                    let aside = Aside { utilisation: came.busiest, cpu_share: came.processor, ..beside };
                    (Some(Figures::of(&came.all, aside)), None)
                }
                Err(why) => (None, Some(why)),
            };
            self.finish(Finished { point: point.clone(), figures, refused })?;
        }
        opened.close()
    }

    /// A load, or why it can't be. One of which nothing was answered in its time tells nothing, and is given more.
    fn one(&self, opened: &Opened, load: &Job, names: &[PathBuf]) -> Result<Result<Came, String>, Failure> {
        let mut load = load.clone();
        loop {
            let came = self.once(opened, &load, names)?;
            let runtime = load.runtime.unwrap_or_default();
            if runtime > LONGEST
                || self.ending.is_asked()
                || !came.as_ref().is_ok_and(|came| came.all.ios == 0)
            {
                return Ok(came);
            }
            load.runtime = Some(runtime * 4);
        }
    }

    /// An error that ends a load early ends the point, too.
    fn once(&self, opened: &Opened, load: &Job, names: &[PathBuf]) -> Result<Result<Came, String>, Failure> {
        let (meter, disks) = (Meter::start(), Disks::under(names.iter().map(PathBuf::as_path)));
        let outcomes =
            match rounds::once(opened, std::slice::from_ref(load), self.terms(), &self.ending, self.bar) {
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

    fn refuse(&mut self, points: &[&Point], why: &str) -> Result<(), Failure> {
        for point in points {
            self.finish(Finished { point: (*point).clone(), figures: None, refused: Some(why.to_owned()) })?;
        }
        Ok(())
    }

    fn finish(&mut self, finished: Finished) -> Result<(), Failure> {
        self.kept.keep(&finished)?;
        self.bar.inc(1);
        self.done.push(finished);
        Ok(())
    }
}

/// Makes an array; or why it can't be.
fn made(array: &Create, uuid: Uuid) -> Result<Result<(), String>, Failure> {
    match create::make(array, uuid) {
        Ok(_) => Ok(Ok(())),
        Err(Failure::Create(why)) => Ok(Err(why.to_string())),
        Err(failure) => Err(failure),
    }
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

//! The points of a sweep on devices, one after the other: each array is created again on the first of them.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use brindle_layout::Geometry;

use super::{Nested, PointError};
use crate::job::{Job, JobError, Logs};
use crate::measure::Tally;
use crate::predict::{self, Counted, Shape};
use crate::sweep::{Figures, Finished, Point, RunFacts};

/// Steps of a run over time.
const STEPS: u32 = 50;
/// A load that was given so long and had no answer has none.
const LONGEST: Duration = Duration::from_secs(60);

/// The level of what stands beside the arrays: a file.
pub const FILE: &str = "file";

/// Devices that are given up, and arrays that can be made on them.
pub trait Bench {
    /// Why the sweep ends.
    type Error: From<PointError> + From<JobError>;
    /// Targets that are open.
    type Opened;

    /// The array of a point that is none of arrays; none is one device by itself.
    ///
    /// # Errors
    /// It ends the sweep.
    fn shape(&self, point: &Point) -> Result<Option<Shape>, Self::Error>;

    /// Opens devices by themselves.
    ///
    /// # Errors
    /// It ends the sweep.
    fn devices(&self, names: &[PathBuf]) -> Result<Self::Opened, Self::Error>;

    /// Makes the array of a point on devices; or tells why it can't be. Of arrays of one point each has its number, and 0 is the one
    /// that is measured.
    ///
    /// # Errors
    /// It ends the sweep.
    fn make(&self, point: &Point, names: &[PathBuf], number: u16) -> Result<Result<(), String>, Self::Error>;

    /// Opens the array that was made of these.
    ///
    /// # Errors
    /// It ends the sweep.
    fn array(&self, names: &[PathBuf]) -> Result<Self::Opened, Self::Error>;

    /// Bytes of each target.
    fn sizes(&self, opened: &Self::Opened) -> Vec<u64>;

    /// Runs a load once, or gives the reason why it can't run. `names` are the devices whose use is measured.
    ///
    /// # Errors
    /// It ends the sweep.
    fn run(
        &self,
        opened: &Self::Opened,
        load: &Job,
        names: &[PathBuf],
    ) -> Result<Result<Came, String>, Self::Error>;

    /// Closes targets; an array marks itself clean.
    ///
    /// # Errors
    /// It ends the sweep.
    fn close(&self, opened: Self::Opened) -> Result<(), Self::Error>;

    /// Whether somebody asks for the end.
    fn is_asked(&self) -> bool;

    /// Keeps a point that is finished.
    ///
    /// # Errors
    /// It ends the sweep.
    fn keep(&self, finished: &Finished) -> Result<(), Self::Error>;
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct Came {
    /// All requests.
    pub all: Tally,
    /// How busy the busiest disk was, if that is known.
    pub busiest: Option<f64>,
    /// Processor time for each second.
    pub processor: f64,
}

/// The load of a point: it runs for a time, however large the array is. `times` are those before anything counts, and after that.
///
/// # Errors
/// Words that mean nothing.
pub fn timed(point: &Point, times: [Duration; 2]) -> Result<Job, JobError> {
    let job = predict::job(&point.words())?;
    let [ramp_time, runtime] = times;
    let logs = Logs { average: Some(runtime / STEPS), ..Logs::default() };
    Ok(Job { time_based: true, ramp_time, runtime: Some(runtime), logs, ..job })
}

/// Measures points.
pub struct Measuring<'a, B> {
    /// Devices and arrays.
    bench: &'a B,
    /// Devices that are given up.
    names: &'a [PathBuf],
    /// A file to be measured beside the arrays.
    file: Option<&'a PathBuf>,
    /// Time before anything of a load counts, and for which it does.
    times: [Duration; 2],
    /// Bytes for requests.
    memory: u64,
    /// Bytes a second of loads on devices without an array.
    known: RefCell<BTreeMap<String, f64>>,
    done: Vec<Finished>,
}

impl<'a, B: Bench> Measuring<'a, B> {
    /// On these devices; `times` are the time before anything of a load counts, and that for which it does.
    pub fn new(
        bench: &'a B,
        names: &'a [PathBuf],
        file: Option<&'a PathBuf>,
        times: [Duration; 2],
        memory: u64,
    ) -> Self {
        Self { bench, names, file, times, memory, known: RefCell::default(), done: Vec::new() }
    }

    /// Measures all points; each is saved as soon as it is finished. Fewer are returned if the user interrupts.
    ///
    /// # Errors
    /// The first error of the bench.
    pub fn run(mut self, open: &[&Point]) -> Result<Vec<Finished>, B::Error> {
        let array =
            |point: &Point| [&point.level, &point.layout, &point.members, &point.chunk].map(String::clone);
        for points in open.chunk_by(|one, other| array(one) == array(other)) {
            self.on_one_array(points)?;
        }
        Ok(self.done)
    }

    /// All points of one array, with what stands beside them: that comes first, since it overwrites the array.
    fn on_one_array(&mut self, points: &[&Point]) -> Result<(), B::Error> {
        if let Some(file) = self.file.filter(|_| points[0].level == FILE) {
            let loads = self.beside_drives(points, self.names)?;
            let opened = self.bench.devices(std::slice::from_ref(file))?;
            return self.measure(opened, loads, std::slice::from_ref(file));
        }
        match Nested::of(points[0])? {
            Some(Ok(nested)) => return self.on_nested(&nested, points),
            Some(Err(why)) => return self.refuse(points, &why),
            None => {}
        }
        let Some(shape) = self.bench.shape(points[0])? else {
            let opened = self.bench.devices(&self.names[..1])?;
            let loads = points.iter().map(|point| (*point, RunFacts::default())).collect();
            return self.measure(opened, loads, &self.names[..1]);
        };
        let names = &self.names[..shape.members.into()];
        let geometry = match self.geometry(&shape, names)? {
            Ok(geometry) => geometry,
            Err(why) => return self.refuse(points, &why),
        };
        let mut loads = Vec::with_capacity(points.len());
        for point in points {
            loads.push((*point, self.beside(point, names, &geometry)?));
            if self.bench.is_asked() {
                return Ok(());
            }
        }
        if let Err(why) = self.bench.make(points[0], names, 0)? {
            return self.refuse(points, &why);
        }
        let opened = self.bench.array(names)?;
        self.measure(opened, loads, names)
    }

    /// Measures points on RAID 0 over arrays. The least number of operations on the drives is not counted for these.
    fn on_nested(&mut self, nested: &Nested<'_>, points: &[&Point]) -> Result<(), B::Error> {
        let names = &self.names[..nested.members];
        let loads = self.beside_drives(points, names)?;
        let level =
            |level: &str| Point { level: level.to_owned(), layout: String::new(), ..points[0].clone() };
        for (number, group) in (1..).zip(names.chunks(nested.each)) {
            if let Err(why) = self.bench.make(&level(nested.inner), group, number)? {
                return self.refuse(points, &why);
            }
        }
        let arrays = nested.joined(names);
        if let Err(why) = self.bench.make(&level("0"), &arrays, 0)? {
            return self.refuse(points, &why);
        }
        let opened = self.bench.array(&arrays)?;
        self.measure(opened, loads, names)
    }

    /// Loads, and what they come to on drives without an array.
    fn beside_drives<'p>(
        &self,
        points: &[&'p Point],
        names: &[PathBuf],
    ) -> Result<Vec<(&'p Point, RunFacts)>, B::Error> {
        let of = |point: &&'p Point| {
            let jbod = self.alone(&timed(point, self.times)?, names)?;
            Ok((*point, RunFacts { jbod, ..RunFacts::default() }))
        };
        points.iter().map(of).collect()
    }

    /// About that which the array will have: its members are a little smaller than they are by themselves.
    fn geometry(&self, shape: &Shape, names: &[PathBuf]) -> Result<Result<Geometry, String>, B::Error> {
        let opened = self.bench.devices(names)?;
        let unit = shape.chunk.max(4096);
        let sizes: Vec<u64> = self.bench.sizes(&opened).iter().map(|size| size / unit * unit).collect();
        self.bench.close(opened)?;
        Ok(Geometry::new(shape.level, shape.layout, shape.chunk, &sizes).map_err(|why| why.to_string()))
    }

    /// The load on the members by themselves, and the fewest operations that it can cost them.
    fn beside(&self, point: &Point, names: &[PathBuf], geometry: &Geometry) -> Result<RunFacts, B::Error> {
        let load = timed(point, self.times)?;
        let counted = Counted::of(&load, Some(geometry), names.len() as u16, self.memory);
        let limit = match counted {
            Some(counted) => self.alone(&counted.load, names)?.map(|bytes| bytes * counted.asked),
            None => None,
        };
        Ok(RunFacts { jbod: self.alone(&load, names)?, limit, ..RunFacts::default() })
    }

    /// Bytes a second of a load on members without an array, to which requests go in turn; none if they can't carry it.
    fn alone(&self, load: &Job, names: &[PathBuf]) -> Result<Option<f64>, B::Error> {
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
        let opened = self.bench.devices(names)?;
        let came = self.one(&opened, load, names);
        self.bench.close(opened)?;
        let Ok(came) = came? else { return Ok(None) };
        let found = came.all.bandwidth();
        self.known.borrow_mut().insert(key, found);
        Ok(Some(found))
    }

    fn measure(
        &mut self,
        opened: B::Opened,
        loads: Vec<(&Point, RunFacts)>,
        names: &[PathBuf],
    ) -> Result<(), B::Error> {
        for (point, beside) in loads {
            let came = self.one(&opened, &timed(point, self.times)?, names)?;
            if self.bench.is_asked() {
                break;
            }
            let (figures, refused) = match came {
                Ok(came) => {
                    let facts = RunFacts { utilisation: came.busiest, cpu_share: came.processor, ..beside };
                    (Some(Figures::of(&came.all, facts)), None)
                }
                Err(why) => (None, Some(why)),
            };
            self.finish(Finished { point: point.clone(), figures, refused })?;
        }
        self.bench.close(opened)
    }

    /// A load, or why it can't be. One of which nothing was answered in its time tells nothing, and is given more.
    fn one(
        &self,
        opened: &B::Opened,
        load: &Job,
        names: &[PathBuf],
    ) -> Result<Result<Came, String>, B::Error> {
        let mut load = load.clone();
        loop {
            let came = self.bench.run(opened, &load, names)?;
            let runtime = load.runtime.unwrap_or_default();
            let is_empty = came.as_ref().is_ok_and(|came| came.all.ios == 0);
            if runtime > LONGEST || self.bench.is_asked() || !is_empty {
                return Ok(came);
            }
            load.runtime = Some(runtime * 4);
        }
    }

    fn refuse(&mut self, points: &[&Point], why: &str) -> Result<(), B::Error> {
        for point in points {
            self.finish(Finished { point: (*point).clone(), figures: None, refused: Some(why.to_owned()) })?;
        }
        Ok(())
    }

    fn finish(&mut self, finished: Finished) -> Result<(), B::Error> {
        self.bench.keep(&finished)?;
        self.done.push(finished);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Sweeps: the cross product of arrays and loads, and reports. Pure; who runs the points is above.

mod html;

use serde::{Deserialize, Serialize};

use crate::job::PERCENTILES;
use crate::predict::Predicted;

pub use html::{Environment, escaped, head, html};

/// What is varied: each list is an axis, in the words of the command line and of fio.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Axes {
    /// What the suite is for.
    pub about: String,
    /// Levels.
    pub level: Vec<String>,
    /// Layouts; empty is each level's own.
    pub layout: Vec<String>,
    /// Chunk sizes.
    pub chunk: Vec<String>,
    /// Counts of members.
    pub members: Vec<String>,
    /// Sizes of requests, or fio's `bssplit` where there is a `/` in it.
    pub bs: Vec<String>,
    /// What is done.
    pub rw: Vec<String>,
    /// Per cent of reads, of loads that mix them.
    pub rwmixread: Vec<String>,
    /// Requests in flight of each job.
    pub iodepth: Vec<String>,
    /// Jobs at once.
    pub numjobs: Vec<String>,
}

/// One array and load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// As [`Axes`] has them.
    pub level: String,
    /// Empty is the level's own.
    pub layout: String,
    /// See [`Axes`].
    pub chunk: String,
    /// See [`Axes`].
    pub members: String,
    /// See [`Axes`].
    pub rw: String,
    /// Empty where nothing is mixed.
    pub rwmixread: String,
    /// See [`Axes`].
    pub bs: String,
    /// See [`Axes`].
    pub iodepth: String,
    /// See [`Axes`].
    pub numjobs: String,
}

/// What a point came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// MiB/s.
    pub mb_s: f64,
    /// Requests a second.
    pub iops: f64,
    /// Microseconds.
    pub mean_us: f64,
    /// Microseconds.
    pub p50_us: f64,
    /// Microseconds.
    pub p99_us: f64,
    /// Microseconds.
    pub max_us: f64,
    /// Share of the time in which the busiest member was at work.
    pub utilisation: f64,
    /// Share of the processors' time.
    pub cpu_share: f64,
    /// MiB/s relative to the same load on as many drives by themselves, to which requests go in turn; none for one drive.
    pub to_jbod: Option<f64>,
    /// MiB/s relative to what counted I/O allows: the fewest operations of the members, all of them as busy as they can be.
    pub to_limit: Option<f64>,
    /// Per cent of all requests, and the microseconds that so many took at most.
    pub percentiles_us: Vec<(f64, f64)>,
    /// Of the run, in hexadecimal.
    pub digest: String,
}

/// A point, and its figures or why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Which.
    pub point: Point,
    /// What it came to.
    pub figures: Option<Figures>,
    /// Why it can't be.
    pub refused: Option<String>,
}

impl Axes {
    /// The axes that `own` has, and these for the others.
    #[must_use]
    pub fn under(self, own: Self) -> Self {
        let pick = |own: Vec<String>, under: Vec<String>| if own.is_empty() { under } else { own };
        Self {
            about: self.about,
            level: pick(own.level, self.level),
            layout: pick(own.layout, self.layout),
            chunk: pick(own.chunk, self.chunk),
            members: pick(own.members, self.members),
            bs: pick(own.bs, self.bs),
            rw: pick(own.rw, self.rw),
            rwmixread: pick(own.rwmixread, self.rwmixread),
            iodepth: pick(own.iodepth, self.iodepth),
            numjobs: pick(own.numjobs, self.numjobs),
        }
    }

    /// All points, each once. What an axis does not say is one usual value; a share of reads matters to mixed loads only.
    pub fn points(&self) -> Vec<Point> {
        let or = |axis: &[String], usual: &str| {
            if axis.is_empty() { vec![usual.to_owned()] } else { axis.to_vec() }
        };
        let mut points = vec![Point {
            level: String::new(),
            layout: String::new(),
            chunk: String::new(),
            members: String::new(),
            rw: String::new(),
            rwmixread: String::new(),
            bs: String::new(),
            iodepth: String::new(),
            numjobs: String::new(),
        }];
        let mut cross = |axis: Vec<String>, set: fn(&mut Point, &str)| {
            let each = |point: &Point| {
                let with = |value: &String| {
                    let mut point = point.clone();
                    set(&mut point, value);
                    point
                };
                axis.iter().map(with).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(each).collect();
        };
        cross(or(&self.level, "10"), |point, value| point.level = value.to_owned());
        cross(or(&self.layout, ""), |point, value| point.layout = value.to_owned());
        cross(or(&self.members, "4"), |point, value| point.members = value.to_owned());
        cross(or(&self.chunk, "64K"), |point, value| point.chunk = value.to_owned());
        cross(or(&self.rw, "randread"), |point, value| point.rw = value.to_owned());
        cross(or(&self.rwmixread, "50"), |point, value| {
            let mixes = matches!(point.rw.as_str(), "rw" | "readwrite" | "randrw");
            point.rwmixread = if mixes { value.to_owned() } else { String::new() };
        });
        cross(or(&self.bs, "4k"), |point, value| point.bs = value.to_owned());
        cross(or(&self.iodepth, "1"), |point, value| point.iodepth = value.to_owned());
        cross(or(&self.numjobs, "1"), |point, value| point.numjobs = value.to_owned());
        let mut seen = std::collections::BTreeSet::new();
        points.retain(|point| seen.insert(point.clone()));
        points
    }
}

/// fio's option for sizes of requests: `bssplit` where shares stand behind a `/`.
pub fn sizes_option(sizes: &str) -> &'static str {
    if sizes.contains('/') { "bssplit" } else { "bs" }
}

impl Point {
    /// The load in fio's words.
    pub fn words(&self) -> Vec<(&str, &str)> {
        let mut words = vec![("rw", self.rw.as_str()), (sizes_option(&self.bs), self.bs.as_str())];
        if !self.rwmixread.is_empty() {
            words.push(("rwmixread", &self.rwmixread));
        }
        words.extend([("iodepth", self.iodepth.as_str()), ("numjobs", self.numjobs.as_str())]);
        words
    }

    /// The same where nothing is written that need not be: a mix without reads, or of nothing else, is none.
    pub fn load(&self) -> Vec<(&str, &str)> {
        let rw = match (self.rw.as_str(), self.rwmixread.as_str()) {
            ("randrw", "100") => "randread",
            ("randrw", "0") => "randwrite",
            ("rw" | "readwrite", "100") => "read",
            ("rw" | "readwrite", "0") => "write",
            _ => return self.words(),
        };
        let rest = self.words().into_iter().filter(|(name, _)| !["rw", "rwmixread"].contains(name));
        core::iter::once(("rw", rw)).chain(rest).collect()
    }

    /// Names and values, in the order of columns.
    pub fn columns(&self) -> [(&'static str, &str); 9] {
        [
            ("level", &self.level),
            ("layout", &self.layout),
            ("members", &self.members),
            ("chunk", &self.chunk),
            ("rw", &self.rw),
            ("rwmixread", &self.rwmixread),
            ("bs", &self.bs),
            ("iodepth", &self.iodepth),
            ("numjobs", &self.numjobs),
        ]
    }
}

impl Figures {
    /// Of a prediction; beside it the bytes a second of as many drives by themselves, and those that counted I/O allows.
    pub fn of(predicted: &Predicted, jbod: Option<f64>, limit: Option<f64>) -> Self {
        let all = predicted.outcome.mixed();
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let mb_s = all.bandwidth() / 1_048_576.0;
        let ratio = |to: Option<f64>| to.filter(|to| *to > 0.0).map(|to| all.bandwidth() / to);
        Self {
            mb_s,
            iops: all.iops(),
            mean_us: all.total.mean() / 1000.0,
            p50_us: micros(all.total.percentile(50.0)),
            p99_us: micros(all.total.percentile(99.0)),
            max_us: micros(all.total.max()),
            utilisation: f64::from(predicted.busy.iter().copied().max().unwrap_or(0)) / 1000.0,
            cpu_share: f64::from(predicted.processor) / 1000.0,
            to_jbod: ratio(jbod),
            to_limit: ratio(limit),
            percentiles_us: PERCENTILES
                .map(|percent| (percent, micros(all.total.percentile(percent))))
                .to_vec(),
            digest: format!("{:016x}", predicted.digest),
        }
    }
}

/// All points as CSV, with a header.
pub fn csv(all: &[Finished]) -> String {
    let mut text = String::from(
        "level,layout,members,chunk,rw,rwmixread,bs,iodepth,numjobs,mb_s,iops,mean_us,p50_us,p99_us,max_us,utilisation,\
         cpu_share,to_jbod,to_limit,digest,refused\n",
    );
    for one in all {
        let mut cells: Vec<String> =
            one.point.columns().iter().map(|(_, value)| (*value).to_owned()).collect();
        match &one.figures {
            Some(of) => {
                let figures = [
                    of.mb_s,
                    of.iops,
                    of.mean_us,
                    of.p50_us,
                    of.p99_us,
                    of.max_us,
                    of.utilisation,
                    of.cpu_share,
                ];
                cells.extend(figures.map(|figure| format!("{figure:.3}")));
                let ratio = |to: Option<f64>| to.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
                cells.extend([ratio(of.to_jbod), ratio(of.to_limit)]);
                cells.extend([of.digest.clone(), String::new()]);
            }
            None => {
                cells.extend(core::iter::repeat_n(String::new(), 11));
                let why = one.refused.as_deref().unwrap_or_default();
                cells.push(format!("\"{}\"", why.replace('"', "'").replace('\n', " ")));
            }
        }
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

//! Sweeps: the cross product of arrays and loads, and reports. Pure; who runs the points is above.

mod html;

use serde::{Deserialize, Serialize};

use crate::job::PERCENTILES;
use crate::measure::{Bin, Series, Tally};

pub use html::{Environment, html};

/// The axes of a sweep: each list is one, in the words of the command line and of fio.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Axes {
    /// The purpose of the suite.
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
    /// The operations, as fio's `rw`.
    pub rw: Vec<String>,
    /// Per cent of reads, of loads that mix them.
    pub rwmixread: Vec<String>,
    /// The distributions of random places.
    pub random_distribution: Vec<String>,
    /// Requests in flight of each job.
    pub iodepth: Vec<String>,
    /// Jobs at once.
    pub numjobs: Vec<String>,
}

/// One array and load.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// Empty where all blocks are drawn as often, or in sequence.
    #[serde(default)]
    pub random_distribution: String,
    /// See [`Axes`].
    pub bs: String,
    /// See [`Axes`].
    pub iodepth: String,
    /// See [`Axes`].
    pub numjobs: String,
}

/// The figures of a point.
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
    /// Share of the time in which the busiest member was at work; none where that is not counted.
    pub utilisation: Option<f64>,
    /// Share of the processors' time.
    pub cpu_share: f64,
    /// MiB/s relative to the same load on as many drives by themselves, to which requests go in turn; none for one drive.
    pub to_jbod: Option<f64>,
    /// MiB/s relative to what counted I/O allows: the fewest operations of the members, all of them as busy as they can be.
    pub to_limit: Option<f64>,
    /// Percentiles: per cent of all requests, and the most microseconds that these took.
    pub percentiles_us: Vec<(f64, f64)>,
    /// Over time, by steps of one length.
    #[serde(default)]
    pub series: Vec<Step>,
    /// A digest of the run, in hexadecimal; empty for measurements, which never repeat.
    pub digest: String,
}

/// The requests that completed within one step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Seconds from the beginning of what is counted to the step's end.
    pub seconds: f64,
    /// MiB/s.
    pub mb_s: f64,
    /// Requests a second.
    pub iops: f64,
    /// Microseconds.
    pub mean_us: f64,
    /// Microseconds.
    pub max_us: f64,
}

impl Step {
    /// The whole steps: the last one has not ended.
    fn all(series: &Series) -> Vec<Self> {
        let seconds = series.step().as_secs_f64();
        let whole = series.bins().len().saturating_sub(1);
        let step = |(number, bin): (usize, &Bin)| Self {
            seconds: seconds * (number + 1) as f64,
            mb_s: bin.bytes as f64 / 1_048_576.0 / seconds,
            iops: bin.ios as f64 / seconds,
            mean_us: bin.latency as f64 / 1000.0 / bin.ios.max(1) as f64,
            max_us: bin.worst as f64 / 1000.0,
        };
        series.bins()[..whole].iter().enumerate().map(step).collect()
    }
}

/// The facts of a run beside its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// See [`Figures`].
    pub utilisation: Option<f64>,
    /// See [`Figures`].
    pub cpu_share: f64,
    /// Bytes a second of the same load on as many drives by themselves.
    pub jbod: Option<f64>,
    /// Bytes a second that counted I/O allows.
    pub limit: Option<f64>,
    /// See [`Figures`].
    pub digest: String,
}

/// A point, and its figures or why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The point.
    pub point: Point,
    /// The figures of the point.
    pub figures: Option<Figures>,
    /// The reason why the point can't be.
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
            random_distribution: pick(own.random_distribution, self.random_distribution),
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
            random_distribution: String::new(),
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
        cross(or(&self.random_distribution, ""), |point, value| {
            let random = point.rw.starts_with("rand");
            point.random_distribution = if random { value.to_owned() } else { String::new() };
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
        if !self.random_distribution.is_empty() {
            words.push(("random_distribution", &self.random_distribution));
        }
        words.extend([("iodepth", self.iodepth.as_str()), ("numjobs", self.numjobs.as_str())]);
        words
    }

    /// The load in fio's options, without those that have no effect: a mix of 0 or 100 % reads is a plain read or
    /// write.
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
    pub fn columns(&self) -> [(&'static str, &str); 10] {
        [
            ("level", &self.level),
            ("layout", &self.layout),
            ("members", &self.members),
            ("chunk", &self.chunk),
            ("rw", &self.rw),
            ("rwmixread", &self.rwmixread),
            ("random_distribution", &self.random_distribution),
            ("bs", &self.bs),
            ("iodepth", &self.iodepth),
            ("numjobs", &self.numjobs),
        ]
    }
}

impl Figures {
    /// Figures from the tally of all requests and the other facts of a run.
    pub fn of(all: &Tally, beside: RunFacts) -> Self {
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
            utilisation: beside.utilisation,
            cpu_share: beside.cpu_share,
            to_jbod: ratio(beside.jbod),
            to_limit: ratio(beside.limit),
            percentiles_us: PERCENTILES
                .map(|percent| (percent, micros(all.total.percentile(percent))))
                .to_vec(),
            series: Step::all(&all.series),
            digest: beside.digest,
        }
    }
}

/// All points as CSV, with a header.
pub fn csv(all: &[Finished]) -> String {
    let mut text = String::from(
        "level,layout,members,chunk,rw,rwmixread,random_distribution,bs,iodepth,numjobs,mb_s,iops,mean_us,p50_us,p99_us,max_us,utilisation,\
         cpu_share,to_jbod,to_limit,digest,refused\n",
    );
    for one in all {
        let mut cells: Vec<String> =
            one.point.columns().iter().map(|(_, value)| (*value).to_owned()).collect();
        match &one.figures {
            Some(of) => {
                let figures = [of.mb_s, of.iops, of.mean_us, of.p50_us, of.p99_us, of.max_us];
                let figures = figures.map(Some).into_iter().chain([of.utilisation, Some(of.cpu_share)]);
                let cell =
                    |figure: Option<f64>| figure.map_or_else(String::new, |figure| format!("{figure:.3}"));
                cells.extend(figures.chain([of.to_jbod, of.to_limit]).map(cell));
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

//! Models as TOML: `docs/drive-models.md` describes each key.

use std::rc::Rc;

use brindle_io::sim::{Curve, Path, Platter, Stations};
use serde::Deserialize;
use toml::Spanned;

use super::Drive;
use super::error::{DriveError, DriveErrorKind, LONGEST};
use super::scope::Scope;

/// Most of any time, microseconds: a quarter of an hour.
const MOST_MICROS: f64 = 1e9;
/// Most bytes of anything.
const MOST_BYTES: f64 = 1e18;
/// Bytes that a disk reads ahead of a stream, where its model does not say.
const LOOK_AHEAD: u64 = 1 << 20;

type Points = Spanned<Vec<(f64, f64)>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    source: String,
    size_gb: Spanned<f64>,
    units: Spanned<u32>,
    flush_us: Spanned<f64>,
    #[serde(default)]
    volatile_cache: bool,
    uplink_mb_s: Option<Spanned<f64>>,
    fitted: Option<Fitted>,
    read: Kind,
    write: Kind,
    #[serde(default)]
    mixed: Vec<Mixed>,
    platter: Option<DiskSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fitted {
    one_in_flight_kib: Option<Spanned<(f64, f64)>>,
    many_in_flight_kib: Option<Spanned<(f64, f64)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    latency_us: Points,
    stream_us: Option<Points>,
    occupancy_us: Points,
    stream_occupancy_us: Option<Points>,
    spread_percent: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mixed {
    reads_percent: Spanned<u32>,
    occupancy_percent: Points,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskSection {
    seek_us: Points,
    rotation_us: Spanned<f64>,
    outer_mb_s: Spanned<f64>,
    inner_mb_s: Spanned<f64>,
    queue: Spanned<u32>,
    cache_kib: Spanned<f64>,
    look_ahead_kib: Option<Spanned<f64>>,
}

/// Reads a model. `file` is what errors call it.
///
/// # Errors
/// The first thing that is wrong, and its line.
pub fn parse(file: &str, text: &str) -> Result<Drive, DriveError> {
    let reader = Reader { file, text };
    if text.len() > LONGEST {
        return Err(reader.wrong(None, DriveErrorKind::TooLong(LONGEST)));
    }
    let read: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map(|span| span.start);
        reader.wrong(at, DriveErrorKind::Syntax(error.message().to_owned()))
    })?;
    reader.drive(&read)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, at: Option<usize>, kind: DriveErrorKind) -> DriveError {
        let before = |at: usize| self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        DriveError { file: self.file.to_owned(), line: at.map_or(0, |at| before(at) + 1), kind }
    }

    fn drive(&self, file: &File) -> Result<Drive, DriveError> {
        let size = self.scaled(&file.size_gb, 1e9, 1.0, MOST_BYTES, "size_gb", "from 1 byte to a billion")?;
        let uplink = file.uplink_mb_s.as_ref().map(|of| self.rate(of, "uplink_mb_s")).transpose()?;
        let stations = Stations {
            units: self.count(&file.units, 1..=65536, "units", "from 1 to 65536")?,
            read: self.path(&file.read)?,
            write: self.path(&file.write)?,
            mixed: self.mixed(&file.mixed)?,
            flush: self.micros(&file.flush_us, "flush_us")?,
            uplink: uplink.unwrap_or(0),
            volatile_cache: file.volatile_cache,
            platter: file.platter.as_ref().map(|disk| self.platter(disk)).transpose()?,
        };
        Ok(Drive {
            name: file.name.clone(),
            source: file.source.clone(),
            // Whole blocks.
            size: (size / 4096).max(1) * 4096,
            stations: Rc::new(stations),
            fitted: file.fitted.as_ref().map(|fitted| self.scope(fitted)).transpose()?,
        })
    }

    fn scope(&self, fitted: &Fitted) -> Result<Scope, DriveError> {
        let sizes = |of: &Option<Spanned<(f64, f64)>>, what: &'static str| {
            let Some(of) = of else { return Ok(None) };
            let (least, most) = *of.as_ref();
            let fine = (0.0..=most).contains(&least) && most * 1024.0 <= MOST_BYTES;
            let wanted = "the smallest size and the largest";
            let wrong = || self.wrong(Some(of.span().start), DriveErrorKind::Number { what, wanted });
            let bytes = |kib: f64| (kib * 1024.0).round() as u64;
            fine.then(|| Some((bytes(least), bytes(most)))).ok_or_else(wrong)
        };
        Ok(Scope {
            one: sizes(&fitted.one_in_flight_kib, "one_in_flight_kib")?,
            many: sizes(&fitted.many_in_flight_kib, "many_in_flight_kib")?,
        })
    }

    fn path(&self, kind: &Kind) -> Result<Path, DriveError> {
        let latency = self.curve(&kind.latency_us, 1000.0, "latency_us")?;
        let stream = kind.stream_us.as_ref().map(|of| self.curve(of, 1000.0, "stream_us")).transpose()?;
        let streamed = kind.stream_occupancy_us.as_ref();
        let streamed = streamed.map(|of| self.curve(of, 1000.0, "stream_occupancy_us")).transpose()?;
        let spread = kind.spread_percent.as_ref();
        let spread = spread.map(|of| self.count(of, 0..=28, "spread_percent", "from 0 to 28")).transpose()?;
        Ok(Path {
            stream: stream.unwrap_or_else(|| latency.clone()),
            latency,
            occupancy: self.curve(&kind.occupancy_us, 1000.0, "occupancy_us")?,
            streamed,
            spread: spread.unwrap_or(0),
        })
    }

    fn mixed(&self, mixed: &[Mixed]) -> Result<Vec<(u32, Curve)>, DriveError> {
        let mut all: Vec<(u32, Curve)> = Vec::new();
        for one in mixed {
            let reads = self.count(&one.reads_percent, 0..=100, "reads_percent", "from 0 to 100")?;
            if all.last().is_some_and(|(before, _)| *before >= reads) {
                let (what, wanted) = ("reads_percent", "more than that of the mix before");
                let kind = DriveErrorKind::Number { what, wanted };
                return Err(self.wrong(Some(one.reads_percent.span().start), kind));
            }
            all.push((reads, self.curve(&one.occupancy_percent, 10.0, "occupancy_percent")?));
        }
        Ok(all)
    }

    fn platter(&self, disk: &DiskSection) -> Result<Platter, DriveError> {
        let (outer, inner) =
            (self.rate(&disk.outer_mb_s, "outer_mb_s")?, self.rate(&disk.inner_mb_s, "inner_mb_s")?);
        if inner > outer {
            let kind = DriveErrorKind::Number { what: "inner_mb_s", wanted: "no more than outer_mb_s" };
            return Err(self.wrong(Some(disk.inner_mb_s.span().start), kind));
        }
        // Its x is not KiB but per cent of the stroke, in millionths.
        let seek = self.points(&disk.seek_us, (1e4, 1000.0), "seek_us")?;
        Ok(Platter {
            seek,
            rotation: self.micros(&disk.rotation_us, "rotation_us")?.max(1),
            outer,
            inner,
            queue: self.count(&disk.queue, 1..=256, "queue", "from 1 to 256")?,
            cache: self.scaled(&disk.cache_kib, 1024.0, 0.0, MOST_BYTES, "cache_kib", "no less than 0")?,
            look_ahead: match &disk.look_ahead_kib {
                Some(kib) => self.scaled(kib, 1024.0, 0.0, MOST_BYTES, "look_ahead_kib", "no less than 0")?,
                None => LOOK_AHEAD,
            },
        })
    }

    fn count(
        &self,
        value: &Spanned<u32>,
        range: core::ops::RangeInclusive<u32>,
        what: &'static str,
        wanted: &'static str,
    ) -> Result<u32, DriveError> {
        let number = *value.as_ref();
        let kind = DriveErrorKind::Number { what, wanted };
        if range.contains(&number) { Ok(number) } else { Err(self.wrong(Some(value.span().start), kind)) }
    }

    fn micros(&self, value: &Spanned<f64>, what: &'static str) -> Result<u64, DriveError> {
        self.scaled(value, 1000.0, 0.0, MOST_MICROS * 1000.0, what, "from 0 to a billion")
    }

    /// Bytes a second.
    fn rate(&self, value: &Spanned<f64>, what: &'static str) -> Result<u64, DriveError> {
        self.scaled(value, 1e6, 1.0, MOST_BYTES, what, "more than 0")
    }

    fn scaled(
        &self,
        value: &Spanned<f64>,
        unit: f64,
        least: f64,
        most: f64,
        what: &'static str,
        wanted: &'static str,
    ) -> Result<u64, DriveError> {
        let scaled = value.as_ref() * unit;
        if scaled.is_finite() && (least..=most).contains(&scaled) {
            return Ok(scaled.round() as u64);
        }
        Err(self.wrong(Some(value.span().start), DriveErrorKind::Number { what, wanted }))
    }

    fn curve(&self, points: &Points, unit: f64, what: &'static str) -> Result<Curve, DriveError> {
        self.points(points, (1024.0, unit), what)
    }

    fn points(&self, points: &Points, units: (f64, f64), what: &'static str) -> Result<Curve, DriveError> {
        let wrong = || self.wrong(Some(points.span().start), DriveErrorKind::Curve(what));
        let one = |(x, y): &(f64, f64)| {
            let (x, y) = (x * units.0, y * units.1);
            let fine = (0.0..=MOST_BYTES).contains(&x) && (0.0..=MOST_MICROS * 1000.0).contains(&y);
            fine.then_some((x.round() as u64, y.round() as u64)).ok_or_else(wrong)
        };
        let all = points.as_ref().iter().map(one).collect::<Result<Vec<_>, _>>()?;
        Curve::through(all).ok_or_else(wrong)
    }
}

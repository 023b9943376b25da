//! A model out of measured tables of one drive: one procedure, step by step in `docs/drive-models.md`.

use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::sim::{Curve, Path, Stations};

use super::error::{DriveError, DriveErrorKind};
use super::scope::Scope;
use super::table::{Measure, Row, Table};
use super::{Drive, constants};

/// A drive that moves no more is taken for one on a SATA port. Bytes a second.
const SATA: f64 = 600e6;
/// A row that is so much slower than the line through its neighbours was disturbed.
const DISTURBED: f64 = 1.10;
/// Smaller requests don't tell how much a port can move. Bytes.
const TELLING: u64 = 128 << 10;
/// No flash takes so many nanoseconds for a small read.
const ROTATING: f64 = 3e6;
/// The beginning of a guess of a port.
const PORT: &str = "its port is not measured: ";
/// Where no latency was measured: nanoseconds of a read and of a write of drives with flash.
const USUAL: [f64; 2] = [80_000.0, 15_000.0];

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model.
    pub drive: Drive,
    /// Rows that it leaves out: in which file and line, and why.
    pub left_out: Vec<(String, usize, &'static str)>,
    /// Sentences on what no row tells, and what was taken for it.
    pub guesses: Vec<String>,
}

/// The port of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// SATA: one link for all drives of the machine, 32 requests at a time, a cache that is lost with the power.
    Sata,
    /// NVMe, of a drive that keeps what its cache holds.
    Nvme,
    /// NVMe, of a drive whose cache is lost with the power: those for desktops.
    NvmeConsumer,
}

/// Nanoseconds of a flush by port: a SATA drive's, a protected cache's, and that of the model `nvme-consumer`.
const FLUSHES: [u64; 3] = [1_000_000, 20_000, 2_850_000];

impl Port {
    /// Sets all that follows from the port of a drive. `shares` says whether the drives of an array are known to share a link.
    fn tell(self, stations: &mut Stations, shares: bool) {
        let slow = self == Self::Sata;
        stations.units = if slow { 32 } else { 1024 };
        stations.flush = FLUSHES[self as usize];
        stations.uplink = if slow && shares { constants::SATA_UPLINK } else { 0 };
        stations.volatile_cache = self != Self::Nvme;
    }
}

impl Fitted {
    /// The same model for a port that is known, of which nothing is guessed.
    #[must_use]
    pub fn on_port(mut self, port: Port) -> Self {
        port.tell(Rc::make_mut(&mut self.drive.stations), true);
        self.guesses.retain(|guess| !guess.starts_with(PORT));
        self
    }
}

/// Nanoseconds by bytes.
type Times = BTreeMap<u64, f64>;

/// Fits a model to all tables of one drive.
///
/// # Errors
/// [`DriveErrorKind::Lacks`] if there are no reads, or no writes.
pub fn fit(name: &str, size: u64, tables: &[Table]) -> Result<Fitted, DriveError> {
    fitted(name, size, tables, false)
}

/// Fits a model to reads alone: writes are assumed to be as fast, and the model says so.
///
/// # Errors
/// [`DriveErrorKind::Lacks`] if there are no reads.
pub fn fit_reads(name: &str, size: u64, tables: &[Table]) -> Result<Fitted, DriveError> {
    let mut fitted = fitted(name, size, tables, true)?;
    fitted.drive.source.push_str(" Writes were not measured: they are taken to be as reads are.");
    Ok(fitted)
}

fn fitted(name: &str, size: u64, tables: &[Table], reads_alone: bool) -> Result<Fitted, DriveError> {
    let mut left_out = Vec::new();
    let alone = [true, false].map(|random| {
        [100, 0].map(|reads| {
            let times = times(tables, |row| {
                let own = row.measure == Measure::Alone && row.random == random && row.reads == reads;
                own.then(|| row.size as f64 / (row.value * 1_048_576.0) * 1e9)
            });
            undisturbed(
                times,
                tables,
                &|row: &Row| row.measure == Measure::Alone && row.random == random && row.reads == reads,
                &mut left_out,
            )
        })
    });
    let saturated = [100, 0].map(|reads| {
        times(tables, |row| {
            (row.measure == Measure::Saturated && row.reads == reads).then(|| 1e9 / row.value)
        })
    });
    let latency = [100, 0].map(|reads| {
        times(tables, |row| {
            (row.measure == Measure::Latency && row.reads == reads).then_some(row.value * 1e6)
        })
    });
    let path = |kind: usize| {
        let [random, stream] = [&alone[0][kind], &alone[1][kind]];
        if saturated[kind].is_empty() {
            from_alone(random, stream, kind)
        } else {
            from_saturated(&saturated[kind], &latency[kind], stream, kind)
        }
    };
    let lacks = |what| {
        let file = tables.first().map_or_else(String::new, |table| table.file.clone());
        DriveError { file, line: 0, kind: DriveErrorKind::Lacks(what) }
    };
    let read = path(0).ok_or_else(|| lacks("there are no reads (randread, read or r100) to fit"))?;
    let write = path(1).or_else(|| reads_alone.then(|| read.clone()));
    let write = write.ok_or_else(|| lacks("there are no writes (randwrite, write or r0) to fit"))?;
    let most = rate(&read).max(rate(&write));
    let mut stations = Stations {
        units: 0,
        mixed: mixed(tables, &saturated),
        read,
        write,
        flush: 0,
        uplink: 0,
        volatile_cache: false,
        platter: None,
    };
    let mut guesses = vec![guess_port(&mut stations, tables, most)];
    guesses.extend(rotating(&alone[0][0]).or_else(|| rotating(&latency[0])));
    let about: Vec<&str> = tables.iter().map(|table| table.about.as_str()).collect();
    let source = format!("Fitted by brindle calibrate. {}", about.join(" "));
    // Whole blocks, as models in files have them.
    let size = (size / 4096).max(1) * 4096;
    let fitted = Some(Scope::of(tables));
    let drive = Drive { name: name.to_owned(), source, size, stations: Rc::new(stations), fitted };
    Ok(Fitted { drive, left_out, guesses })
}

/// Guesses the port by the most bytes a second that the drive moves, and says so.
fn guess_port(stations: &mut Stations, tables: &[Table], most: f64) -> String {
    let sizes = tables.iter().flat_map(|table| &table.rows).map(|row| row.size);
    let largest = sizes.max().unwrap_or(0);
    let (port, tells) = (if most <= SATA { Port::Sata } else { Port::Nvme }, largest >= TELLING);
    port.tell(stations, tells);
    let why = match (port == Port::Sata, tells) {
        (false, _) => {
            format!("taken for an NVMe drive that keeps its cache, since it moves {:.0} MB/s", most / 1e6)
        }
        (true, true) => {
            format!("taken for a SATA drive, since it moves no more than {:.0} MB/s", most / 1e6)
        }
        (true, false) => format!(
            "taken for a SATA drive, although no row is of more than {} KiB, which does not tell; no uplink_mb_s is assumed",
            largest as f64 / 1024.0
        ),
    };
    let uplink = match stations.uplink {
        0 => String::new(),
        rate => format!(", uplink_mb_s = {}", rate / 1_000_000),
    };
    format!(
        "{PORT}{why}: units = {}, flush_us = {}, volatile_cache = {}{uplink}; say --port sata, --port nvme or --port nvme-consumer, or change these in the model",
        stations.units,
        stations.flush / 1000,
        stations.volatile_cache
    )
}

/// A drive with a head gets a model without one.
fn rotating(reads: &Times) -> Option<String> {
    let (size, time) = reads.first_key_value().filter(|(_, time)| **time > ROTATING)?;
    Some(format!(
        "a random read of {} KiB takes {:.1} ms, as on a disk that rotates: no head is fitted, so that neither order nor distance \
         counts; hdd-7200 and hdd-24tb are models that have one",
        *size as f64 / 1024.0,
        time / 1e6
    ))
}

fn times(tables: &[Table], of: impl Fn(&Row) -> Option<f64>) -> Times {
    tables.iter().flat_map(|table| &table.rows).filter_map(|row| Some((row.size, of(row)?))).collect()
}

/// Without what is much slower than what is beside it: whatever disturbs a measurement makes a drive slower, never faster.
fn undisturbed(
    times: Times,
    tables: &[Table],
    own: &dyn Fn(&Row) -> bool,
    left_out: &mut Vec<(String, usize, &'static str)>,
) -> Times {
    let all: Vec<(u64, f64)> = times.iter().map(|(&size, &time)| (size, time)).collect();
    let mut kept = times;
    for three in all.windows(3) {
        let [(x0, y0), (x, y), (x1, y1)] = [three[0], three[1], three[2]];
        let line = y0 + (y1 - y0) * (x - x0) as f64 / (x1 - x0) as f64;
        if y > line * DISTURBED {
            kept.remove(&x);
            for table in tables {
                let rows = table.rows.iter().filter(|row| own(row) && row.size == x);
                let why = "more than 10 % slower than the line through its neighbours: disturbed, not fitted";
                left_out.extend(rows.map(|row| (table.file.clone(), row.line, why)));
            }
        }
    }
    kept
}

/// One request in flight: the shared station moves bytes at the best rate of any row, and what is left of a row's time is its
/// latency.
fn from_alone(random: &Times, stream: &Times, kind: usize) -> Option<Path> {
    let best = random.iter().chain(stream).map(|(size, time)| time / *size as f64).min_by(f64::total_cmp)?;
    let rest = |times: &Times| curve(times.iter().map(|(&size, time)| (size, time - best * size as f64)));
    let latency = rest(random).or_else(|| rest(stream))?;
    let unit = 1 << 20;
    Some(Path {
        stream: rest(stream).unwrap_or_else(|| latency.clone()),
        latency,
        occupancy: curve([(0, 0.0), (unit, best * unit as f64)].into_iter())?,
        streamed: None,
        spread: spread(kind),
    })
}

/// Many in flight: the shared station takes what one request takes of the whole; the rest of the latency with one in flight,
/// where that was measured, is the latency. What goes on where another ended holds the station for less, where the table of
/// sequential figures shows more bytes a second than the random ones come to: random writes that are steady are no stream's.
fn from_saturated(saturated: &Times, measured: &Times, stream: &Times, kind: usize) -> Option<Path> {
    let occupancy = curve(saturated.iter().map(|(&size, &time)| (size, time)))?;
    let rest = measured.iter().map(|(&size, time)| (size, time - occupancy.growing_at(size) as f64));
    let latency = curve(rest).unwrap_or_else(|| Curve::flat(USUAL[kind] as u64));
    let streamed = streamed(stream, &occupancy);
    let alone = |size: u64, time: f64| {
        let holds = streamed.as_ref().unwrap_or(&occupancy).growing_at(size);
        (size, time - holds as f64)
    };
    let own = curve(stream.iter().map(|(&size, &time)| alone(size, time)));
    Some(Path {
        stream: own.unwrap_or_else(|| latency.clone()),
        latency,
        occupancy,
        streamed,
        spread: spread(kind),
    })
}

/// The occupancy of a stream: bytes at the best rate of a sequential row, where that is better than the random ones'.
fn streamed(stream: &Times, occupancy: &Curve) -> Option<Curve> {
    let best = stream.iter().map(|(size, time)| time / *size as f64).min_by(f64::total_cmp)?;
    let unit = 1 << 20;
    let holds = best * unit as f64;
    if holds >= occupancy.growing_at(unit) as f64 {
        return None;
    }
    curve([(0, 0.0), (unit, holds)].into_iter())
}

fn spread(kind: usize) -> u32 {
    if kind == 0 { constants::READ_SPREAD } else { 0 }
}

fn curve(points: impl Iterator<Item = (u64, f64)>) -> Option<Curve> {
    Curve::through(points.map(|(x, y)| (x, y.max(0.0).round() as u64)).collect())
}

/// The cost of mixed reads and writes, relative to the cost of the same reads and writes alone.
fn mixed(tables: &[Table], saturated: &[Times; 2]) -> Vec<(u32, Curve)> {
    let mut all: BTreeMap<u32, Times> = BTreeMap::new();
    for row in tables.iter().flat_map(|table| &table.rows).filter(|row| row.measure == Measure::Saturated) {
        let (Some(read), Some(write)) = (saturated[0].get(&row.size), saturated[1].get(&row.size)) else {
            continue;
        };
        let share = f64::from(row.reads) / 100.0;
        let apart = share * read + (1.0 - share) * write;
        all.entry(row.reads).or_default().insert(row.size, 1000.0 * 1e9 / row.value / apart);
    }
    let curves = all.into_iter().filter_map(|(reads, times)| Some((reads, curve(times.into_iter())?)));
    curves.collect()
}

/// Bytes a second at the largest size.
fn rate(path: &Path) -> f64 {
    let large = 1 << 24;
    large as f64 * 1e9 / path.occupancy.growing_at(large).max(1) as f64
}

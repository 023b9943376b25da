//! Published figures of md arrays, beside what is predicted from the figures of their single drives.

use brindle_io::sim::Curve;
use brindle_lab::drive::{Drive, Fitted, fit, parse, shipped, table};
use brindle_lab::predict::{Kernel, Policies, Predicted, Shape, Spec, job, predict};
use brindle_layout::{Layout, Level, Raid10Layout};

/// A figure of an array and what the model makes of it.
pub(crate) struct Point {
    /// Load, for people.
    pub(crate) load: String,
    /// MiB/s or IOPS, as published.
    pub(crate) published: f64,
    /// The same, predicted.
    pub(crate) predicted: f64,
}

impl Point {
    /// Per cent.
    pub(crate) fn error(&self) -> f64 {
        (self.predicted / self.published - 1.0) * 100.0
    }
}

/// Mean absolute error, per cent.
pub(crate) fn mean_error(points: &[Point]) -> f64 {
    points.iter().map(|point| point.error().abs()).sum::<f64>() / points.len() as f64
}

/// The drive of the RAID 10, fitted to its own table only.
pub(crate) fn evo850() -> Fitted {
    let text = include_str!("../../../reference/evo850-single.csv");
    fit("evo850", 250_000_000_000, &[table("evo850-single.csv", text).expect("a table")]).expect("a fit")
}

/// The drive of the RAID 0, fitted to its own tables only.
pub(crate) fn p3700() -> Fitted {
    let tables = [
        ("p3700-single.csv", include_str!("../../../reference/p3700-single.csv")),
        ("p3700-latency.csv", include_str!("../../../reference/p3700-latency.csv")),
    ];
    let tables: Vec<_> = tables.iter().map(|(file, text)| table(file, text).expect("a table")).collect();
    fit("p3700", 800_000_000_000, &tables).expect("a fit")
}

fn md(kernel: Kernel, drive: &Drive, shape: Option<Shape>, words: &[(&str, &str)]) -> Predicted {
    let policies = Policies::LinuxMd(kernel);
    let job = job(words).expect("a load");
    let by_job = job.numjobs > 1;
    predict(&Spec { drive: drive.clone(), shape, policies, cores: 1, by_job, job }).expect("a prediction")
}

/// Rows of a table without comments and header.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|line| line.split(',').collect())
}

/// md's RAID 10 over four drives, of a kernel: rows that `wanted` says, by pattern and KiB.
pub(crate) fn raid10(kernel: Kernel, wanted: impl Fn(&str, u64) -> bool) -> Vec<Point> {
    let drive = evo850().drive;
    let text = include_str!("../../../reference/md-raid10-n2-evo850-chunk32.csv");
    let point = |row: Vec<&str>| {
        let (pattern, kib): (_, u64) = (row[0], row[2].parse().expect("KiB"));
        if !wanted(pattern, kib) {
            return None;
        }
        let layout = Layout::Raid10(Raid10Layout::near(2));
        let shape = Shape { level: Level::Raid10, layout, chunk: 32 << 10, members: 4, bitmap: None };
        let predicted = md(kernel, &drive, Some(shape), &[("rw", pattern), ("bs", &format!("{kib}k"))]);
        Some(Point {
            load: format!("{pattern} {kib}K"),
            published: row[3].parse().expect("MiB/s"),
            predicted: predicted.outcome.mixed().bandwidth() / 1_048_576.0,
        })
    };
    rows(text).filter_map(point).collect()
}

/// Four jobs of 256 reads in sequence each, over one or more NVMe drives: fitted are the figures of the drive, and the processor time of a job to
/// those of arrays.
pub(crate) fn few_jobs() -> Vec<Point> {
    let drive = table("single", "bs,r0,r100\n4k,828000,828000\n512k,13600,13600\n").expect("a table");
    let drive = fit("pcie4", 1 << 40, &[drive]).expect("a fit").drive;
    let text = include_str!("../../../reference/nvme-seq-raid0-raid10f2.csv");
    let far = Layout::Raid10(Raid10Layout::far(2));
    let point = |row: Vec<&str>| {
        let (level, layout, members) = match row[0] {
            "raid0x4_c64k" => (Level::Raid0, Layout::default_for(Level::Raid0), 4),
            "raid10f2x2_c64k" => (Level::Raid10, far, 2),
            _ => return None,
        };
        let shape = Shape { level, layout, chunk: 64 << 10, members, bitmap: None };
        let bs = format!("{}k", row[1]);
        let words = [("rw", "read"), ("bs", bs.as_str()), ("iodepth", "256"), ("numjobs", "4")];
        let predicted =
            md("5.14".parse().expect("a kernel"), &drive, Some(shape), &words).outcome.mixed().iops();
        let load = format!("{} read {}K", row[0], row[1]);
        Some(Point { load, published: row[2].parse().expect("IOPS"), predicted })
    };
    rows(text).filter_map(point).collect()
}

/// md's RAID 5 over five consumer NVMe drives with an internal bitmap, writes of 4 KiB, taken to be random and one in flight, over the first 30 seconds. The time of
/// a flush and that of a read, which is of a drive that is empty, are fitted to the rows without a bitmap and with chunks of 64M.
pub(crate) fn bitmaps(wanted: impl Fn(&str) -> bool) -> Vec<Point> {
    let drive = consumer();
    let text = include_str!("../../../reference/nvme980pro-raid5-bitmaps.csv");
    let point = |row: Vec<&str>| {
        let bitmap = match row[0].strip_prefix("raid5_")? {
            "no_bitmap" => None,
            "bitmap_internal_2G" => Some(2 << 30),
            "bitmap_internal_1024M" => Some(1 << 30),
            "bitmap_internal_512M" => Some(512 << 20),
            "bitmap_internal_64M" => Some(64 << 20),
            _ => return None,
        };
        if !wanted(row[0]) {
            return None;
        }
        let layout = Layout::default_for(Level::Raid5);
        let shape = Shape { level: Level::Raid5, layout, chunk: 64 << 10, members: 5, bitmap };
        let kernel = "5.14".parse().expect("a kernel");
        let predicted = md(kernel, &drive, Some(shape), &[("rw", "randwrite"), ("bs", "4k")]);
        let lasting = predicted.outcome.mixed().iops();
        let predicted = predicted.at_first.unwrap_or(lasting);
        Some(Point { load: row[0].to_owned(), published: row[1].parse().expect("IOPS"), predicted })
    };
    rows(text).filter_map(point).collect()
}

/// The drive of these arrays: as it ships, but empty, so that reads come to no flash.
fn consumer() -> Drive {
    let mut drive = parse("nvme-consumer", shipped("nvme-consumer").expect("it ships")).expect("a model");
    let stations = std::rc::Rc::make_mut(&mut drive.stations);
    stations.read.latency = Curve::flat(EMPTY);
    stations.read.stream = Curve::flat(EMPTY);
    drive
}

/// Nanoseconds of a read of blocks that were never written: what the array's rate without a bitmap leaves for it.
const EMPTY: u64 = 11_000;

/// md's RAID 0 over twelve drives, 4 KiB, by per cent of reads.
pub(crate) fn raid0(wanted: impl Fn(u32) -> bool) -> Vec<Point> {
    twelve("md_raid0", Level::Raid0, 128 << 10, wanted)
}

/// md's RAID 6 over the same.
pub(crate) fn raid6(wanted: impl Fn(u32) -> bool) -> Vec<Point> {
    twelve("md_raid6", Level::Raid6, 16 << 10, wanted)
}

fn twelve(name: &str, level: Level, chunk: u64, wanted: impl Fn(u32) -> bool) -> Vec<Point> {
    let drive = p3700().drive;
    let text = include_str!("../../../reference/p3700-twelve.csv");
    let row = rows(text).find(|row| row[0] == name).expect("the row");
    let point = |(reads, published): (u32, &str)| {
        if !wanted(reads) {
            return None;
        }
        let shape = Shape { level, layout: Layout::default_for(level), chunk, members: 12, bitmap: None };
        let mix = reads.to_string();
        let words = [
            ("rw", "randrw"),
            ("rwmixread", mix.as_str()),
            ("bs", "4k"),
            ("iodepth", "32"),
            ("numjobs", "64"),
        ];
        let predicted = md(Kernel::PUBLISHED, &drive, Some(shape), &words).outcome.mixed().iops();
        Some(Point {
            load: format!("randrw 4K, {reads} % reads"),
            published: published.parse().expect("IOPS"),
            predicted,
        })
    };
    [0, 5, 35, 50, 65, 95, 100].into_iter().zip(row[2..].iter().copied()).filter_map(point).collect()
}

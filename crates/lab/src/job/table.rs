//! The table of known options: their names, their values, and the fields that they set. Parser, flags and
//! documentation come from here.

use core::time::Duration;

use super::error::Wants;
use super::names::{access, boolean, each, percentiles, sync, unified};
use super::number::{Base, count, ends, micros};
use super::options::{Blocks, Job, Logs};
use super::verify::Verify;
use super::{pattern, split};

/// Most copies of a job, and most requests in flight of one.
const MOST_JOBS: u64 = 1024;
const MOST_IN_FLIGHT: u64 = 65536;
/// The largest request: that of the reactor's buffers.
const LARGEST: u64 = 32 << 20;
const SECOND: u64 = 1_000_000;

/// An option's value, and the meaning of its units.
pub(super) struct Word<'a> {
    pub(super) text: Option<&'a str>,
    pub(super) base: Base,
}

type Setter = fn(&mut Job, &Word<'_>) -> Result<(), Wants>;

/// An option that is understood.
pub struct Honoured {
    /// fio's first name, by which reports call it.
    pub name: &'static str,
    /// Other names of the option.
    pub aliases: &'static [&'static str],
    /// The form of the value behind the `=`; empty where none is needed.
    pub value: &'static str,
    /// The option's help text.
    pub help: &'static str,
    pub(super) set: Setter,
}

const fn option(
    name: &'static str,
    aliases: &'static [&'static str],
    value: &'static str,
    help: &'static str,
    set: Setter,
) -> Honoured {
    Honoured { name, aliases, value, help, set }
}

impl Word<'_> {
    fn needed(&self) -> Result<&str, Wants> {
        self.text.filter(|text| !text.is_empty()).ok_or(Wants("a value"))
    }

    fn count(&self) -> Result<u64, Wants> {
        count(self.base, self.needed()?)
    }

    fn within(&self, least: u64, most: u64, wants: &'static str) -> Result<u64, Wants> {
        self.count().ok().filter(|count| (least..=most).contains(count)).ok_or(Wants(wants))
    }

    fn share(&self) -> Result<u64, Wants> {
        self.within(0, 100, "0 to 100")
    }

    fn time(&self, plain: u64) -> Result<Duration, Wants> {
        micros(self.needed()?, plain).map(Duration::from_micros)
    }

    fn flag(&self) -> Result<bool, Wants> {
        boolean(self.text)
    }

    /// A name, or nothing.
    fn name(&self) -> Option<String> {
        self.text.filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

fn block(base: Base, text: &str) -> Result<u64, Wants> {
    base.size(text).ok().filter(|size| (1..=LARGEST).contains(size)).ok_or(Wants("1 byte to 32m"))
}

fn block_range(base: Base, text: &str) -> Result<Blocks, Wants> {
    match base.range(text)? {
        (low, high) if low == 0 || high > LARGEST => Err(Wants("a range between 1 byte and 32m")),
        (low, high) => Ok(Blocks::Range(low, high)),
    }
}

fn block_split(base: Base, text: &str) -> Result<Blocks, Wants> {
    let blocks = split::blocks(base, text)?;
    if blocks.most() > LARGEST { Err(Wants("sizes up to 32m")) } else { Ok(blocks) }
}

fn positive(base: Base, text: &str) -> Result<Option<u64>, Wants> {
    count(base, text).map(|count| Some(count).filter(|count| *count > 0))
}

fn delay(text: &str) -> Result<(Duration, Duration), Wants> {
    let (from, to) = ends(text);
    let (from, to) = (micros(from, SECOND)?, micros(to, SECOND)?);
    Ok((Duration::from_micros(from.min(to)), Duration::from_micros(from.max(to))))
}

/// The options, in the order in which people use them most.
pub const HONOURED: &[Honoured] = &[
    option(
        "rw",
        &["readwrite"],
        "KIND",
        "What is done: read, write, trim, randread, randwrite, randtrim, rw, randrw, \
        trimwrite, randtrimwrite",
        |job, word| {
            job.access = access(word.needed()?, |text| word.base.size(text))?;
            Ok(())
        },
    ),
    option(
        "bs",
        &["blocksize"],
        "SIZE[,SIZE][,SIZE]",
        "Bytes of a request: of reads, writes, trims",
        |job, word| each(word.needed()?, &mut job.blocks, |text| block(word.base, text).map(Blocks::One)),
    ),
    option("size", &[], "SIZE", "How much of the target is worked on, in bytes or percent", |job, word| {
        job.size = Some(word.base.extent(word.needed()?)?);
        Ok(())
    }),
    option(
        "direct",
        &[],
        "0|1",
        "Go around caches; members always are, where the file system can",
        |job, word| {
            job.direct = word.flag()?;
            Ok(())
        },
    ),
    option("iodepth", &[], "COUNT", "Requests in flight", |job, word| {
        job.iodepth = word.within(1, MOST_IN_FLIGHT, "1 to 65536")? as u32;
        Ok(())
    }),
    option("numjobs", &[], "COUNT", "Copies of the job", |job, word| {
        job.numjobs = word.within(1, MOST_JOBS, "1 to 1024")? as u32;
        Ok(())
    }),
    option("runtime", &["timeout"], "TIME", "When it ends at the latest", |job, word| {
        job.runtime = Some(word.time(SECOND)?).filter(|time| !time.is_zero());
        Ok(())
    }),
    option("group_reporting", &[], "", "Report copies and jobs of a group as one", |job, word| {
        job.group_reporting = word.flag()?;
        Ok(())
    }),
    option("name", &[], "NAME", "Name of the job", |job, word| {
        job.name = word.needed()?.to_owned();
        Ok(())
    }),
    option("time_based", &[], "", "Begin anew until the runtime is over", |job, word| {
        job.time_based = word.flag()?;
        Ok(())
    }),
    option(
        "verify",
        &[],
        "KIND",
        "crc32c or another checksum, meta, pattern, pattern_hdr: what is written can be verified, and is once it is written; reads verify, too",
        |job, word| verify(job, word.needed()?),
    ),
    option("stonewall", &["wait_for_previous"], "", "Begin once all jobs before have ended", |job, word| {
        job.stonewall = word.flag()?;
        Ok(())
    }),
    option("wait_for", &[], "JOB", "Begin once the job of that name has ended", |job, word| {
        job.wait_for = Some(word.needed()?.to_owned());
        Ok(())
    }),
    option("norandommap", &[], "", "Blocks may come again before all have come", |job, word| {
        job.norandommap = word.flag()?;
        Ok(())
    }),
    option("filesize", &[], "SIZE", "Take the target to be no larger", |job, word| {
        job.filesize = positive(word.base, ends(word.needed()?).1)?;
        Ok(())
    }),
    option("loops", &[], "COUNT", "Passes", |job, word| {
        job.loops = word.within(1, u64::MAX, "1 or more")?;
        Ok(())
    }),
    option("ramp_time", &[], "TIME", "Count nothing before", |job, word| {
        job.ramp_time = word.time(SECOND)?;
        Ok(())
    }),
    option("rwmixread", &[], "PERCENT", "Share of reads in a mixed job", |job, word| {
        job.reads = word.share()?;
        Ok(())
    }),
    option("rwmixwrite", &[], "PERCENT", "Share of writes in a mixed job", |job, word| {
        job.reads = 100 - word.share()?;
        Ok(())
    }),
    option("randrepeat", &[], "0|1", "The same places in each run", |job, word| {
        job.randrepeat = word.flag()?;
        Ok(())
    }),
    option("randseed", &[], "NUMBER", "Which places these are", |job, word| {
        job.randseed = Some(word.count()?);
        Ok(())
    }),
    option("offset", &[], "SIZE", "Where in the target the job begins, in bytes or percent", |job, word| {
        job.offset = word.base.extent(word.needed()?)?;
        Ok(())
    }),
    option("offset_increment", &[], "SIZE", "What each further copy of the job adds to that", |job, word| {
        job.offset_increment = word.base.extent(word.needed()?)?;
        Ok(())
    }),
    option(
        "rate",
        &[],
        "SIZE[,SIZE][,SIZE]",
        "Bytes a second to keep to: of reads, writes, trims",
        |job, word| each(word.needed()?, &mut job.rate, |text| positive(word.base, text)),
    ),
    option(
        "rate_iops",
        &[],
        "COUNT[,COUNT][,COUNT]",
        "Requests a second to keep to: reads, writes, trims",
        |job, word| each(word.needed()?, &mut job.rate_iops, |text| positive(word.base, text)),
    ),
    option("bssplit", &[], "SIZE/PERCENT:...", "Sizes of requests and their shares", |job, word| {
        each(word.needed()?, &mut job.blocks, |text| block_split(word.base, text))
    }),
    option(
        "bsrange",
        &["blocksize_range"],
        "SIZE-SIZE",
        "Sizes of requests: multiples of the first up to the second",
        |job, word| {
            let text = word.needed()?.replace('/', ",");
            each(&text, &mut job.blocks, |text| block_range(word.base, text))
        },
    ),
    option(
        "ba",
        &["blockalign"],
        "SIZE[,SIZE][,SIZE]",
        "Random requests begin at multiples of this",
        |job, word| {
            let mut align = job.align.unwrap_or_else(|| core::array::from_fn(|at| job.blocks[at].least()));
            each(word.needed()?, &mut align, |text| block(word.base, text))?;
            job.align = Some(align);
            Ok(())
        },
    ),
    option("io_size", &["io_limit"], "SIZE", "Bytes after which the job ends", |job, word| {
        job.io_size = Some(word.base.extent(word.needed()?)?);
        Ok(())
    }),
    option(
        "random_distribution",
        &[],
        "KIND",
        "Which blocks are drawn how often: random, zipf:THETA, pareto:POWER, \
        zoned:SHARE/PERCENT:..., zoned_abs:SHARE/SIZE:...",
        |job, word| {
            job.distribution = split::distribution(word.base, word.needed()?)?;
            Ok(())
        },
    ),
    option("startdelay", &[], "TIME[-TIME]", "Begin so much later", |job, word| {
        job.startdelay = delay(word.needed()?)?;
        Ok(())
    }),
    option("thinktime", &[], "TIME", "Pause after a request; microseconds without a unit", |job, word| {
        job.thinktime = word.time(1)?;
        Ok(())
    }),
    option("thinktime_blocks", &[], "COUNT", "Requests between pauses", |job, word| {
        job.thinktime_blocks = word.within(1, u64::MAX, "1 or more")?;
        Ok(())
    }),
    option("fsync", &[], "COUNT", "Flush after so many writes", |job, word| {
        job.fsync = word.count()?;
        Ok(())
    }),
    option("fdatasync", &[], "COUNT", "Flush after so many writes", |job, word| {
        job.fdatasync = word.count()?;
        Ok(())
    }),
    option("end_fsync", &[], "0|1", "Flush at the end", |job, word| {
        job.end_fsync = word.flag()?;
        Ok(())
    }),
    option("sync", &[], "none|sync|dsync", "Each write is stable when it returns", |job, word| {
        job.sync = sync(word.text)?;
        Ok(())
    }),
    option(
        "number_ios",
        &[],
        "COUNT",
        "Requests after which the job ends; of trimwrite, a trim and its write are one",
        |job, word| {
            job.number_ios = positive(word.base, word.needed()?)?;
            Ok(())
        },
    ),
    option("percentile_list", &[], "NUMBER:...", "Percentiles of latencies in reports", |job, word| {
        job.percentiles = percentiles(word.needed()?)?;
        Ok(())
    }),
    option("slat_percentiles", &[], "0|1", "Report percentiles of submission latencies", |job, word| {
        job.slat_percentiles = word.flag()?;
        Ok(())
    }),
    option("clat_percentiles", &[], "0|1", "Report percentiles of completion latencies", |job, word| {
        job.clat_percentiles = word.flag()?;
        Ok(())
    }),
    option("lat_percentiles", &[], "0|1", "Report percentiles of total latencies", |job, word| {
        job.lat_percentiles = word.flag()?;
        Ok(())
    }),
    option(
        "unified_rw_reporting",
        &[],
        "none|mixed|both",
        "Report reads, writes and trims as one",
        |job, word| {
            job.unified = unified(word.text)?;
            Ok(())
        },
    ),
    option("log_avg_msec", &[], "COUNT", "One line of a log for so many milliseconds", |job, word| {
        job.logs.average = Some(word.count()?).filter(|count| *count > 0).map(Duration::from_millis);
        Ok(())
    }),
    option("log_offset", &[], "0|1", "Lines of logs tell where each request began", |job, word| {
        job.logs.offset = word.flag()?;
        Ok(())
    }),
    option("write_bw_log", &[], "NAME", "Write a log of bandwidth", |job, word| {
        job.logs = Logs { bandwidth: Some(word.name()), ..core::mem::take(&mut job.logs) };
        Ok(())
    }),
    option("write_iops_log", &[], "NAME", "Write a log of requests each second", |job, word| {
        job.logs = Logs { iops: Some(word.name()), ..core::mem::take(&mut job.logs) };
        Ok(())
    }),
    option("write_lat_log", &[], "NAME", "Write a log of latencies", |job, word| {
        job.logs = Logs { latency: Some(word.name()), ..core::mem::take(&mut job.logs) };
        Ok(())
    }),
    option("buffer_pattern", &[], "BYTES", "What is written: 0xdeadface, a number, \"text\"", |job, word| {
        job.buffer_pattern = Some(pattern::bytes(word.needed()?)?);
        Ok(())
    }),
    option("zero_buffers", &[], "", "Write zeroes", |job, word| {
        job.buffer_pattern = word.flag()?.then(|| vec![0]);
        Ok(())
    }),
    option(
        "buffer_compress_percentage",
        &[],
        "PERCENT",
        "How much of what is written is zeroes, or the pattern of buffer_pattern",
        |job, word| {
            job.shape.compress = word.share()? as u8;
            Ok(())
        },
    ),
    option("buffer_compress_chunk", &[], "SIZE", "Of pieces of so many bytes", |job, word| {
        job.shape.piece = block(word.base, word.needed()?)? as usize;
        Ok(())
    }),
    option("dedupe_percentage", &[], "PERCENT", "How many requests write one and the same", |job, word| {
        job.shape.dedupe = word.share()? as u8;
        Ok(())
    }),
    option(
        "verify_pattern",
        &[],
        "BYTES",
        "What verified blocks hold, %o for their offset; verify=pattern verifies it",
        |job, word| {
            job.verify_pattern = Some(pattern::with_offsets(word.needed()?)?);
            Ok(())
        },
    ),
    option("verify_interval", &[], "SIZE", "Bytes from one verify header to the next", |job, word| {
        job.verify_interval = word.count()?;
        Ok(())
    }),
    option("verify_offset", &[], "SIZE", "Bytes of a block before its verify header", |job, word| {
        job.verify_offset = word.count()?;
        Ok(())
    }),
    option("do_verify", &[], "0|1", "Verify once all is written", |job, word| {
        job.do_verify = word.flag()?;
        Ok(())
    }),
    option("exitall", &[], "", "When the job ends, all end", |job, word| {
        job.exitall = word.flag()?;
        Ok(())
    }),
    option("new_group", &[], "", "A group of reports begins here", |job, word| {
        job.new_group = word.flag()?;
        Ok(())
    }),
];

/// An option by any of its names.
pub(super) fn find(name: &str) -> Option<&'static Honoured> {
    HONOURED.iter().find(|option| option.name == name || option.aliases.contains(&name))
}

fn verify(job: &mut Job, text: &str) -> Result<(), Wants> {
    let named = Verify::NAMES.iter().find(|(name, _)| *name == text);
    job.verify = match (text, named) {
        ("0" | "none", _) => None,
        (_, Some((_, verify))) => Some(*verify),
        _ => {
            return Err(Wants("crc32c or another checksum of fio, meta, pattern, pattern_hdr, null or none"));
        }
    };
    Ok(())
}

//! Every command and flag, defined once: help, man pages and completions come from here.

mod advising;
mod assembling;
mod assume;
mod benching;
mod bitmaps;
mod console;
mod creating;
mod daemon;
mod engine;
mod exports;
mod grown_size;
mod guide;
mod iscsi;
mod metrics;
mod monitoring;
mod opening;
mod other_tools;
mod patience;
mod planning;
pub(crate) mod pools;
mod predicting;
mod reading;
mod reliability;
mod running;
mod small_commands;
mod sockets;
mod tls;
mod tuning;
mod updating;

use std::path::PathBuf;

use brindle_host::opening::{Cores, SpareGroup};
use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::base::units::{Bytes, Span};
pub(crate) use advising::Advise;
pub(crate) use assembling::Assemble;
pub(crate) use assume::Assuming;
pub(crate) use benching::{Bench, Format, NbdUri, TraceFormat, Traces};
pub(crate) use bitmaps::{Bitmap, Given};
pub(crate) use console::Console;
pub(crate) use creating::{Create, Metadata};
pub(crate) use daemon::{Config, Daemon, Incremental, Reload};
pub(crate) use engine::Engine;
pub(crate) use exports::{Attach, Detach, Disconnect, Export, Limits, Mount, Save, Umount, Unexport};
pub(crate) use grown_size::MemberSize;
pub(crate) use guide::{command, sections};
pub(crate) use iscsi::Iscsi;
pub(crate) use metrics::{Metrics, MetricsFlags};
pub(crate) use monitoring::Monitor;
pub(crate) use patience::Patience;
pub(crate) use planning::{Columns, Drives, Likelihood, Order, Pair, PlanFlags, PlanFormat, parse_pair};
pub(crate) use pools::{
    Pool, PoolCommand, PoolCreate, PoolEnd, PoolHistory, PoolImport, PoolIostat, PoolReportArgs, PoolScrub,
    PoolStatusArgs, Volume, VolumeCommand,
};
pub(crate) use predicting::{Balance, Calibrate, DoorWord, DrivePort, Simulate, Sweep, Whose};
pub(crate) use reading::{Cat, Examine, OfContainer, Searching};
pub(crate) use reliability::Reliability;
pub(crate) use running::{
    Action, Add, Fail, Flag, Grow, Remove, Replace, Runtime, Said, Scrub, Status, Stop, StoppedPool, Wait,
    Watch,
};
pub(crate) use small_commands::{Bundle, Completions, Demo, Man, ZeroSuperblock};
pub(crate) use sockets::{Sockets, owners};
pub(crate) use tls::TlsFlags;
pub(crate) use tuning::{OnFull, ReadPolicy, Tuning};
pub(crate) use updating::{Change, UpdateFlags};

/// Software RAID in user space, byte-compatible with Linux md.
///
/// Builds arrays out of disks, partitions or plain files, serves them as block devices over NBD, and reads the
/// remains of broken ones, without a kernel module. Arrays that Brindle makes are Linux md arrays, and the other way
/// round.
#[derive(Debug, Parser)]
#[command(name = "brindle", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Way to do I/O: uring, or threads where a container forbids io_uring or the kernel is older than Linux 5.19,
    /// which costs more processor time; auto takes io_uring if it can, else threads, and reports it
    #[arg(
        long,
        global = true,
        display_order = 2000,
        help_heading = "Options of all commands",
        env = "BRINDLE_REACTOR",
        value_name = "REACTOR",
        default_value = "auto",
        hide_env_values = true
    )]
    pub(crate) reactor: Engine,
    /// Messages on standard error about the program's inner workings: error, warn, info, debug or trace, for all or
    /// for parts of the program, as in warn,brindle_export=debug [default: warn]
    #[arg(
        long,
        global = true,
        display_order = 2001,
        help_heading = "Options of all commands",
        env = "BRINDLE_LOG",
        value_name = "FILTER",
        hide_env_values = true
    )]
    pub(crate) log: Option<String>,
    /// The command
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line. Numbers below 0 are values, not flags, so that their parsers can refuse them.
    pub(crate) fn given() -> Self {
        let command = command().mut_subcommands(|command| command.allow_negative_numbers(true));
        let matches = command.try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        matches.unwrap_or_else(|error| other_tools::end(&error))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an array
    Create(Create),
    /// Show what is on each device
    ///
    /// Names md superblocks, file systems, partition tables, volume managers and other RAID. Exits with 0 when every
    /// member could be looked at, whatever stood there, and with 1 when one could not, or when a superblock can't be
    /// trusted; the others are reported on all the same.
    Examine(Examine),
    /// Show the array or pool that members form
    Detail(Detail),
    /// Explain the set-up of an existing array, and recommend changes
    ///
    /// Looks at superblocks, at the file system on the array and, where a kernel runs it, at sysfs; md's arrays too.
    /// Each finding comes with the command that changes it, and with the expected gain where the simulator can
    /// predict it. Nothing is written.
    Advise(Advise),
    /// Write the content of an array to standard output or to a file, or of a volume of a pool; never writes to a member
    ///
    /// A file (--output) is sparse where the array has zeroes. A map beside it records which parts have been read, as GNU ddrescue does:
    /// the same command goes on where it was interrupted, and tries places again that could not be read. Exits with 4 if some could not.
    Cat(Cat),
    /// Compare the redundancy of an array, or all checksums and parity of a pool; never writes to a member
    ///
    /// Exits with 3 if it disagrees, else with 4 if members have places that can't be read, else with 5 if not all could be compared, or
    /// nothing, since members are missing.
    Check(Check),
    /// Compare the redundancy of an array, and correct it
    ///
    /// As md's repair does: parity is computed anew from the data, and copies are made the same as the first that can
    /// be read. With --locate only blocks are written that are known to be wrong, in arrays whose redundancy was in
    /// sync. In RAID 6 P and Q must name one block that explains all bytes of a sector. In mirrors more than half of
    /// three or more copies must agree. All else is reported and left alone. Exits with 3 if something was left.
    /// Redundancy that never was in sync names no wrong block. So an array that was made with --assume-clean, over
    /// members that did not agree, is resynced first. md's superblocks don't say how an array was made, but 64
    /// samples of it do. If more than an eighth of them disagree in a way that names no single member, --locate
    /// corrects all redundancy, and reports it. Two members that were written over look the same: fail and add again
    /// those
    /// that you know of before. If they disagree nearly everywhere, and one member that was written over would
    /// explain it, or members are missing by whose answers it would be known, --locate refuses, with nothing changed.
    Repair(Repair),
    /// Serve arrays and volumes of pools over NBD, in the foreground or in the background
    ///
    /// Members of several arrays may be named together: each array is told by its UUID, and is an export by its name. Arrays
    /// of one name are called by their UUIDs. Nothing is served if one of them can't be assembled.
    ///
    /// A server that is killed while clients write leaves redundancy in doubt, as a power cut does: the next one
    /// resyncs the array. Where members of RAID 4, 5 or 6 are missing or not rebuilt yet, nothing tells what the lost
    /// blocks of half-written stripes held: such an array is exposed. It starts again only with --force, and then
    /// blocks that were being written may read wrong. After something has been written to it, it is clean
    /// when it is stopped. If nothing has, it stays as it was: a missing member that turns up is used as it is, and
    /// the next start needs --force, too. mdadm marks it clean at once, and rebuilds that member from the others. A
    /// RAID 6 that lacks one member is resynced before it is clean: its P and Q may disagree. The
    /// log says so when the array begins to be served, or becomes so, and `brindle status` as long as it is so.
    Serve(Box<Serve>),
    /// Find arrays and pools among many devices, and serve this host's
    ///
    /// Each gets a server of its own in the background, as `serve --background` starts it. Arrays are started that have this host's name
    /// in their superblocks, or are named with --array; all else is listed. Members that were there when an array was used last are
    /// waited for, and then it is started without them, if it can be, and says which are missing. Two devices that say that they are the
    /// same member are never chosen between. Exits with 1 if something that was meant was not started.
    Assemble(Assemble),
    /// Show running servers and their arrays
    Status(Status),
    /// Fail a member of an array, running or stopped
    Fail(Fail),
    /// Add devices to an array, running or stopped: members that were away, or spares
    ///
    /// A former member, of an array with a write-intent bitmap, becomes that member again, and is given the writes
    /// that it missed. It becomes a spare, and the reason is told, if its role has been filled since, if it was away
    /// for longer than the bitmap covers, or if the array has another shape now. With --re-add it is refused then.
    /// Any other device becomes a spare. `missing` with --re-add stands for all former members that can be found, by
    /// the array's own list and among the disks and partitions of this machine. A device that is found and can't be taken is named, and is no error. A running array that lacks members begins to rebuild
    /// them at once; a stopped one when it is served. A device that is in use or too small is refused, and so is one
    /// that belongs to another array or holds a file system or a partition table, without --force.
    Add(Add),
    /// Replace a member of an array that still works, running or stopped
    ///
    /// Redundancy is kept all the while: the device is filled from the member, or from the others where the member
    /// can't be read, and takes every change with it. Then the member has failed, and the device is in its place;
    /// `brindle wait` waits for that. A copy that was stopped goes on when the array is served again; that of a
    /// stopped array begins then.
    Replace(Replace),
    /// Remove devices that are not in use from an array, running or stopped: failed members and spares
    ///
    /// `failed` stands for all that have failed, in this run or before, so that the array goes without them,
    /// `detached` for all that are not in use and do not exist any more. Their content stays.
    Remove(Remove),
    /// Give an array more room, other members, another level or a write-intent bitmap, running or stopped
    ///
    /// No byte moves by --size, --raid-devices and --level, and clients go on: requests wait for as long as superblocks take. What is new
    /// is resynced or rebuilt meanwhile, and can be used at once; a bitmap grows with it. Refused by name, with nothing changed: an array
    /// that lacks a member, or is resynced, rebuilt or checked; one with a bitmap in a file; all growth by which data would move.
    ///
    /// With a bitmap, only ranges that were being written are resynced after a crash, and a member that was away gets
    /// the writes that it missed. It stands beside each superblock, where mdadm would put it, or in a file that is
    /// given with the members whenever the array is assembled; clients go on meanwhile. An array that has one has it
    /// elsewhere then, or with chunks of another size; its bits go with it, except where both would stand in the same
    /// place: there the first goes before the other comes. Refused by name, with nothing changed: an array that has a
    /// bitmap already, or none to take away; an array without redundancy; a device without room between superblock
    /// and data. Also a file that exists already, and a member that is being given the writes that it missed, which
    /// only the bitmap names.
    ///
    /// For an array that is not served, --from gives the file that has its bitmap now. Without --from the array counts as one without a bitmap.
    Grow(Grow),
    /// Set a flag of a device of a running array, or clear it
    ///
    /// It stands in the device's superblock, as md has it. A member that is write-mostly is read only when no other can answer
    /// (RAID 1). One with failfast is given up sooner when it does not answer, and fails at its first read error, if the other
    /// copies can replace it (RAID 1 and 10).
    Flag(Flag),
    /// Check or repair a running array; pause, stop or slow down its check, repair or recovery
    ///
    /// A speed set by `speed` holds for the process that runs now and for later ones, until the server ends; `serve`
    /// can set it too. Given with another action it holds for that one alone.
    ///
    /// An array runs one process at a time. `brindle status` shows its progress and the result of the last one;
    /// `brindle wait` waits for its end.
    Action(Action),
    /// Wait until a running array's check, repair or recovery has ended
    ///
    /// Shows its progress, speed and remaining time; of a pool, until all has as much redundancy as members and room allow. Exits as `check` or `repair` does, if that is the process that
    /// ended.
    Wait(Wait),
    /// Check a running array, or scrub a pool, if that is due, for as long as a window lasts
    ///
    /// For a timer that runs each night. What the window leaves is paused, and goes on in the next, unless the server was started anew
    /// meanwhile. Exits as `check` does when all was compared, and with 0 when nothing is due, the window is over, or a resync or
    /// recovery runs, which comes first. The end of a check is put on record, by which it is known when the next is due.
    Scrub(Scrub),
    /// Watch running arrays: members, rates, latencies and background work
    ///
    /// Draws itself anew on a terminal until it is interrupted, as many lines as there is room for; elsewhere, and with --once or
    /// --json, it prints how things are once.
    /// Latencies are the time below which half of the answers came, and 99 of 100, rounded up to a power of two.
    Watch(Watch),
    /// Show arrays and pools of running servers on a page, and mend them there
    ///
    /// A process of its own, which asks the control sockets as `status` does: a browser on this machine signs in with a token (--token). For
    /// others there is ssh -L, or a proxy with TLS and a login, which --host names. docs/console.md has the walk.
    Console(Console),
    /// Print the metrics of running servers, for Prometheus
    ///
    /// In the text format, of all servers that run here; `serve --metrics` answers scrapes with the same. docs/metrics.md lists all of them,
    /// with alert rules and a dashboard.
    Metrics(Metrics),
    /// Report events of arrays, as mdadm --monitor does: by lines, a program, or mail
    ///
    /// Looks at the arrays of running servers and at the kernel's (/proc/mdstat) every minute. Events have mdadm's names: NewArray, Fail,
    /// DegradedArray, FailSpare, SpareActive, SparesMissing, MoveSpare, RebuildStarted, Rebuild20 and so on, RebuildFinished, TestMessage,
    /// DeviceDisappeared. Brindle's own are MismatchesFound, ArrayBroken, DriveFailing (--smart), ScrubOverdue (--scrub-overdue) and BlocksLost.
    /// BlocksCorrected is of a member that gave wrong blocks or could not read them, once an hour at most. DeviceDisappeared is also an array or
    /// a pool that a daemon's settings name and that is not served, and an ARRAY line of mdadm.conf whose array is not there. Events that need
    /// attention are mailed, all that came together in one mail; so is once a day what stays so, and in the end that the array is whole again.
    /// A program gets the event, the array and the device as arguments. One that hangs or fails is reported, and nothing waits for it.
    Monitor(Monitor),
    /// Export a running array to clients again, or change the limits of its clients
    ///
    /// Limits that are given replace all that it had. To let go of an array as `zpool export` does, stop it.
    Export(Export),
    /// Withdraw a running array from all clients, of each protocol, and end their connections; the array goes on running
    Unexport(Unexport),
    /// End connections of clients to a running array; nothing keeps them from coming again
    Disconnect(Disconnect),
    /// Stop a running server, or one of its arrays
    Stop(Stop),
    /// Measure an array, devices or an export with fio's jobs
    ///
    /// Takes fio's job files, or their options as flags, and reports as fio does. What becomes of each option is told in
    /// docs/fio.md. Jobs run in this process; a job that writes destroys the target's content, and needs --force.
    Bench(Bench),
    /// Measure a drive, or read measured tables of one, and fit a model to that
    ///
    /// Writes the model as TOML, and tells the fit's own error for each row. The procedure stands in docs/drive-models.md.
    Calibrate(Calibrate),
    /// Predict what an array of modelled drives would do
    ///
    /// The engine itself runs in virtual time on drives that take as long as their model says: the same question has the
    /// same answer, to the byte. docs/bench/accuracy.md compares predictions with measurements.
    Simulate(Simulate),
    /// Estimate the probability that groups of drives lose data, with a confidence interval
    ///
    /// Simulates histories of drives that age, fail, have defects that go unnoticed until a scrub, and are replaced. Rare losses
    /// are made frequent and weighted, so that one in a million million has an interval too. Model and sources stand in
    /// docs/reliability.md. Times are Weibull distributions, SHAPE/SCALE+LOCATION in hours; a number alone is the mean of an
    /// exponential one.
    Reliability(Reliability),
    /// Predict or measure many arrays and loads: the cross product of lists, or a named suite
    ///
    /// In virtual time on all cores (--simulate), or on members that are given up for it (--destroy), where each array is made anew.
    /// Points that are finished are kept, so that an interrupted sweep goes on where it was; the report is one
    /// HTML file that needs no network. Exits with 6 if none of the points can be.
    Sweep(Sweep),
    /// List the arrays that a number of drives can make, and recommend one
    ///
    /// Lists every sensible configuration of md and of OpenZFS: its room, its random and sequential speed, the
    /// failures that lose data, the time of a rebuild, and its price. Drops configurations that do not meet the needs,
    /// and recommends one of the rest. The formulas and their sources stand in docs/planner.md.
    Plan(Box<PlanFlags>),
    /// Attach a running array, or a volume of a pool, as a block device of this machine: /dev/nbdN
    ///
    /// The kernel's NBD driver (modprobe nbd) has it, on sockets that the server makes. A restarted server finds its
    /// devices again by their identity; requests wait in the kernel until then.
    Attach(Attach),
    /// Detach such a device; a mounted file system is left as it is
    Detach(Detach),
    /// Mount a running array, a volume of a pool, or members that no server has, as files in a folder
    ///
    /// The folder has a file that is as large as the volume, and one for each of its partitions: NAME and NAME-part1. Any user may do it
    /// who may use fusermount3. Programs read them as images, and loop devices make block devices of them. Read-only, unless --write.
    /// `brindle umount` ends it.
    Mount(Mount),
    /// Unmount such a folder; what is left of a server that was killed goes, too
    Umount(Umount),
    /// Serve all that a file of settings names, as a service does
    ///
    /// Finds members among the devices of the machine, waits for members that were there when an array was used last, and serves all arrays
    /// and pools in one process. What can't be assembled is reported, and keeps nothing else from being served. SIGHUP or
    /// `brindle reload` reads the file anew. docs/server.md tells how a machine is set up.
    Daemon(Daemon),
    /// Write, check and explain settings files
    Config(Config),
    /// Hand a device to the daemon, as a udev rule does when it appears
    ///
    /// The array that it is a member of is served once it is whole: all members are here that were there when it was used last. If some stay
    /// away it is served without them after the wait, if it can be, and says which. Nothing is done with a device that is no member, whose
    /// array the settings do not mean, or is served already.
    Incremental(Incremental),
    /// Have a running server reload its files: settings, certificates and access rules
    ///
    /// A file with errors changes nothing, and is reported with the line and the reason.
    Reload(Reload),
    /// Write a report of servers, arrays and pools, to send with a question
    ///
    /// It is one file of JSON with no data of arrays and no secret. Clients and serial numbers are left out unless
    /// they are asked for, and so are logs, which name both.
    Report(Bundle),
    /// Change the superblocks of an array that is not in use: its name, host, UUID and more, as `mdadm --assemble --update` does
    ///
    /// All devices are looked at before one is changed, and a device in use by a server or by the kernel is refused. Members that the array
    /// had when it was used last have to be there, too: they would be strangers later (--force leaves them behind). A power cut between two
    /// devices leaves an array that assembles; after one in a change of the UUID the same command with --force ends it. The other
    /// changes of mdadm's are refused by name.
    Update(UpdateFlags),
    /// Erase md's superblocks from devices, so that they are no longer members
    ///
    /// Tells what each was. All devices are looked at before one is changed: one without a superblock, or in use by a server or by the
    /// kernel, is refused, and none is changed then. The data stays. Members of pools go with `pool destroy`.
    ZeroSuperblock(ZeroSuperblock),
    /// Create, show, import, export and destroy pools
    ///
    /// A pool has vdevs with the redundancy of RAID-Z or mirrors, a checksum for every block, and volumes, each an export POOL/NAME of `serve`.
    /// It is read and looked at with `cat`, `detail`, `examine` and `check`.
    Pool(Pool),
    /// Create, list, rename and destroy volumes of pools
    Volume(Volume),
    /// Create an array of plain files, lose two members under load, and get every byte back
    Demo(Demo),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the man pages to a folder
    Man(Man),
}

/// Flags of `brindle detail`.
#[derive(Debug, Args)]
pub(crate) struct Detail {
    #[command(flatten)]
    pub(crate) given: Given,
    #[command(flatten)]
    pub(crate) container: OfContainer,
    #[command(flatten)]
    pub(crate) assuming: Assuming,
    #[command(flatten)]
    pub(crate) searching: Searching,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit as mdadm --detail --test does: 0 whole, 1 degraded, 2 too many members are missing, 4 nothing is known
    #[arg(long, short = 't')]
    pub(crate) test: bool,
    /// Print a line of mdadm.conf for each array that is served
    #[arg(long, short = 's', conflicts_with_all = ["members", "json", "test", "assume"])]
    pub(crate) scan: bool,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// The array's members, in any order; A+B+C is the array that A, B and C form, as a member
    #[arg(required_unless_present_any = ["assume", "scan"], value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

/// Flags of `brindle check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) given: Given,
    #[command(flatten)]
    pub(crate) container: OfContainer,
    #[command(flatten)]
    pub(crate) assuming: Assuming,
    #[command(flatten)]
    pub(crate) searching: Searching,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    /// The array's members, in any order; A+B+C is the array that A, B and C form, as a member
    #[arg(required_unless_present = "assume", value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

/// Flags of `brindle repair`.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) given: Given,
    /// Find which member is wrong, and write that alone; leave all where it can't be known
    #[arg(long)]
    pub(crate) locate: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    /// The array's members, in any order; A+B+C is the array that A, B and C form, as a member
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

/// Flags of `brindle serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) sockets: Sockets,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
    #[command(flatten)]
    pub(crate) iscsi: Iscsi,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) metrics: MetricsFlags,
    #[command(flatten)]
    pub(crate) given: Given,
    #[command(flatten)]
    pub(crate) assuming: Assuming,
    /// Refuse writes; nothing is written to a member
    #[arg(long, short = 'r')]
    pub(crate) read_only: bool,
    /// Look through all of each device that is no member for members, as examine --search; else only devices of 1 GiB at most without one
    #[arg(long, requires = "read_only")]
    pub(crate) search: bool,
    /// Demand that the arrays take writes: fail rather than fall back to read-only
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) read_write: bool,
    /// Serve arrays of which some bytes may be wrong: dirty and degraded, with writes left in its journal, in a reshape. Take pools that another
    /// host has not exported: if it still has one open, both write to it, and all that is in it is lost
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Go on with a reshape into more members that is under way, begun here or by mdadm: without it, such an array is read-only
    #[arg(long = "continue", conflicts_with = "read_only")]
    pub(crate) goes_on: bool,
    /// Go on with pools that lack members which were in use: these are out of use until they are back with nothing out of date
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) degraded: bool,
    /// The side of a pool to believe, by one of its members, where members were written apart: the others are out of date for good
    #[arg(long, value_name = "VDEV.ROLE", value_parser = pools::role)]
    pub(crate) take: Option<(usize, u16)>,
    /// Take members again that are out of date, and give them what was written while they were away, where a write-intent
    /// bitmap tells of all of it
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) re_add: bool,
    /// Re-add members that failed while they were served and come back under their names, if a write-intent bitmap
    /// covers all the writes that they missed; like mdadm's policy `action=re-add`, which is not its default either
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) re_add_returned: bool,
    /// Treatment of a member that has no space for a write
    #[arg(long, default_value = "wait", value_name = "POLICY")]
    pub(crate) on_full: OnFull,
    /// Corrected read errors that a member may have before it is failed; the count is halved each hour
    #[arg(long, value_name = "COUNT", default_value_t = brindle_array::OpenConfig::READ_ERRORS)]
    pub(crate) read_errors: u32,
    /// Most bytes a second for processes that go over a whole array (resync, recovery, check and the like) [default:
    /// as fast as they go]; `brindle action ARRAY speed` changes it
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_speed: Option<Bytes>,
    /// Least bytes a second for such a process, where members can, whatever clients ask for [default: more than half of the
    /// time is left to clients]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) min_speed: Option<Bytes>,
    /// Time that a member of a pool may be lost before what lies on it is moved, so that it has all the redundancy that it can have
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = Span::parse_any)]
    pub(crate) raise_after: Span,
    /// Arrays and pools that share their spares, by name, or all of this server. One that lacks a member and has no spare takes the
    /// smallest of another's that is large enough, if that one lacks nothing. May be given several times
    #[arg(long, value_name = "NAME[=ARRAY,ARRAY...]")]
    pub(crate) spare_group: Vec<Said<SpareGroup>>,
    /// Connections that there may be at a time; to one more, one that has chosen no export, or has taken no byte of its replies
    /// for 10 s, makes room, else it is refused
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) max_connections: u32,
    /// Cores that have a reactor each: how many, or which (`0-3,7`), to which these are pinned. The first has all arrays and pools, and
    /// sessions as long as it has time; others have sessions, carry out what they can, and hand all else to it
    #[arg(long, env = "BRINDLE_CORES", hide_env = true, value_name = "N|LIST", default_value = "1")]
    pub(crate) cores: Cores,
    /// How long stopping may take; then the process ends all the same, and arrays that have not stopped are not
    /// marked clean
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = Span::parse_any)]
    pub(crate) stop_timeout: Span,
    /// Name of the server: its control socket, and its export if it has one array [default: the first array's name, or its
    /// UUID]
    #[arg(long, short = 'N')]
    pub(crate) name: Option<String>,
    /// Serve in a process of its own, and return when the exports answer: with 0, or as `serve` ends if they never
    /// do. Later messages go to NAME.log in the runtime folder; `brindle stop` ends it
    #[arg(long)]
    pub(crate) background: bool,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON: one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// The members of one array or several, in any order; A+B+C is the array that A, B and C form, as a member
    #[arg(required_unless_present = "assume", value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use brindle_host::opening::Listen;
    use clap::CommandFactory;

    use super::sockets::SocketMode;
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn exports_are_named_by_uris() {
        for text in
            ["nbd+unix:///a?socket=/run/x", "nbd+unix:///?socket=/run/x", "nbd://h:1/b", "nbd://[::1]:2/"]
        {
            let uri: NbdUri = text.parse().expect("a URI");
            assert_eq!(uri.to_string(), text);
        }
        for text in ["nbd+unix:///tank%2Fv?socket=/a%20b/100%25", "nbd://h:1/tank%2Fv", "nbd://h:1/tank/v"] {
            let uri: NbdUri = text.parse().expect("a URI");
            assert_eq!((&*uri.export, uri.to_string()), ("tank/v", text.replace("tank/v", "tank%2Fv")));
            assert!(!matches!(uri.place, Listen::Unix(path) if path != std::path::Path::new("/a b/100%")));
        }
        assert_eq!("nbd://h".parse::<NbdUri>().map(|uri| uri.to_string()), Ok("nbd://h:10809/".to_owned()));
        for wrong in
            ["", "nbd:", "nbd://", "nbd+unix:///a", "nbd+unix:///?socket=", "http://h/", "nbd://unix:/a/b"]
        {
            assert!(wrong.parse::<NbdUri>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_told_apart() {
        assert_eq!("unix:/run/a".parse(), Ok(Listen::Unix("/run/a".into())));
        assert_eq!("[::1]:10809".parse(), Ok(Listen::Tcp("[::1]:10809".into())));
        for (text, mode) in [("600", 0o600), ("0660", 0o660), ("777", 0o777)] {
            assert_eq!(text.parse(), Ok(SocketMode(mode)));
        }
        for wrong in ["", "60", "066", "1777", "668", "-600", "+x"] {
            assert!(wrong.parse::<SocketMode>().is_err(), "{wrong}");
        }
        for wrong in ["", "unix:", "host", "host:", ":1", "host:99999", "/run/a"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}

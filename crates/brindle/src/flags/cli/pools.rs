//! Flags of the commands for pools and their volumes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Runtime;
use super::running::{Stopped, StoppedPool};
use crate::base::units::Bytes;

/// Flags of `brindle pool`.
#[derive(Debug, Args)]
pub(crate) struct Pool {
    /// The word behind `pool`
    #[command(subcommand)]
    pub(crate) command: PoolCommand,
}

/// Words behind `pool`.
#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create a pool of vdevs: `raidz|raidz1|raidz2|raidz3|mirror DEVICE...`, several of them striped
    Create(PoolCreate),
    /// Show how pools do that are served, or one that is not: what is wrong, what to do next, members with their errors
    Status(PoolStatusArgs),
    /// List pools that are served, or one that is not, with their room, a line each
    List(PoolReportArgs),
    /// Go over all that a served pool stores, beside its clients, and heal what is wrong; or pause or stop that
    ///
    /// Every block is held against its checksum, every stripe against its parity. What can't be healed is named by volume, offset and
    /// length in `brindle pool status`. One that was paused goes on where it was, also in another run of its server, and so does one whose server ended or was killed. One that was stopped begins anew. With --wait it exits as
    /// `brindle check` does.
    Scrub(PoolScrub),
    /// Show operations and bytes a second of the members of pools
    ///
    /// Once, over a second; or each INTERVAL seconds, COUNT times or until it is interrupted.
    Iostat(PoolIostat),
    /// Show commands that changed pools, from the oldest on, as each pool keeps them
    ///
    /// With their times (UTC). A pool keeps as many as it has room for, from some hundreds on; the oldest go.
    History(PoolHistory),
    /// Stop a pool and give it away: no host has it then, and any other imports it
    ///
    /// While clients have volumes of it open that is refused without --force.
    #[command(
        override_usage = "brindle pool export [OPTIONS] NAME\n       brindle pool export [OPTIONS] --array MEMBER... -- NAME"
    )]
    Export(PoolEnd),
    /// Make a pool this host's, or list those that could be
    ///
    /// A daemon that runs serves it then. One that another host has had last and has not exported is refused without --force.
    Import(PoolImport),
    /// Rename a pool; the connections to its volumes end, since exports begin with its name
    Rename(PoolRename),
    /// Take a member of a served pool out until it is brought back; nothing is moved for its sake
    Offline(PoolMember),
    /// Take a member of a served pool into use again; it gets what it lacks
    Online(PoolOnline),
    /// Give the role of a member of a served pool to a new device, which gets all that the member had
    ///
    /// A member in use is copied first, and stays in use until the new device has all: leave it in until then. With --wait it exits with 0 only
    /// if the new device has the place at the end. Settings that list members by their names are to be changed by hand.
    Replace(PoolReplace),
    /// Add vdevs of new devices to a served pool, or spares: `raidz|raidz1|raidz2|raidz3|mirror|spare DEVICE...`
    ///
    /// Their room can be used at once. A spare takes the role of a member that is lost by itself. Vdevs can't be taken away again. Settings that
    /// list members by their names are to be changed by hand.
    Add(PoolAdd),
    /// Give a vdev of a served pool one device more
    ///
    /// A RAID-Z vdev, named as `raidz1-0`, gets wider, and its new room can be used at once: what is written in narrower stripes is
    /// rewritten when the room is needed. A mirror gets one copy more, of four at most, and a single device becomes a mirror. Settings that list
    /// members by their names are to be changed by hand.
    Attach(PoolAttach),
    /// Take a device out of a mirror of a served pool for good, or a spare out of the pool
    Detach(PoolMember),
    /// Destroy a pool with all of its volumes; its members are no longer members of a pool
    ///
    /// One that is served is stopped first; while clients have volumes of it open that is refused without --force. The content of its
    /// members is not overwritten.
    #[command(
        override_usage = "brindle pool destroy [OPTIONS] NAME\n       brindle pool destroy [OPTIONS] --array MEMBER... -- NAME"
    )]
    Destroy(PoolEnd),
}

/// Flags of `brindle pool create`.
#[derive(Debug, Args)]
pub(crate) struct PoolCreate {
    /// Only show the pool that would be created
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Overwrite the devices' content, all that the refusal names, with its copies; and take vdevs of unlike redundancy
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Write no partition table to whole disks: without it each gets a GUID table with a partition of Brindle's own type, so that other
    /// programs see that it is in use
    #[arg(long)]
    pub(crate) whole: bool,
    /// A property of zpool: ashift and volblocksize are taken, and not needed
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    pub(crate) properties: Vec<String>,
    /// Take devices that stand for themselves as vdevs: each that is lost takes the pool with it
    #[arg(long)]
    pub(crate) no_redundancy: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
    /// `raidz`, `raidz1`, `raidz2`, `raidz3` or `mirror`, then its devices; and so on
    #[arg(required = true, value_name = "VDEV")]
    pub(crate) vdevs: Vec<String>,
}

/// Flags of `brindle pool status`.
#[derive(Debug, Args)]
pub(crate) struct PoolStatusArgs {
    /// Also where volumes are lost, who serves the pool, and its last events
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
    /// Only pools with a fault
    #[arg(short = 'x')]
    pub(crate) faulty: bool,
    #[command(flatten)]
    pub(crate) of: PoolReportArgs,
}

/// Flags of `brindle pool iostat`.
#[derive(Debug, Args)]
pub(crate) struct PoolIostat {
    /// Each vdev and each device, too
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON, once
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of a pool [default: all that are served]; then the seconds between two looks, and how many of these there are to be
    #[arg(value_name = "POOL|INTERVAL|COUNT")]
    pub(crate) words: Vec<String>,
}

/// Flags of `brindle pool history`.
#[derive(Debug, Args)]
pub(crate) struct PoolHistory {
    /// Also what happened of its own accord: scrubs that began and ended, members that were lost, openings
    #[arg(long, short = 'i')]
    pub(crate) internal: bool,
    /// Also the user and the host of each
    #[arg(long, short = 'l')]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) of: PoolReportArgs,
}

/// Flags of `brindle pool export` and `brindle pool destroy`.
#[derive(Debug, Args)]
pub(crate) struct PoolEnd {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) pool: StoppedPool,
    /// Go on though clients have volumes of it open
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
}

/// Flags of `brindle pool import`.
#[derive(Debug, Args)]
pub(crate) struct PoolImport {
    /// A device, or a folder of devices, to look at; may be given several times [default: all disks and partitions of this machine]
    #[arg(short = 'd', value_name = "DEVICE|FOLDER")]
    pub(crate) places: Vec<PathBuf>,
    /// Take a pool that another host has not exported: if that host still has it open, both write to it, and all that is in it is lost
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Import a pool without members that were in use: they are out of use from then on
    #[arg(long)]
    pub(crate) degraded: bool,
    /// A property of zpool: readonly=on has a server of its own serve the pool for reading alone, and changes no byte of its members
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    pub(crate) properties: Vec<String>,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool, or its UUID [default: list those that could be imported]
    pub(crate) name: Option<String>,
}

/// Flags of `brindle pool list` and `volume list`.
#[derive(Debug, Args)]
pub(crate) struct PoolReportArgs {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) stopped: Stopped,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool [default: all that are served]
    pub(crate) name: Option<String>,
}

/// Flags of `brindle pool scrub`.
#[derive(Debug, Args)]
pub(crate) struct PoolScrub {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Pause the scrub; without a flag it goes on
    #[arg(long, short = 'p', conflicts_with = "stop")]
    pub(crate) pause: bool,
    /// Stop the scrub
    #[arg(long, short = 's')]
    pub(crate) stop: bool,
    /// Wait until it has ended
    #[arg(long, short = 'w', conflicts_with = "pause")]
    pub(crate) wait: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
}

/// Flags of `brindle pool rename`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle pool rename [OPTIONS] NAME NEW\n       brindle pool rename [OPTIONS] --array MEMBER... -- NAME NEW"
)]
pub(crate) struct PoolRename {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) pool: StoppedPool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub(crate) to: String,
}

/// A member of a pool that is served: flags of `brindle pool offline`, and of `online` and `replace` beside their own.
#[derive(Debug, Args)]
pub(crate) struct PoolMember {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
    /// The member: path as given to `serve`, `VDEV.ROLE` as `status` shows it, or its number; `attach` takes a vdev's name, too
    pub(crate) member: String,
}

/// Flags of `brindle pool online`.
#[derive(Debug, Args)]
pub(crate) struct PoolOnline {
    #[command(flatten)]
    pub(crate) of: PoolMember,
    /// Its device, if that is called otherwise by now
    pub(crate) device: Option<PathBuf>,
}

/// Flags of `brindle pool replace`.
#[derive(Debug, Args)]
pub(crate) struct PoolReplace {
    /// Overwrite the new device's content, which the refusal names
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Wait until the new device has the member's place, and all that it is to have
    #[arg(long, short = 'w')]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) of: PoolMember,
    /// The new device
    #[arg(value_name = "NEW")]
    pub(crate) with: PathBuf,
}

/// Flags of `brindle pool add`.
#[derive(Debug, Args)]
pub(crate) struct PoolAdd {
    /// Overwrite the devices' content, which the refusal names; and take a vdev that bears less than those of the pool
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Take devices that stand for themselves as vdevs: each that is lost takes the pool with it
    #[arg(long)]
    pub(crate) no_redundancy: bool,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
    /// `raidz`, `raidz1`, `raidz2`, `raidz3`, `mirror` or `spare`, then its devices; and so on
    #[arg(required = true, value_name = "VDEV")]
    pub(crate) vdevs: Vec<String>,
}

/// Flags of `brindle pool attach`.
#[derive(Debug, Args)]
pub(crate) struct PoolAttach {
    /// Overwrite the new device's content, which the refusal names
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) of: PoolMember,
    /// The new device
    #[arg(value_name = "NEW")]
    pub(crate) device: PathBuf,
}

/// Flags of `brindle volume`.
#[derive(Debug, Args)]
pub(crate) struct Volume {
    /// The word behind `volume`
    #[command(subcommand)]
    pub(crate) command: VolumeCommand,
}

/// Words behind `volume`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a volume of zeroes; of a pool that is served it is an export at once
    Create(VolumeCreate),
    /// List the volumes of a pool, or of all that are served
    List(PoolReportArgs),
    /// Rename a volume; the connections of its clients end
    Rename(VolumeRename),
    /// Destroy a volume and its content; refused while clients have it open, without --force
    Destroy(VolumeDestroy),
}

/// Flags of `brindle volume create`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle volume create [OPTIONS] POOL/NAME SIZE\n       brindle volume create [OPTIONS] --array MEMBER... -- POOL/NAME SIZE"
)]
pub(crate) struct VolumeCreate {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) pool: StoppedPool,
    /// A property of zfs: volblocksize is taken, and not needed
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    pub(crate) properties: Vec<String>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The pool, and the volume's name in it
    #[arg(value_name = "POOL/NAME")]
    pub(crate) name: String,
    /// Bytes, a multiple of 512; all of it is kept for the volume
    #[arg(value_parser = Bytes::parse)]
    pub(crate) size: Bytes,
}

/// Flags of `brindle volume rename`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle volume rename [OPTIONS] POOL/NAME POOL/NEW\n       brindle volume rename [OPTIONS] --array MEMBER... -- POOL/NAME POOL/NEW"
)]
pub(crate) struct VolumeRename {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) pool: StoppedPool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The volume
    #[arg(value_name = "POOL/NAME")]
    pub(crate) name: String,
    /// Its new name, in the same pool
    #[arg(value_name = "POOL/NEW")]
    pub(crate) to: String,
}

/// Flags of `brindle volume destroy`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle volume destroy [OPTIONS] POOL/NAME\n       brindle volume destroy [OPTIONS] --array MEMBER... -- POOL/NAME"
)]
pub(crate) struct VolumeDestroy {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) pool: StoppedPool,
    /// Destroy the volume though clients have it open; their connections end
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The volume
    #[arg(value_name = "POOL/NAME")]
    pub(crate) name: String,
}

/// A member's vdev and role, from `VDEV.ROLE`.
pub(crate) fn role(word: &str) -> Result<(usize, u16), String> {
    let parsed = word.split_once('.').and_then(|(vdev, role)| Some((vdev.parse().ok()?, role.parse().ok()?)));
    parsed.ok_or_else(|| {
        format!("'{word}' is not a member: give VDEV.ROLE, as `brindle detail` does, such as 0.1")
    })
}

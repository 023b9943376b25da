//! Flags of the commands for pools and their volumes.

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
    /// Show pools that are served, or one that is not
    Status(PoolReportArgs),
    /// List pools that are served, or one that is not, with their room, a line each
    List(PoolReportArgs),
    /// Rename a pool; the connections to its volumes end, since exports begin with its name
    Rename(PoolRename),
    /// Destroy a pool with all of its volumes; its members are no longer members of a pool
    ///
    /// One that is served is stopped first; while clients have volumes of it open that is refused without --force. The content of its
    /// members is not overwritten.
    Destroy(PoolDestroy),
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

/// Flags of `brindle pool status` and `list`.
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

/// Flags of `brindle pool destroy`.
#[derive(Debug, Args)]
#[command(
    override_usage = "brindle pool destroy [OPTIONS] NAME\n       brindle pool destroy [OPTIONS] --array MEMBER... -- NAME"
)]
pub(crate) struct PoolDestroy {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) pool: StoppedPool,
    /// Destroy the pool though clients have volumes of it open
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the pool
    pub(crate) name: String,
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
pub(super) fn role(word: &str) -> Result<(usize, u16), String> {
    let parsed = word.split_once('.').and_then(|(vdev, role)| Some((vdev.parse().ok()?, role.parse().ok()?)));
    parsed.ok_or_else(|| {
        format!("'{word}' is not a member: give VDEV.ROLE, as `brindle detail` does, such as 0.1")
    })
}

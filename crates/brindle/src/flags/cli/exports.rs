//! Flags of commands that change the exports of a running server.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use brindle_host::control::RateLimits;
use clap::Args;

use super::Runtime;
use crate::base::units::{Bytes, Span};

/// Limits of the clients of each array.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Limits {
    /// Requests a second that the clients of an array are granted, all together; 0 for as many as they like
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_iops: Option<u64>,
    /// Bytes a second that they may read and write, together; 0 for as many as they like
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_bandwidth: Option<Bytes>,
    /// Requests are granted at once that these limits would spread over so long [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) burst: Option<Span>,
}

impl Limits {
    /// Limits as the server takes them; `None` if nothing is said of them.
    pub(crate) fn said(&self) -> Option<RateLimits> {
        let said = self.max_iops.is_some() || self.max_bandwidth.is_some() || self.burst.is_some();
        said.then(|| RateLimits {
            iops: self.max_iops.and_then(NonZeroU64::new),
            bandwidth: self.max_bandwidth.and_then(|bytes| NonZeroU64::new(bytes.0)),
            burst: self.burst.map_or(RateLimits::BURST, |burst| burst.0),
        })
    }
}

/// Keeps a change for the next start.
#[derive(Debug, Args)]
pub(crate) struct Save {
    /// Write it into the file of settings, too, so that the next start has it [default: /etc/brindle/brindle.toml]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = super::daemon::CONFIG)]
    pub(crate) save: Option<PathBuf>,
}

/// Flags of `brindle export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) save: Save,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members
    pub(crate) array: String,
}

/// Flags of `brindle unexport`.
#[derive(Debug, Args)]
pub(crate) struct Unexport {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) save: Save,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members
    pub(crate) array: String,
}

/// Flags of `brindle attach`.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Connections between the kernel and the server
    #[arg(long, short = 'C', value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) connections: u8,
    /// How long requests wait in the kernel when the server is gone; a server that starts anew within that time finds the device again
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = Span::parse)]
    pub(crate) dead_timeout: Span,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members, or POOL/VOLUME
    pub(crate) array: String,
    /// The device [default: the first of /dev/nbd0, /dev/nbd1 ... that is free]
    #[arg(value_name = "/dev/nbdN", value_parser = nbd_index)]
    pub(crate) device: Option<u32>,
}

/// The number of a device.
fn nbd_index(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("/dev/").unwrap_or(text).strip_prefix("nbd");
    number.and_then(|number| number.parse().ok()).ok_or_else(|| {
        "it is not a device of the kernel's NBD driver: give /dev/nbd0, or leave it out".to_owned()
    })
}

/// Flags of `brindle detach`.
#[derive(Debug, Args)]
pub(crate) struct Detach {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, POOL/VOLUME, or the device
    pub(crate) array: String,
}

/// Flags of `brindle mount`.
#[derive(Debug, Args)]
pub(crate) struct Mount {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Members or images of an array or pool that no server has: this process serves them until the folder is unmounted, or until
    /// Ctrl-C. A `--` stands between them and the folder
    #[arg(long, short = 'm', value_name = "MEMBER", num_args = 1..)]
    pub(crate) members: Vec<PathBuf>,
    /// Let files be written to [default: they are read-only, and so are members]
    #[arg(long, short = 'w')]
    pub(crate) write: bool,
    /// Look through all of each device that is not a member itself for members that end before it does
    #[arg(long, requires = "members", conflicts_with = "write")]
    pub(crate) search: bool,
    /// Serve arrays of which some bytes may be wrong, and pools that another host has not exported, as serve --force does
    #[arg(long, short = 'f', requires = "members")]
    pub(crate) force: bool,
    /// Serve members in a process of its own, and return when the folder is mounted
    #[arg(long, requires = "members")]
    pub(crate) background: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members, or POOL/VOLUME; with --members only the volume of a pool that has several
    #[arg(required_unless_present = "members", value_name = "ARRAY")]
    pub(crate) array: Option<String>,
    /// An empty folder
    #[arg(required_unless_present = "members")]
    pub(crate) folder: Option<PathBuf>,
}

impl Mount {
    /// The volume of a running server that is meant, and the folder; `None` if members are named.
    pub(crate) fn volume(&self) -> Option<(&str, &Path)> {
        if !self.members.is_empty() {
            return None;
        }
        self.array.as_deref().zip(self.folder.as_deref())
    }

    /// The volume of members that is meant, if it is said, and the folder.
    pub(crate) fn of_members(&self) -> Option<(Option<&str>, &Path)> {
        match (&self.array, &self.folder) {
            (Some(folder), None) => Some((None, Path::new(folder))),
            (Some(array), Some(folder)) => Some((Some(array), folder)),
            (None, _) => None,
        }
    }
}

/// Flags of `brindle umount`.
#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// Take it out of sight though files of it are open: it ends with the last of them
    #[arg(long, short = 'l')]
    pub(crate) lazy: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The folder, or the name of what is mounted
    #[arg(value_name = "FOLDER")]
    pub(crate) what: String,
}

/// Flags of `brindle disconnect`.
#[derive(Debug, Args)]
pub(crate) struct Disconnect {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array or pool, its UUID or one of its members, or POOL/VOLUME
    pub(crate) array: String,
    /// An address, `local` for clients of Unix sockets, a name of a certificate or a secret, or of an initiator [default: all]
    pub(crate) client: Option<String>,
}

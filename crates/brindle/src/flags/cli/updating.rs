//! Flags of `brindle update`.

use std::path::PathBuf;

use brindle_format::md::{Uuid, parse_uuid};
use clap::{Args, ValueEnum};

/// Flags of `brindle update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateFlags {
    /// The change to the superblocks
    #[arg(long, short = 'U', value_name = "CHANGE")]
    pub(crate) update: Change,
    /// The new name; of metadata 0.90 that is changed to 1.0 the first
    #[arg(long, short = 'N', value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The new host before the name [default: this one's for homehost, else the present one]
    #[arg(long, value_name = "HOST")]
    pub(crate) homehost: Option<String>,
    /// The new UUID [default: a random one]
    #[arg(long, short = 'u', value_name = "UUID", value_parser = uuid)]
    pub(crate) uuid: Option<Uuid>,
    /// Only show the changes
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Leave members behind that are missing now and were not when the array was used last, or end a change of the UUID that was cut short
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// All devices of the array, in any order
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
}

fn uuid(text: &str) -> Result<Uuid, String> {
    parse_uuid(text).ok_or_else(|| {
        "a UUID has 32 hexadecimal digits, as in 01234567:89abcdef:01234567:89abcdef".to_owned()
    })
}

/// The changes that mdadm knows. Those that are hidden are refused by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Change {
    /// The name (--name)
    Name,
    /// The host before the name (--homehost), by which a machine knows its own arrays
    Homehost,
    /// The UUID (--uuid), also in copies of the write-intent bitmap
    Uuid,
    /// Mark redundancy as in doubt everywhere, so that all of it is resynced
    Resync,
    /// Record the size of devices that have grown (1.1 and 1.2)
    Devicesize,
    /// Reserve a log of bad blocks on each device
    Bbl,
    /// Give up the logs of bad blocks, if they are empty
    NoBbl,
    /// Change metadata 0.90 to 1.0; the old superblocks stay, older than the new
    Metadata,
    #[value(name = "sparc2.2", hide = true)]
    Sparc,
    #[value(hide = true)]
    Summaries,
    #[value(hide = true)]
    Nodes,
    #[value(hide = true)]
    HomeCluster,
    #[value(hide = true)]
    Byteorder,
    #[value(hide = true)]
    NoBitmap,
    #[value(hide = true)]
    ForceNoBbl,
    #[value(hide = true)]
    Ppl,
    #[value(hide = true)]
    NoPpl,
    #[value(hide = true)]
    LayoutOriginal,
    #[value(hide = true)]
    LayoutAlternate,
    #[value(hide = true)]
    LayoutUnspecified,
    #[value(hide = true)]
    SuperMinor,
}

impl Change {
    /// The reason why a change of mdadm's is not made here, and the way out.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        Some(match self {
            Self::Name
            | Self::Homehost
            | Self::Uuid
            | Self::Resync
            | Self::Devicesize
            | Self::Bbl
            | Self::NoBbl
            | Self::Metadata => return None,
            Self::Summaries => "counts of devices are written anew whenever the array is used",
            Self::Byteorder => "superblocks of either byte order are used as they are",
            Self::NoBitmap => "`brindle grow --bitmap none --array MEMBER...` removes a bitmap",
            Self::ForceNoBbl => {
                "bad blocks would be read as data: replace the device, then --update=no-bbl removes the log"
            }
            Self::SuperMinor => "it is the number of a device of the kernel's md: mdadm changes it",
            Self::LayoutOriginal | Self::LayoutAlternate | Self::LayoutUnspecified => {
                "it says which kernel wrote a RAID 0 of unequal members: mdadm changes it"
            }
            Self::Sparc | Self::Nodes | Self::HomeCluster | Self::Ppl | Self::NoPpl => {
                "this release writes to no such array: mdadm changes it"
            }
        })
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

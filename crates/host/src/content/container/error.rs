//! Why disks make no container, or its volume can't be read.

use thiserror::Error;

/// Why disks make no container, or its volume can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// No disk of a volume is here.
    #[error("none of the disks is one of a volume of Intel's RAID: they are spares; give the others")]
    OnlySpares,
    /// The disks are of several containers.
    #[error("the disks are of different containers of Intel's RAID: {}; give those of one", .families.join("; "))]
    Families {
        /// The family number of each, with its disks.
        families: Vec<String>,
    },
    /// Disks of one state say different things.
    #[error(
        "{} say different things at generation {generation} of their container: they went separate ways; leave out what is older, or copies",
        .labels.join(" and ")
    )]
    Contradict {
        /// The disks.
        labels: Vec<String>,
        /// Their count.
        generation: u32,
    },
    /// Two disks are the same one of the container.
    #[error("{first} and {second} are both the disk of serial number '{serial}': leave out one")]
    Twice {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// Their serial number.
        serial: String,
    },
    /// Nothing tells which of the container's disks some are.
    #[error(
        "{}: all disks of a container hold the same metadata, and which one of {} it is can't be told by a serial number: have the name of the file hold that number, or \
         give all disks in their order by --disks",
        .labels.join(", "),
        .serials.join(", ")
    )]
    Unidentified {
        /// The disks.
        labels: Vec<String>,
        /// Serial numbers of disks that are not found.
        serials: Vec<String>,
    },
    /// There is no such volume.
    #[error("the container has no volume '{wanted}': it has {}; give one of those by --volume", .has.join(", "))]
    NoVolume {
        /// The name or number.
        wanted: String,
        /// All volumes.
        has: Vec<String>,
    },
    /// Two volumes take the same place.
    #[error(
        "volumes '{first}' and '{second}' of the container overlap on its disks: its metadata are damaged, and it is not read"
    )]
    Overlap {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A volume is not on its disks.
    #[error(
        "volume '{volume}' reaches to byte {end} of its disks, and {label} has {has}: the metadata are damaged, or the disk was cut; give a whole copy of it"
    )]
    BeyondDisk {
        /// The volume.
        volume: String,
        /// The byte.
        end: u64,
        /// The disk.
        label: String,
        /// Its bytes.
        has: u64,
    },
    /// A volume says something that makes no sense.
    #[error(
        "volume '{volume}' can't be read, since {why}: its metadata are damaged, or of a kind that this release does not know"
    )]
    Nonsense {
        /// The volume.
        volume: String,
        /// The reason.
        why: String,
    },
    /// Bytes of a volume are being moved.
    #[error(
        "volume '{volume}' is being changed to another shape (general migration), which this release does not read: let it end on the machine that it comes from"
    )]
    Moving {
        /// The volume.
        volume: String,
    },
    /// Too many disks are missing.
    #[error("disks {} of volume '{volume}' are missing: what only they held is not here; give more of them", .missing.join(", "))]
    TooFew {
        /// The volume.
        volume: String,
        /// Serial numbers of those that are missing.
        missing: Vec<String>,
    },
    /// Disks are missing, and redundancy is not known to be true.
    #[error(
        "volume '{volume}' was not stopped cleanly, or not initialised, and disks {} are missing: what they held can't be worked out for certain; find them, or use \
         --force to take what parity gives",
        .missing.join(", ")
    )]
    DirtyDegraded {
        /// The volume.
        volume: String,
        /// Serial numbers of those that are missing.
        missing: Vec<String>,
    },
}

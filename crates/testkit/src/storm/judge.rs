//! Failures of a storm: broken promises.

use core::fmt;

use brindle_array::ProcessError;
use brindle_array::SyncReport;
use brindle_io::OpError;
use brindle_md::OpenError;
use brindle_md::assembly::AssemblyError;

use super::standstill::Standstill;
use crate::client::Trouble;

/// A promise that was broken.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A client was not served as it should have been.
    Client(Trouble),
    /// A drive that is there could not be looked at.
    Look(OpError),
    /// The members form no array any more.
    Assembly(AssemblyError),
    /// The drives that answer have no record of a container.
    NoContainer,
    /// The array can't be opened.
    Open(OpenError),
    /// Members to which nothing had happened are no longer part of the array.
    ThrownOut(Vec<u16>),
    /// The engine failed at something that it must do.
    Engine {
        /// The call: resync, scrub, check or stop.
        what: &'static str,
        /// How.
        error: ProcessError,
    },
    /// The array does not start, or after a stop not clean, without members that it can do without.
    NotEnough(Vec<u16>),
    /// After a cut superblocks of more members are torn than the array can lose.
    TornTogether(Vec<u16>),
    /// After a stop the superblocks of members in use, by their drives, are torn, or older than others.
    StaleSuperblocks(Vec<u16>),
    /// A member that failed, by its drive, is so little behind that md may take it for one in sync.
    TooRecent(u16),
    /// Bits of the bitmap were cleared, or called clear, after a member, by its drive, had failed.
    Forgotten(u16),
    /// The flags of a member, by its drive, are not those that were acknowledged.
    OtherFlags(u16),
    /// A member of an array with 0.90 has another number than that of its role.
    OtherNumber(u16),
    /// Superblocks of 0.90 of one count, by their drives, describe devices otherwise.
    TablesDiffer(u16, u16),
    /// With 0.90 one record, between the superblocks of these drives, says that a member failed, and changes a number, too.
    ChangedTwice(u16, u16),
    /// The bitmap of a member, by its role, is none, or older than its superblock.
    StaleBitmap(u16),
    /// Redundancy differs, and the bitmap of a member does not mark it.
    Unmarked {
        /// The member's role.
        role: u16,
        /// Where, as a resync counts.
        offset: u64,
    },
    /// The bitmap in a file lacks a bit.
    UnmarkedInFile {
        /// Where, as a resync counts.
        offset: u64,
    },
    /// Redundancy differs where it is known to be in sync.
    Mismatch(SyncReport),
    /// An array that was started by force gives other bytes than it went on with, once a second member is lost.
    NotKept {
        /// Byte of the array.
        offset: u64,
    },
    /// After a stop the superblocks do not say clean.
    NotClean,
    /// The two devices of a role differ.
    SecondsDiffer {
        /// The role.
        role: u16,
        /// The first byte of its data area that differ, by 4 KiB.
        offset: u64,
    },
    /// The second device of a role to which nothing happened has left the role.
    SecondLost(u16),
    /// Faults have ended, and after this many steps the array lacks members that are not lost, by their roles, or is
    /// busy still.
    NotAlive {
        /// Roles that are not in sync.
        roles: Vec<u16>,
        /// Steps since the faults ended.
        steps: u64,
    },
    /// After its end a door holds so many bytes for its clients.
    DoorHolds(usize),
    /// The storm came to no end.
    Endless(Box<Standstill>),
    /// The engine panicked.
    Panic(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(trouble) => write!(f, "{trouble}"),
            Self::Look(error) => write!(f, "a drive that is there can't be looked at: {error}"),
            Self::Assembly(error) => write!(f, "the members form no array: {error}"),
            Self::NoContainer => f.write_str("no drive that answers has a record of the container"),
            Self::Open(error) => write!(f, "the array can't be opened: {error}"),
            Self::ThrownOut(roles) => write!(f, "roles {roles:?} are out, but nothing happened to them"),
            Self::NotEnough(roles) => {
                write!(f, "without roles {roles:?} it does not start as it should, though it can do without")
            }
            Self::TornTogether(roles) => write!(f, "the superblocks of roles {roles:?} are torn"),
            Self::StaleSuperblocks(roles) => {
                write!(f, "stopped, but the superblocks of drives {roles:?} were left behind")
            }
            Self::TooRecent(drive) => {
                write!(f, "drive {drive} has failed, but md may take it for one in sync")
            }
            Self::Forgotten(drive) => {
                write!(f, "drive {drive} has failed, but bits of the bitmap count as cleared since")
            }
            Self::OtherNumber(drive) => write!(f, "drive {drive} has not the number of its role"),
            Self::TablesDiffer(one, other) => {
                write!(
                    f,
                    "the superblocks of drives {one} and {other} have one count, and describe devices otherwise"
                )
            }
            Self::ChangedTwice(one, other) => {
                write!(
                    f,
                    "between the superblocks of drives {one} and {other} a member failed and a number changed"
                )
            }
            Self::OtherFlags(drive) => write!(f, "drive {drive} has other flags than were acknowledged"),
            Self::StaleBitmap(role) => {
                write!(f, "the bitmap of role {role} is older than the superblock, or none")
            }
            Self::Unmarked { role, offset } => {
                write!(f, "redundancy differs at {offset}, and the bitmap of role {role} does not mark it")
            }
            Self::UnmarkedInFile { offset } => {
                write!(f, "redundancy differs at {offset}, and the bitmap in its file does not mark it")
            }
            Self::Engine { what, error } => write!(f, "{what}: {error}"),
            Self::Mismatch(report) => {
                write!(
                    f,
                    "{} sectors differ where redundancy is in sync, first {:?}",
                    report.mismatch_sectors,
                    report.places.first()
                )
            }
            Self::NotKept { offset } => {
                write!(f, "started by force, and other bytes at {offset} once a second member is lost")
            }
            Self::NotClean => f.write_str("stopped, but not clean"),
            Self::SecondsDiffer { role, offset } => {
                write!(f, "the devices of role {role} differ from byte {offset} of the data area on")
            }
            Self::SecondLost(role) => write!(f, "the second device of role {role} is out of use"),
            Self::NotAlive { roles, steps } if roles.is_empty() => {
                write!(f, "{steps} steps after faults ended, which is too many, the array is whole")
            }
            Self::NotAlive { roles, steps } => {
                write!(f, "{steps} steps after faults ended roles {roles:?} lack what is not lost")
            }
            Self::DoorHolds(bytes) => write!(f, "a door holds {bytes} bytes after its end"),
            Self::Endless(standstill) => write!(f, "nothing comes to an end: {standstill}"),
            Self::Panic(what) => write!(f, "panic: {what}"),
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::Client(trouble)
    }
}

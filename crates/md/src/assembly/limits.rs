//! Reasons why this release does not write to an array.

use brindle_array::ledger::Limit;
use brindle_format::md::bitmap::{BitmapError, BitmapVersion};
use brindle_format::md::ppl::PplError;
use brindle_format::md::{DeviceRole, Features, Uuid};
use brindle_io::OpError;

use super::choose::Picked;
use super::error::{Roles, apart};
use super::{AssembleOptions, AssemblyError, DeviceUse};

/// The highest event count that a run begins with: more than the changes of state of any array, and as many to go.
const MAX_EVENTS: u64 = u64::MAX / 2;

/// A reason why an array is served read-only, or with less certainty. The message names feature and way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limitation {
    /// A write-intent bitmap would have to be kept up to date, and can't be.
    #[error(
        "{label}: the array's write-intent bitmap (feature bitmap) can't be kept up to date, since {why}; remove it with 'mdadm --assemble --update=no-bitmap' or 'mdadm --grow --bitmap=none'"
    )]
    Bitmap {
        /// The member with the feature.
        label: String,
        /// The reason.
        why: BitmapFault,
    },
    /// A partial parity log would have to be written.
    #[error(
        "the array has a partial parity log (feature ppl), which this release can't write; change it with 'mdadm --grow --consistency-policy=resync'"
    )]
    Ppl,
    /// Writes go to a journal first.
    #[error(
        "the array has a journal device (feature journal), which this release can't write; let mdadm drop the journal first"
    )]
    Journal,
    /// Forced: the journal, which may hold the only copy of writes, is not here.
    #[error(
        "the array's journal is missing or out of date (feature journal): what was last written may be missing or mixed with older bytes; copy what you need to another array"
    )]
    JournalMissing,
    /// Forced: the journal holds writes that have not reached the members.
    #[error(
        "{label} holds writes that have not reached the members (feature journal): they are missing from what is read; let mdadm assemble the array to have them replayed"
    )]
    JournalPending {
        /// The journal device.
        label: String,
    },
    /// Forced: members have bad blocks, and no redundancy makes up for them.
    #[error(
        "{} in their log (feature bad-blocks): what is read there was never written; copy what you need to another array",
        has(labels)
    )]
    BadBlocks {
        /// The members with bad blocks.
        labels: Vec<String>,
    },
    /// The geometry was given by hand: no superblock says that it is so.
    #[error(
        "the array's geometry was given by hand (--assume), so it is only read; make sure that what is read makes sense"
    )]
    Assumed,
    /// Several hosts share the array.
    #[error(
        "the array is clustered (feature clustered): other hosts may write to it; serve it from a cluster node"
    )]
    Clustered,
    /// A member that can't be copied is to be replaced.
    #[error(
        "{label} is the replacement (feature replacement) of a member that lacks bytes itself, or has another replacement; let mdadm finish it"
    )]
    Replacement {
        /// The replacement.
        label: String,
    },
    /// The event count has no room left: none of a real array ever comes near.
    #[error(
        "the array's event count is {events}, which leaves no room to count on: its superblocks are damaged; copy what you need to another array"
    )]
    Events {
        /// The count.
        events: u64,
    },
    /// Bytes are being moved from one geometry to another; both are read.
    #[error(
        "the array is being reshaped (feature reshape), and its reshape position is byte {position}: both sides of it are read, and {}{}", goes_on(*can_go_on), doubtful(*in_doubt)
    )]
    Reshape {
        /// Byte of the array.
        position: u64,
        /// Forced: bytes near the reshape position may be wrong.
        in_doubt: bool,
        /// It is of a kind that can be gone on with.
        can_go_on: bool,
    },
    /// The first or the last record of a change of the array's shape stands on some members only.
    #[error(
        "a record by which the shape of the array changes was cut short: {}; copy what you need to another array, since mdadm does not read this one as it is",
        cut(labels, *began)
    )]
    CutReshape {
        /// The members whose superblocks are not taken as they are.
        labels: Vec<String>,
        /// It is the first record, and the array is read as it was; else the last, and the array is read as it is to be.
        began: bool,
    },
    /// Forced: a partial parity log can't be replayed in full.
    #[error(
        "{label}: its partial parity log (feature ppl) is damaged, since {why}: what the missing member held is worked out without that, and may be wrong where the array was being written"
    )]
    PplDamaged {
        /// The member.
        label: String,
        /// The damage.
        why: PplFault,
    },
    /// Feature bits that this release does not know.
    #[error("the array uses feature bits {bits:#x}, which this release does not know; use a newer one")]
    Unknown {
        /// The bits.
        bits: u32,
    },
    /// Forced: members are used that missed writes.
    #[error(
        "{} out of date and used all the same: what was written since may be missing or mixed with older bytes; copy what you need to another array",
        are(labels)
    )]
    Stale {
        /// The members.
        labels: Vec<String>,
    },
    /// More members are missing than the array can do without, and it is read all the same.
    #[error(
        "{} missing that the array can't do without (--partial): what only they held is left out{}; copy what is there",
        gone(roles),
        guessed(*is_guessed)
    )]
    Partial {
        /// The roles without a member that holds all that it should.
        roles: Vec<u16>,
        /// How much those held is not known: the level has no redundancy, and may use members of several sizes.
        is_guessed: bool,
    },
    /// Forced: members are used together that were written apart.
    #[error(
        "{} were last written at different times, as copies of members beside the originals are: what is read may be a mixture of both; copy what you need to another array",
        apart(groups)
    )]
    Apart {
        /// The members that were written together, the largest group first.
        groups: Vec<Vec<String>>,
    },
    /// Not stopped cleanly with members missing, and forced: the data of the missing ones may be wrong.
    #[error(
        "the array was not stopped cleanly and members are missing: what they held, from byte {from} of their data on, is worked out from parity that may be wrong{}", compared(*presumed)
    )]
    DirtyDegraded {
        /// Bytes of the members' data areas: below, parity is known to be in sync.
        from: u64,
        /// The one role that a RAID 6 lacks: its data are what P gives, and Q is brought in agreement with that. `None` where
        /// nothing is left to compare them with.
        presumed: Option<u16>,
    },
}

/// Why a write-intent bitmap can't be kept up to date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BitmapFault {
    /// The bitmap is damaged, or none.
    #[error(transparent)]
    Damaged(#[from] BitmapError),
    /// The bitmap can't be read.
    #[error("it can't be read: {0}")]
    Unread(#[from] OpError),
    /// The bitmap is kept in a way that this release does not know.
    #[error("it has version {}, {}", version.number(), kept(*version))]
    Version {
        /// The bitmap's version.
        version: BitmapVersion,
    },
    /// The bitmap is another array's.
    #[error("it is that of another array, {uuid}")]
    Foreign {
        /// The UUID that the file carries.
        uuid: Uuid,
    },
    /// The bitmap has more bits than there is room for, or a value that no kernel takes.
    #[error(
        "there is no room for its {bits} bits where it stands, or its delay is 0, or more writes may lag behind than kernels let"
    )]
    Extent {
        /// The bitmap's bits.
        bits: u64,
    },
    /// The array's level has nothing to resync.
    #[error("the array's level has no redundancy")]
    NoRedundancy,
    /// A file is shorter than its bitmap.
    #[error("it has {have} bytes, and its bits end at byte {need}: it was cut short")]
    Short {
        /// Bytes of the file.
        have: u64,
        /// Bytes of superblock and bits.
        need: u64,
    },
    /// A file has seen more of the array than its members have.
    #[error(
        "it is at event {events}, and the array at {of}: members that are newer are not here, or these are older copies of them"
    )]
    Newer {
        /// The bitmap's event count.
        events: u64,
        /// The array's.
        of: u64,
    },
    /// A file was given for an array that has its bitmap elsewhere.
    #[error("the array has one beside its superblocks already")]
    Beside,
    /// The array's writes are put on record by something else.
    #[error("the array has {policy}, beside which md knows no bitmap")]
    Policy {
        /// The policy's name.
        policy: &'static str,
    },
}

/// Why a partial parity log can't be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PplFault {
    /// It can't be read, or a member whose data it needs.
    #[error("it can't be read: {0}")]
    Unread(#[from] OpError),
    /// It has no header that can be trusted.
    #[error(transparent)]
    Header(#[from] PplError),
    /// It is not where a log can be.
    #[error("there is no room for it where it is said to be")]
    Place,
    /// The parity of an entry is not what was written.
    #[error("the parity of its entry {entry} does not match its checksum")]
    Checksum {
        /// The entry, from 0 on.
        entry: usize,
    },
    /// An entry says of bytes that are not in one row of the array, or not with parity on this member.
    #[error(
        "its entry {entry} is of {bytes} bytes at byte {offset}, which is no part of a row whose parity this member has"
    )]
    Outside {
        /// The entry, from 0 on.
        entry: usize,
        /// Byte of the array.
        offset: u64,
        /// Bytes of data.
        bytes: u64,
    },
    /// Two entries stand for one place.
    #[error("its entry {entry} is of a place that another one is of, too")]
    Overlap {
        /// The later of them.
        entry: usize,
    },
    /// The entries are of more than any log is of.
    #[error("its entries are of more parity than a log can be of")]
    TooMuch,
}

fn kept(version: BitmapVersion) -> &'static str {
    match version {
        BitmapVersion::HostEndian => "in the byte order of some host",
        BitmapVersion::LittleEndian => "in bits",
        BitmapVersion::Clustered => "for the nodes of a cluster",
        BitmapVersion::Lockless => "in bytes of state: a lockless one",
    }
}

impl Limitation {
    /// Whether the array must not be written to, forced or not.
    pub fn forbids_writes(&self) -> bool {
        self.forced_from().is_none()
    }

    /// For a dirty, degraded array that was forced to start: from where on its members' data are in doubt, in bytes.
    pub fn forced_from(&self) -> Option<u64> {
        match self {
            Self::DirtyDegraded { from, .. } => Some(*from),
            _ => None,
        }
    }
}

fn gone(roles: &[u16]) -> String {
    format!("{} {}", Roles(roles), if roles.len() > 1 { "are" } else { "is" })
}

fn guessed(is_guessed: bool) -> &'static str {
    if is_guessed {
        ", and each of them is taken to be as large as the largest that is here: with members of several sizes it reads wrong"
    } else {
        ""
    }
}

/// The limitation in the engine's form.
impl From<&Limitation> for Limit {
    fn from(of: &Limitation) -> Self {
        Self { text: of.to_string(), forbids_writes: of.forbids_writes() }
    }
}

/// The limitations that feature bits alone tell of; those of single members are found elsewhere.
pub(super) fn of_features(features: Features) -> Vec<Limitation> {
    let mut limits = Vec::new();
    if features.intersects(Features::PPL | Features::MULTIPLE_PPLS) {
        limits.push(Limitation::Ppl);
    }
    if features.intersects(Features::JOURNAL) {
        limits.push(Limitation::Journal);
    }
    if features.intersects(Features::CLUSTERED) {
        limits.push(Limitation::Clustered);
    }
    if features.unknown() != 0 {
        limits.push(Limitation::Unknown { bits: features.unknown() });
    }
    limits
}

/// Whether a run of the array could count its events on without an overflow.
pub(super) fn of_events(events: u64) -> Option<Limitation> {
    (events > MAX_EVENTS).then_some(Limitation::Events { events })
}

/// An array with a journal can't do without: it may hold the only copy of what was last written (mdadm's "not safe to
/// assemble with missing or stale journal device").
pub(super) fn of_journal(
    features: Features,
    picked: &[Picked<'_>],
    usage: &[DeviceUse],
    options: AssembleOptions,
) -> Result<Option<Limitation>, AssemblyError> {
    if !features.contains(Features::JOURNAL) || usage.contains(&DeviceUse::Journal) {
        return Ok(None);
    }
    if options.force {
        return Ok(Some(Limitation::JournalMissing));
    }
    let stale = picked.iter().find(|device| device.superblock.role() == DeviceRole::Journal);
    Err(AssemblyError::JournalMissing { stale: stale.map(|device| device.label.to_owned()) })
}

fn compared(presumed: Option<u16>) -> &'static str {
    match presumed {
        Some(_) => {
            ". That is P; a resync makes Q agree with it, and until then no second member can be done without"
        }
        None => ", and nothing is left to compare that with",
    }
}

fn cut(labels: &[String], began: bool) -> String {
    let names = labels.join(", ");
    if began {
        format!("{names} alone may say what was to come, nothing had moved, and the array is read as it was")
    } else {
        format!("{names} may lack it, all had moved, and the array is read as it is to be")
    }
}

fn goes_on(can_go_on: bool) -> &'static str {
    if can_go_on {
        "nothing is written; --continue goes on with the reshape, and so does mdadm"
    } else {
        "nothing is written: this release does not go on with this kind; let mdadm finish the reshape"
    }
}

fn doubtful(in_doubt: bool) -> &'static str {
    if in_doubt {
        ". Bytes near the reshape position may be wrong: what belongs there may be in mdadm's backup, or nowhere"
    } else {
        ""
    }
}

fn has(labels: &[String]) -> String {
    match labels {
        [label] => format!("{label} has bad blocks"),
        labels => format!("{} have bad blocks", labels.join(", ")),
    }
}

fn are(labels: &[String]) -> String {
    match labels {
        [label] => format!("{label} is"),
        labels => format!("{} are", labels.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limitations_name_whom_they_concern() {
        let labels = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let one = |limit: Limitation, start: &str| assert!(limit.to_string().starts_with(start), "{limit}");
        one(Limitation::BadBlocks { labels: labels(&["sda"]) }, "sda has bad blocks in their log");
        one(
            Limitation::BadBlocks { labels: labels(&["sda", "sdb"]) },
            "sda, sdb have bad blocks in their log",
        );
        one(Limitation::Stale { labels: labels(&["sda"]) }, "sda is out of date and used");
        one(Limitation::Stale { labels: labels(&["sda", "sdb"]) }, "sda, sdb are out of date and used");
        let reshape =
            |in_doubt| Limitation::Reshape { position: 4096, in_doubt, can_go_on: false }.to_string();
        assert!(reshape(false).ends_with("let mdadm finish the reshape"));
        assert!(reshape(true).contains("reshape. Bytes near the reshape position may be wrong: "));
    }
}

//! Why devices do not form an array.

use core::fmt;

use brindle_format::md::{SuperblockError, Uuid, display_uuid};
use brindle_layout::{GeometryError, Level, UnknownLayout, UnknownLevel};

/// One of several arrays whose members were given together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignArray {
    /// The array's identity.
    pub uuid: Uuid,
    /// The array's name, if it has one.
    pub name: String,
    /// The devices that belong to the array; none where they are not told.
    pub members: Vec<String>,
}

impl fmt::Display for ForeignArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", display_uuid(self.uuid))?;
        if !self.name.is_empty() {
            write!(f, " '{}'", self.name.escape_debug())?;
        }
        match self.members.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.members.join(", ")),
        }
    }
}

/// Why devices do not form an array. Every message names the devices and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssemblyError {
    /// No device was given.
    #[error("no members given: name the devices of the array")]
    Empty,
    /// A device carries no md superblock.
    #[error("{label} has no md superblock: it is not a member of an array; leave it out")]
    NoSuperblock {
        /// The device.
        label: String,
    },
    /// A device's superblock can't be trusted.
    #[error("{label}: {why}; leave it out if the array can do without it")]
    Damaged {
        /// The device.
        label: String,
        /// The reason why the superblock can't be used.
        why: SuperblockError,
    },
    /// The devices belong to more than one array.
    #[error("the members belong to different arrays: {}; give those of one", list(arrays, "; "))]
    Mixed {
        /// The arrays, the one with the most members first.
        arrays: Vec<ForeignArray>,
    },
    /// The devices have two UUIDs, and are one array by all else.
    #[error(
        "{} have one UUID and {} another, and by all else they are one array: a change of its UUID was cut short; `brindle update --update uuid --force` with all of them ends it",
        list(&members.0, ", "), list(&members.1, ", ")
    )]
    HalfRenamed {
        /// The UUIDs.
        uuids: (Uuid, Uuid),
        /// The devices that have each, in that order.
        members: (Vec<String>, Vec<String>),
    },
    /// Two devices are the same member.
    #[error(
        "{} and {} are both device {number} of the array with the same event count: one device given twice, or a copy; give one of them",
        labels.0, labels.1
    )]
    SameDevice {
        /// The devices.
        labels: (String, String),
        /// Their number in the array.
        number: u32,
    },
    /// Two members claim one role, and neither is newer.
    #[error(
        "{} and {} both claim role {role} with the same event count; leave one of them out",
        labels.0, labels.1
    )]
    DuplicateRole {
        /// The devices.
        labels: (String, String),
        /// The role.
        role: u16,
    },
    /// Two equally new members each say that the other has failed: both were written to without the other.
    #[error(
        "{} and {} each say that the other has failed: they were used apart, and differ; leave one side out",
        labels.0, labels.1
    )]
    SplitBrain {
        /// The devices.
        labels: (String, String),
    },
    /// Members with one event count that were not written together.
    #[error(
        "{} have the same event count, but were last written at different times: copies of members are beside the originals, and what they hold differs; give those that belong together, or use --force to read them as they are",
        apart(groups)
    )]
    Apart {
        /// The members that were written together, the largest group first.
        groups: Vec<Vec<String>>,
    },
    /// Members of one array disagree on what it is.
    #[error("{label} says {field} {says}, but {other} says {other_says}; leave out the one that is wrong")]
    Inconsistent {
        /// The device that differs.
        label: String,
        /// The field in which they disagree.
        field: &'static str,
        /// The value in this superblock.
        says: String,
        /// The member with the highest event count.
        other: String,
        /// The value in the other superblock.
        other_says: String,
    },
    /// Only devices without a role (spares, journals, failed ones) were given.
    #[error("none of the devices holds data of the array: {}", labels.join(", "))]
    NoMember {
        /// The devices.
        labels: Vec<String>,
    },
    /// Too many roles have no member.
    #[error("{} {} missing: {have} of {total} members are here, {}{}", Roles(roles), Are(roles), Needs(*need, *total), Stale(stale))]
    TooFewMembers {
        /// Roles without a usable member.
        roles: Vec<u16>,
        /// Roles with one.
        have: u16,
        /// Roles of the array.
        total: u16,
        /// Members needed at least; which ones may matter too (RAID 10).
        need: u16,
        /// Devices given that were left out, each with the reason.
        stale: Vec<String>,
    },
    /// Members are missing and redundancy was not true when the array was last written to.
    #[error(
        "the array was not stopped cleanly and {} {} missing: what those held can't be worked out for certain; find them, or use --force to take what parity gives",
        Roles(roles),
        Are(roles)
    )]
    DirtyDegraded {
        /// Roles without a usable member.
        roles: Vec<u16>,
    },
    /// The array's journal is not here: it may hold the only copy of what was last written.
    #[error(
        "{} (feature journal): it may hold the only copy of what was last written; name it with the members, or use --force to read without it",
        Journal(stale.as_deref())
    )]
    JournalMissing {
        /// A journal device that is given, but out of date.
        stale: Option<String>,
    },
    /// A member has bad blocks, and the array has no redundancy that would make up for them.
    #[error(
        "{} bad blocks in their log, and the array has no redundancy: use --force to read them as they are",
        Labels(labels)
    )]
    BadBlocks {
        /// The members.
        labels: Vec<String>,
    },
    /// The array is being reshaped in a way that can't be read.
    #[error("the array is being reshaped (feature reshape) {0}")]
    Reshape(#[from] ReshapeError),
    /// The level is none that arrays of ours can have.
    #[error(transparent)]
    Level(#[from] UnknownLevel),
    /// The layout number does not exist.
    #[error(transparent)]
    Layout(#[from] UnknownLayout),
    /// No array can have this shape.
    #[error("the superblocks are damaged, since they describe an impossible array: {0}")]
    Geometry(#[from] GeometryError),
}

fn list<T: fmt::Display>(items: &[T], separator: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

/// `a and b`, `(a, b) and c`.
pub(super) fn apart(groups: &[Vec<String>]) -> String {
    let group = |group: &Vec<String>| match &group[..] {
        [one] => one.clone(),
        many => format!("({})", many.join(", ")),
    };
    groups.iter().map(group).collect::<Vec<_>>().join(" and ")
}

/// `role 2`, `roles 1 and 3`.
pub(crate) struct Roles<'a>(pub(crate) &'a [u16]);

impl fmt::Display for Roles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [role] => write!(f, "role {role}"),
            [first @ .., _, _] if first.len() > 8 => {
                write!(f, "roles {} and {} more", list(&first[..6], ", "), self.0.len() - 6)
            }
            [many @ .., last] => write!(f, "roles {} and {last}", list(many, ", ")),
            [] => f.write_str("no role"),
        }
    }
}

struct Are<'a>(&'a [u16]);

impl fmt::Display for Are<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() > 1 { "are" } else { "is" })
    }
}

struct Journal<'a>(Option<&'a str>);

impl fmt::Display for Journal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the array's journal device is missing"),
            Some(label) => write!(f, "the journal device {label} is out of date"),
        }
    }
}

struct Needs(u16, u16);

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            f.write_str("all are needed")
        } else {
            write!(f, "at least {} are needed", self.0)
        }
    }
}

struct Stale<'a>(&'a [String]);

impl fmt::Display for Stale<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " (left out: {}; --force reads them all the same)", self.0.join("; "))
        }
    }
}

struct Labels<'a>(&'a [String]);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [label] => write!(f, "{label} has"),
            labels => write!(f, "{} have", labels.join(", ")),
        }
    }
}

/// Why an array in the middle of a reshape can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReshapeError {
    /// md changes the level at once, before or after the reshape; never with it.
    #[error("from level {from} to level {to}, which md does not do")]
    OtherLevel {
        /// The level that the array has, as md counts it.
        from: i32,
        /// The level after the reshape.
        to: i32,
    },
    /// md does not reshape such arrays.
    #[error("and {} is none that md reshapes", level.name())]
    Level {
        /// The level.
        level: Level,
    },
    /// Bytes may have been moved over others of which nothing says that they had been moved before.
    #[error(
        "so that bytes near the reshape position may be in mdadm's backup only, or further than is recorded: let 'mdadm --assemble --backup-file=FILE' go on with it, or use --force to read what is there"
    )]
    InDoubt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_roles_are_counted_and_few_are_named() {
        let reported = |count: u16| Roles(&(0..count).collect::<Vec<_>>()).to_string();
        assert_eq!(reported(0), "no role");
        assert_eq!(reported(1), "role 0");
        assert_eq!(reported(3), "roles 0, 1 and 2");
        assert_eq!(reported(10), "roles 0, 1, 2, 3, 4, 5, 6, 7, 8 and 9");
        assert_eq!(reported(11), "roles 0, 1, 2, 3, 4, 5 and 5 more");
    }

    #[test]
    fn an_array_without_its_journal_says_which_one() {
        let reported = |stale: Option<&str>| {
            AssemblyError::JournalMissing { stale: stale.map(str::to_owned) }.to_string()
        };
        assert!(reported(None).starts_with("the array's journal device is missing"), "{}", reported(None));
        assert!(
            reported(Some("sdd")).starts_with("the journal device sdd is out of date"),
            "{}",
            reported(Some("sdd"))
        );
    }
}

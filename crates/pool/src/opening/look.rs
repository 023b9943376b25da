//! Looks at devices: which pool each is of, and which of several states of it is to be believed.

use brindle_format::pool::{
    BLOCK, CONFIG_BYTES, Features, LABEL, LABEL_BYTES, Label, PoolError, RING, RING_SLOTS, Uberblock,
    second_label, units_of,
};
use brindle_io::{Duration, Io, MemberId, OpClass, OpError};
use thiserror::Error;

use crate::role::{Role, members_of};

/// The time in which a device answers that has labels to read or to write.
pub(crate) const LABEL_PATIENCE: Duration = Duration::from_secs(20);

/// Why a pool does not open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolOpenError {
    /// A device can't be read.
    #[error("{device}: can't be read: {error}")]
    Unreadable {
        /// The name that was given.
        device: String,
        /// Why.
        error: OpError,
    },
    /// A device has no label.
    #[error("{device}: it is not a member of a pool: {error}")]
    NoLabel {
        /// The name that was given.
        device: String,
        /// The fault of what was found instead.
        error: PoolError,
    },
    /// Devices are of two pools.
    #[error("{device}: it is of the pool {name}, others are of another: give the members of one")]
    OtherPool {
        /// The name that was given.
        device: String,
        /// The pool that it is of.
        name: String,
    },
    /// Two devices are the same member.
    #[error(
        "{one} and {other} both are member {vdev}.{role}: one is a copy of the other, or both are one device; give one"
    )]
    Twice {
        /// One of them,
        one: String,
        /// and the other, as they were named.
        other: String,
        /// Their vdev,
        vdev: usize,
        /// and role they have.
        role: u16,
    },
    /// Labels of one pool contradict each other.
    #[error("{device}: its label says something else of the pool than those of the others: leave it out")]
    Contradicts {
        /// The name that was given.
        device: String,
    },
    /// A device is smaller than when it became a member.
    #[error("{device}: it has {have} bytes, and had {need} when it became a member: it is truncated")]
    TooSmall {
        /// The name that was given.
        device: String,
        /// Bytes now.
        have: u64,
        /// Bytes then.
        need: u64,
    },
    /// The pool uses what this release does not know.
    #[error("the pool uses features that this release does not know (incompatible {:#x}, read-only compatible {:#x}): use a later release", .0.incompatible, .0.read_only)]
    Features(Features),
    /// There is no uberblock.
    #[error("no member has an uberblock: the pool was never created to its end, create it again")]
    NoUberblock,
    /// Members were written apart from each other.
    #[error(
        "members were written apart from each other: {one} (last written {one_time}) and {other} (last written {other_time}); serve it with --take {one} or --take {other}, which decides for good"
    )]
    Diverged {
        /// A member of one half, as `VDEV.ROLE`,
        one: String,
        /// and when that was written last, in seconds since 1970.
        one_time: u64,
        /// One of the other half,
        other: String,
        /// and when that was.
        other_time: u64,
    },
    /// Too many members are missing.
    #[error("too many members are missing: {missing}; find them and name them with the others")]
    TooManyMissing {
        /// The missing members, as `VDEV.ROLE`.
        missing: String,
    },
    /// Members are missing that were in use.
    #[error(
        "members that were in use are missing: {missing}; name them with the others, or go on without them by --degraded"
    )]
    Degraded {
        /// The missing members, as `VDEV.ROLE`.
        missing: String,
    },
    /// Batches that were on stable storage are gone.
    #[error(
        "{count} batches that were on stable storage are lost, from number {first} on: open it read-only to save what is left"
    )]
    Lost {
        /// The first.
        first: u64,
        /// The number of members.
        count: u64,
    },
    /// Pages of its own find no room.
    #[error(
        "the pool has room for {has} pages of its own, and what was written to it needs {needs}: an older release filled it that far; it is open for reading alone, copy its volumes to another"
    )]
    NoRoom {
        /// Pages that the next checkpoint may need.
        needs: u64,
        /// Pages for which there is room.
        has: u64,
    },
    /// A page that the uberblock names is damaged beyond repair.
    #[error("a page of the pool is damaged beyond repair")]
    Damaged,
    /// A page holds what can't be.
    #[error(transparent)]
    Format(#[from] PoolError),
    /// Members failed.
    #[error(transparent)]
    Volume(#[from] brindle_volume::VolumeError),
}

/// A device with a label.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The name that was given.
    pub name: String,
    /// The device.
    pub id: MemberId,
    /// Its bytes now.
    pub size: u64,
    /// Its label.
    pub label: Label,
    /// Its youngest uberblock.
    pub head: Option<Uberblock>,
    /// Slots that hold neither an uberblock nor zeroes in one of its rings, a bit each.
    pub torn: u64,
    /// A label whose config is damaged, where the other's is sound.
    pub damaged: Option<DamagedLabel>,
    /// Slots of each ring that have held nothing yet, a bit each, behind the byte of its label.
    pub blank: Vec<(u64, u64)>,
}

/// A label whose config is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedLabel {
    /// Its byte on the device,
    pub at: u64,
    /// and that of the device's other label, which is sound.
    pub sound: u64,
}

/// Reads the labels of a device.
///
/// # Errors
/// If it can't be read, has none, or is smaller than when it became a member.
pub async fn look(io: &Io, name: &str, id: MemberId) -> Result<Looked, PoolOpenError> {
    let device = || name.to_owned();
    let size = io.member_info(id).map_or(0, |info| info.size);
    let pool = io.pool(1 << 20);
    let (mut label, mut rings) = (None, Vec::new());
    let (mut first, mut sound, mut bad) = (None, None, None);
    for at in [LABEL, second_label(size)] {
        let known: Option<Label> = label.clone();
        let at = match (&known, at) {
            // A member that has grown has its second label where it was.
            (Some(label), at) if at != LABEL => {
                let then = label.members.get(usize::from(label.member)).map_or(size, |member| member.size);
                second_label(then.min(size))
            }
            _ => at,
        };
        if size < at + LABEL_BYTES {
            continue;
        }
        let buf = pool.alloc(LABEL_BYTES as usize).await;
        let mut group = io.group_of(OpClass::Metadata);
        group.read(id, at, &buf.all());
        let read = group.submit_by(io.now().after(LABEL_PATIENCE)).await.ok();
        if let Err(error) = read {
            first.get_or_insert(PoolOpenError::Unreadable { device: device(), error });
            continue;
        }
        let bytes = buf.bytes().to_vec();
        match Label::parse(&bytes[..CONFIG_BYTES]) {
            Ok(found) => {
                label = label.or(Some(found));
                sound = sound.or(Some(at));
            }
            Err(error) => {
                bad = Some(at);
                first.get_or_insert(PoolOpenError::NoLabel { device: device(), error });
            }
        }
        rings.push((at, bytes));
    }
    let none = PoolOpenError::NoLabel { device: device(), error: PoolError::Magic { what: "label" } };
    let label = label.ok_or(first.unwrap_or(none))?;
    let need = label.members.get(usize::from(label.member)).map_or(0, |member| member.size);
    if size < need {
        return Err(PoolOpenError::TooSmall { device: device(), have: size, need });
    }
    let slots = rings.iter().flat_map(|(_, ring)| slots_of(ring));
    let (mut head, mut torn): (Option<Uberblock>, u64) = (None, 0);
    for (n, slot) in slots {
        match Uberblock::parse(slot, label.pool) {
            Ok(next) if head.as_ref().is_none_or(|best| is_after(&next, best)) => head = Some(next),
            Ok(_) => {}
            Err(_) => torn |= u64::from(slot.iter().any(|byte| *byte != 0)) << n,
        }
    }
    let damaged = bad.zip(sound).map(|(at, sound)| DamagedLabel { at, sound });
    let is_blank = |(_, slot): &(u64, &[u8])| slot.iter().all(|byte| *byte == 0);
    let mask = |ring: &[u8]| slots_of(ring).filter(is_blank).fold(0, |mask, (n, _)| mask | 1 << n);
    let blank = rings.iter().map(|(at, ring)| (*at, mask(ring))).collect();
    Ok(Looked { name: device(), id, size, label, head, torn, damaged, blank })
}

/// The slots of a label's ring, with their numbers.
fn slots_of(label: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    (0..RING_SLOTS).map(|n| (n, &label[(RING + n * BLOCK as u64) as usize..][..BLOCK]))
}

/// Whether one state of the pool comes from the other, by lineage.
fn is_after(a: &Uberblock, b: &Uberblock) -> bool {
    if a.opening == b.opening { a.record > b.record } else { a.lineage.contains(&b.opening) }
}

/// The state of the pool that is believed, and the members that have it.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The label, but for the member's number.
    pub label: Label,
    /// The uberblock.
    pub head: Uberblock,
    /// Devices by member: those that are there and to be believed.
    pub members: Vec<Option<MemberId>>,
    /// Members that were in use, and that no device is.
    pub missing: Vec<u16>,
    /// Members that are out of use, and have a device again.
    pub returning: Vec<Returning>,
    /// Openings of members that were written apart from it: the next opening records that they are of the past.
    pub overruled: Vec<u64>,
    /// The same of all devices.
    pub torn: u64,
    /// Labels of these members that are damaged.
    pub damaged: Vec<(MemberId, DamagedLabel)>,
    /// Slots of their rings that have held nothing yet: the device, the byte of the label, and a bit for each slot.
    pub blank: Vec<(MemberId, u64, u64)>,
}

/// A member that is out of use and there again, of a past that the pool knows all of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// Its number.
    pub member: u16,
    /// Its device.
    pub id: MemberId,
    /// It had all batches up to this one when its youngest uberblock was written.
    pub sequence: u64,
}

/// Chooses. `take` is the member whose half is taken where members were written apart.
///
/// # Errors
/// If devices are of several pools, contradict each other, or were written apart and nothing decides.
pub fn choose(looked: &[Looked], take: Option<(usize, u16)>) -> Result<Chosen, PoolOpenError> {
    let first = looked.first().ok_or(PoolOpenError::NoUberblock)?;
    let label = first.label.clone();
    for (at, one) in looked.iter().enumerate() {
        let device = one.name.clone();
        if one.label.pool != label.pool {
            return Err(PoolOpenError::OtherPool { device, name: one.label.name.clone() });
        }
        if (Label { member: label.member, ..one.label.clone() }) != label {
            return Err(PoolOpenError::Contradicts { device });
        }
        let same = looked[..at].iter().find(|other| other.label.member == one.label.member);
        if let Some(other) = same {
            let Role { vdev, index: role } = Role::of(&label, one.label.member);
            return Err(PoolOpenError::Twice { one: other.name.clone(), other: device, vdev, role });
        }
    }
    let unknown = label.features.unknown();
    if unknown.incompatible != 0 {
        return Err(PoolOpenError::Features(unknown));
    }
    check_units(&label)?;
    let head = believed(looked, &label, take)?;
    let mut members = vec![None; label.members.len()];
    for one in looked {
        // One without an uberblock was cut off while the pool was made.
        let follows = one.head.as_ref().is_none_or(|own| head.comes_from(own.opening));
        if follows && !head.is_out(one.label.member) {
            members[usize::from(one.label.member)] = Some(one.id);
        }
    }
    let is_claimed = |member: u16| looked.iter().any(|one| one.label.member == member);
    let is_missing = |&member: &u16| !head.is_out(member) && !is_claimed(member);
    let missing = (0..label.members.len() as u16).filter(is_missing).collect();
    let returns = |one: &Looked| {
        let (member, id, own) = (one.label.member, one.id, one.head.as_ref()?);
        let knows = head.is_out(member) && head.descends_from(own);
        knows.then_some(Returning { member, id, sequence: own.sequence })
    };
    let returning = looked.iter().filter_map(returns).collect();
    // Members that went another way without being told so are known to have been overruled from the next opening on.
    let apart = |own: &&Uberblock| own.opening != head.opening && !head.comes_from(own.opening);
    let mut overruled: Vec<u64> =
        looked.iter().filter_map(|one| one.head.as_ref()).filter(apart).map(|own| own.opening).collect();
    overruled.sort_unstable();
    overruled.dedup();
    let torn = looked.iter().fold(0, |torn, one| torn | one.torn);
    let of_those = |one: &&Looked| members.contains(&Some(one.id));
    let damaged = looked.iter().filter(of_those).filter_map(|one| Some((one.id, one.damaged?))).collect();
    let blank = looked.iter().flat_map(|one| one.blank.iter().map(|&(at, slots)| (one.id, at, slots)));
    let blank = blank.filter(|&(.., slots)| slots != 0).collect();
    Ok(Chosen { label, head, members, missing, returning, overruled, torn, damaged, blank })
}

impl Chosen {
    /// A member that is out of use is in use again, once that is on record.
    pub(crate) fn take(&mut self, one: Returning) {
        self.members[usize::from(one.member)] = Some(one.id);
        self.head.out[usize::from(one.member >> 3)] &= !(1 << (one.member & 7));
    }
}

/// Units lie on their members, and members are vdev by vdev.
fn check_units(label: &Label) -> Result<(), PoolError> {
    for vdev in &label.vdevs {
        for member in members_of(vdev).filter_map(|member| label.members.get(usize::from(member))) {
            if vdev.unit > 40 || vdev.units > units_of(member.size, 1 << vdev.unit) {
                let value = vdev.units.into();
                return Err(PoolError::Impossible { what: "vdev", field: "units", value });
            }
        }
    }
    Ok(())
}

fn believed(
    looked: &[Looked],
    label: &Label,
    take: Option<(usize, u16)>,
) -> Result<Uberblock, PoolOpenError> {
    let all: Vec<(u16, &Uberblock)> =
        looked.iter().filter_map(|one| Some((one.label.member, one.head.as_ref()?))).collect();
    let mut heads: Vec<&Uberblock> = Vec::new();
    for &(_, head) in &all {
        if !all.iter().any(|(_, other)| is_after(other, head))
            && !heads.iter().any(|h| h.opening == head.opening)
        {
            heads.push(head);
        }
    }
    if let Some(role) = take.map(Role::from) {
        let taken = all.iter().find(|(member, _)| Role::of(label, *member) == role);
        let taken = taken.map(|&(_, head)| head);
        let head = heads.iter().find(|head| taken.is_some_and(|taken| head.comes_from(taken.opening)));
        return head.map(|&head| head.clone()).ok_or(PoolOpenError::NoUberblock);
    }
    // The one that recorded all others as missing, and none of them it.
    let carriers = |head: &Uberblock| {
        let opening = head.opening;
        all.iter()
            .filter(move |(_, own)| own.opening == opening)
            .map(|&(member, _)| member)
            .collect::<Vec<_>>()
    };
    let excludes = |a: &Uberblock, b: &Uberblock| carriers(b).into_iter().all(|member| a.is_out(member));
    let wins = |head: &&&Uberblock| {
        heads
            .iter()
            .all(|other| other.opening == head.opening || excludes(head, other) && !excludes(other, head))
    };
    match (&heads[..], heads.iter().find(wins)) {
        ([], _) => Err(PoolOpenError::NoUberblock),
        (_, Some(&head)) => Ok(head.clone()),
        ([one, other, ..], None) => {
            let name =
                |head: &Uberblock| Role::of(label, carriers(head).first().copied().unwrap_or(0)).to_string();
            Err(PoolOpenError::Diverged {
                one: name(one),
                one_time: one.time,
                other: name(other),
                other_time: other.time,
            })
        }
        ([one], None) => Ok((*one).clone()),
    }
}

//! Looks at devices: which pool each is of, and which of several states of it is to be believed.

use brindle_format::pool::{
    ConfigName, Features, LABEL, LABEL_BYTES, Label, MemberRecord, MemberState, PoolError, Uberblock,
    second_label, units_of,
};
use brindle_io::{Duration, Io, MemberId, OpClass, OpError};
use thiserror::Error;

use crate::opening::labels::{Area, FoundConfig, is_after, labels_of, named, next_label};
use crate::opening::whose::Holder;
use crate::role::Role;
use crate::spares::SpareDevice;

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
    /// A device has a label of another version, or with what this release does not know.
    #[error("{device}: {error}")]
    OtherVersion {
        /// The name that was given.
        device: String,
        /// The fault.
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
    /// The config that counts is on no device.
    #[error(
        "the pool's config of generation {0} counts, and is on none of these devices: name its other members, which have it"
    )]
    NoConfig(u64),
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
    /// Another host had it last, and has not given it away.
    #[error(
        "host {} has not exported it, and wrote to it last at {} (seconds since 1970): export it there, or take it by force if that host is gone", .0.host.name(), .0.at
    )]
    Anothers(Holder),
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
    /// Numbers that grow are near the greatest that there can be.
    #[error(
        "the pool has counted its {what} up to {number}, and the numbers end: it is not written to any more; open it read-only, and copy its volumes into a new pool"
    )]
    NumbersEnd {
        /// The things that are counted.
        what: &'static str,
        /// The last number.
        number: u64,
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
    /// The label that the device by itself believes.
    pub label: Label,
    /// All configs on it.
    pub configs: Vec<FoundConfig>,
    /// Its youngest uberblock.
    pub head: Option<Uberblock>,
    /// Slots that hold neither an uberblock nor zeroes in one of its rings, a bit each.
    pub torn: u64,
    /// Labels without a config in the first place.
    pub damaged: Vec<u64>,
    /// Slots of each ring that have held nothing yet, a bit each, behind the byte of its label.
    pub blank: Vec<(u64, u64)>,
}

/// A label in whose first place the config that counts does not rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongLabel {
    /// The device,
    pub id: MemberId,
    /// the number of its member,
    pub member: u16,
    /// and the byte of the label there.
    pub at: u64,
    /// The first place holds no config, and not just another one.
    pub damaged: bool,
    /// The second place has the config that counts.
    pub has_it: bool,
    /// The place that has it, or else is to be given it first: not the one that has what the device's own youngest uberblock names.
    pub place: usize,
}

/// Reads the labels of a device.
///
/// # Errors
/// If it can't be read, has none, or is smaller than when it became a member.
pub async fn look(io: &Io, name: &str, id: MemberId) -> Result<Looked, PoolOpenError> {
    let device = || name.to_owned();
    let size = io.member_info(id).map_or(0, |info| info.size);
    let pool = io.pool(1 << 20);
    let (mut areas, mut unreadable) = (Vec::new(), None);
    while let Some(at) = next_label(size, &areas) {
        let buf = pool.alloc(LABEL_BYTES as usize).await;
        let mut group = io.group_of(OpClass::Metadata);
        group.read(id, at, &buf.all());
        let read = group.submit_by(io.now().after(LABEL_PATIENCE)).await.ok();
        let bytes = read.map(|()| buf.bytes().to_vec());
        unreadable = unreadable.or(bytes.as_ref().err().copied());
        areas.push(Area { at, bytes: bytes.ok() });
    }
    let labels = labels_of(&areas).map_err(|error| match (unreadable, error.is_of_another_version()) {
        (_, true) => PoolOpenError::OtherVersion { device: device(), error },
        (Some(error), _) => PoolOpenError::Unreadable { device: device(), error },
        (None, _) => PoolOpenError::NoLabel { device: device(), error },
    })?;
    let none = PoolOpenError::NoLabel { device: device(), error: PoolError::Magic { what: "label" } };
    let label = labels.own().cloned().ok_or(none)?;
    check_size(name, size, &label, label.member)?;
    let (configs, damaged, head) = (labels.configs, labels.damaged, labels.head);
    let (torn, blank) = (labels.torn, labels.blank);
    Ok(Looked { name: device(), id, size, label, configs, head, torn, damaged, blank })
}

fn check_size(name: &str, have: u64, label: &Label, member: u16) -> Result<(), PoolOpenError> {
    let need = label.members.get(usize::from(member)).map_or(0, |member| member.size);
    match have < need {
        true => Err(PoolOpenError::TooSmall { device: name.to_owned(), have, need }),
        false => Ok(()),
    }
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
    /// Devices that wait for a role: the number of the member, and its name.
    pub spares: Vec<SpareDevice>,
    /// Openings of members that were written apart from it: the next opening records that they are of the past.
    pub overruled: Vec<u64>,
    /// The same of all devices.
    pub torn: u64,
    /// Labels of these members, and of those that come back, that do not hold the config that counts.
    pub wrong: Vec<WrongLabel>,
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

/// Chooses. `take` is the member whose half is taken where members were written apart. The youngest uberblock is found first, whatever configs
/// the devices have; the config is the one that it names.
///
/// # Errors
/// If devices are of several pools, contradict each other, or were written apart and nothing decides; if no device has the config that counts.
pub fn choose(looked: &[Looked], take: Option<(usize, u16)>) -> Result<Chosen, PoolOpenError> {
    let first = looked.first().ok_or(PoolOpenError::NoUberblock)?;
    for (at, one) in looked.iter().enumerate() {
        let device = one.name.clone();
        if one.label.pool != first.label.pool {
            return Err(PoolOpenError::OtherPool { device, name: one.label.name.clone() });
        }
        let own =
            |one: &Looked| (one.label.member, record_of(&one.label, one.label.member).map(|own| own.id));
        let same = looked[..at].iter().find(|other| own(other) == own(one));
        if let Some(other) = same {
            let Role { vdev, index: role } = Role::of(&one.label, one.label.member);
            return Err(PoolOpenError::Twice { one: other.name.clone(), other: device, vdev, role });
        }
    }
    let head = believed(looked, take)?;
    let counts = named(looked.iter().flat_map(|one| &one.configs), head.config);
    let label = counts.ok_or(PoolOpenError::NoConfig(head.config.generation))?.clone();
    for one in looked {
        let (known, own) = (record_of(&label, one.label.member), record_of(&one.label, one.label.member));
        // The number of one that is gone may be another's. Its config may have the same number where a crash left that to it alone, and the others
        // went on from the one before.
        let is_past = |own: &Uberblock| own.opening != head.opening && head.comes_from(own.opening);
        let is_former = one.label.generation < label.generation || one.head.as_ref().is_some_and(is_past);
        let is_other = known.map(|record| record.id) != own.map(|record| record.id);
        // One was about to take a member's place, and never did: no uberblock names its config. It may have one of its past, if it lied when that
        // was taken away.
        let is_named = one.head.as_ref().is_some_and(|own| own.config.generation >= one.label.generation);
        if is_other && !is_named {
            continue;
        }
        let is_other = is_other && !is_former;
        if is_other || rests_otherwise(one, &head) {
            return Err(PoolOpenError::Contradicts { device: one.name.clone() });
        }
        if is_member(&label, one) || is_spare(&label, one) {
            check_size(&one.name, one.size, &label, one.label.member)?;
        }
    }
    let unknown = label.features.unknown();
    if unknown.incompatible != 0 {
        return Err(PoolOpenError::Features(unknown));
    }
    check_units(&label)?;
    let mut members = vec![None; label.members.len()];
    for one in looked.iter().filter(|one| is_member(&label, one)) {
        // One without an uberblock was cut off while the pool was made.
        let follows = one.head.as_ref().is_none_or(|own| head.comes_from(own.opening));
        if follows && !head.is_out(one.label.member) {
            members[usize::from(one.label.member)] = Some(one.id);
        }
    }
    let is_claimed =
        |member: u16| looked.iter().any(|one| one.label.member == member && is_member(&label, one));
    let is_missing = |&member: &u16| is_in_use(&label, member) && !head.is_out(member) && !is_claimed(member);
    let missing = (0..label.members.len() as u16).filter(is_missing).collect();
    let returns = |one: &Looked| {
        let (member, id, own) = (one.label.member, one.id, one.head.as_ref()?);
        let knows = head.is_out(member) && head.descends_from(own);
        knows.then_some(Returning { member, id, sequence: own.sequence })
    };
    let returning: Vec<Returning> =
        looked.iter().filter(|one| is_member(&label, one)).filter_map(returns).collect();
    // Members that went another way without being told so are known to have been overruled from the next opening on.
    let apart = |own: &&Uberblock| own.opening != head.opening && !head.comes_from(own.opening);
    let mut overruled: Vec<u64> =
        looked.iter().filter_map(|one| one.head.as_ref()).filter(apart).map(|own| own.opening).collect();
    overruled.sort_unstable();
    overruled.dedup();
    let torn = looked.iter().fold(0, |torn, one| torn | one.torn);
    let of_those = |one: &&Looked| {
        members.contains(&Some(one.id)) || returning.iter().any(|returning| returning.id == one.id)
    };
    let wrong = looked.iter().filter(of_those).flat_map(|one| wrong_labels(one, &label, &head)).collect();
    let blank = looked.iter().flat_map(|one| one.blank.iter().map(|&(at, slots)| (one.id, at, slots)));
    let blank = blank.filter(|&(.., slots)| slots != 0).collect();
    let spare = |one: &Looked| {
        let (member, id, name) = (one.label.member, one.id, one.name.clone());
        SpareDevice { member, id, name }
    };
    let spares = looked.iter().filter(|one| is_spare(&label, one)).map(spare).collect();
    Ok(Chosen { label, head, members, missing, returning, spares, overruled, torn, wrong, blank })
}

impl Chosen {
    /// A member that is out of use is in use again, once that is on record.
    pub(crate) fn take(&mut self, one: Returning) {
        self.members[usize::from(one.member)] = Some(one.id);
        self.head.out[usize::from(one.member >> 3)] &= !(1 << (one.member & 7));
    }
}

fn record_of(label: &Label, member: u16) -> Option<&MemberRecord> {
    label.members.get(usize::from(member))
}

fn is_in_use(label: &Label, member: u16) -> bool {
    record_of(label, member).is_some_and(|record| record.state == MemberState::InUse)
}

/// Whether a device is a member in use of that config.
fn is_member(label: &Label, one: &Looked) -> bool {
    let id = |label| record_of(label, one.label.member).map(|record| record.id);
    is_in_use(label, one.label.member) && id(label) == id(&one.label)
}

/// Whether a device is a spare of that config, or a member's successor.
fn is_spare(label: &Label, one: &Looked) -> bool {
    let own = record_of(&one.label, one.label.member).map(|record| record.id);
    record_of(label, one.label.member).is_some_and(|record| record.is_spare() && Some(record.id) == own)
}

/// Whether a config rests on a device that can't be of its past, though its youngest uberblock names the one that counts, and that one is in no
/// place of it. Where it is in one, the other may hold a change that was never named.
fn rests_otherwise(one: &Looked, head: &Uberblock) -> bool {
    let names_it = one.head.as_ref().is_none_or(|own| own.config == head.config);
    let has_it = || one.configs.iter().any(|found| found.name == head.config);
    let is_past = |found: &FoundConfig| found.place > 0 || found.name.generation < head.config.generation;
    names_it && !has_it() && !one.configs.iter().all(is_past)
}

/// Labels of a device that do not hold the config that counts in their first place.
fn wrong_labels(one: &Looked, label: &Label, head: &Uberblock) -> Vec<WrongLabel> {
    let (id, member) = (one.id, one.label.member);
    let size = record_of(label, member).map_or(one.size, |record| record.size);
    let has = |at: u64, place: usize, name: ConfigName| {
        one.configs.iter().any(|found| found.at == at && found.place == place && found.name == name)
    };
    let wrong = |at| {
        let has_it = has(at, 1, head.config);
        let rests = one.head.as_ref().is_some_and(|own| has(at, 0, own.config));
        let damaged = one.damaged.contains(&at);
        WrongLabel { id, member, at, damaged, has_it, place: usize::from(has_it || rests) }
    };
    [LABEL, second_label(size)].into_iter().filter(|&at| !has(at, 0, head.config)).map(wrong).collect()
}

/// Units lie on their members, and this release can do with all that the config says.
fn check_units(label: &Label) -> Result<(), PoolError> {
    for member in &label.members {
        let Some((vdev, _)) = member.role.filter(|_| member.state != MemberState::Gone) else { continue };
        let unit = label.vdevs.get(usize::from(vdev)).map_or(0, |vdev| vdev.unit);
        if member.units > units_of(member.size, 1 << unit) {
            let value = member.units.into();
            return Err(PoolError::Impossible { what: "member", field: "units", value });
        }
    }
    Ok(())
}

/// Another has the number of a device by the config of that uberblock, which is younger than the device's own.
fn has_left(looked: &[Looked], head: &Uberblock, one: &Looked) -> bool {
    let is_younger = head.config.generation > one.label.generation;
    let Some(label) = named(looked.iter().flat_map(|one| &one.configs), head.config) else { return false };
    let id = |label| record_of(label, one.label.member).map(|record| record.id);
    is_younger && id(label) != id(&one.label)
}

fn believed(looked: &[Looked], take: Option<(usize, u16)>) -> Result<Uberblock, PoolOpenError> {
    // Roles are those of a device's own config: it is not known yet which one counts.
    let role_of = |member: u16| {
        let own = looked.iter().find(|one| one.label.member == member);
        own.map_or(Role { vdev: 0, index: member }, |one| Role::of(&one.label, member))
    };
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
        let taken = all.iter().find(|(member, _)| role_of(*member) == role);
        let taken = taken.map(|&(_, head)| head);
        let head = heads.iter().find(|head| taken.is_some_and(|taken| head.comes_from(taken.opening)));
        return head.map(|&head| head.clone()).ok_or(PoolOpenError::NoUberblock);
    }
    // The one that recorded all others as missing, and none of them it.
    let carriers = |head: &Uberblock| {
        let opening = head.opening;
        looked.iter().filter(move |one| one.head.as_ref().is_some_and(|own| own.opening == opening))
    };
    let excludes = |a: &Uberblock, b: &Uberblock| {
        carriers(b).all(|one| a.is_out(one.label.member) || has_left(looked, a, one))
    };
    let wins = |head: &&&Uberblock| {
        heads
            .iter()
            .all(|other| other.opening == head.opening || excludes(head, other) && !excludes(other, head))
    };
    match (&heads[..], heads.iter().find(wins)) {
        ([], _) => Err(PoolOpenError::NoUberblock),
        (_, Some(&head)) => Ok(head.clone()),
        ([one, other, ..], None) => {
            let name = |head: &Uberblock| {
                role_of(carriers(head).next().map_or(0, |one| one.label.member)).to_string()
            };
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

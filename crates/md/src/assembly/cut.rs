//! Reshapes whose first or last record was cut short: it stands on some members, and not on others.
//!
//! md writes its superblocks one after the other, and the power may go in between. Two of its records change where bytes live:
//!
//! - The first one says that a reshape begins. Nothing moves before it stands on all members: the array is as it was. mdadm
//!   refuses such a set.
//! - The last one says that it has ended: by then all has moved, also on members that say less. Their data begin where the
//!   reshape has put them. mdadm starts such a set, looks for those in the old place, and reads wrong bytes.
//!
//! Either way members are one event apart, and a superblock of the untrue side is taken for what it would say on the other.
//! Nothing is written to such an array: that would make two superblocks of one event count say different things.
//!
//! Records by which no byte moves are another matter. They change the size of members or the number of mirrors. Or they turn RAID 1 into
//! RAID 5 of two, RAID 5 into RAID 6 without Q in its rows, or the reverse. There the newest record counts, as of any other change, and
//! such an array is written to.

use brindle_format::md::{DeviceRole, Features, Reshape, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_layout::{Geometry, Layout, Level};

use super::choose::{Picked, differing, freshest};
use super::{Limitation, claimed};

/// The superblocks of a set by one side of a change of its shape.
pub(super) struct OneSide {
    /// By device: what takes the place of the superblock there.
    pub(super) superblocks: Vec<Option<Superblock>>,
    /// The reason why the array is only read.
    pub(super) limit: Limitation,
}

/// The side that is true, if the superblocks of a set are on two sides of a record that was cut.
pub(super) fn one_side(picked: &[Picked<'_>]) -> Option<OneSide> {
    let members = || picked.iter().filter(|device| claimed(device.superblock).is_some() && !device.torn);
    let newest = members().map(|device| device.superblock.events).max()?;
    let at = |events: u64| members().map(|device| device.superblock).filter(move |sb| sb.events == events);
    let (new, old) = (at(newest).next()?, at(newest.checked_sub(1)?).next()?);
    let turn = turn(old, new)?;
    // All of one count say the same: else nothing tells what came before what.
    let is_alike = |sb: &Superblock| differing(sb, if sb.events == newest { new } else { old }).is_none();
    if !at(newest).chain(at(newest - 1)).all(is_alike) {
        return None;
    }
    let is_untrue = |sb: &Superblock| {
        sb.events.saturating_add(1) >= newest && differing(sb, turn.untrue(old, new)).is_none()
    };
    // A superblock that is turned has to be one that a device of that size can hold.
    let turned = |device: &Picked<'_>| {
        if !is_untrue(device.superblock) {
            return Some(None);
        }
        let mut block = [0; SUPERBLOCK_BYTES];
        let turned = turn.turned(device.superblock);
        turned.encode(&mut block).ok()?;
        Superblock::parse(turned.version, &block, device.bytes).ok().map(Some)
    };
    let superblocks: Vec<Option<Superblock>> = picked.iter().map(turned).collect::<Option<_>>()?;
    let labels = picked.iter().zip(&superblocks).filter(|(_, turned)| turned.is_some());
    let labels = labels.map(|(device, _)| device.label.to_owned()).collect();
    Some(OneSide { superblocks, limit: Limitation::CutReshape { labels, began: turn != Turn::ToAfter } })
}

/// Of a set whose first or last record of a reshape into more members was cut short, what superblocks say by the side on which the set
/// goes on. None if there is no such cut, or nothing tells how it would have come out. Nothing has moved by the first, and all has
/// by the last, so that each side has all bytes.
///
/// - The first one stands on new members alone: they are spares. They get it before others do (`ledger::update`).
/// - The first one stands on others too: the reshape has begun, if it stands on all new members. One that did not take it is missing, where
///   the array can do without.
/// - The last one stands on some: the reshape has ended, if data of all begin already where they have been moved to.
pub(super) fn gone_on(picked: &[Picked<'_>]) -> Option<Vec<Option<Superblock>>> {
    let members = || picked.iter().map(|device| device.superblock).filter(|sb| claimed(sb).is_some());
    if picked.iter().any(|device| device.torn && claimed(device.superblock).is_some()) {
        return None;
    }
    let newest = members().map(|sb| sb.events).max()?;
    let at = |events: u64| members().filter(move |sb| sb.events == events);
    let (new, old) = (at(newest).next()?, at(newest.checked_sub(1)?).next()?);
    let is_alike = |sb: &Superblock| differing(sb, if sb.events == newest { new } else { old }).is_none();
    if !at(newest).chain(at(newest - 1)).all(is_alike) {
        return None;
    }
    let fills = |sb: &Superblock, role| claimed(sb).map(u32::from) == Some(role);
    let has = |role| at(newest).any(|sb| fills(sb, role));
    let is_there = |role| has(role) || at(newest - 1).any(|sb| fills(sb, role));
    let side = side(old, new, &has, &is_there)?;
    let turned = |device: &Picked<'_>| {
        let Some(turned) = side.turned(device.superblock, old, new) else { return Some(None) };
        // A superblock that is turned has to be one that a device of that size can hold.
        let mut block = [0; SUPERBLOCK_BYTES];
        turned.encode(&mut block).ok()?;
        Superblock::parse(turned.version, &block, device.bytes).ok().map(Some)
    };
    picked.iter().map(turned).collect()
}

/// The side on which a set goes on whose first or last record of a reshape was cut short.
#[derive(Clone, Copy)]
enum Side {
    NotBegun,
    Begun(Reshape),
    Ended,
}

/// See [`gone_on`]; `has` says whether a role's member has the newer record, and `is_there` whether it has one of the two.
fn side(
    old: &Superblock,
    new: &Superblock,
    has: &dyn Fn(u32) -> bool,
    is_there: &dyn Fn(u32) -> bool,
) -> Option<Side> {
    let is_like = |one: &Superblock, other: &Superblock| differing(one, other).is_none();
    match (old.reshape, new.reshape) {
        (None, Some(begun)) if grows_from_start(new) && is_like(&before(new), old) => {
            let (few, count) = (new.old_raid_disks(), new.raid_disks);
            if !(0..few).any(has) {
                return Some(Side::NotBegun);
            }
            let lack = (few..count).filter(|&role| !has(role)).count();
            let is_named =
                |role: u32| u16::try_from(role).is_ok_and(|role| new.device_in_role(role).is_some());
            let is_whole = (0..few).all(is_there) && (few..count).all(is_named);
            let bears = if new.level == 6 { 2 } else { 1 };
            (lack == 0 || is_whole && lack <= bears).then_some(Side::Begun(begun))
        }
        // Of versions without room before the data no reshape is gone on with: such a set is only read.
        (Some(standing), None) if standing.new_offset.is_none() && is_like(&after(old), new) => {
            matches!(new.version, Version::V1_1 | Version::V1_2).then_some(Side::Ended)
        }
        _ => None,
    }
}

impl Side {
    /// A superblock by this side, if it says something else.
    fn turned(self, sb: &Superblock, old: &Superblock, new: &Superblock) -> Option<Superblock> {
        match self {
            Self::NotBegun => sb.reshape.is_some().then(|| before(sb)),
            Self::Ended => differing(sb, old).is_none().then(|| after(sb)),
            Self::Begun(reshape) => {
                let mut turned = sb.clone();
                (turned.raid_disks, turned.reshape) = (new.raid_disks, Some(reshape));
                turned.features = turned.features.with(Features::RESHAPE_ACTIVE | Features::NEW_OFFSET, true);
                turned.roles.clone_from(&new.roles);
                differing(sb, old).is_none().then_some(turned)
            }
        }
    }
}

/// A reshape into more members, of which nothing has moved, and whose data will begin earlier.
fn grows_from_start(sb: &Superblock) -> bool {
    let grows = |reshape: &Reshape| {
        let begins_earlier = reshape.new_offset.is_some_and(|shift| shift < 0);
        reshape.delta_disks > 0 && reshape.position == 0 && begins_earlier
    };
    sb.reshape.as_ref().is_some_and(grows) && !sb.reshapes_backwards()
}

/// Of devices that are one event apart from the one that decides, and differ from it in a shape that leaves each byte where it is: what
/// their superblocks would say in its shape. That moves no byte, nothing was written yet that needs the one or the other, and the next record
/// gives all of them that shape. Such a set is written to as any other that lacks a part of a record.
pub(super) fn in_shape_of_newest(picked: &[Picked<'_>]) -> Vec<Option<Superblock>> {
    let Ok(newest) = freshest(picked) else { return Vec::new() };
    let shape = newest.superblock;
    let turned = |device: &Picked<'_>| {
        let sb = device.superblock;
        let is_member = claimed(sb).is_some();
        if is_member && sb.events.abs_diff(shape.events) != 1 || !keeps_bytes(sb, shape) {
            return None;
        }
        let mut turned = sb.clone();
        (turned.level, turned.layout, turned.chunk) = (shape.level, shape.layout, shape.chunk);
        (turned.component_size, turned.raid_disks) = (shape.component_size, shape.raid_disks);
        if is_member {
            turned.roles.clone_from(&shape.roles);
        }
        if turned.data_size < turned.component_size && is_member {
            turned.data_size = device.bytes.saturating_sub(turned.data_offset) & !0xfff;
        }
        // A spare holds nothing of the role that others may have given it.
        let turned = settled(turned);
        let mut block = [0; SUPERBLOCK_BYTES];
        turned.encode(&mut block).ok().filter(|()| differing(&turned, shape).is_none())?;
        // One that a device of that size can hold.
        Superblock::parse(turned.version, &block, device.bytes).ok()
    };
    picked.iter().map(turned).collect()
}

/// Whether two shapes have each byte in the same place, as far as both have it, by one change: of the size of members, of the number of
/// mirrors, or between RAID 1 and RAID 5 of two members.
fn keeps_bytes(one: &Superblock, other: &Superblock) -> bool {
    if one.reshape.is_some() || other.reshape.is_some() || one.version != other.version {
        return false;
    }
    let level = |sb: &Superblock| (sb.level, sb.layout, sb.chunk);
    let (size, count) = (one.component_size == other.component_size, one.raid_disks == other.raid_disks);
    let is_pair = |sb: &Superblock| matches!(sb.level, 1 | 5) && sb.raid_disks == 2;
    match (level(one) == level(other), size, count) {
        (true, false, true) => true,
        (true, true, false) => one.level == 1,
        (false, true, true) => is_pair(one) && is_pair(other) && one.level != other.level,
        (false, true, false) => is_same_with_q(one, other),
        _ => false,
    }
}

/// The way in which superblocks of the untrue side are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The newer ones say that a reshape begins: they are taken for what they said before.
    ToBefore,
    /// The older ones say that it is under way: they are taken for what they would say after it.
    ToAfter,
    /// The older ones say that a reshape is about to begin, which it did not.
    NotBegun,
}

impl Turn {
    fn untrue<'a>(self, old: &'a Superblock, new: &'a Superblock) -> &'a Superblock {
        if self == Self::ToBefore { new } else { old }
    }

    /// A superblock of the untrue side as it would be on the other.
    fn turned(self, sb: &Superblock) -> Superblock {
        match self {
            Self::ToBefore | Self::NotBegun => before(sb),
            Self::ToAfter => after(sb),
        }
    }
}

/// How the two sides come together, if one is true.
fn turn(old: &Superblock, new: &Superblock) -> Option<Turn> {
    let like = |one: &Superblock, other: &Superblock| differing(one, other).is_none();
    match (old.reshape, new.reshape) {
        (None, Some(_)) => (has_not_moved(new) && like(&before(new), old)).then_some(Turn::ToBefore),
        (Some(_), None) if like(&after(old), new) => Some(Turn::ToAfter),
        (Some(_), None) => (has_not_moved(old) && like(&before(old), new)).then_some(Turn::NotBegun),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

/// One is a RAID 5, and the other has the same rows as a RAID 6 whose last member has Q.
fn is_same_with_q(one: &Superblock, other: &Superblock) -> bool {
    let (five, six) = if one.level == 5 { (one, other) } else { (other, one) };
    let Ok(Layout::Parity(rows)) = Layout::from_md(Level::Raid5, five.layout) else { return false };
    let Some(with_q) = rows.with_q_apart() else { return false };
    let mut as_six = five.clone();
    (as_six.level, as_six.layout) = (6, with_q.md_number());
    as_six.raid_disks = five.raid_disks.saturating_add(1);
    five.level == 5 && six.level == 6 && differing(&as_six, six).is_none()
}

/// A superblock as it was before the reshape that it records.
fn before(sb: &Superblock) -> Superblock {
    let mut before = sb.clone();
    (before.raid_disks, before.reshape) = (sb.old_raid_disks(), None);
    settled(before)
}

/// A superblock as it will be after the reshape that it records.
fn after(sb: &Superblock) -> Superblock {
    let Some(reshape) = sb.reshape else { return sb.clone() };
    let mut after = sb.clone();
    (after.level, after.layout, after.chunk) = (reshape.new_level, reshape.new_layout, reshape.new_chunk);
    after.data_offset = sb.new_data_offset();
    let shift = reshape.new_offset.unwrap_or(0);
    after.data_size = sb.data_size.saturating_add_signed(shift.saturating_neg());
    after.reshape = None;
    settled(after)
}

/// A superblock without a reshape: devices in roles that the array does not have are spares.
fn settled(mut sb: Superblock) -> Superblock {
    let count = sb.raid_disks;
    let is_beyond =
        |role: &&mut DeviceRole| matches!(role, DeviceRole::Active(role) if u32::from(*role) >= count);
    sb.roles.iter_mut().filter(is_beyond).for_each(|role| *role = DeviceRole::Spare);
    for feature in [Features::RESHAPE_ACTIVE, Features::RESHAPE_BACKWARDS, Features::NEW_OFFSET] {
        sb.features = sb.features.with(feature, false);
    }
    sb
}

/// The reshape that a superblock records stands where it begins.
fn has_not_moved(sb: &Superblock) -> bool {
    let Some(reshape) = &sb.reshape else { return false };
    if !sb.reshapes_backwards() {
        return reshape.position == 0;
    }
    let unit = sb.chunk.max(reshape.new_chunk).max(1);
    let component = sb.component_size - sb.component_size % unit;
    let size = |level: i32, layout: u32, chunk: u64, count: u32| {
        let level = Level::from_md(level).ok()?;
        let layout = Layout::from_md(level, layout).ok()?;
        Geometry::new(level, layout, chunk, &vec![component; count as usize]).ok().map(|it| it.size())
    };
    let old = size(sb.level, sb.layout, sb.chunk, sb.old_raid_disks());
    let new = size(reshape.new_level, reshape.new_layout, reshape.new_chunk, sb.raid_disks);
    old.zip(new).is_some_and(|(old, new)| reshape.position >= old.min(new))
}

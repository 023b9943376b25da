//! Superblocks of 0.90 in whose writing the power went: what their tables may have been, or were about to be.
//!
//! The entries stand behind the first sector, which has the counts of devices of each kind and the sum of all words.
//! Only the changes of one record are guessed; a guess that gives the first sector to the byte is what that tells of.

use super::superblock::RawBlock;
use super::v0;
use super::{DeviceFlags, DeviceRole, MAX_DEVICES_0_90, SUPERBLOCK_BYTES, Superblock};

/// Where the first sector has the checksum.
const SUM: core::ops::Range<usize> = 152..156;
/// The device's numbers in its host and its flags, added up, are less than this: 12 and 20 bits, and bits up to the eleventh.
const MOST_LOST: u32 = 1 << 21;

/// A difference from the superblock that is there.
enum Guess {
    /// The roles of other devices, by number.
    Others(Vec<(usize, DeviceRole)>),
    /// The own device has, or had, another number: its own, and that of which it takes the place.
    Own { number: usize, entries: [(usize, DeviceRole); 2] },
    /// The flags of its own device: of the two places where these stand the power may have gone in between.
    Flags(DeviceFlags),
}

/// Guesses a superblock from the first sector of `found`, whose checksum is wrong; `None` if no one record changes it so.
///
/// The roles of the others are as found: the sum does not tell which of two like devices was about to change. Where its own
/// device was about to take, or had just taken, the place of a role, its number and its role are those of which the first
/// sector tells. Sums may be the same where another device does that. Then it is read as that, and its number is the one
/// that is there: it must not be a member that loses its role by chance.
pub(super) fn explained(found: &Superblock, first: &[u8]) -> Option<Superblock> {
    if v0::copy_agrees(found) {
        let reported = search(found, first, others(found).chain(flags()));
        if reported.is_some() {
            return reported;
        }
    }
    search(found, first, own_before(found)).or_else(|| search(found, first, own_after(found)))
}

/// The superblock of the first guess that gives the first sector; if none does, the first table that gives it except
/// for the lost part.
fn search(found: &Superblock, first: &[u8], guesses: impl Iterator<Item = Guess>) -> Option<Superblock> {
    let mut near = Vec::new();
    for guess in guesses {
        let tried = guess.of(found);
        let Some(block) = encoded(&tried) else { continue };
        let mut differ = (0..first.len()).filter(|&at| block.get(at) != first.get(at));
        if differ.all(|at| SUM.contains(&at)) {
            if block.get(SUM) == first.get(SUM) {
                return Some(guess.superblock(found, &block));
            }
            near.push((guess, tried, block));
        }
    }
    near.into_iter().find_map(|(guess, tried, block)| {
        let block = with_what_was_lost(guess.loses(found, &tried)?, &tried, &block, first)?;
        Some(guess.superblock(found, &block))
    })
}

impl Guess {
    /// The superblock that it was, or was about to be.
    fn of(&self, found: &Superblock) -> Superblock {
        let mut tried = found.clone();
        match self {
            Self::Others(entries) => set(&mut tried, entries),
            Self::Own { number, entries } => {
                set(&mut tried, entries);
                tried.device_number = *number as u32;
                // These are the same before and after.
                tried.flags = v0::copied_flags(found);
                // Changes of the device that had the place before are no more than lost.
                let [(place, role), _] = *entries;
                if role.active().is_none() {
                    tried.raw = v0::with_lost(found, place, 0);
                }
            }
            Self::Flags(flags) => {
                tried.raw = v0::with_flags_agreed(found);
                tried.flags = *flags;
            }
        }
        tried
    }

    /// The entry that may have held more before, of the device that had it.
    fn loses(&self, found: &Superblock, tried: &Superblock) -> Option<usize> {
        match self {
            Self::Own { entries: [(place, DeviceRole::Faulty), _], .. } => return Some(*place),
            Self::Own { entries: [(_, DeviceRole::Active(_)), _], .. } => return None,
            _ => {}
        }
        let of = |sb: &Superblock, number| sb.roles.get(number).copied().unwrap_or(DeviceRole::Vacant);
        let vacant = |sb, &number: &usize| of(sb, number) == DeviceRole::Vacant;
        (0..tried.roles.len()).find(|number| vacant(found, number) && !vacant(tried, number))
    }

    fn superblock(&self, found: &Superblock, block: &[u8; SUPERBLOCK_BYTES]) -> Superblock {
        let mut reported = found.clone();
        match self {
            Self::Others(_) => {}
            Self::Own { number, entries } => {
                // A member that is about to get the number of its role has it but once.
                let both = entries[1] == (*number, DeviceRole::Active(entries[0].0 as u16));
                let told_of = entries.iter().filter(|(entry, _)| both || entry == number);
                set(&mut reported, &told_of.copied().collect::<Vec<_>>());
                reported.device_number = *number as u32;
                reported.flags = v0::copied_flags(found);
            }
            Self::Flags(flags) => reported.flags = *flags,
        }
        Superblock { raw: RawBlock(Box::new(*block)), ..reported }
    }
}

fn set(sb: &mut Superblock, entries: &[(usize, DeviceRole)]) {
    for &(number, role) in entries {
        if number >= sb.roles.len() {
            sb.roles.resize(number.saturating_add(1), DeviceRole::Vacant);
        }
        if let Some(entry) = sb.roles.get_mut(number) {
            *entry = role;
        }
    }
}

fn encoded(sb: &Superblock) -> Option<[u8; SUPERBLOCK_BYTES]> {
    let mut block = [0; SUPERBLOCK_BYTES];
    sb.encode(&mut block).ok().map(|()| block)
}

/// The block, if all that it lacks of the first sector is what the entry `number` held of the device that had it.
fn with_what_was_lost(
    number: usize,
    tried: &Superblock,
    block: &[u8; SUPERBLOCK_BYTES],
    first: &[u8],
) -> Option<[u8; SUPERBLOCK_BYTES]> {
    let has = |bytes: &[u8]| Superblock { raw: RawBlock::from(bytes), ..tried.clone() }.checksum();
    let lost = has(first).wrapping_sub(has(block));
    // A carry adds one; an entry of its own device stands there twice.
    let sums = [lost, lost.wrapping_sub(1), lost / 2, lost.wrapping_sub(1) / 2];
    sums.into_iter().filter(|sum| (1..MOST_LOST).contains(sum)).find_map(|sum| {
        let with = Superblock { raw: v0::with_lost(tried, number, sum), ..tried.clone() };
        encoded(&with).filter(|block| block.get(..first.len()) == Some(first))
    })
}

/// The role of another device, whatever it may have been; or another device that takes the place of a role.
fn others(found: &Superblock) -> impl Iterator<Item = Guess> {
    let own = found.device_number as usize;
    let roles = (found.all_raid_disks() as usize).min(MAX_DEVICES_0_90) as u16;
    let one = move |number| {
        let is = found.roles.get(number).copied().unwrap_or(DeviceRole::Vacant);
        let to = [DeviceRole::Faulty, DeviceRole::Vacant, DeviceRole::Spare].into_iter();
        let to = to.chain((0..roles).map(DeviceRole::Active));
        // No device goes from one role to another: only a change of the counts distinguishes a torn superblock from
        // one with rot before them.
        let to = to.filter(move |role| *role != is && (role.active().is_none() || is.active().is_none()));
        to.map(move |role| Guess::Others(vec![(number, role)]))
    };
    let others = (0..MAX_DEVICES_0_90).filter(move |&number| number != own);
    let pairs = pairs(found).filter(move |&(place, number)| own != place && own != number);
    let exchanged = pairs.flat_map(|(place, number)| exchanges(place, number));
    others.flat_map(one).chain(exchanged.map(|entries| Guess::Others(entries.to_vec())))
}

/// Its own device is about to take the place of a role.
fn own_before(found: &Superblock) -> impl Iterator<Item = Guess> {
    let guess = |number| move |entries| Guess::Own { number, entries };
    let pairs = own_pairs(found);
    pairs.flat_map(move |(place, number)| exchanges(place, number).take(BEFORE).map(guess(number)))
}

/// Its own device has just taken the place of a role.
fn own_after(found: &Superblock) -> impl Iterator<Item = Guess> {
    let guess = |number| move |entries| Guess::Own { number, entries };
    let pairs = own_pairs(found);
    pairs.flat_map(move |(place, number)| exchanges(place, number).skip(BEFORE).map(guess(place)))
}

fn own_pairs(found: &Superblock) -> impl Iterator<Item = (usize, usize)> {
    let own = found.device_number as usize;
    // The copy is old or new; both have the role if there was one before.
    let role = v0::copied_role(found).map(usize::from);
    let is_its = move |place| role.is_none_or(|role| role == place);
    pairs(found).filter(move |&(place, number)| (own == place || own == number) && is_its(place))
}

/// The flags of its own device: of the two places where these stand the power may have gone in between.
fn flags() -> impl Iterator<Item = Guess> {
    let all = [(false, false), (false, true), (true, false), (true, true)];
    all.into_iter().map(|(write_mostly, failfast)| Guess::Flags(DeviceFlags { write_mostly, failfast }))
}

/// Places of roles and other numbers whose devices may have been exchanged, as far as the table tells.
fn pairs(found: &Superblock) -> impl Iterator<Item = (usize, usize)> {
    let raid_disks = (found.all_raid_disks() as usize).min(MAX_DEVICES_0_90);
    let beyond = raid_disks..MAX_DEVICES_0_90;
    let pairs = (0..raid_disks).flat_map(move |place| beyond.clone().map(move |number| (place, number)));
    pairs.filter(|&(place, number)| {
        let role_of = |number| found.roles.get(number).copied().unwrap_or(DeviceRole::Vacant);
        let other = |role: DeviceRole| role.active().is_some_and(|role| usize::from(role) != place);
        !other(role_of(place)) && role_of(place) != DeviceRole::Spare && !other(role_of(number))
    })
}

/// The index of the states before, in the result of [`exchanges`].
const BEFORE: usize = 3;

/// A device takes the place of a role from a spare, which a failed one or nobody has, or its own number is put right: before,
/// after, and what a record says that was made of the two. The counts in the first sector are others in each.
fn exchanges(place: usize, number: usize) -> impl Iterator<Item = [(usize, DeviceRole); 2]> {
    use DeviceRole::{Active, Faulty, Spare, Vacant};
    let role = Active(place as u16);
    let before = [(Faulty, Spare), (Vacant, Spare), (Vacant, role)];
    let after = [(role, Faulty), (role, Vacant), (role, Spare), (role, role)];
    before.into_iter().chain(after).map(move |(there, here)| [(place, there), (number, here)])
}

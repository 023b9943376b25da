//! Chooses the superblock that decides, and the part of each device by it.

use core::cmp::Reverse;

use brindle_format::md::{DeviceRole, Endian, Features, Superblock, Uuid, Version};

use super::error::{AssemblyError, ForeignArray};
use super::{Candidate, DeviceUse, LeftOut, claimed};

/// A candidate with the superblock that counts.
pub(super) struct Picked<'a> {
    pub(super) label: &'a str,
    pub(super) bytes: u64,
    pub(super) superblock: &'a Superblock,
    /// The same as it stands there, where another counts: see [`super::cut`].
    pub(super) found: &'a Superblock,
    pub(super) super_offset: u64,
    /// See [`super::Found::torn`].
    pub(super) torn: bool,
}

/// The deciding superblock, and the use of each device by its table.
pub(super) struct Chosen<'a> {
    pub(super) freshest: &'a Picked<'a>,
    /// Indexed by role, the index of the device that fills it.
    pub(super) roles: Vec<Option<usize>>,
    /// Indexed by device.
    pub(super) usage: Vec<DeviceUse>,
}

/// One superblock of each candidate; all of the same array.
pub(super) fn superblocks(candidates: &[Candidate]) -> Result<Vec<Picked<'_>>, AssemblyError> {
    if candidates.is_empty() {
        return Err(AssemblyError::Empty);
    }
    let pick = |candidate: &'_ Candidate| {
        let label = candidate.label.clone();
        match candidate.superblock() {
            Ok(_) => Ok(()),
            Err(Some(why)) => Err(AssemblyError::Damaged { label, why: why.clone() }),
            Err(None) => Err(AssemblyError::NoSuperblock { label }),
        }
    };
    candidates.iter().try_for_each(pick)?;
    let version = unconverted(candidates);
    let picked: Vec<Picked<'_>> = candidates
        .iter()
        .filter_map(|candidate| {
            let older = version.and_then(|version| candidate.unused_since(version));
            let (superblock, found) = older.or_else(|| candidate.counting().ok())?;
            Some(Picked {
                label: &candidate.label,
                bytes: candidate.member.size,
                superblock,
                found: superblock,
                super_offset: found.offset,
                torn: found.torn,
            })
        })
        .collect();
    same_array(&picked)?;
    Ok(picked)
}

/// The version that all devices have of their superblocks, where they differ in those that count: a change of the metadata was cut
/// short, and the array was not used by the new ones.
fn unconverted(candidates: &[Candidate]) -> Option<Version> {
    let versions = candidates.iter().filter_map(|candidate| Some(candidate.superblock().ok()?.0.version));
    let mut versions: Vec<Version> = versions.collect();
    versions.dedup();
    let is_everywhere =
        |version: &Version| candidates.iter().all(|candidate| candidate.unused_since(*version).is_some());
    if versions.len() > 1 { versions.into_iter().find(is_everywhere) } else { None }
}

fn same_array(picked: &[Picked<'_>]) -> Result<(), AssemblyError> {
    let mut arrays: Vec<ForeignArray> = Vec::new();
    for device in picked {
        let uuid: Uuid = device.superblock.set_uuid;
        match arrays.iter_mut().find(|array| array.uuid == uuid) {
            Some(array) => array.members.push(device.label.to_owned()),
            None => arrays.push(ForeignArray {
                uuid,
                name: device.superblock.name.clone(),
                members: vec![device.label.to_owned()],
            }),
        }
    }
    if arrays.len() <= 1 {
        return Ok(());
    }
    for array in &mut arrays {
        array.members.sort();
    }
    arrays.sort_by_key(|array| (Reverse(array.members.len()), array.uuid));
    match &arrays[..] {
        [first, second] if is_one_but_for_uuid(picked) => {
            let members = [first, second].map(|array| array.members.clone()).into();
            Err(AssemblyError::HalfRenamed { uuids: (first.uuid, second.uuid), members })
        }
        _ => Err(AssemblyError::Mixed { arrays }),
    }
}

/// Superblocks that differ in nothing but the array's UUID and each device's own facts. Arrays that were never used since they were
/// made may be alike by chance: two that a script made in one second.
fn is_one_but_for_uuid(picked: &[Picked<'_>]) -> bool {
    let members = || picked.iter().filter(|device| claimed(device.superblock).is_some());
    let Some(first) = members().next() else { return false };
    let (made, used) = (first.superblock.created.seconds, first.superblock.updated.seconds);
    if used <= made.saturating_add(1) {
        return false;
    }
    let facts = |sb: &Superblock| (sb.created, sb.name.clone(), sb.events, sb.updated, sb.roles.clone());
    let (mut numbers, count) =
        (picked.iter().map(|device| device.superblock.device_number).collect::<Vec<_>>(), picked.len());
    numbers.sort_unstable();
    numbers.dedup();
    let is_like = |device: &Picked<'_>| {
        differing(device.superblock, first.superblock).is_none()
            && facts(device.superblock) == facts(first.superblock)
    };
    numbers.len() == count && members().all(is_like)
}

/// Finds the deciding superblock and asks it about every device.
pub(super) fn devices<'a>(picked: &'a [Picked<'a>]) -> Result<Chosen<'a>, AssemblyError> {
    let freshest = freshest(picked)?;
    let mut chosen = Chosen {
        freshest,
        roles: vec![None; freshest.superblock.all_raid_disks() as usize],
        usage: picked.iter().map(|device| judge(device, freshest)).collect(),
    };
    for (device, usage) in picked.iter().zip(&chosen.usage) {
        not_apart(device, freshest)?;
        if !matches!(usage, DeviceUse::LeftOut { .. }) {
            agrees(device, freshest)?;
        }
    }
    leave_out_stale(picked, &mut chosen);
    fill_roles(picked, &mut chosen)?;
    Ok(chosen)
}

/// No device in use is more than one event behind any other, torn ones included.
fn leave_out_stale(picked: &[Picked<'_>], chosen: &mut Chosen<'_>) {
    let newest = events(picked, chosen);
    for (device, usage) in picked.iter().zip(&mut chosen.usage) {
        let events = device.superblock.events;
        if let Some(role) = filled(usage).filter(|_| events.saturating_add(1) < newest) {
            *usage = DeviceUse::LeftOut { role: Some(role), why: LeftOut::Stale { events } };
        }
    }
}

/// The member with the highest event count. Spares count only if there is nothing else: md lets theirs lag and lead.
/// Of equals, the lowest device number, and in the end the label: the order of the devices must not matter.
///
/// A torn superblock decides only if all whole ones have missed writes: they tell the roles for certain, and if one is
/// but one event behind, then nothing relies yet on the change in which the other was torn. Not of one that [took the place of a
/// role](took_a_place): made whole, it must not differ from the others.
pub(super) fn freshest<'a>(picked: &'a [Picked<'a>]) -> Result<&'a Picked<'a>, AssemblyError> {
    let rank = |device: &&'a Picked<'a>| {
        let sb = device.superblock;
        let identity = (sb.device_number, sb.device_uuid, device.label);
        (claimed(sb).is_some(), sb.events, Reverse(identity))
    };
    let newest = picked.iter().max_by_key(rank).ok_or(AssemblyError::Empty)?;
    let whole = picked.iter().filter(|device| !device.torn).max_by_key(rank);
    let in_time = |whole: &&Picked<'_>| {
        let (sb, torn) = (whole.superblock, newest.superblock);
        let near =
            claimed(sb).is_some() == claimed(torn).is_some() && sb.events.saturating_add(1) >= torn.events;
        near && !(torn.events > sb.events && took_a_place(newest, sb))
    };
    Ok(whole.filter(in_time).unwrap_or(newest))
}

/// The use of a device by the table of the deciding superblock.
fn judge(device: &Picked<'_>, freshest: &Picked<'_>) -> DeviceUse {
    let (own, newest) = (device.superblock, freshest.superblock);
    let claim = claimed(own);
    let left_out = |why| DeviceUse::LeftOut { role: claim, why };
    match own.role() {
        DeviceRole::Spare | DeviceRole::Vacant => return spare(own, freshest),
        DeviceRole::Faulty => return left_out(LeftOut::Faulty),
        DeviceRole::Active(_) | DeviceRole::Journal => {}
    }
    // md's tolerance: superblocks are written one after the other, and the host may die in between.
    if own.events.saturating_add(1) < newest.events {
        return left_out(LeftOut::Stale { events: own.events });
    }
    // A torn superblock's role is uncertain, and nothing relies yet on the failure of a member that is one update
    // older.
    let entry = if freshest.torn || took_a_place(device, newest) {
        own.role()
    } else {
        newest.role_of(own.device_number)
    };
    match entry {
        // Only a device that calls itself a member has been checked to have room for its data.
        DeviceRole::Active(_) if own.role() == DeviceRole::Journal => left_out(LeftOut::Faulty),
        DeviceRole::Active(role) => active(own, role),
        DeviceRole::Journal => DeviceUse::Journal,
        DeviceRole::Spare if own.role() == DeviceRole::Journal => DeviceUse::Journal,
        DeviceRole::Faulty | DeviceRole::Spare | DeviceRole::Vacant => left_out(LeftOut::Faulty),
    }
}

/// In an array with 0.90, the power went after one device had got its new number, which is that of its role, and
/// before the others were. Either that device is ahead of the others, or it is the one that they name for the role
/// under another number. A torn superblock may not know that number. No other change has been recorded since, and the
/// device holds all data of its role.
fn took_a_place(device: &Picked<'_>, newest: &Superblock) -> bool {
    let own = device.superblock;
    let is_known = |role: u16| {
        let ahead = u32::from(role) == own.device_number && own.events > newest.events;
        ahead || newest.device_in_role(role).is_some()
    };
    let is_told = newest.role_of(own.device_number) == own.role();
    device.torn && !own.version.is_v1() && !is_told && claimed(own).is_some_and(is_known)
}

/// The number of a device: where the deciding superblock knows nothing yet of the place that it took, the one that it had.
pub(super) fn number(device: &Picked<'_>, freshest: &Picked<'_>) -> u32 {
    let (own, newest) = (device.superblock, freshest.superblock);
    let known = claimed(own).filter(|_| took_a_place(device, newest));
    known.and_then(|role| newest.device_in_role(role)).unwrap_or(own.device_number)
}

/// A device that calls itself a spare is one, except where another device has been given its number since, or where
/// it failed in a role that it was given. md from Linux 6.8 on does not take a spare that failed in its role either
/// (metadata 1.x, `super_1_validate`). A torn table of several sectors in which a faulty device becomes a spare can't
/// be distinguished from a rotten one ([`Superblock::parse_torn`]). A device whose role was given in an update that
/// has not reached it holds no data of the role.
fn spare(own: &Superblock, freshest: &Picked<'_>) -> DeviceUse {
    let newest = freshest.superblock;
    let left_out = |why| DeviceUse::LeftOut { role: None, why };
    match newest.role_of(own.device_number) {
        DeviceRole::Active(_) if own.events.saturating_add(1) < newest.events => {
            left_out(LeftOut::Stale { events: own.events })
        }
        DeviceRole::Faulty if !freshest.torn => left_out(LeftOut::Faulty),
        // It was away when the array got more members.
        _ if own.events < newest.events && own.raid_disks < newest.raid_disks => {
            left_out(LeftOut::Stale { events: own.events })
        }
        _ => DeviceUse::Spare,
    }
}

/// A device that fills its role, as far as it has been recovered. Where writes were under way, a device that lacks
/// only chunks with set bits is recovered from the start again. That takes little: otherwise the part below the
/// border would be one of two copies in doubt.
pub(super) fn active(own: &Superblock, role: u16) -> DeviceUse {
    let begins_anew = own.features.contains(Features::RECOVERY_BITMAP) && !own.is_clean();
    match own.recovery_offset.map(|upto| if begins_anew { 0 } else { upto }) {
        Some(upto) => DeviceUse::Recovering { role, upto },
        None => DeviceUse::Active { role },
    }
}

/// Members of one array must agree on its shape.
pub(super) fn agrees(device: &Picked<'_>, freshest: &Picked<'_>) -> Result<(), AssemblyError> {
    match differing(device.superblock, freshest.superblock) {
        None => Ok(()),
        Some((field, says, other_says)) => {
            let (label, other) = (device.label.to_owned(), freshest.label.to_owned());
            Err(AssemblyError::Inconsistent { label, field, says, other, other_says })
        }
    }
}

/// The first fact of an array's shape in which two superblocks differ: its name, and the value in each.
pub(crate) fn differing(one: &Superblock, other: &Superblock) -> Option<(&'static str, String, String)> {
    let facts = |sb: &Superblock| {
        [
            ("metadata", sb.version.to_string()),
            ("byte order", byte_order(sb.version).to_owned()),
            ("level", sb.level.to_string()),
            ("layout", format!("{:#x}", sb.layout)),
            ("chunk", sb.chunk.to_string()),
            ("number of members", sb.raid_disks.to_string()),
            ("component size", sb.component_size.to_string()),
            ("reshape", reshape(sb)),
        ]
    };
    let mut pairs = facts(one).into_iter().zip(facts(other));
    let ((field, says), (_, other_says)) = pairs.find(|((_, says), (_, other))| says != other)?;
    Some((field, says, other_says))
}

/// Whereto, not how far: of two superblocks written one after the other the newer counts.
fn reshape(sb: &Superblock) -> String {
    sb.reshape.map_or("none".to_owned(), |to| {
        let (level, layout, chunk) = (to.new_level, to.new_layout, to.new_chunk);
        format!("to level {level}, layout {layout:#x}, chunk {chunk}, {:+} members", to.delta_disks)
    })
}

fn byte_order(version: Version) -> &'static str {
    match version {
        Version::V0_90(Endian::Big) => "big-endian",
        _ => "little-endian",
    }
}

/// The highest count of any device in use, torn superblocks included: the next is one that none of them has.
pub(super) fn events(picked: &[Picked<'_>], chosen: &Chosen<'_>) -> u64 {
    let in_use = picked.iter().zip(&chosen.usage).filter(|(_, usage)| filled(usage).is_some());
    let torn = in_use.filter(|(device, _)| device.torn).map(|(device, _)| device.superblock.events);
    torn.fold(chosen.freshest.superblock.events, u64::max)
}

/// Two members at the same count, of which one says that the other has failed, went separate ways.
fn not_apart(device: &Picked<'_>, freshest: &Picked<'_>) -> Result<(), AssemblyError> {
    let (own, newest) = (device.superblock, freshest.superblock);
    // A torn superblock may name others faulty although no update ever recorded that.
    let disowned = !device.torn && own.role_of(newest.device_number) == DeviceRole::Faulty;
    if claimed(own).is_some() && own.events == newest.events && disowned {
        return Err(AssemblyError::SplitBrain { labels: pair(device, freshest) });
    }
    Ok(())
}

fn pair(a: &Picked<'_>, b: &Picked<'_>) -> (String, String) {
    let (first, second) = if a.label <= b.label { (a, b) } else { (b, a) };
    (first.label.to_owned(), second.label.to_owned())
}

/// Gives each role its device; of two that claim one, the newer, and of a member and its replacement the member.
fn fill_roles(picked: &[Picked<'_>], chosen: &mut Chosen<'_>) -> Result<(), AssemblyError> {
    for (at, usage) in chosen.usage.iter_mut().enumerate() {
        let Some(role) = filled(usage) else { continue };
        match chosen.roles.get_mut(usize::from(role)) {
            // The table of the deciding superblock names a role that the array does not have.
            None => *usage = DeviceUse::LeftOut { role: Some(role), why: LeftOut::Faulty },
            Some(slot) => {
                let best = slot.filter(|&rival| claim(&picked[rival]) >= claim(&picked[at]));
                *slot = best.or(Some(at));
            }
        }
    }
    for (at, usage) in chosen.usage.iter_mut().enumerate() {
        let Some(role) = filled(usage) else { continue };
        if let Some(winner) = chosen.roles[usize::from(role)].filter(|&winner| winner != at) {
            let why = yields(&picked[at], &picked[winner], role)?;
            *usage = DeviceUse::LeftOut { role: Some(role), why };
        }
    }
    place_replacements(picked, chosen);
    same_spare(picked, chosen)
}

/// Keeps one replacement for each role whose member is in sync.
fn place_replacements(picked: &[Picked<'_>], chosen: &mut Chosen<'_>) {
    for role in 0..chosen.roles.len() {
        let member = chosen.roles[role].map(|at| chosen.usage[at]);
        let role = role as u16;
        let waits = DeviceUse::LeftOut { role: Some(role), why: LeftOut::Replacement };
        let mut waiting = (0..picked.len()).filter(|&at| chosen.usage[at] == waits);
        if let (Some(DeviceUse::Active { .. }), Some(at), None) = (member, waiting.next(), waiting.next()) {
            let upto = picked[at].superblock.recovery_offset.unwrap_or(u64::MAX);
            chosen.usage[at] = DeviceUse::Replacement { role, upto };
        }
    }
}

/// The role that a device has, beside a member too.
pub(crate) fn filled(usage: &DeviceUse) -> Option<u16> {
    match usage {
        DeviceUse::Active { role }
        | DeviceUse::Recovering { role, .. }
        | DeviceUse::Replacement { role, .. } => Some(*role),
        _ => None,
    }
}

/// How good a device's claim to a role is.
fn claim(device: &Picked<'_>) -> (bool, u64) {
    (!device.superblock.features.contains(Features::REPLACEMENT), device.superblock.events)
}

/// Why a device does not get the role that it claims and that `winner` gets; an error if its claim is as good.
pub(super) fn yields(device: &Picked<'_>, winner: &Picked<'_>, role: u16) -> Result<LeftOut, AssemblyError> {
    let (own, won) = (claim(device), claim(winner));
    if own != won {
        let stale = LeftOut::Stale { events: device.superblock.events };
        return Ok(if own.0 == won.0 { stale } else { LeftOut::Replacement });
    }
    let labels = pair(device, winner);
    let number = device.superblock.device_number;
    if number == winner.superblock.device_number {
        return Err(AssemblyError::SameDevice { labels, number });
    }
    Err(AssemblyError::DuplicateRole { labels, role })
}

/// A spare given twice would be used twice. One that has left the array, and whose number another has now, is no spare.
fn same_spare(picked: &[Picked<'_>], chosen: &mut Chosen<'_>) -> Result<(), AssemblyError> {
    let number = |at: usize| picked[at].superblock.device_number;
    let events = |at: usize| picked[at].superblock.events;
    for at in (0..picked.len()).filter(|&at| chosen.usage[at] == DeviceUse::Spare).collect::<Vec<_>>() {
        let newer = |other: usize| {
            let in_use =
                matches!(chosen.usage[other], DeviceUse::Spare) || filled(&chosen.usage[other]).is_some();
            other != at && in_use && number(other) == number(at) && events(other) > events(at)
        };
        if (0..picked.len()).any(newer) {
            chosen.usage[at] = DeviceUse::LeftOut { role: None, why: LeftOut::Stale { events: events(at) } };
        }
    }
    let mut spares: Vec<usize> =
        (0..picked.len()).filter(|&at| chosen.usage[at] == DeviceUse::Spare).collect();
    spares.sort_by_key(|&at| number(at));
    for twins in spares.windows(2) {
        let (one, other) = (twins[0], twins[1]);
        if number(one) == number(other) {
            let labels = pair(&picked[one], &picked[other]);
            return Err(AssemblyError::SameDevice { labels, number: number(one) });
        }
    }
    Ok(())
}

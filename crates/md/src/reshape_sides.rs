//! The members of an assembly, and the two sides of an array in the middle of a reshape.

use std::mem::swap;

use brindle_format::md::{Superblock, badblocks};
use brindle_io::{Io, MemberId};
use brindle_layout::Geometry;
use brindle_members::bad_blocks::BadBlocks;
use brindle_members::door::Moved;
use brindle_members::members::{Device, Members, Second};

use crate::assembly::{Assembly, DeviceUse, filled};
use crate::flags::treatment;
use brindle_array::Border;

/// An assembly's geometry and members, and what another geometry has of the array while it is being reshaped. The first
/// has all members.
pub(crate) fn sides(io: &Io, assembly: &Assembly, ids: &[MemberId]) -> (Geometry, Members, Option<Border>) {
    let (mut first, mut before) = (assembly.geometry.clone(), true);
    let Some(reshaping) = &assembly.reshaping else {
        return (first, members(io, assembly, ids), None);
    };
    before ^= reshaping.backwards;
    let mut second = reshaping.geometry.clone();
    let mut starts: [fn(&Superblock) -> u64; 2] = [|sb| sb.data_offset, Superblock::new_data_offset];
    if second.members() > first.members() {
        swap(&mut first, &mut second);
        starts.reverse();
        before = !before;
    }
    let [start, moved_start] = starts;
    let members = members_at(io, assembly, ids, first.members(), start);
    let moved = assembly.devices.iter().zip(ids).map(|(device, &id)| (id, moved_start(&device.superblock)));
    let moved = Moved::new(moved);
    (first, members, Some(Border { position: reshaping.position, before, geometry: second, moved }))
}

/// The members by role.
pub(crate) fn members(io: &Io, assembly: &Assembly, ids: &[MemberId]) -> Members {
    members_at(io, assembly, ids, assembly.geometry.members(), |sb| sb.data_offset)
}

/// The members of the first `count` roles, with their data where `data_offset` says.
fn members_at(
    io: &Io,
    assembly: &Assembly,
    ids: &[MemberId],
    count: u16,
    data_offset: impl Fn(&Superblock) -> u64,
) -> Members {
    let device = |at: &Option<usize>| {
        let at = (*at)?;
        Some(Device { id: *ids.get(at)?, data_offset: data_offset(&assembly.devices.get(at)?.superblock) })
    };
    let members = Members::new(io, assembly.roles.iter().take(count.into()).map(device));
    for device in &assembly.devices {
        if let Some(role) = filled(&device.usage).filter(|&role| role < count) {
            members.set_flags(role, treatment(device.superblock.flags));
        }
        if let (Some(role), Some(log)) = (filled(&device.usage), &device.bad_log)
            && role < count
        {
            members.set_bad(role, bad_blocks(&device.superblock, data_offset(&device.superblock), log));
        }
        if let DeviceUse::Recovering { role, upto } = device.usage
            && role < count
        {
            // In the middle of a reshape nothing tells by which geometry that is counted.
            let upto = if assembly.reshaping.is_some() { 0 } else { upto };
            members.recovered_to(role, upto);
        }
    }
    for (device, &id) in assembly.devices.iter().zip(ids) {
        if let DeviceUse::Replacement { role, upto } = device.usage
            && assembly.reshaping.is_none()
        {
            let device = Device { id, data_offset: data_offset(&device.superblock) };
            members.set_second(role, Second { device, good: upto });
        }
    }
    members
}

/// The bad blocks that a member's log names, as places of its data area, which begins at `data_offset`.
pub(crate) fn bad_blocks(superblock: &Superblock, data_offset: u64, log: &[u8]) -> BadBlocks {
    let mut bad = BadBlocks::default();
    let shift = superblock.bad_block_log.map_or(0, |log| log.shift);
    for range in badblocks::ranges(log, shift) {
        let end = range.offset.saturating_add(range.len);
        bad.add(range.offset.saturating_sub(data_offset)..end.saturating_sub(data_offset));
    }
    bad
}

//! Sets of hostile members. Input: options (1 byte), shape of a sound set (6), changes to it; the checksums are corrected.

use brindle_array::{Access, Array, OpenConfig};
use brindle_format::md::bitmap::{self, BitmapSuper};
use brindle_format::md::{SUPERBLOCK_BYTES, Superblock};
use brindle_io::memory::Memory;
use brindle_io::{Duration, Io, MemberId, Pool};
use brindle_layout::{Family, Geometry};
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, AssembledDevice, Assembly, DeviceUse, Limitation, assemble};
use brindle_volume::Volume;

use crate::feed::Feed;
use crate::sets::{Member, Set, Shape};

/// Bytes that are read or written at a time.
const PIECE: u64 = 16 << 10;

/// Assembles the members; if they form an array, reads all of it and, if it takes writes, writes to it.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let options = AssembleOptions { force: feed.u8() & 1 != 0, partial: false };
    let mut set = Set::new(&Shape::read(&mut feed));
    set.mutate(&mut feed);
    check(&set, options);
}

/// Checks the invariants of any set.
pub fn check(set: &Set, options: AssembleOptions) {
    let candidates = set.candidates();
    let assembled = assemble(&candidates, options);
    let mut backwards = set.clone();
    backwards.members.reverse();
    let reversed = assemble(&backwards.candidates(), options);
    let assembly = match (assembled, reversed) {
        (Ok(assembly), Ok(reversed)) => {
            assert_eq!(uses(&assembly), uses(&reversed), "the order of the members does not matter");
            assert_eq!(assembly.geometry, reversed.geometry);
            assembly
        }
        (Err(error), Err(_)) => {
            assert!(error.to_string().len() < 4096);
            return;
        }
        (one, other) => panic!("the order of the members matters: {one:?} or {other:?}"),
    };
    within_members(&assembly);
    run_array(set, &assembly, Access::ReadOnly);
    if assembly.writable() {
        run_array(set, &assembly, Access::ReadWrite);
    }
}

fn uses(assembly: &Assembly) -> Vec<(&str, DeviceUse)> {
    let mut uses: Vec<_> = assembly.devices.iter().map(|d| (d.label.as_str(), d.usage)).collect();
    uses.sort_by_key(|(label, _)| *label);
    uses
}

/// No byte of the array lies outside its member, nor on a superblock: on neither side of a reshape's border.
pub fn within_members(assembly: &Assembly) {
    within(assembly, &assembly.geometry, |sb| sb.data_offset);
    match &assembly.reshaping {
        None => assert_eq!(assembly.roles.len(), usize::from(assembly.geometry.members())),
        Some(reshaping) => within(assembly, &reshaping.geometry, Superblock::new_data_offset),
    }
}

fn within(assembly: &Assembly, geometry: &Geometry, data_offset: impl Fn(&Superblock) -> u64) {
    assert!(assembly.roles.len() >= usize::from(geometry.members()));
    for (role, at) in assembly.roles.iter().enumerate().take(geometry.members().into()) {
        let Some(device) = at.map(|at| &assembly.devices[at]) else { continue };
        let (sb, from) = (&device.superblock, data_offset(&device.superblock));
        let used = used_of(geometry, role as u16, sb.data_size);
        assert!(used <= sb.data_size, "{}: {used} of {} bytes", device.label, sb.data_size);
        let end = from.checked_add(used).expect("no overflow");
        assert!(end <= device.bytes, "{} ends at {} before {end}", device.label, device.bytes);
        let super_end = device.super_offset + SUPERBLOCK_BYTES as u64;
        assert!(end <= device.super_offset || from >= super_end, "{}", device.label);
    }
}

/// Bytes of a member's data area that the geometry can ask for.
fn used_of(geometry: &Geometry, role: u16, most: u64) -> u64 {
    match geometry.family() {
        Family::Striped(map) => {
            let (mut at, mut used) = (0, 0);
            // Every extent is a chunk of some member, and those are small.
            while at < geometry.size() {
                let extent = map.locate(at);
                assert!(extent.len > 0);
                if extent.member == role {
                    used = used.max(extent.offset + extent.len);
                }
                at += extent.len.min(geometry.size() - at);
                assert!(used <= most.saturating_add(1 << 32));
            }
            used
        }
        _ => geometry.member_size(),
    }
}

fn run_array(set: &Set, assembly: &Assembly, access: Access) {
    let memory = Memory::new();
    let ids: Vec<MemberId> = set.members.iter().map(|m| memory.add_ram(m.image.len() as u64)).collect();
    for (id, member) in ids.iter().zip(&set.members) {
        memory.poke(*id, 0, &member.image);
    }
    let io = Io::new(Box::new(memory.clone()));
    let config = OpenConfig {
        scratch_bytes: 1 << 20,
        idle: Duration::from_secs(3600),
        ..OpenConfig::new(access, || 1_800_000_000)
    };
    let array = match io.block_on(brindle_md::open(&io, assembly.clone(), &ids, config)) {
        Ok(array) => array,
        // Only what logs and the bitmap tell is not known before.
        Err(OpenError::Journal { .. } | OpenError::Ppl { .. }) => return io.shutdown(),
        Err(OpenError::ReadOnly { limits })
            if limits.iter().all(|limit| matches!(limit, Limitation::Bitmap { .. })) =>
        {
            return io.shutdown();
        }
        Err(error) => panic!("{error}"),
    };
    let pool = io.pool(PIECE as usize);
    let before = array.detail().roles;
    io.block_on(sweep(&array, &pool, access));
    assert_eq!(array.detail().roles, before, "no member is asked for what it has not");
    if access == Access::ReadWrite {
        io.block_on(array.stop()).expect("all members work");
    }
    drop(array);
    io.shutdown();
    for (at, (id, member)) in ids.iter().zip(&set.members).enumerate() {
        let mut after = vec![0; member.image.len()];
        memory.peek(*id, 0, &mut after);
        let touched = if access == Access::ReadWrite { areas(set, assembly, at) } else { Vec::new() };
        untouched(&member.image, &after, &touched);
    }
}

/// Reads the whole array; with write access also writes a piece, and brings redundancy in sync.
async fn sweep(array: &Array, pool: &Pool, access: Access) {
    let size = array.limits().size;
    let block = u64::from(array.limits().block);
    for at in (0..size / block * block).step_by(PIECE as usize) {
        let len = PIECE.min(size / block * block - at) as usize;
        let buf = pool.alloc(len.next_power_of_two()).await;
        let piece = buf.slice(0..len);
        array.read(at, piece.clone()).await.expect("a byte of the array");
        if access == Access::ReadWrite && at == 0 {
            array.write(at, piece, false).await.expect("a byte of the array");
        }
    }
    if access == Access::ReadWrite {
        array.resync(|_| {}).await.expect("all members work");
    }
}

/// The parts of a device that may be written to: its superblock, and its data and bitmap if it has a role.
fn areas(set: &Set, assembly: &Assembly, at: usize) -> Vec<core::ops::Range<usize>> {
    let device = &assembly.devices[at];
    if matches!(device.usage, DeviceUse::LeftOut { .. }) {
        return Vec::new();
    }
    let range = |from: u64, len: u64| from as usize..(from + len) as usize;
    let own = range(device.super_offset, SUPERBLOCK_BYTES as u64);
    let data = range(device.superblock.data_offset, device.superblock.data_size);
    if !assembly.roles.contains(&Some(at)) {
        return vec![own];
    }
    let bitmap = device.superblock.bitmap_offset.map(|offset| {
        let start = device.super_offset.checked_add_signed(offset).expect("it has been written to");
        range(start, bitmap_bytes(set, assembly).min(device.bytes - start))
    });
    [own, data].into_iter().chain(bitmap).collect()
}

/// Bytes of the largest bitmap that some member has.
fn bitmap_bytes(set: &Set, assembly: &Assembly) -> u64 {
    let covered = match assembly.geometry.family() {
        Family::Mirrored(_) => assembly.geometry.size(),
        _ => assembly.geometry.member_size(),
    };
    let bytes = |(device, member): (&AssembledDevice, &Member)| {
        let start = device.super_offset.checked_add_signed(device.superblock.bitmap_offset?)?;
        let head = BitmapSuper::parse(member.image.get(usize::try_from(start).ok()?..)?).ok()?;
        bitmap::bytes_needed(covered, head.chunk)?.checked_next_multiple_of(512)
    };
    assembly.devices.iter().zip(&set.members).filter_map(bytes).max().unwrap_or(0)
}

/// Slices are compared as a whole: byte by byte it would be most of a run's time.
fn untouched(before: &[u8], after: &[u8], but: &[core::ops::Range<usize>]) {
    let mut after = after.to_vec();
    for range in but {
        after[range.clone()].copy_from_slice(&before[range.clone()]);
    }
    if after != before {
        let at = after.iter().zip(before).position(|(new, old)| new != old);
        panic!("byte {at:?} was changed");
    }
}

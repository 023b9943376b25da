//! Arrays made on paper, for the tests.

use brindle_array::assembly::Candidate;
use brindle_array::create::{CreateSpec, NewMember, Plan, plan};
use brindle_format::md::{Endian, SUPERBLOCK_BYTES, Superblock, Uuid, Version, probe_offsets};
use brindle_io::MemberInfo;
use brindle_layout::Level;

pub(crate) const MIB: u64 = 1 << 20;

/// The versions that can be created.
pub(crate) const VERSIONS: [Version; 4] =
    [Version::V0_90(Endian::Little), Version::V1_0, Version::V1_1, Version::V1_2];

pub(crate) fn info(size: u64) -> MemberInfo {
    MemberInfo {
        size,
        logical_block: 512,
        physical_block: 512,
        rotational: false,
        discard: true,
        write_zeroes: true,
    }
}

pub(crate) fn new_member(n: usize, size: u64) -> NewMember {
    NewMember {
        label: format!("disk{n}"),
        info: info(size),
        uuid: Uuid::from_u128(0x100 + n as u128),
        old_superblocks: Vec::new(),
    }
}

/// An array of `members` devices of 8 MiB with chunks of 64 KiB.
pub(crate) fn spec(level: Level, members: usize, version: Version) -> CreateSpec {
    CreateSpec {
        version,
        level,
        layout: None,
        chunk: (!matches!(level, Level::Raid1 | Level::Linear)).then_some(64 << 10),
        size: None,
        data_offset: None,
        name: if version.is_v1() { "data".into() } else { String::new() },
        homehost: Some("host".into()),
        roles: (0..members).map(|n| Some(new_member(n, 8 * MIB))).collect(),
        spares: Vec::new(),
        assume_clean: true,
        uuid: Uuid::from_u128(0xabcd),
        now: 1_700_000_000,
    }
}

/// The superblocks of the array, as they will be read from its devices, in their order.
pub(crate) fn superblocks(spec: &CreateSpec) -> Vec<Superblock> {
    let plan = plan(spec).unwrap();
    given(spec)
        .iter()
        .zip(&plan.superblocks)
        .map(|(m, w)| parse(spec.version, &w.bytes, m.info.size))
        .collect()
}

pub(crate) fn given(spec: &CreateSpec) -> Vec<NewMember> {
    spec.roles.iter().flatten().chain(&spec.spares).cloned().collect()
}

pub(crate) fn parse(version: Version, bytes: &[u8], device_bytes: u64) -> Superblock {
    Superblock::parse(version, bytes, device_bytes).unwrap()
}

/// A device of `size` bytes that carries one superblock.
pub(crate) fn candidate(label: &str, sb: &Superblock, size: u64) -> Candidate {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    sb.encode(&mut bytes).unwrap();
    device(label, size, &[(sb.super_offset, bytes)])
}

/// A device of `size` bytes that carries blocks at offsets, and zeroes elsewhere.
pub(crate) fn device(label: &str, size: u64, blocks: &[(u64, Vec<u8>)]) -> Candidate {
    let zeroes = vec![0; SUPERBLOCK_BYTES];
    let at = |offset| blocks.iter().find(|(at, _)| *at == offset).map_or(&zeroes, |(_, bytes)| bytes);
    Candidate::from_blocks(label, info(size), probe_offsets(size).map(|p| (p, &at(p.offset)[..])))
}

/// The array's devices as candidates, in their order.
pub(crate) fn candidates(spec: &CreateSpec) -> Vec<Candidate> {
    edited(spec, |_, _| ())
}

/// The array's devices as candidates after `edit` has changed each superblock.
pub(crate) fn edited(spec: &CreateSpec, mut edit: impl FnMut(usize, &mut Superblock)) -> Vec<Candidate> {
    let mut sbs = superblocks(spec);
    sbs.iter_mut().enumerate().for_each(|(n, sb)| edit(n, sb));
    given(spec).iter().zip(&sbs).map(|(m, sb)| candidate(&m.label, sb, m.info.size)).collect()
}

pub(crate) fn planned(spec: &CreateSpec) -> Plan {
    plan(spec).unwrap()
}

//! Superblocks of all versions. Input: version (1 byte), size of the device (8), the bytes at the superblock's place.

use brindle_format::md::{
    DeviceRole, MAX_DEVICES_0_90, MAX_DEVICES_1, SUPERBLOCK_BYTES, Superblock, Version,
    displaced::{self, Displaced},
};

use crate::checksum;
use crate::feed::Feed;

/// Parses the bytes as they are and with a true checksum.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let version = Version::ALL[usize::from(feed.u8()) % Version::ALL.len()];
    let device_bytes = feed.u64();
    let raw = feed.bytes(SUPERBLOCK_BYTES + 16);
    if let Some(torn) = Superblock::parse_torn(version, raw, device_bytes) {
        assert!(torn.bytes()[..512] == raw[..512], "what proves it stands there");
    }
    if let Ok(sb) = Superblock::parse(version, raw, device_bytes) {
        check(&sb, raw, device_bytes, false);
    }
    let mut block = [0; SUPERBLOCK_BYTES];
    let len = raw.len().min(block.len());
    block[..len].copy_from_slice(&raw[..len]);
    checksum::superblock(version, &mut block);
    // The same away from the usual places: what is found covers the place at which it was found.
    let place = device_bytes & !(displaced::STEP - 1);
    match displaced::member(place, &block) {
        Some(Displaced::Known(member) | Displaced::BySize(member) | Displaced::Unlikely(member)) => {
            assert!(member.contains(&place), "{member:?}");
        }
        Some(Displaced::Unknown(end)) => assert!(end > place, "{end}"),
        None => {}
    }
    if let Ok(sb) = Superblock::parse(version, &block, device_bytes) {
        check(&sb, &block, device_bytes, true);
    }
}

/// Checks the invariants of every superblock that the parser accepts. `canonical`: its checksum is the one that is
/// written (of 0.90 another is accepted that folds to the same 16 bits).
pub fn check(sb: &Superblock, bytes: &[u8], device_bytes: u64, canonical: bool) {
    places(sb, device_bytes);
    let mut out = [0; SUPERBLOCK_BYTES];
    sb.encode(&mut out).expect("what was read can be written");
    let len = bytes.len().min(out.len());
    if canonical || sb.version.is_v1() {
        assert_eq!(&out[..len], &bytes[..len], "a rewrite changes nothing that was not changed");
    }
    assert!(out[len..].iter().all(|byte| *byte == 0));
    let again = Superblock::parse(sb.version, &out, device_bytes).expect("what was written can be read");
    if canonical || sb.version.is_v1() {
        assert_eq!(&again, sb);
    }
    progress(sb, device_bytes);
}

/// Everything that the superblock places lies on the device, and clear of the superblock.
fn places(sb: &Superblock, device_bytes: u64) {
    let most = if sb.version.is_v1() { MAX_DEVICES_1 } else { MAX_DEVICES_0_90 };
    assert!(sb.roles.len() <= most && (1..=most).contains(&(sb.raid_disks as usize)));
    assert!(sb.role().active().is_none_or(|role| u32::from(role) < sb.all_raid_disks()));
    assert!(sb.all_raid_disks() as usize <= most);
    let super_end = sb.super_offset + SUPERBLOCK_BYTES as u64;
    assert!(super_end <= device_bytes);
    let has_data = sb.role().active().is_some() || sb.role() == DeviceRole::Spare;
    let used = if sb.level > 0 && has_data { sb.component_size.min(sb.data_size) } else { 0 };
    let used = if sb.level <= 0 { sb.data_size } else { used };
    let end = sb.data_offset.checked_add(used).expect("no offset comes near the end of 64 bits");
    assert!(end <= device_bytes, "data end at {end}");
    assert!(end <= sb.super_offset || sb.data_offset >= super_end, "data overlap the superblock");
    if sb.level > 0 && sb.role().active().is_some() {
        assert!(sb.component_size <= sb.data_size);
    }
}

/// A running array changes little, and what it changes comes back.
fn progress(sb: &Superblock, device_bytes: u64) {
    for resync in [None, Some(0), sb.resync_offset] {
        let mut next = sb.clone();
        next.events = sb.events.saturating_add(1);
        next.resync_offset = resync;
        let mut out = [0; SUPERBLOCK_BYTES];
        next.encode(&mut out).expect("progress can be written");
        let again = Superblock::parse(sb.version, &out, device_bytes).expect("progress can be read");
        assert_eq!((again.events, again.resync_offset), (next.events, resync));
        assert_eq!((&again.roles, again.features), (&sb.roles, sb.features));
        assert_eq!((again.role(), again.component_size), (sb.role(), sb.component_size));
    }
}

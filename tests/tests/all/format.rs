//! Superblocks that md itself wrote: read, understood, written back byte for byte; and our placements are mdadm's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use brindle_format::md::defaults::{self, Consistency};
use brindle_format::md::{DeviceRole, Features, Superblock, Uuid, Version, probe_offsets, split_name};
use brindle_format::signature::{Sample, Signature, detect, needed};
use brindle_tests::golden::{self, Made, Recipe};
use brindle_tests::tools::or_skip;

fn read(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

/// The one superblock on a member; it must survive a rewrite to the byte.
fn superblock(path: &Path) -> Superblock {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let mut found = Vec::new();
    for probe in probe_offsets(size) {
        let bytes = read(&file, probe.offset, probe.len);
        let Ok(sb) = Superblock::parse(probe.version, &bytes, size) else { continue };
        let mut again = vec![0; probe.len];
        sb.encode(&mut again).unwrap();
        assert!(again == bytes, "{}: a rewrite of {} changes bytes", path.display(), probe.version);
        found.push(sb);
    }
    assert_eq!(found.len(), 1, "{}", path.display());
    found.remove(0)
}

fn level(recipe: &Recipe) -> i32 {
    recipe.level.parse().unwrap_or(-1)
}

#[test]
fn superblocks_of_md_are_read_and_rewritten_to_the_byte() {
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    let mut seen: Vec<Uuid> = Vec::new();
    for array in &made {
        let members: Vec<Superblock> = array.members.iter().map(|path| superblock(path)).collect();
        for (role, sb) in members.iter().enumerate() {
            check(&array.recipe, sb, role);
            assert_eq!((sb.set_uuid, sb.events), (members[0].set_uuid, members[0].events));
        }
        assert!(!seen.contains(&members[0].set_uuid));
        seen.push(members[0].set_uuid);
    }
}

fn check(recipe: &Recipe, sb: &Superblock, role: usize) {
    let name = format!("{} member {role}: {sb:?}", recipe.name());
    assert_eq!(sb.version.to_string(), recipe.metadata, "{name}");
    assert_eq!(sb.level, level(recipe), "{name}");
    assert_eq!(sb.raid_disks as usize, recipe.members.len(), "{name}");
    assert_eq!(sb.chunk, recipe.chunk.unwrap_or(0), "{name}");
    assert_eq!(sb.role(), DeviceRole::Active(role as u16), "{name}");
    assert!(sb.is_clean() && sb.reshape.is_none() && sb.recovery_offset.is_none(), "{name}");
    let uneven = recipe.members.iter().any(|size| *size != recipe.members[0]);
    let features = if uneven && sb.level == 0 { Features::RAID0_LAYOUT } else { Features::NONE };
    // Newer mdadm sets the bit for every RAID 0.
    assert!(sb.features == features || (sb.level, sb.features) == (0, Features::RAID0_LAYOUT), "{name}");
    for other in 0..sb.raid_disks {
        assert_eq!(sb.device_in_role(other as u16), Some(other), "{name}");
    }
    if sb.version.is_v1() {
        assert!(sb.created.seconds > 1_500_000_000 && sb.updated >= sb.created, "{name}");
        assert!(!split_name(&sb.name).1.is_empty() && !sb.device_uuid.is_nil(), "{name}");
    }
}

#[test]
fn placements_are_those_that_mdadm_chose() {
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    for Made { recipe, members, .. } in made.iter().filter(|made| made.recipe.extra.is_empty()) {
        let version: Version = recipe.metadata.parse().unwrap();
        let chunk = recipe.chunk.unwrap_or(0);
        let offset = defaults::data_offset(version, recipe.members[0], chunk, Consistency::Resync);
        let available = recipe
            .members
            .iter()
            .map(|size| defaults::available(version, *size, offset, Consistency::Resync).unwrap());
        let component = match level(recipe) {
            ..=0 => 0,
            _ => defaults::component_size(version, available.min().unwrap(), chunk).unwrap(),
        };
        for (path, size) in members.iter().zip(&recipe.members) {
            let sb = superblock(path);
            let placed = defaults::place(version, *size, offset, component, Consistency::Resync).unwrap();
            let mut ours = sb.clone();
            placed.apply(&mut ours);
            assert_eq!(ours, sb, "{}", recipe.name());
            // Far and offset copies divide a member: the kernel rounds it down to whole chunks for each.
            let copies = if sb.level == 10 { u64::from(sb.layout >> 8 & 0xff) } else { 1 };
            let wanted = if copies > 1 { component / chunk / copies * copies * chunk } else { component };
            assert_eq!(sb.component_size, wanted, "{}", recipe.name());
        }
    }
}

#[test]
fn members_of_md_are_recognised() {
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    for path in made.iter().flat_map(|array| &array.members) {
        let file = File::open(path).unwrap();
        let size = file.metadata().unwrap().len();
        let parts: Vec<(u64, Vec<u8>)> =
            needed(size).into_iter().map(|(offset, len)| (offset, read(&file, offset, len))).collect();
        let windows: Vec<Sample<'_>> =
            parts.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        let md: Vec<_> =
            detect(size, &windows).into_iter().filter(|f| f.signature == Signature::MdRaid).collect();
        assert_eq!(md.len(), 1, "{}: {md:?}", path.display());
        assert_eq!(md[0].offset, superblock(path).super_offset);
        assert!(md[0].uuid.is_some());
    }
}

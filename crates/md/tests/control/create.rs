//! Writes that make an array, and specifications that are refused.

use brindle_format::md::{DeviceRole, Endian, Features, Uuid, Version};
use brindle_layout::{Layout, Level, ParityLayout, Raid0Layout};
use brindle_md::create::{CreateError, CreateSpec, plan};

use crate::common::*;

const V0: Version = Version::V0_90(Endian::Little);

fn refusal(change: impl FnOnce(&mut CreateSpec)) -> String {
    refusal_of(spec(Level::Raid5, 3, Version::V1_2), change)
}

fn refusal_of(mut spec: CreateSpec, change: impl FnOnce(&mut CreateSpec)) -> String {
    change(&mut spec);
    plan(&spec).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn superblocks_tell_what_was_asked() {
    let mut spec = spec(Level::Raid6, 5, Version::V1_2);
    spec.layout = Some(Layout::Parity(ParityLayout::DdfNContinue));
    spec.roles[3] = None;
    spec.roles[4] = None;
    spec.spares = vec![new_member(7, 8 * MIB)];
    spec.assume_clean = false;
    let made = planned(&spec);
    assert!(!made.needs_resync, "no redundancy is left that could disagree");
    assert_eq!((made.data_offset, made.component_size), (MIB, 7 * MIB));
    let sbs = superblocks(&spec);
    assert_eq!(sbs.len(), 4);
    for (number, sb) in [0, 1, 2, 5].into_iter().zip(&sbs) {
        assert_eq!(sb.device_number, number);
        assert_eq!((sb.level, sb.layout, sb.raid_disks, sb.chunk), (6, 10, 5, 64 << 10));
        assert_eq!((sb.name.as_str(), sb.events, sb.set_uuid), ("host:data", 1, spec.uuid));
        assert_eq!(sb.created.seconds, spec.now);
        assert_eq!(sb.resync_offset, None);
        assert!(sb.bad_block_log.is_some());
    }
    assert_eq!(sbs[3].role(), DeviceRole::Spare);
    assert_eq!(sbs[3].device_uuid, Uuid::from_u128(0x107));
    assert_eq!(sbs[0].roles[3], DeviceRole::Spare, "nobody has number 3");
}

#[test]
fn redundancy_that_is_not_known_needs_a_resync() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)] {
        for version in VERSIONS {
            let mut spec = spec(level, members, version);
            spec.assume_clean = false;
            assert!(planned(&spec).needs_resync);
            assert!(superblocks(&spec).iter().all(|sb| sb.resync_offset == Some(0)));
            spec.assume_clean = true;
            assert!(superblocks(&spec).iter().all(brindle_format::md::Superblock::is_clean));
        }
    }
    let mut striped = spec(Level::Raid0, 2, Version::V1_2);
    striped.assume_clean = false;
    assert!(!planned(&striped).needs_resync);
}

#[test]
fn raid0_tells_its_layout_only_where_it_matters() {
    let mut spec = spec(Level::Raid0, 3, Version::V1_2);
    let sb = superblocks(&spec).remove(0);
    assert_eq!((sb.layout, sb.features), (1, Features::NONE));
    spec.roles[1] = Some(new_member(1, 12 * MIB));
    let sb = superblocks(&spec).remove(0);
    assert_eq!((sb.layout, sb.features), (1, Features::RAID0_LAYOUT));
    spec.layout = Some(Layout::Raid0(Raid0Layout::Alternate));
    assert_eq!(superblocks(&spec)[0].layout, 2);
    spec.version = V0;
    spec.name.clear();
    assert_eq!(plan(&spec).map(|_| ()).unwrap_err(), CreateError::ZonesIn090);
}

#[test]
fn old_superblocks_are_wiped_but_not_the_new_one() {
    let mut spec = spec(Level::Raid1, 2, Version::V1_2);
    let old = [0, 4096, 8 * MIB - 8192];
    spec.roles[1].as_mut().unwrap().old_superblocks = old.to_vec();
    let made = planned(&spec);
    let wipes: Vec<_> = made.wipes.iter().map(|w| (w.device, w.offset, w.bytes.len())).collect();
    assert_eq!(wipes, [(1, 0, 4096), (1, 8 * MIB - 8192, 4096)]);
    assert!(made.wipes.iter().all(|w| w.bytes.iter().all(|b| *b == 0)));
}

#[test]
fn names_carry_the_host_if_it_fits() {
    let name = |own: &str, host: &str| {
        let mut spec = spec(Level::Raid1, 2, Version::V1_2);
        (spec.name, spec.homehost) = (own.into(), Some(host.into()));
        plan(&spec).map(|_| superblocks(&spec)[0].name.clone()).map_err(|e| e.to_string())
    };
    assert_eq!(name("a", "h").unwrap(), "h:a");
    assert_eq!(name("a", &"h".repeat(31)).unwrap(), "a");
    assert_eq!(
        name(&"n".repeat(33), "h").unwrap_err(),
        format!("the name '{}' has 33 bytes; at most 32 without zero bytes are possible", "n".repeat(33))
    );
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    assert_eq!(
        refusal(|s| s.roles[1] = Some(new_member(1, MIB))),
        "disk1 has 1048576 bytes, of which 0 could hold data; 65536 are needed: use a larger device, or a \
         smaller --size, --chunk or --data-offset"
    );
    assert_eq!(
        refusal(|s| s.size = Some(20 * MIB)),
        "disk0 has 8388608 bytes, of which 7340032 could hold data; 20971520 are needed: use a larger device, or \
         a smaller --size, --chunk or --data-offset"
    );
    assert_eq!(
        refusal(|s| s.size = Some(4096)),
        "a size of 4096 bytes is less than one chunk of 65536; use more"
    );
    assert_eq!(
        refusal_of(spec(Level::Raid0, 2, Version::V1_2), |s| s.size = Some(MIB)),
        "raid0 uses all of each member; leave --size out"
    );
    assert_eq!(
        refusal_of(spec(Level::Raid1, 2, V0), |s| {
            s.roles.iter_mut().flatten().for_each(|m| m.info.size = 9 << 40);
            s.size = Some(5 << 40);
        }),
        "metadata 0.90 can use at most 4 TiB of a member, not 5497558138880 bytes; use 1.2, or say \
         with --size how much to use"
    );
}

#[test]
fn impossible_arrays_are_refused() {
    assert!(refusal(|s| s.roles.truncate(1)).contains("raid5 needs at least 2 members, not 1"));
    assert!(refusal(|s| s.chunk = Some(5000)).contains("a chunk of 5000 bytes is not possible"));
    assert!(refusal(|s| s.chunk = Some(3 << 12)).contains("must be a power of two"));
    assert!(
        refusal(|s| s.layout = Some(Layout::Parity(ParityLayout::DdfNRestart)))
            .contains("is not a layout of raid5")
    );
    assert!(
        refusal(|s| s.roles.iter_mut().take(2).for_each(|r| *r = None))
            .contains("with roles 0 and 1 missing")
    );
    assert_eq!(
        refusal(|s| s.roles.iter_mut().for_each(|r| *r = None)),
        "at least one member must be a device; not all can be missing"
    );
    let raid6 = || {
        let mut s = spec(Level::Raid6, 5, Version::V1_2);
        s.roles[2] = None;
        s
    };
    assert!(refusal_of(raid6(), |s| s.assume_clean = false).starts_with("raid6 with a missing member"));
    let striped = spec(Level::Raid0, 2, Version::V1_2);
    assert!(refusal_of(striped.clone(), |s| s.roles[1] = None).contains("with role 1 missing"));
    assert!(refusal_of(striped, |s| s.spares = vec![new_member(4, MIB)]).contains("no redundancy"));
    assert!(refusal_of(spec(Level::Raid1, 2, V0), |s| s.chunk = Some(4096)).contains("raid1 has no chunks"));
}

#[test]
fn what_0_90_has_no_place_for_is_refused() {
    let old = |change: fn(&mut CreateSpec)| refusal_of(spec(Level::Raid1, 2, V0), change);
    assert_eq!(old(|s| s.name = "x".into()), "metadata 0.90 keeps no name; leave --name out or use 1.2");
    assert!(old(|s| s.data_offset = Some(MIB)).contains("always has its data at 0"));
    assert_eq!(
        old(|s| s.roles = (0..28).map(|n| Some(new_member(n, 8 * MIB))).collect()),
        "metadata 0.90 can describe 27 devices, not 28; use 1.2 or fewer devices"
    );
    // As with mdadm: to use a part of a large member, it has to be said.
    let large = |size| {
        let mut spec = spec(Level::Raid1, 2, V0);
        spec.roles = (0..2).map(|n| Some(new_member(n, 5 << 40))).collect();
        CreateSpec { size, ..spec }
    };
    assert!(plan(&large(None)).unwrap_err().to_string().contains("at most 4 TiB of a member"));
    assert!(plan(&large(Some((4 << 40) + MIB))).is_err());
    assert_eq!(planned(&large(Some(4 << 30))).component_size, 4 << 30);
    let mut full = spec(Level::Raid1, 27, V0);
    full.spares.clear();
    assert_eq!(superblocks(&full).len(), 27);
}

//! Check and repair, with md's counting; and recovery of a member.

use brindle_array::{MismatchKind, OpenConfig, SyncMode, SyncReport};
use brindle_io::sim::Model;
use brindle_layout::{Layout, Level, ParityLayout, Place, Raid10Layout};
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, read};

use crate::world::{self, DATA_OFFSET, Running};

fn filled(level: Level, layout: Layout, members: usize) -> (Running, Vec<u8>) {
    let world = world::start(level, layout, 65536, members, 1 << 20);
    let content = world::pattern(9, world.size() as usize);
    world.run(async |w| w.write_all(&content).await).unwrap();
    assert_eq!(world.run(async |w| w.scrub(SyncMode::Check).await).unwrap(), Default::default());
    (world, content)
}

fn rot(world: &Running, role: usize, offset: u64) {
    let mut byte = [0];
    world.bench.peek(world.ids[role], DATA_OFFSET + offset, &mut byte);
    world.bench.poke(world.ids[role], DATA_OFFSET + offset, &[byte[0] ^ 1]);
}

/// Checks twice (the first changes nothing), repairs, and finds nothing more.
fn check_and_repair(world: &Running, sectors: u64) -> Vec<(u16, u64, MismatchKind)> {
    let mut places = Vec::new();
    for mode in [SyncMode::Check, SyncMode::Check, SyncMode::Repair] {
        let report = world.run(async |w| w.scrub(mode).await).unwrap();
        assert_eq!(report.mismatch_sectors, sectors);
        places = report.places.iter().map(|place| (place.role, place.offset, place.kind)).collect();
    }
    let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
    places
}

#[test]
fn parity_counts_eight_sectors_for_each_page_of_a_row() {
    let (world, content) = filled(Level::Raid6, Layout::Parity(ParityLayout::ParityLast), 5);
    // P in one page, Q in the same, Q in another, two bytes of one page.
    for (role, offset) in [(3, 100), (4, 200), (4, 70_000), (4, 70_001)] {
        rot(&world, role, offset);
    }
    let places = check_and_repair(&world, 16);
    let page = 70_000 / 4096 * 4096;
    assert_eq!(places, [(3, 0, MismatchKind::P), (4, 0, MismatchKind::Q), (4, page, MismatchKind::Q)]);
    assert!(world.run(async |w| w.read_all().await).unwrap() == content, "repair never changes data");
}

#[test]
fn mirrors_count_the_whole_block_for_each_copy_that_differs() {
    let (world, content) = filled(Level::Raid1, Layout::None, 3);
    rot(&world, 1, 5);
    rot(&world, 2, 6);
    rot(&world, 2, 600_000);
    let places = check_and_repair(&world, 3 * 128);
    assert_eq!(places.len(), 3);
    assert!(world.run(async |w| w.read_all().await).unwrap() == content);
    let (world, _) = filled(Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 4);
    rot(&world, 1, 5);
    check_and_repair(&world, 128);
}

#[test]
fn a_scrub_reads_each_member_in_large_operations() {
    let config = OpenConfig { scratch_bytes: 16 << 20, ..world::config() };
    let layout = Layout::Parity(ParityLayout::LeftSymmetric);
    let world = Running::of(&world::shape(Level::Raid5, layout, 65536, 4, 4 << 20), config);
    let counts = world.counted(async |w| {
        let report = w.array.sync_window(0, 4 << 20, SyncMode::Check).await.unwrap();
        assert_eq!(report, SyncReport::default());
    });
    for (reads, _) in counts {
        assert!((1..=8).contains(&reads), "{reads} reads for 4 MiB");
    }
}

#[test]
fn a_member_is_recovered_from_the_others() {
    let n3 = Layout::Raid10(Raid10Layout::near(3));
    let shapes = [
        (Level::Raid1, Layout::None, 2),
        (Level::Raid10, n3, 4),
        (Level::Raid10, Layout::Raid10(Raid10Layout::far(2)), 5),
        (Level::Raid5, Layout::Parity(ParityLayout::RightAsymmetric), 4),
        (Level::Raid6, Layout::Parity(ParityLayout::DdfNContinue), 6),
    ];
    for (level, layout, members) in shapes {
        let (world, content) = filled(level, layout, members);
        let size = world.array.geometry().member_size();
        for role in 0..members as u16 {
            let recovering = world.recovering(role);
            let id = recovering.ids[usize::from(role)];
            let mut before = vec![0; size as usize];
            recovering.bench.peek(id, DATA_OFFSET, &mut before);
            recovering.bench.poke(id, DATA_OFFSET, &vec![0xAA; size as usize]);
            recovering.run(async |w| w.recovery(role, id).await).unwrap();
            let mut after = vec![0; size as usize];
            recovering.bench.peek(id, DATA_OFFSET, &mut after);
            let used = |at: usize| world.array.geometry().place(role, at as u64) != Place::Unused;
            for at in (0..size as usize).step_by(4096).filter(|&at| used(at)) {
                assert!(
                    after[at..at + 4096] == before[at..at + 4096],
                    "{level} {layout} role {role} at {at}"
                );
            }
        }
        assert!(world.without(&[]).run(async |w| w.read_all().await).unwrap() == content);
    }
}

#[test]
fn a_recovery_brings_parity_in_sync_that_it_does_not_need() {
    let layout = Layout::Parity(ParityLayout::LeftSymmetric);
    for role in 0..5u16 {
        let (world, content) = filled(Level::Raid6, layout, 5);
        let recovering = world.recovering(role);
        let map = world.array.geometry();
        let brindle_layout::Family::Parity(map) = map.family() else { unreachable!("RAID 6") };
        for row in 0..map.rows() {
            let roles = map.row(row);
            let q = roles.q().filter(|&q| q != role).unwrap_or(roles.p());
            rot(&recovering, usize::from(q), row * 65536 + 5000);
        }
        recovering.run(async |w| w.recovery(role, w.ids[usize::from(role)]).await).unwrap();
        let whole = recovering.unrecorded(&recovering.ids);
        recovering.run(async |w| {
            assert!(read(&w.pool, &whole, 0, content.len()).await.unwrap() == content);
            let report = whole.check(SyncMode::Check, |_| ()).await.unwrap();
            assert_eq!(report, SyncReport::default(), "role {role}");
        });
    }
}

#[test]
fn a_recovery_brings_parity_in_sync_around_places_that_cant_be_read() {
    for role in 0..5u16 {
        let (world, content) = filled(Level::Raid6, Layout::Parity(ParityLayout::LeftSymmetric), 5);
        let recovering = world.recovering(role);
        let map = world.array.geometry();
        let brindle_layout::Family::Parity(map) = map.family() else { unreachable!("RAID 6") };
        let offset = |row: u64, at: u64| row * 65536 + at;
        for row in 0..map.rows() {
            let roles = map.row(row);
            let q = roles.q().filter(|&q| q != role).unwrap_or(roles.p());
            for at in [5000, 30000] {
                rot(&recovering, usize::from(q), offset(row, at));
            }
            // Beside that a place of some data, or one of that parity, too: too much for the step that both are in.
            let data = (0..5).find(|&other| other != role && other != roles.p() && other != q).unwrap();
            let spoil = |of: u16, at| {
                recovering.bench.spoil(recovering.ids[usize::from(of)], DATA_OFFSET + offset(row, at), 512);
            };
            spoil(data, 22 << 10);
            if row % 2 == 0 {
                spoil(q, 24 << 10);
            }
        }
        recovering.run(async |w| w.recovery(role, w.ids[usize::from(role)]).await).unwrap();
        let whole = recovering.unrecorded(&recovering.ids);
        recovering.run(async |w| {
            assert!(read(&w.pool, &whole, 0, content.len()).await.unwrap() == content);
            let report = whole.check(SyncMode::Check, |_| ()).await.unwrap();
            assert_eq!(report.mismatch_sectors, 0, "role {role}: {report:?}");
        });
    }
}

#[test]
fn writes_behind_the_border_of_a_recovery_keep_what_is_rebuilt_in_sync() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
        let (world, content) = filled(level, Layout::Parity(ParityLayout::LeftSymmetric), members);
        for role in 0..members as u16 {
            let (recovering, mut content) = (world.recovering(role), content.clone());
            recovering.run(async |w| {
                w.recovery(role, w.ids[usize::from(role)]).await.unwrap();
                for row in 0..8 {
                    let at = row * 100 * 1024;
                    let bytes = world::pattern(u64::from(role) * 100 + row as u64, 6 << 10);
                    w.write(at as u64, &bytes).await.unwrap();
                    content[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            });
            let whole = recovering.unrecorded(&recovering.ids);
            recovering.run(async |w| {
                assert!(read(&w.pool, &whole, 0, content.len()).await.unwrap() == content);
                let report = whole.check(SyncMode::Check, |_| ()).await.unwrap();
                assert_eq!(report, SyncReport::default(), "{level} role {role}");
            });
        }
    }
}

/// Spoils so many bytes of a member.
fn spoil(world: &Running, role: usize, offset: u64, len: usize) {
    let mut bytes = vec![0; len];
    world.bench.peek(world.ids[role], DATA_OFFSET + offset, &mut bytes);
    bytes.iter_mut().zip((0..=255_u8).cycle()).for_each(|(byte, n)| *byte ^= n | 1);
    world.bench.poke(world.ids[role], DATA_OFFSET + offset, &bytes);
}

/// Checks, locates, and finds nothing more; gives the places named, which are the same in both.
fn located(world: &Running) -> Vec<(u16, u64, u64, MismatchKind)> {
    let found = [SyncMode::Check, SyncMode::Locate].map(|mode| {
        let report = world.run(async |w| w.scrub(mode).await).unwrap();
        assert_eq!(report.unlocated, 0);
        assert!(report.places.iter().all(|place| place.located));
        report.places.iter().map(|place| (place.role, place.offset, place.len, place.kind)).collect()
    });
    assert_eq!(world.run(async |w| w.scrub(SyncMode::Check).await).unwrap(), SyncReport::default());
    let [checked, mended]: [Vec<_>; 2] = found;
    assert_eq!(checked, mended);
    mended
}

#[test]
fn raid_6_tells_which_member_is_wrong_and_writes_that_alone() {
    use ParityLayout as L;
    for layout in [L::LeftSymmetric, L::ParityFirst, L::DdfZeroRestart, L::DdfNContinue, L::RightAsymmetric6]
    {
        for role in 0..5 {
            let (world, content) = filled(Level::Raid6, Layout::Parity(layout), 5);
            let before: Vec<Vec<u8>> = (0..5).map(|role| member(&world, role)).collect();
            // Within a sector, over a border of sectors, and a whole page in another row.
            for (offset, len) in [(700, 1), (3000, 200), (70_656, 4096)] {
                spoil(&world, role, offset, len);
            }
            let places = located(&world);
            let expected = [(512, 512), (2560, 1024), (70_656, 4096)];
            let stretches: Vec<(u64, u64)> =
                places.iter().map(|&(_, offset, len, _)| (offset, len)).collect();
            assert_eq!(stretches, expected, "{layout} role {role}");
            assert!(places.iter().all(|place| usize::from(place.0) == role), "{layout}: {places:?}");
            assert!((0..5).all(|role| member(&world, role) == before[role]), "{layout} role {role}");
            assert!(world.run(async |w| w.read_all().await).unwrap() == content);
        }
    }
}

/// All of a member's data area that was written.
fn member(world: &Running, role: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    world.bench.peek(world.ids[role], DATA_OFFSET, &mut bytes);
    bytes
}

#[test]
fn of_three_copies_the_one_that_differs_is_wrong() {
    let (world, content) = filled(Level::Raid1, Layout::None, 3);
    for (role, offset, len) in [(0, 5, 1), (1, 600_000, 600), (2, 66_000, 1)] {
        spoil(&world, role, offset, len);
    }
    let copy = MismatchKind::Copy;
    assert_eq!(
        located(&world),
        [(0, 0, 512, copy), (2, 66_000 / 512 * 512, 512, copy), (1, 599_552, 1536, copy)]
    );
    assert!(world.run(async |w| w.read_all().await).unwrap() == content);
}

#[test]
fn a_member_that_is_wrong_is_written_in_blocks_as_large_as_its_own() {
    for (level, members) in [(Level::Raid6, 5), (Level::Raid1, 3)] {
        let model = Model { logical_block: 4096, tear_unit: 4096, ..Model::nvme() };
        let world = World::in_sim(&Shape::new(level, members), model, 7);
        let array = world.open();
        let content = world::pattern(3, 32 << 10);
        world.write(&array, 0, &content).unwrap();
        let (member, place) = (world.ids[1], DATA_OFFSET + 4096 + 700);
        let mut byte = [0];
        world.bench.peek(member, place, &mut byte);
        world.bench.poke(member, place, &[byte[0] ^ 1]);
        for mode in [SyncMode::Check, SyncMode::Locate] {
            let report = world.io.block_on(array.check(mode, |_| ())).unwrap();
            let found: Vec<_> = report.places.iter().map(|p| (p.role, p.offset, p.len, p.located)).collect();
            assert_eq!((found, report.unlocated), (vec![(1, 4096, 4096, true)], 0), "{level} {mode:?}");
        }
        assert_eq!(world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap().mismatch_sectors, 0);
        assert!(world.read(&array, 0, content.len()).unwrap() == content, "{level}");
    }
}

#[test]
fn what_does_not_tell_who_is_wrong_is_reported_and_left() {
    let p_and_q = Layout::Parity(ParityLayout::ParityLast);
    // Two members of a row in one sector; a level of one parity; two copies; three that all differ.
    let cases: [(Level, Layout, usize, &[usize], u64); 4] = [
        (Level::Raid6, p_and_q, 5, &[0, 1], 1),
        (Level::Raid5, p_and_q, 4, &[1], 8),
        (Level::Raid1, Layout::None, 2, &[1], 128),
        (Level::Raid1, Layout::None, 3, &[1, 2], 2),
    ];
    for (level, layout, members, wrong, unlocated) in cases {
        let (world, _) = filled(level, layout, members);
        for &role in wrong {
            spoil(&world, role, 4096 + role as u64, 1 + role);
        }
        let before: Vec<Vec<u8>> = (0..members).map(|role| member(&world, role)).collect();
        for mode in [SyncMode::Check, SyncMode::Locate] {
            let report = world.run(async |w| w.scrub(mode).await).unwrap();
            assert_eq!(report.unlocated, unlocated, "{level} of {members}");
            assert!(report.places.iter().all(|place| !place.located) && !report.places.is_empty());
        }
        assert!((0..members).all(|role| member(&world, role) == before[role]), "{level} of {members}");
    }
}

#[test]
fn where_redundancy_is_in_doubt_nobody_is_blamed() {
    let p_and_q = Layout::Parity(ParityLayout::ParityLast);
    for (level, layout, members) in [(Level::Raid6, p_and_q, 5), (Level::Raid1, Layout::None, 3)] {
        let (world, _) = filled(level, layout, members);
        spoil(&world, 1, 70_000, 1);
        let doubted = world::doubted(&world, 65_536);
        let before = member(&doubted, 1);
        let report = doubted.run(async |w| w.scrub(SyncMode::Locate).await).unwrap();
        assert!(report.unlocated > 0 && report.places.iter().all(|place| !place.located), "{level}");
        assert!(member(&doubted, 1) == before, "{level}: written to");
        drop(doubted);
        assert_eq!(located(&world.without(&[])).len(), 1, "{level}");
    }
}

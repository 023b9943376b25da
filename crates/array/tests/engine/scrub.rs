//! Check and repair, with md's counting; and recovery of a member.

use brindle_array::{MismatchKind, OpenConfig, SyncMode, SyncReport};
use brindle_layout::{Layout, Level, ParityLayout, Place, Raid10Layout};
use brindle_testkit::world::read;

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
fn writes_behind_the_border_of_a_recovery_keep_what_is_rebuilt_true() {
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

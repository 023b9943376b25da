//! Places that can't be read: answered from redundancy whatever happens meanwhile, mended, read back; and members failed
//! that give too many of them.

use brindle_array::{BadPlace, EventKind, OpenConfig, ReadPolicy, RoleState, SyncMode};
use brindle_io::OpError;
use brindle_layout::{Layout, Level, ParityLayout, Raid10Layout};
use brindle_volume::VolumeError;

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: u64 = 8192;
const ROWS: u64 = 40;
const SYMMETRIC: Layout = Layout::Parity(ParityLayout::LeftSymmetric);

type Shape = (Level, Layout, usize);

fn parity() -> [Shape; 3] {
    [
        (Level::Raid4, Layout::Parity(ParityLayout::ParityLast), 4),
        (Level::Raid5, SYMMETRIC, 4),
        (Level::Raid6, SYMMETRIC, 5),
    ]
}

fn mirrors() -> [Shape; 4] {
    [
        (Level::Raid1, Layout::None, 3),
        (Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 4),
        (Level::Raid10, Layout::Raid10(Raid10Layout::near(3)), 4),
        (Level::Raid10, Layout::Raid10(Raid10Layout::far(2)), 4),
    ]
}

fn shapes() -> impl Iterator<Item = Shape> {
    parity().into_iter().chain(mirrors())
}

fn filled(shape: Shape) -> (Running, Vec<u8>) {
    filled_of(shape, ROWS * CHUNK)
}

/// With this much of each member.
fn filled_of(shape: Shape, size: u64) -> (Running, Vec<u8>) {
    let world = Running::of(&shape_of(shape, size), world::config());
    let content = fill(&world);
    (world, content)
}

fn shape_of((level, layout, members): Shape, size: u64) -> brindle_testkit::shape::Shape {
    let chunk = if level == Level::Raid1 { 0 } else { CHUNK };
    world::shape(level, layout, chunk, members, size)
}

fn fill(world: &Running) -> Vec<u8> {
    let content = world::pattern(8, world.size() as usize);
    world.run(async |w| w.write_all(&content).await).unwrap();
    content
}

/// Bytes of a member that it is given and must give back: all that its level uses.
fn used(world: &Running) -> usize {
    world.array.geometry().member_size() as usize
}

fn failed(world: &Running) -> Vec<u16> {
    (0..world.ids.len() as u16).filter(|&role| world.array.state(role) == RoleState::Failed).collect()
}

#[test]
fn every_copy_of_a_mirror_is_mended() {
    for shape in mirrors() {
        // In turn, whatever the time that this machine gives to each.
        let config = OpenConfig { read_policy: ReadPolicy::RoundRobin, ..world::config() };
        let world = Running::of(&shape_of(shape, ROWS * CHUNK), config);
        let content = fill(&world);
        for (role, &id) in world.ids.iter().enumerate() {
            let place = DATA_OFFSET + 4096 * (1 + role as u64);
            world.bench.spoil(id, place, 512);
            // As often as it takes for each copy to have its turn.
            for _ in 0..8 {
                // The copies have their turns: an odd request between gives each place another one.
                let _turn = world.run(async |w| w.read(0, 512).await);
                for at in (0..content.len()).step_by(4096) {
                    let read = world.run(async |w| w.read(at as u64, 4096).await);
                    assert!(read.unwrap() == content[at..at + 4096]);
                }
            }
            assert!(world.readable(id, place, 512), "{shape:?}: role {role} is not mended");
            assert_eq!((failed(&world), world.array.corrected(role as u16)), (vec![], 1));
        }
        // And of large reads, which are split over the copies.
        for &id in &world.ids {
            world.bench.spoil(id, DATA_OFFSET + 64 * 1024, 4096);
            for _ in 0..8 {
                assert!(world.run(async |w| w.read_all().await).unwrap() == content);
            }
            assert!(world.readable(id, DATA_OFFSET, used(&world)), "{shape:?}");
        }
    }
}

#[test]
fn a_member_that_can_read_nothing_is_failed_and_every_read_answered() {
    for shape in shapes() {
        for victim in 0..shape.2 {
            let (world, mut content) = filled(shape);
            world.bench.wear_out(world.ids[victim], 0, DATA_OFFSET + used(&world) as u64);
            for round in 0..4 {
                assert!(world.run(async |w| w.read_all().await).unwrap() == content, "{shape:?} {victim}");
                let at = 4096 * round;
                let bytes = world::pattern(round as u64, 512);
                world.run(async |w| w.write(at as u64, &bytes).await).unwrap();
                content[at..at + 512].copy_from_slice(&bytes);
            }
            assert_eq!(failed(&world), [victim as u16], "{shape:?}");
            assert_eq!(world.array.corrected(victim as u16), 1, "the first read back tells");
        }
    }
}

#[test]
fn an_unwritable_place_fails_its_member_once_what_it_alone_had_is_saved() {
    for shape in parity() {
        for victim in 0..shape.2 {
            let (world, content) = filled(shape);
            let other = world.ids[(victim + 1) % shape.2];
            // In one row: the victim's sector that no write helps, and another one that needs the victim to be mended.
            world.bench.wear_out(world.ids[victim], DATA_OFFSET + 3 * CHUNK + 512, 512);
            world.bench.spoil(other, DATA_OFFSET + 3 * CHUNK + 2048, 512);
            let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
            let unwritable =
                BadPlace { role: victim as u16, offset: 3 * CHUNK + 512, len: 512, mended: false };
            assert!(
                shape.0 == Level::Raid6 || report.bad_places.contains(&unwritable),
                "{shape:?}: {report:?}"
            );
            assert_eq!(failed(&world), [victim as u16], "{shape:?}");
            assert!(world.readable(other, DATA_OFFSET, used(&world)));
            assert!(world.run(async |w| w.read_all().await).unwrap() == content);
        }
    }
}

#[test]
fn different_sectors_of_one_row_are_bad_on_every_member() {
    for shape in parity() {
        let (world, content) = filled(shape);
        for (n, &id) in (0u64..).zip(&world.ids) {
            for sector in [n, n + 8] {
                world.bench.spoil(id, DATA_OFFSET + 5 * CHUNK + sector * 512, 512);
            }
        }
        assert!(world.run(async |w| w.read_all().await).unwrap() == content, "{shape:?}");
        let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
        assert_eq!((report.mismatch_sectors, report.unverified, report.unreadable), (0, 0, 0), "{shape:?}");
        assert!(world.ids.iter().all(|&id| world.readable(id, DATA_OFFSET, used(&world))), "{shape:?}");
        assert_eq!(failed(&world), [0u16; 0]);
    }
}

#[test]
fn a_second_failure_at_any_moment_of_a_mend_is_borne_where_redundancy_suffices() {
    for shape in shapes() {
        // The member with the bad place itself dies, or refuses the mend; with RAID 6 and three copies, another one.
        let spare = shape.0 == Level::Raid6 || shape.0 == Level::Raid1;
        for second in 0..if spare { shape.2 } else { 1 } {
            for refuse in [false, true] {
                for after in 0..30 {
                    let (world, content) = filled(shape);
                    world.bench.spoil(world.ids[0], DATA_OFFSET + 1024, 512);
                    world.bench.strike_after(after, world.ids[second], refuse);
                    for len in [512, 8192, 64 << 10] {
                        let read = world.run(async |w| w.read(0, len).await);
                        assert!(
                            read.as_deref() == Ok(&content[..len]),
                            "{shape:?} {second} after {after}: {}",
                            read.is_ok()
                        );
                    }
                    let bytes = world::pattern(after, 3072);
                    world.run(async |w| w.write(512, &bytes).await).unwrap();
                    assert!(world.run(async |w| w.read(512, 3072).await).unwrap() == bytes);
                }
            }
        }
    }
}

#[test]
fn twenty_bad_places_are_mended_and_the_next_fails_the_member() {
    const PLACE: u64 = 64 << 10;
    for shape in [parity()[1], parity()[2], mirrors()[0], mirrors()[3]] {
        let (world, content) = filled_of(shape, 24 * PLACE);
        let victim = 1u16;
        let mut seen = 0;
        for place in 0..24 {
            // Two sectors of one place count as one.
            for at in [0, 4096] {
                world.bench.spoil(world.ids[usize::from(victim)], DATA_OFFSET + place * PLACE + at, 512);
            }
            // A scrub meets what reads may not: parity, and copies that are not asked.
            assert!(world.run(async |w| w.read_all().await).unwrap() == content);
            world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
            seen += 1;
            if world.array.state(victim) == RoleState::Failed {
                break;
            }
            assert_eq!(world.array.corrected(victim), seen, "{shape:?}");
        }
        assert_eq!((seen, failed(&world)), (21, vec![victim]), "{shape:?}");
        assert!(world.run(async |w| w.read_all().await).unwrap() == content);
    }
}

#[test]
fn a_member_that_the_array_can_not_do_without_stays_with_its_bad_places() {
    for (level, layout, members) in [parity()[1], mirrors()[1]] {
        let (whole, mut content) = filled((level, layout, members));
        let world = whole.without(&[0]);
        // Of the pair, or of the row, this one is the last.
        world.bench.wear_out(world.ids[1], DATA_OFFSET + 512, 512);
        let mut errors = 0;
        for round in 0..40 {
            errors = 0;
            for at in (0..content.len()).step_by(512) {
                match world.run(async |w| w.read(at as u64, 512).await) {
                    Ok(sector) => assert!(sector == content[at..at + 512]),
                    Err(_) => errors += 1,
                }
            }
            if round % 10 == 0 {
                let bytes = world::pattern(round, 4096);
                world.run(async |w| w.write(128 << 10, &bytes).await).unwrap();
                content[128 << 10..(128 << 10) + 4096].copy_from_slice(&bytes);
            }
        }
        assert!((1..=2).contains(&errors), "{level}: {errors}");
        assert_eq!(world.array.state(1), RoleState::InSync, "{level}");
    }
}

/// Redundancy that is not known to be in sync everywhere: members are kept, and writes go on beside unwritable places.
#[test]
fn unwritable_places_of_a_doubtful_array_fail_nobody_and_hinder_no_write() {
    for shape in parity() {
        for victim in 0..shape.2 {
            let (world, mut content) = filled(shape);
            let world = world::doubted(&world, 20 * CHUNK);
            let row = world.array.geometry().row_bytes() as usize;
            for at in [2, 30] {
                world.bench.wear_out(world.ids[victim], DATA_OFFSET + at * CHUNK + 1024, 512);
            }
            for (n, start) in
                [2 * row, 2 * row + 1024, 3 * row - 2048, 30 * row, 30 * row + 1024].into_iter().enumerate()
            {
                for len in [512, 1536, 12 << 10] {
                    let bytes = world::pattern((n * 3 + len) as u64, len);
                    world.run(async |w| w.write(start as u64, &bytes).await).unwrap();
                    content[start..start + len].copy_from_slice(&bytes);
                }
            }
            let mut errors = 0;
            for at in (0..content.len()).step_by(512) {
                match world.run(async |w| w.read(at as u64, 512).await) {
                    Ok(sector) => assert!(sector == content[at..at + 512], "{shape:?} {victim}: {at}"),
                    Err(_) => errors += 1,
                }
            }
            assert!(errors <= 1, "{shape:?} {victim}: what is worn where parity says nothing: {errors}");
            assert_eq!(failed(&world), [0u16; 0], "{shape:?}");
        }
    }
}

/// Of mirrors that lack all copies but one of a place: where it is, is told byte by byte, whoever finds it.
#[test]
fn what_no_copy_gives_is_named_by_its_place() {
    let shape = (Level::Raid1, Layout::None, 2);
    for scrubbed in [false, true] {
        let (whole, content) = filled_of(shape, 256 << 10);
        let world = whole.without(&[0]);
        let place = (100 << 10)..(100 << 10) + 512;
        world.bench.wear_out(world.ids[1], DATA_OFFSET + place.start, 512);
        if scrubbed {
            let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
            let bad = BadPlace { role: 1, offset: place.start, len: 512, mended: false };
            assert_eq!(report.bad_places, [bad]);
        } else {
            assert!(world.run(async |w| w.read(64 << 10, 70 << 10).await).is_err());
            let rest = world.run(async |w| w.read((100 << 10) + 512, 90 << 10).await).unwrap();
            assert!(rest == content[(100 << 10) + 512..][..90 << 10]);
        }
        let events = world.array.events_since(0);
        let ranges: Vec<_> =
            events.into_iter().filter(|event| event.kind == EventKind::Uncorrected).collect();
        assert_eq!(ranges.iter().map(|event| event.range.clone()).collect::<Vec<_>>(), [Some(place)]);
    }
}

#[test]
fn large_reads_with_an_odd_end_are_answered_beside_a_bad_place() {
    let (world, content) = filled_of(mirrors()[0], 256 << 10);
    for at in [512, 70 << 10] {
        world.ids.iter().take(2).for_each(|&id| world.bench.spoil(id, DATA_OFFSET + at, 512));
    }
    for _ in 0..3 {
        let len = (70 << 10) + 1024;
        assert!(world.run(async |w| w.read(512, len).await).unwrap() == content[512..512 + len]);
    }
}

/// The last member of a mirror is gone: that ends a scrub. It is no heap of bad places.
#[test]
fn a_scrub_ends_when_the_last_copy_is_gone() {
    let (whole, _) = filled_of((Level::Raid1, Layout::None, 2), 256 << 10);
    let world = whole.without(&[0]);
    world.bench.kill(world.ids[1]);
    let report = world.run(async |w| w.array.sync_window(0, 128 << 10, SyncMode::Check).await);
    assert_eq!(report, Err(VolumeError::of_member(1, OpError::Gone)));
    let gone = world.array.events_since(0).into_iter().find(|event| event.kind == EventKind::Uncorrected);
    assert_eq!(gone.and_then(|event| event.range), Some(0..128 << 10));
}

#[test]
fn copies_are_compared_where_another_has_a_hole() {
    let (world, content) = filled_of(mirrors()[0], 256 << 10);
    world.bench.wear_out(world.ids[0], DATA_OFFSET + 4096, 512);
    world.bench.poke(world.ids[2], DATA_OFFSET + 4096, &[0; 512]);
    let report = world.run(async |w| w.scrub(SyncMode::Repair).await).unwrap();
    assert_eq!(report.mismatch_sectors, 1);
    world.bench.kill(world.ids[1]);
    assert!(world.run(async |w| w.read(4096, 512).await).unwrap() == content[4096..4608]);
}

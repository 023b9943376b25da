//! Files that fail: the array goes on without, and finds them stale.

use brindle_io::OpError;
use brindle_io::sim::{BadRange, Faults, When};

use super::*;

type Strike = fn(&mut Faults);

/// Faults of a bitmap file.
const FAULTS: [(&str, Strike); 4] = [
    ("gone", |faults| faults.gone = true),
    ("hangs", |faults| faults.hangs = true),
    ("unwritable", |faults| faults.unwritable.push(BadRange::forever(0..ROOM))),
    ("full", |faults| faults.full_on_write = Some(0..ROOM)),
];

#[test]
fn an_array_goes_on_without_a_file_that_fails_and_finds_it_stale() {
    for (level, members) in REDUNDANT {
        for (name, fault) in FAULTS {
            let what = format!("{level} {name}");
            let (world, array, file) = filed(&shape(level, members));
            world.bench.afflict(file, fault);
            let size = array.limits().size;
            for offset in [0, size / 2, size - 4096] {
                world.write(&array, offset, &pattern(offset, 4096)).unwrap();
            }
            assert_eq!(reported(&array).last(), Some(&EventKind::BitmapFailed), "{what}");
            let event = array.events_since(0).pop().unwrap();
            assert_eq!(event.label.as_deref(), Some("file"), "{what}");
            let detail = array.detail();
            let bitmap = detail.bitmap.unwrap();
            assert!(bitmap.failed && detail.degraded == 0, "{what}");
            assert!(bitmap.dirty > 0 && bitmap.dirty < bitmap.bits, "{what}: in memory it is kept");
            world.bench.cut_power();
            drop(array);
            let world = world.restart(9);
            world.bench.afflict(file, |faults| *faults = Faults::default());
            assert!(in_file(&world, file).0.events < world.superblock(0).events, "{what}");
            let array = open_with(&world, file);
            let found = array.detail().bitmap.unwrap();
            assert_eq!((found.dirty, found.failed), (found.bits, false), "{what}: all counts as set");
            world.io.block_on(array.resync(|_| ())).unwrap();
            assert_eq!(mismatches(&world, &array), 0, "{what}");
            world.stop(&array);
        }
    }
}

#[test]
fn a_file_that_was_cut_short_is_not_made_as_long_again() {
    let (world, array, file) = filed(&shape(Level::Raid5, 4));
    world.bench.truncate(file, 4096 - 512);
    world.write(&array, 0, &pattern(2, 4096)).unwrap();
    let detail = array.detail().bitmap.unwrap();
    assert!(detail.failed);
    // It goes on in another place, with what it knows.
    set(&world, &array, to(None, CHUNK)).unwrap();
    let moved = array.detail().bitmap.unwrap();
    assert!(!moved.failed && moved.file.is_none() && moved.dirty == detail.dirty);
    world.stop(&array);
}

#[test]
fn a_file_on_which_something_may_yet_land_has_no_other_bitmap_before() {
    let (world, array, file) = filed(&shape(Level::Raid5, 4));
    world.bench.afflict(file, |faults| faults.hangs = true);
    world.write(&array, 0, &pattern(2, 4096)).unwrap();
    assert!(array.detail().bitmap.unwrap().failed);
    set(&world, &array, to(None, CHUNK)).unwrap();
    let soon = world.io.now().after(Duration::from_millis(1));
    let error = set(&world, &array, to(Some(file), CHUNK)).unwrap_err();
    assert!(world.io.now() < soon, "nothing is sent to it");
    let busy = BitmapError::File { label: "file".into(), error: OpError::TimedOut };
    assert_eq!(error, busy, "{error}");
    world.bench.afflict(file, |faults| faults.hangs = false);
    idle(&world, Duration::from_millis(20));
    set(&world, &array, to(Some(file), CHUNK)).unwrap();
    world.stop(&array);
}

#[test]
fn whenever_a_file_fails_and_the_power_goes_nothing_that_differs_is_called_clean() {
    let config = OpenConfig { daemon_sleep: Some(Duration::from_micros(100)), ..patient() };
    for (n, (level, members)) in REDUNDANT.into_iter().enumerate() {
        let (version, table) = METADATA[(n + 1) % METADATA.len()];
        let shape = shape(level, members).metadata(version, table);
        let mut failed = 0;
        for cut in (1..).step_by(3) {
            let (name, fault) = FAULTS[cut as usize % FAULTS.len()];
            let what = format!("{level} {version} {name} cut {cut}");
            let (world, array, file) = filed(&shape);
            drop(array);
            let array = world.try_open(given(&world, file), config.clone()).unwrap();
            let begin = world.bench.steps();
            let at = begin + Random::stream(cut, 1).below(cut);
            world.bench.schedule(When::Step(at), file, fault);
            world.bench.cut_power_at(When::Step(begin + cut));
            let work = async { join_all(write_about(&world, &array, 3)).await };
            let done = world.io.block_on(world.bench.until_end(&world.io, work));
            failed += u32::from(array.detail().bitmap.unwrap().failed);
            if !world.bench.has_ended() {
                world.bench.cut_power();
            }
            drop(array);
            let world = world.restart(cut + 1);
            world.bench.afflict(file, |faults| *faults = Faults::default());
            judge_after_cut(&world, &[file], members, &what);
            if done.is_some() {
                break;
            }
        }
        assert!(failed > 10, "{level}: {failed}");
    }
}

#[test]
fn a_file_that_does_not_take_the_bitmap_has_none_and_the_present_one_stays() {
    for (level, members) in REDUNDANT {
        for bitmap in [None, Some(CHUNK)] {
            for (name, fault) in FAULTS {
                let what = format!("{level} {bitmap:?} {name}");
                let world = World::in_sim(&Shape { bitmap, ..shape(level, members) }, forgetful(), 3);
                let file = world.bench.add_blank_drive(forgetful(), ROOM);
                let array = open(&world);
                world.write(&array, 0, &pattern(1, 4096)).unwrap();
                world.bench.afflict(file, fault);
                let error = set(&world, &array, to(Some(file), CHUNK)).unwrap_err();
                assert!(matches!(error, BitmapError::File { .. }), "{what}: {error}");
                assert!(error.to_string().starts_with("file can't have a write-intent bitmap"), "{error}");
                let detail = array.detail();
                assert_eq!(detail.bitmap.map(|bitmap| bitmap.chunk), bitmap, "{what}");
                assert!(named(&world).iter().all(|&named| named == bitmap.is_some()), "{what}");
                assert_eq!((reported(&array), detail.degraded), (Vec::new(), 0), "{what}");
                world.write(&array, 65536, &pattern(2, 4096)).unwrap();
                world.stop(&array);
            }
        }
    }
}

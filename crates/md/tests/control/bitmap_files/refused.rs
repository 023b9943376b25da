//! Files that can't be an array's bitmap, and arrays that can't have one: the error names them, and nothing changes.

use brindle_format::md::Uuid;
use brindle_format::md::bitmap::{BitmapState, BitmapVersion};
use brindle_md::assembly::Limitation;

use super::*;

fn change_head(world: &World<Sim>, file: MemberId, edit: impl FnOnce(&mut BitmapSuper)) {
    let (mut head, _) = in_file(world, file);
    edit(&mut head);
    world.bench.poke(file, 0, &head.encode().unwrap());
}

/// Why a file is refused; members and file stay as they are.
fn refused(world: &World<Sim>, file: MemberId) -> BitmapFault {
    let image = |id: MemberId| {
        let mut bytes = vec![0; world.io.member_info(id).unwrap().size as usize];
        world.bench.peek(id, 0, &mut bytes);
        bytes
    };
    let all = || world.ids.iter().chain([&file]).map(|&id| image(id)).collect::<Vec<_>>();
    let before = all();
    let Err(OpenError::Bitmap { label, why }) = world.try_open(given(world, file), quickly()) else {
        panic!("it is taken")
    };
    assert_eq!(label, "file");
    assert!(all() == before);
    // The same is said before anything is opened.
    let (head, mut assembly) = (image(file), world.assembly().unwrap());
    let len = head.len() as u64;
    let reported = assembly.accept_bitmap(BitmapFile { label, id: None }, &head, len);
    assert_eq!(reported, Err(why.clone()));
    assert!(assembly.bitmap.is_none() && assembly.bitmap_file.is_none());
    why
}

#[test]
fn what_can_not_be_the_arrays_bitmap_is_refused_by_name_and_nothing_changes() {
    let stopped = |shape: &Shape| {
        let (world, array, file) = filed(shape);
        world.stop(&array);
        (world, file)
    };
    let (world, file) = stopped(&shape(Level::Raid5, 4));
    let with = |edit: fn(&mut BitmapSuper)| {
        let (mut head, _) = in_file(&world, file);
        let before = head.encode().unwrap();
        edit(&mut head);
        world.bench.poke(file, 0, &head.encode().unwrap());
        let why = refused(&world, file);
        world.bench.poke(file, 0, &before);
        why
    };
    for version in [BitmapVersion::HostEndian, BitmapVersion::Clustered, BitmapVersion::Lockless] {
        change_head(&world, file, |head| head.version = version);
        assert_eq!(refused(&world, file), BitmapFault::Version { version });
    }
    change_head(&world, file, |head| head.version = BitmapVersion::LittleEndian);
    let uuid = Uuid::from_u128(1);
    assert_eq!(with(|head| head.uuid = Uuid::from_u128(1)), BitmapFault::Foreign { uuid });
    let newer = with(|head| head.events += 2);
    assert!(matches!(newer, BitmapFault::Newer { events, of } if events == of + 2), "{newer}");
    assert!(newer.to_string().contains("members that are newer are not here"), "{newer}");
    assert!(matches!(with(|head| head.daemon_sleep = 0), BitmapFault::Extent { .. }));
    assert!(matches!(with(|head| head.chunk = 3 * 4096), BitmapFault::Damaged(_)));
    let none = world.bench.add_blank_drive(Model::nvme(), ROOM);
    assert!(matches!(refused(&world, none), BitmapFault::Damaged(_)));
    // A bitmap that is one event ahead: the power went before the superblocks were written.
    change_head(&world, file, |head| head.events += 1);
    world.stop(&open_with(&world, file));
    // A bitmap that marks itself as stale is treated as stale.
    for state in [BitmapState::STALE, BitmapState::WRITE_ERROR] {
        change_head(&world, file, |head| head.state = state);
        let found = open_with(&world, file).detail().bitmap.unwrap();
        assert_eq!(found.dirty, found.bits);
    }
    // Another's beside the superblocks.
    let shape = Shape { bitmap: Some(CHUNK), ..shape(Level::Raid5, 4) };
    let marked = World::in_sim(&shape, Model::nvme(), 3);
    let file = marked.bench.add_blank_drive(Model::nvme(), ROOM);
    assert_eq!(refused(&marked, file), BitmapFault::Beside);
}

#[test]
fn a_file_that_is_shorter_than_its_bits_is_refused() {
    let (world, array, file) = filed(&shape(Level::Raid5, 4));
    world.stop(&array);
    let (head, _) = in_file(&world, file);
    let bytes = head.encode().unwrap();
    let need = BITMAP_SUPER_BYTES as u64 + head.bits().div_ceil(8);
    let mut assembly = world.assembly().unwrap();
    let given = || BitmapFile { label: "file".into(), id: None };
    let short = assembly.accept_bitmap(given(), &bytes, need - 1);
    assert_eq!(short, Err(BitmapFault::Short { have: need - 1, need }));
    assert_eq!(assembly.accept_bitmap(given(), &bytes, need), Ok(()));
    assert_eq!(assembly.bitmap.as_ref().map(|own| own.chunk), Some(CHUNK));
    assert!(!assembly.is_bitmap_file_stale());
    // A bitmap goes with no other record of writes: a partial parity log or a journal.
    for (limit, word) in [(Limitation::Ppl, "partial parity log"), (Limitation::Journal, "journal")] {
        let mut assembly = world.assembly().unwrap();
        assembly.limits.push(limit);
        let why = assembly.accept_bitmap(given(), &bytes, need).unwrap_err();
        assert!(matches!(why, BitmapFault::Policy { .. }) && why.to_string().contains(word), "{why}");
    }
}

#[test]
fn what_a_file_can_not_be_given_is_refused_and_nothing_changes() {
    let (world, array, file) = filed(&shape(Level::Raid5, 4));
    let small = world.bench.add_blank_drive(Model::nvme(), 512);
    let before: Vec<_> = (0..4).map(|member| world.image(member)).collect();
    let refuse = |spec: BitmapSpec| set(&world, &array, spec).unwrap_err();
    assert!(matches!(refuse(to(Some(small), CHUNK)), BitmapError::File { .. }));
    assert!(matches!(refuse(to(Some(small), 12288)), BitmapError::FileChunk { .. }));
    assert!(matches!(refuse(to(Some(small), 256)), BitmapError::FileChunk { .. }));
    assert_eq!(refuse(to(Some(file), CHUNK)), BitmapError::Present { file: Some("file".into()) });
    assert_eq!(refuse(to(Some(file), 4096)), BitmapError::SameFile { label: "file".into() });
    assert!(before == (0..4).map(|member| world.image(member)).collect::<Vec<_>>());
    assert_eq!(array.bitmap_file_bytes(Some(CHUNK), "file"), Ok(4096));
    world.stop(&array);
    let striped = World::in_sim(&shape(Level::Raid0, 2), Model::nvme(), 3);
    let array = open(&striped);
    let error = set(&striped, &array, to(Some(striped.ids[0]), CHUNK)).unwrap_err();
    assert!(matches!(error, BitmapError::NoRedundancy { .. }), "{error}");
}

//! Bitmaps that move while the array runs: with what they know, and whenever the power goes.

use std::cell::Cell;

use brindle_io::sim::When;

use super::*;

#[test]
fn a_bitmap_moves_with_what_it_knows() {
    for (level, members) in REDUNDANT {
        let shape = Shape { spares: 1, ..shape(level, members) };
        let (world, array, file) = filed(&shape);
        let other = world.bench.add_blank_drive(forgetful(), ROOM);
        world.write(&array, 0, &pattern(2, 512)).unwrap();
        let cleared = in_file(&world, file).0.events_cleared;
        // Not yet cleared again.
        let dirty = array.detail().bitmap.unwrap().dirty;
        for (at, (place, chunk)) in
            [(None, CHUNK), (Some(other), CHUNK), (None, CHUNK / 2), (Some(file), 2 * CHUNK)]
                .into_iter()
                .enumerate()
        {
            set(&world, &array, to(place, chunk)).unwrap_or_else(|error| panic!("{level} {at}: {error}"));
            let detail = array.detail().bitmap.unwrap();
            assert_eq!(detail.file.map(|file| file.id.unwrap()), place, "{level}");
            assert!(named(&world).iter().all(|&named| named == place.is_none()), "{level} {at}");
            assert_eq!(detail.chunk, chunk, "{level} {at}");
            assert!(
                (1..=2 * dirty).contains(&detail.dirty),
                "{level} {at}: {} of {}",
                detail.dirty,
                detail.bits
            );
        }
        let moves = reported(&array).into_iter().filter(|kind| *kind == EventKind::BitmapMoved).count();
        assert_eq!(moves, 4, "{level}");
        let (head, bits) = in_file(&world, file);
        assert_eq!((head.chunk, head.events), (2 * CHUNK, world.superblock(1).events));
        assert!(head.events_cleared >= cleared && bits.contains(&0), "{level}");
        assert!(in_file(&world, other).0.events < head.events, "{level}: that one is stale now");
        world.stop(&array);
        drop(array);
        assert_eq!(in_file(&world, file).1, [0; 0]);
        let array = open_with(&world, file);
        world.io.block_on(array.remove_bitmap()).unwrap();
        assert!(array.detail().bitmap.is_none() && named(&world).iter().all(|&named| !named));
        assert!(in_file(&world, file).0.events < world.superblock(0).events, "{level}: stale");
        world.stop(&array);
    }
}

#[test]
fn a_bitmap_beside_superblocks_is_given_another_chunk_where_it_is() {
    for (level, members) in REDUNDANT {
        let shape = Shape { bitmap: Some(CHUNK), spares: 1, ..shape(level, members) };
        let world = World::in_sim(&shape, forgetful(), 3);
        let array = open(&world);
        for chunk in [None, Some(CHUNK)] {
            let same = BitmapSpec { chunk, ..to(None, CHUNK) };
            assert_eq!(set(&world, &array, same), Err(BitmapError::Present { file: None }));
        }
        // One that there can't be: the present one stays.
        assert!(matches!(set(&world, &array, to(None, 12288)), Err(BitmapError::Room { .. })), "{level}");
        assert_eq!(array.detail().bitmap.unwrap().chunk, CHUNK);
        set(&world, &array, to(None, 2 * CHUNK)).unwrap();
        assert_eq!(array.detail().bitmap.unwrap().chunk, 2 * CHUNK);
        assert!(named(&world).iter().all(|&named| named), "{level}");
        assert_eq!(reported(&array), [EventKind::BitmapRemoved, EventKind::BitmapAdded]);
        world.write(&array, 0, &pattern(1, 4096)).unwrap();
        world.stop(&array);
        drop(array);
        let array = open(&world);
        let found = array.detail().bitmap.unwrap();
        assert_eq!((found.chunk, found.dirty), (2 * CHUNK, 0), "{level}");
    }
}

/// The files with the newest first.
fn newest(world: &World<Sim>, files: &[MemberId]) -> Vec<MemberId> {
    let events = |&id: &MemberId| {
        let mut head = vec![0; BITMAP_SUPER_BYTES];
        world.bench.peek(id, 0, &mut head);
        BitmapSuper::parse(&head).map_or(0, |head| head.events)
    };
    let mut files = files.to_vec();
    files.sort_by_key(|id| core::cmp::Reverse(events(id)));
    files
}

/// A bitmap that moves from place to place while clients write.
async fn moves(
    world: &World<Sim>,
    array: &Array,
    files: &[MemberId],
    home: &Cell<Option<MemberId>>,
) -> Result<(), BitmapError> {
    let writers = write_about(world, array, 3);
    for (place, chunk) in [
        (Some(files[0]), CHUNK),
        (None, CHUNK),
        (Some(files[1]), 2 * CHUNK),
        (Some(files[0]), CHUNK),
        (None, 2 * CHUNK),
    ] {
        home.set(None);
        array.set_bitmap(to(place, chunk)).await?;
        home.set(place);
        world.io.sleep(Duration::from_micros(300)).await;
    }
    join_all(writers).await;
    Ok(())
}

fn cut_moves_everywhere(level: Level, members: usize, version: Version, table: usize) -> u64 {
    let config = OpenConfig { daemon_sleep: Some(Duration::from_micros(100)), ..patient() };
    for cut in 1.. {
        let what = format!("{level} {version} {table} cut {cut}");
        let world = World::in_sim(&shape(level, members).metadata(version, table), forgetful(), cut);
        let files: Vec<_> = (0..2).map(|_| world.bench.add_drive(forgetful(), ROOM)).collect();
        let array = world.try_open(world.assembly().unwrap(), config.clone()).unwrap();
        world.bench.cut_power_at(When::Step(world.bench.steps() + cut));
        let home = Cell::new(None);
        let work = moves(&world, &array, &files, &home);
        let done = world.io.block_on(world.bench.until_end(&world.io, work));
        if let Some(done) = done {
            assert_eq!(done, Ok(()), "{what}");
            if !world.bench.has_ended() {
                world.bench.cut_power();
            }
            return cut;
        }
        drop(array);
        let world = world.restart(cut + 1);
        // A user who names the wrong one of the two files must lose nothing.
        let wrong = cut % 2 == 1;
        let mut order = newest(&world, &files);
        if wrong {
            order.reverse();
        }
        let found = judge_after_cut(&world, &order, members, &what);
        if home.get().is_some() && !wrong {
            assert_eq!(found, home.get(), "{what}: it stood there, and is not found");
        }
    }
    0
}

#[test]
fn whenever_the_power_goes_the_bitmap_is_in_one_place_or_the_other_and_marks_all_that_differs() {
    for (n, (level, members)) in REDUNDANT.into_iter().enumerate() {
        let (version, table) = METADATA[n % METADATA.len()];
        let cuts = cut_moves_everywhere(level, members, version, table);
        assert!(cuts > 100, "{level}: {cuts}");
    }
}

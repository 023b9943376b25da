//! Every level and layout against a plain vector of bytes: whole, and with every set of members lost that it allows.

use std::rc::Rc;

use brindle_array::{SyncMode, Volume, VolumeError, ZeroOptions};
use brindle_io::sync::join_all;
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid0Layout, Raid10Layout};

use crate::world::{self, Random, World};

/// What is tested: level, layout, members.
fn shapes() -> Vec<(Level, Layout, usize)> {
    let mut shapes = vec![
        (Level::Linear, Layout::None, 3),
        (Level::Raid0, Layout::Raid0(Raid0Layout::Alternate), 3),
        (Level::Raid1, Layout::None, 2),
        (Level::Raid1, Layout::None, 3),
        (Level::Raid4, Layout::None, 4),
        (Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), 2),
        (Level::Raid6, Layout::Parity(ParityLayout::LeftSymmetric), 4),
    ];
    for layout in ParityLayout::ALL {
        for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
            if layout.belongs_to(level) {
                shapes.push((level, Layout::Parity(layout), members));
            }
        }
    }
    for members in [4, 5] {
        let near_and_far = [Raid10Layout::near(2), Raid10Layout::near(3), Raid10Layout::far(2)];
        let others = [Raid10Layout::far(3), Raid10Layout::offset(2), Raid10Layout::offset(3)];
        for layout in near_and_far.into_iter().chain(others) {
            shapes.push((Level::Raid10, Layout::Raid10(layout), members));
        }
    }
    shapes
}

/// All sets of at most three members that the array can lose, the empty one first.
fn tolerated(geometry: &Geometry) -> Vec<Vec<u16>> {
    let n = geometry.members();
    let mut sets: Vec<Vec<u16>> = (0..n).map(|a| vec![a]).collect();
    sets.extend((0..n).flat_map(|a| (a + 1..n).map(move |b| vec![a, b])));
    sets.extend((0..n).flat_map(|a| (a + 1..n).flat_map(move |b| (b + 1..n).map(move |c| vec![a, b, c]))));
    sets.retain(|set| geometry.can_lose(set));
    sets.insert(0, Vec::new());
    sets
}

/// A random range of whole sectors: small, about a chunk, or many rows.
fn range(random: &mut Random, size: u64) -> (u64, usize) {
    let most = match random.below(4) {
        0 => 8 << 10,
        1 => 80 << 10,
        2 => 300 << 10,
        _ => 4 << 10,
    };
    let len = (random.below(most / 512) + 1) * 512;
    let len = len.min(size);
    (random.below((size - len) / 512 + 1) * 512, len as usize)
}

/// Does `count` random things to the array and the model, and compares whatever is read.
async fn exercise(world: &World, model: &mut [u8], random: &mut Random, count: usize) {
    let size = model.len() as u64;
    for _ in 0..count {
        let (offset, len) = range(random, size);
        let at = offset as usize..offset as usize + len;
        match random.below(10) {
            0..4 => {
                let bytes = world::pattern(random.next(), len);
                world.write(offset, &bytes).await.unwrap();
                model[at].copy_from_slice(&bytes);
            }
            4 => {
                let options = ZeroOptions { keep_allocated: random.below(2) == 0, ..ZeroOptions::default() };
                world.array.write_zeroes(offset, len as u64, options).await.unwrap();
                model[at].fill(0);
            }
            5..7 => assert!(world.read(offset, len).await.unwrap() == model[at], "read {offset}+{len}"),
            _ => side_by_side(world, model, random).await,
        }
    }
    assert!(world.read_all().await.unwrap() == model, "the whole array");
    assert_eq!(world.scrub(SyncMode::Check).await.unwrap().mismatch_sectors, 0);
}

/// Writes that run at the same time, some over one another: each sector ends as one of them wrote it.
async fn side_by_side(world: &World, model: &mut [u8], random: &mut Random) {
    let size = model.len() as u64;
    let near = random.below(size / 512) * 512;
    let writes: Vec<(u64, Rc<Vec<u8>>)> = (0..random.below(12) + 2)
        .map(|_| {
            let (_, len) = range(random, size.min(40 << 10));
            let offset = (near + random.below(64) * 512).min(size - len as u64);
            (offset, Rc::new(world::pattern(random.next(), len)))
        })
        .collect();
    let tasks = writes.iter().map(|(offset, bytes)| {
        let (array, pool, offset, bytes) =
            (world.array.clone(), world.pool.clone(), *offset, Rc::clone(bytes));
        world.io.spawn(async move {
            let buf = pool.alloc(bytes.len()).await;
            buf.bytes_mut().copy_from_slice(&bytes);
            array.write(offset, buf.all(), false).await
        })
    });
    let results: Vec<Result<(), VolumeError>> = join_all(tasks.collect::<Vec<_>>()).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let now = world.read_all().await.unwrap();
    for (sector, (old, new)) in model.chunks_mut(512).zip(now.chunks(512)).enumerate() {
        let at = sector as u64 * 512;
        let mut candidates = writes.iter().filter_map(|(offset, bytes)| {
            let from = at.checked_sub(*offset)? as usize;
            bytes.get(from..from + 512)
        });
        let touched = candidates.clone().next().is_some();
        let explained = if touched { candidates.any(|bytes| bytes == new) } else { old == new };
        assert!(explained, "sector {sector} holds what nobody wrote");
        old.copy_from_slice(new);
    }
}

fn check_shape(level: Level, layout: Layout, members: usize, chunk: u64, seed: u64) {
    let rows = if chunk > 4096 { 6 } else { 20 };
    let mut sizes = vec![rows * chunk; members];
    if level == Level::Raid0 || level == Level::Linear {
        sizes[1] += 3 * chunk;
    }
    let mut random = Random::new(seed);
    let whole = World::with(level, layout, chunk, &sizes, world::config());
    let mut model = vec![0; whole.array.limits().size as usize];
    whole.run(async |w| exercise(w, &mut model, &mut random, 30).await);
    let sets = tolerated(whole.array.geometry());
    for lost in &sets {
        let degraded = whole.without(lost);
        let seen = degraded.run(async |w| w.read_all().await);
        assert!(seen.unwrap() == model, "{level} {layout} chunk {chunk} without {lost:?}");
    }
    // Go on writing with members lost, on one set after the other: what the absent ones hold is stale from then on,
    // so each set gets members of its own.
    let sets = if sets.len() > 4 {
        vec![sets[1].clone(), sets[sets.len() - 1].clone(), sets[2].clone()]
    } else {
        sets
    };
    for lost in sets {
        let own = World::with(level, layout, chunk, &sizes, world::config());
        own.run(async |w| w.write_all(&model).await).unwrap();
        let degraded = own.without(&lost);
        let mut content = model.clone();
        degraded.run(async |w| exercise(w, &mut content, &mut random, 25).await);
        // Whatever redundancy is left is true: lose one more where that is allowed.
        for also in 0..members as u16 {
            let mut more = lost.clone();
            more.push(also);
            if !lost.contains(&also) && degraded.array.geometry().can_lose(&more) {
                let seen = degraded.without(&more).run(async |w| w.read_all().await).unwrap();
                assert!(
                    seen == content,
                    "{level} {layout} chunk {chunk}: wrote without {lost:?}, read without {more:?}"
                );
            }
        }
    }
}

#[test]
fn every_layout_with_small_chunks() {
    for (seed, (level, layout, members)) in (1..).zip(shapes()) {
        check_shape(level, layout, members, 4096, seed);
    }
}

#[test]
fn every_layout_with_large_chunks() {
    for (seed, (level, layout, members)) in (1001..).zip(shapes()) {
        check_shape(level, layout, members, 65536, seed);
    }
}

//! Every level and layout under load, judged by an oracle: whole, and with every set of members lost that it allows.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::SyncMode;
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid0Layout, Raid10Layout};
use brindle_testkit::load::Mix;
use brindle_testkit::oracle::Oracle;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::World;

use crate::world::{self, Running};

const LANES: u64 = 6;

/// Small requests, about a chunk, or many rows; many over one another.
const MIX: Mix = Mix {
    reads: 5,
    writes: 10,
    zeroes: 2,
    discards: 0,
    flushes: 1,
    most: 300 << 10,
    crowd: 64 << 10,
    block: 512,
};

/// The arrays under test: level, layout, members.
pub(crate) fn shapes() -> Vec<(Level, Layout, usize)> {
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

/// An array of the shape; one without redundancy has members of different sizes.
fn start(shape: &Shape) -> Running {
    let mut spec = shape.spec();
    if !shape.level.is_redundant() {
        spec.roles[1].as_mut().unwrap().info.size += 3 * shape.chunk;
    }
    Running::start(World::create(&spec), world::config())
}

/// Clients side by side; then all is read, redundancy is compared, and the array stopped.
fn exercise(run: &Running, oracle: &Rc<RefCell<Oracle>>, requests: u64, seed: u64, who: &str) {
    let client = run.client(oracle);
    run.run(async |run| {
        let troubles = client.side_by_side(&run.io, LANES, requests, MIX, seed).await;
        assert!(troubles.is_empty(), "{who}: {}", troubles[0]);
        assert_eq!(run.scrub(SyncMode::Check).await.unwrap().mismatch_sectors, 0, "{who}");
    });
    run.stop();
    oracle.borrow_mut().stopped();
}

/// Reads all; what several clients wrote at once must be the same whoever is asked for it.
fn judge(run: &Running, oracle: &Rc<RefCell<Oracle>>, who: &str) {
    let read = run.run(async |run| run.client(oracle).read_all().await);
    read.unwrap_or_else(|trouble| panic!("{who}: {trouble}"));
}

fn check_shape(level: Level, layout: Layout, members: usize, chunk: u64, seed: u64) {
    let rows = if chunk > 4096 { 6 } else { 20 };
    let whole = start(&world::shape(level, layout, chunk, members, rows * chunk));
    let who = format!("{level} {layout} of {members}, chunk {chunk}");
    let oracle = whole.oracle();
    exercise(&whole, &oracle, 25, seed, &who);
    let sets = tolerated(whole.array.geometry());
    for lost in &sets {
        judge(&whole.without(lost), &oracle, &format!("{who}, without {lost:?}"));
    }
    // Go on writing with members lost, on one set after the other: what the absent ones hold is stale from then on,
    // so each set gets members of its own.
    let sets = if sets.len() > 4 {
        vec![sets[1].clone(), sets[sets.len() - 1].clone(), sets[2].clone()]
    } else {
        sets
    };
    for lost in sets {
        let who = format!("{who}, written without {lost:?}");
        let degraded = whole.without(&lost);
        let own = Rc::new(RefCell::new(oracle.borrow().clone()));
        exercise(&degraded, &own, 20, seed + 7, &who);
        // Whatever redundancy is left is in sync: lose one more where that is allowed.
        for also in 0..members as u16 {
            let more = [&lost[..], &[also]].concat();
            if !lost.contains(&also) && whole.array.geometry().can_lose(&more) {
                judge(&degraded.without(&more), &own, &format!("{who}, read without {more:?}"));
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

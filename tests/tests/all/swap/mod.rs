//! Back and forth: arrays that Brindle and md take turns with. One makes an array, the other writes to it, one degrades
//! it, the other writes to what is left; between any two turns the members get other names, another order and often
//! sectors of another size.

mod array;
mod brindle;
mod md;

use std::collections::BTreeSet;
use std::path::Path;

use brindle_testkit::random::Random;
use brindle_tests::loops::Loop;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Vm;

use array::{Array, LOSE_ONE, LOSE_TWO, Shape, Source};
use brindle::Client;

/// The side that works with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Brindle,
    Md,
}

/// A turn of Brindle with all arrays, then one of md.
struct Turns<'a> {
    client: Client,
    source: Source,
    /// Where the members are while Brindle has them.
    dir: &'a Path,
    random: Random,
}

impl Turns<'_> {
    /// `sectors` tells the sectors of an array in this turn.
    fn take(&mut self, arrays: &mut [Array], vm: Vm, sectors: impl Fn(&Array) -> Sectors) {
        let (source, random) = (&self.source, &mut self.random);
        brindle::turn(arrays, &self.client, |array| sectors(array).brindle, source, self.dir, random);
        md::turn(arrays, vm, |array| sectors(array).md, source, random);
    }
}

/// Bytes of a logical sector of the members; for md also the unit of what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sectors {
    brindle: u32,
    md: u32,
}

impl Sectors {
    /// Counts in binary: in any four turns md follows Brindle, and in any five Brindle md, from each size to each.
    fn of(turn: usize) -> Self {
        let size = |large| if large { 4096 } else { 512 };
        Self { brindle: size(turn & 2 != 0), md: size(turn & 1 != 0) }
    }
}

/// Turns until each array has had ten rounds, whoever made it.
const TURNS: usize = 11;

/// Shapes, and the turn that their first one counts as: that tells the sectors of their members.
const GROUPS: [(&[Shape], usize); 2] = [(&LOSE_ONE, 0), (&LOSE_TWO, 3)];

/// All arrays share the machine of a turn: half as many boots, in which arrays of sectors of either size stand side by side.
#[test]
fn ten_rounds_with_md_and_every_time_the_same_bytes() {
    let Some(client) = or_skip(Client::find()) else { return };
    if or_skip(Vm::new()).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let shapes = GROUPS.iter().flat_map(|(shapes, first)| shapes.iter().map(move |shape| (shape, *first)));
    let mut arrays: Vec<Array> =
        shapes.enumerate().map(|(i, (shape, first))| Array::new(dir.path(), shape, i, first)).collect();
    let source = Source::new(dir.path());
    // Without permission for loop devices the test goes on without them.
    let loops = or_skip(Loop::over(&source.path, 4096)).is_some();
    let mut turns = Turns { client, source, dir: dir.path(), random: Random::new(20) };
    for turn in 0..TURNS {
        let sectors = |array: &Array| {
            let sectors = Sectors::of(array.first + turn);
            Sectors { brindle: if loops { sectors.brindle } else { 512 }, ..sectors }
        };
        turns.take(&mut arrays, Vm::new().unwrap(), sectors);
    }
    for array in &arrays {
        assert!(array.rounds >= 10 || array.tolerance() == 0, "{array}");
        brindle::judge(array, &turns.dir.join("content"));
    }
}

#[test]
fn sectors_of_each_size_follow_each() {
    for (_, first) in GROUPS {
        let turns: Vec<Sectors> = (first..first + TURNS).map(Sectors::of).collect();
        let to_md: BTreeSet<_> = turns.iter().map(|turn| (turn.brindle, turn.md)).collect();
        let to_brindle: BTreeSet<_> = turns.windows(2).map(|pair| (pair[0].md, pair[1].brindle)).collect();
        assert_eq!((to_md.len(), to_brindle.len()), (4, 4));
    }
}

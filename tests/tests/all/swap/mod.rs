//! Back and forth: arrays that Brindle and md take turns with. One makes an array, the other writes to it, one degrades
//! it, the other writes to what is left; between any two turns the members get other names and another order.

mod array;
mod brindle;
mod md;

use std::path::Path;

use brindle_tests::files::Random;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Vm;

use array::{Array, LOSE_ONE, LOSE_TWO, Shape, Source};
use brindle::Client;

/// Who works with an array.
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
    /// `sector` is the size of the sectors of md's disks, and the unit of what md writes.
    fn take(&mut self, arrays: &mut [Array], vm: Vm, sector: u32) {
        brindle::turn(arrays, &self.client, &self.source, self.dir, &mut self.random);
        md::turn(arrays, vm, sector, &self.source, self.dir, &mut self.random);
    }
}

/// Turns until each array has had ten rounds, whoever made it.
const TURNS: usize = 11;

fn ten_rounds(shapes: &'static [Shape], seed: u64) {
    let Some(client) = or_skip(Client::find()) else { return };
    if or_skip(Vm::new()).is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut arrays: Vec<Array> =
        shapes.iter().enumerate().map(|(i, shape)| Array::new(dir.path(), shape, i)).collect();
    let source = Source::new(dir.path());
    let mut turns = Turns { client, source, dir: dir.path(), random: Random::new(seed) };
    for turn in 0..TURNS {
        let sector = if turn % 3 == 1 { 4096 } else { 512 };
        turns.take(&mut arrays, Vm::new().unwrap(), sector);
    }
    for array in &arrays {
        assert!(array.rounds >= 10 || array.tolerance() == 0, "{array}");
        brindle::judge(array, &turns.dir.join("content"));
    }
}

#[test]
fn ten_rounds_with_md_and_every_time_the_same_bytes() {
    ten_rounds(&LOSE_ONE, 20);
}

#[test]
fn ten_rounds_with_mirrors_and_with_two_members_lost() {
    ten_rounds(&LOSE_TWO, 22);
}

//! What md is asked to make: every level in every state, every chunk size, bitmaps and large sectors.

use brindle_tests::files::MIB;
use brindle_tests::golden::Recipe;
use brindle_tests::states::{Case, State};

/// Members of this size are enough for several rows of the largest chunk.
const SIZE: u64 = 4 * MIB;

fn small(level: &'static str, members: usize) -> Recipe {
    Recipe::new(level, members).members(&vec![SIZE; members])
}

/// Each level with redundancy, and roles that it can lose together.
fn redundant() -> Vec<(Recipe, &'static [usize])> {
    vec![
        (small("1", 2), &[0]),
        (small("1", 3), &[0, 2]),
        (small("4", 4), &[1]),
        (small("5", 4), &[2]),
        (small("6", 5), &[0, 3]),
        (small("10", 4).layout("n2"), &[1, 2]),
        (small("10", 5).layout("f2"), &[0, 3]),
        (small("10", 4).layout("o2"), &[1, 3]),
        (small("10", 5).layout("n3"), &[3, 4]),
    ]
}

/// Degraded, with spares, with stale members, half-resynced and half-recovered.
pub(super) fn states() -> Vec<Case> {
    let mut all = Vec::new();
    let old = [(small("1", 2).metadata("0.90"), &[1][..]), (small("5", 4).metadata("0.90"), &[0])];
    for (recipe, lost) in redundant().into_iter().chain(old) {
        let states = [
            State::Missing(lost),
            State::Spares(1),
            State::Stale(lost),
            State::HalfResynced,
            State::HalfRecovered(lost[0]),
        ];
        all.extend(states.map(|state| Case::new(recipe.clone(), state)));
    }
    // 1.0 and 1.1 differ from 1.2 in the place alone.
    for metadata in ["1.0", "1.1"] {
        all.push(Case::new(small("5", 3).metadata(metadata), State::HalfResynced));
        all.push(Case::new(small("1", 2).metadata(metadata), State::HalfRecovered(1)));
    }
    all
}

/// Arrays without a fault that differ from the usual ones: chunks of 4 KiB to 512 KiB, a bitmap within, sectors of
/// 4096 bytes.
pub(super) fn whole() -> Vec<Case> {
    let mut all = Vec::new();
    for chunk in [4, 8, 16, 32, 128, 256, 512] {
        for (level, members) in [("0", 2), ("5", 3), ("6", 4), ("10", 3)] {
            all.push(Case::new(small(level, members).chunk(chunk << 10), State::Whole));
        }
    }
    for (level, members) in [("1", 2), ("4", 3), ("5", 3), ("6", 4), ("10", 4)] {
        let recipe = small(level, members).extra(&["--bitmap=internal"]);
        all.push(Case::new(recipe, State::Whole));
    }
    for metadata in ["0.90", "1.0", "1.1"] {
        let recipe = small("1", 2).metadata(metadata).extra(&["--bitmap=internal"]);
        all.push(Case::new(recipe, State::Whole));
    }
    for (level, members) in [("linear", 2), ("0", 2), ("1", 2), ("4", 3), ("5", 3), ("6", 4), ("10", 3)] {
        all.push(Case::new(small(level, members), State::Whole).sector(4096));
    }
    for metadata in ["0.90", "1.0", "1.1"] {
        all.push(Case::new(small("5", 3).metadata(metadata), State::Whole).sector(4096));
    }
    all
}

/// A few of each, for another kernel.
pub(super) fn selection() -> Vec<Case> {
    let mut all: Vec<Case> =
        [small("0", 3), small("1", 2), small("1", 2).metadata("0.90"), small("4", 4), small("6", 5)]
            .into_iter()
            .chain(["left-symmetric", "parity-first"].map(|layout| small("5", 4).layout(layout)))
            .chain(["n2", "f2", "o2"].map(|layout| small("10", 5).layout(layout)))
            .map(|recipe| Case::new(recipe, State::Whole))
            .collect();
    let linear = small("linear", 2);
    all.push(Case::new(linear, State::Whole));
    all.push(Case::new(small("5", 3).extra(&["--bitmap=internal"]), State::Whole));
    all.push(Case::new(small("6", 4), State::Whole).sector(4096));
    for (recipe, lost) in redundant().into_iter().step_by(4) {
        all.push(Case::new(recipe.clone(), State::Stale(lost)));
        all.push(Case::new(recipe.clone(), State::HalfResynced));
        all.push(Case::new(recipe, State::HalfRecovered(lost[0])));
    }
    all
}

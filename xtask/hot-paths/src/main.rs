//! Does each hot path a fixed number of times, so that callgrind can count its instructions: `cargo xtask counts`.
//!
//! Only what runs within [`hot_stretch`] counts. Each path runs it twice, the second time with twice the operations: the
//! difference of the two is free of what a stretch costs to begin and to end. For each stretch, one line says the path
//! and the operations done, parted by a tab.
//!
//! The program uses no more of the crates than commit f8c2f50 had, but for `made.rs`, so that the same text runs there. Null members keep
//! nothing: what is counted is the program's own work, and that of the parity kernels.

mod arrays;
mod made;
mod wire;

use core::hint::black_box;

/// Does a number of operations, and tells how many it did.
pub(crate) type Run = Box<dyn Fn(usize) -> usize>;

/// One way through the program.
pub(crate) struct HotPath {
    /// For the table; stable, for it finds the count that is stored.
    pub(crate) name: String,
    /// Operations of the shorter stretch.
    pub(crate) count: usize,
    /// Makes the world in which it runs.
    pub(crate) world: Box<dyn FnOnce() -> Run>,
}

fn main() {
    let paths = arrays::bare().into_iter().chain(arrays::paths()).chain(wire::paths());
    let paths = paths.chain(arrays::sim_paths());
    for HotPath { name, count, world } in paths {
        let run = world();
        // Tables and buffers grow to their size.
        run(count);
        for count in [count, 2 * count] {
            println!("{name}\t{}", hot_stretch(&run, count));
        }
    }
}

/// The only instructions that count: callgrind knows this function by its name.
#[inline(never)]
fn hot_stretch(run: &Run, count: usize) -> usize {
    black_box(run(black_box(count)))
}

/// Numbers without pattern: a linear congruential generator (Knuth, MMIX), scaled rather than divided.
pub(crate) fn next(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((u128::from(*state) * u128::from(end)) >> 64) as u64
}

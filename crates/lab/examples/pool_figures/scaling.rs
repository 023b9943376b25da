//! The table of the scaling: what is made smaller together, so that a pool that fits into memory behaves as one of a TiB.

use crate::world::{BLOCK, MEMBERS, PARITY, Scale};

/// Live blocks of a TiB.
const TIB: u64 = 1 << 28;

/// Prints the table.
pub(crate) fn print(live: u64) {
    println!("\n## The scaling\n\n| what | of 1 TiB live | here |\n|---|---:|---:|");
    let row = |what: &str, text: &dyn Fn(&Scale) -> String| {
        println!("| {what} | {} | {} |", text(&Scale::of(TIB, 70)), text(&Scale::of(live, 70)));
    };
    let unit = |scale: &Scale| 1u64 << (scale.member() / 4096).max(1).ilog2().clamp(16, 24);
    row("live blocks", &|scale| scale.live.to_string());
    row("bytes of a member, at 70 % live", &|scale| scale.member().to_string());
    row("bytes of a unit", &|scale| unit(scale).to_string());
    row("segments", &|scale| (scale.member() / unit(scale)).to_string());
    row("data blocks of a segment", &|scale| (unit(scale) / BLOCK * (MEMBERS - PARITY)).to_string());
    row("changes in memory, at 1/16", &|scale| (scale.live / 16).to_string());
    row("the same at 1/256", &|scale| (scale.live / 256).to_string());
    row("MiB of memory for the map, which is all of it", &|scale| {
        (scale.config().map_memory >> 20).to_string()
    });
    row("bytes of memory for requests", &|scale| scale.memory.to_string());
}

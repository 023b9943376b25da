//! Every array that md made is read whole after the loss of every set of members that its level tolerates, and refused
//! after every other: all sets, none left out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use brindle_array::assembly::{AssembleOptions, Candidate, assemble};
use brindle_array::{Access, Array, OpenConfig, Volume};
use brindle_io::memory::Memory;
use brindle_io::{Io, MemberId};
use brindle_tests::files;
use brindle_tests::golden::{self, Recipe};
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Kernel;

use super::{cases, left};

/// An array of md's and its content.
struct Sample {
    name: String,
    recipe: Recipe,
    paths: Vec<PathBuf>,
    sha256: String,
}

/// Whether an array survives the loss of these roles: the rules of md(4), with no look at Brindle's own.
fn survives(recipe: &Recipe, lost: &BTreeSet<usize>) -> bool {
    let members = recipe.members.len();
    match recipe.level {
        "1" => lost.len() < members,
        "4" | "5" => lost.len() <= 1,
        "6" => lost.len() <= 2,
        "10" => {
            let layout = recipe.layout.unwrap_or("n2");
            let copies: usize = layout[1..].parse().unwrap();
            // Near: each chunk's copies follow those of the chunk before, around all members. Far and offset: each
            // chunk's copies are on neighbours, and begin at each member.
            let step = if layout.starts_with('n') { copies } else { 1 };
            (0..members)
                .all(|chunk| (0..copies).any(|copy| !lost.contains(&((chunk * step + copy) % members))))
        }
        _ => lost.is_empty(),
    }
}

/// Reads the array without the lost members, in RAM; `None` if it is refused.
fn content(images: &[Vec<u8>], lost: &BTreeSet<usize>) -> Option<Vec<u8>> {
    let memory = Memory::new();
    let io = Io::new(Box::new(memory.clone()));
    let pool = io.pool(8 << 20);
    let left = images.iter().enumerate().filter(|(role, _)| !lost.contains(role));
    let ids: Vec<MemberId> = left
        .map(|(_, image)| {
            let id = memory.add_ram(image.len() as u64);
            memory.poke(id, 0, image);
            id
        })
        .collect();
    let content = io.block_on(async {
        let mut candidates = Vec::new();
        for &id in &ids {
            candidates.push(Candidate::read(&io, &pool, id, format!("member {id:?}")).await.unwrap());
        }
        let assembly = assemble(&candidates, AssembleOptions::default()).ok()?;
        let size = assembly.geometry.size();
        let array = Array::open(&io, assembly, &ids, OpenConfig::new(Access::ReadOnly, || 0)).await.unwrap();
        let mut content = Vec::new();
        while (content.len() as u64) < size {
            let at = content.len() as u64;
            let buf = pool.alloc((size - at).min(1 << 20) as usize).await;
            array.read(at, buf.all()).await.unwrap();
            content.extend_from_slice(&buf.bytes());
        }
        array.stop().await.unwrap();
        Some(content)
    });
    drop(pool);
    io.shutdown();
    content
}

/// Tries all sets of roles.
fn check(sample: &Sample) {
    let Sample { name, recipe, paths, sha256 } = sample;
    let images: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let whole = content(&images, &BTreeSet::new()).unwrap_or_else(|| panic!("{name}: refused"));
    assert_eq!(files::sha256_of(&whole), *sha256, "{name}");
    for set in 1..1_u32 << paths.len() {
        let lost: BTreeSet<usize> = (0..paths.len()).filter(|role| set >> role & 1 == 1).collect();
        let read = content(&images, &lost);
        assert_eq!(read.is_some(), survives(recipe, &lost), "{name}: taken or refused, lost {lost:?}");
        assert!(read.is_none_or(|read| read == whole), "{name}: content, lost {lost:?}");
    }
}

/// Checks all samples, on as many threads as there are processors.
fn check_all(samples: &[Sample]) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || samples.iter().skip(first).step_by(threads).for_each(check));
        }
    });
}

#[test]
fn usual_arrays_are_read_after_every_loss_that_they_tolerate() {
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    let sample = |made: golden::Made| Sample {
        name: made.recipe.name(),
        recipe: made.recipe,
        paths: made.members,
        sha256: made.sha256,
    };
    check_all(&made.into_iter().map(sample).collect::<Vec<_>>());
}

#[test]
fn arrays_with_any_chunk_bitmap_or_sector_are_read_after_every_loss_that_they_tolerate() {
    let Some(all) = or_skip(left(Kernel::Release, cases::whole())) else { return };
    let samples = all.into_iter().map(|left| Sample {
        name: left.case.name(),
        recipe: left.case.recipe,
        paths: left.paths,
        sha256: left.sha256,
    });
    check_all(&samples.collect::<Vec<_>>());
}

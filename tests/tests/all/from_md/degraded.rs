//! Every array that md made is read whole after the loss of every set of members that its level tolerates, and refused
//! after every other: all sets, none left out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use brindle_array::{Access, OpenConfig};
use brindle_io::memory::Memory;
use brindle_io::{Io, MemberId};
use brindle_md::assembly::{AssembleOptions, Candidate, assemble};
use brindle_tests::files;
use brindle_tests::golden::{self, Recipe};
use brindle_tests::states::{Left, Member, State};
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Kernel;
use brindle_volume::Volume;

use super::{cases, each, left};

/// An array of md's and its content.
struct Sample {
    name: String,
    recipe: Recipe,
    /// Indexed by role.
    members: BTreeMap<usize, PathBuf>,
    /// Spares and half recovered members: given too, and no help.
    others: Vec<PathBuf>,
    sha256: String,
}

/// Reads the array that these form, in RAM; `None` if it is refused.
fn content<'a>(images: impl Iterator<Item = &'a Vec<u8>>) -> Option<Vec<u8>> {
    let memory = Memory::new();
    let io = Io::new(Box::new(memory.clone()));
    let pool = io.pool(8 << 20);
    let ids: Vec<MemberId> = images
        .map(|image| {
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
        let array =
            brindle_md::open(&io, assembly, &ids, OpenConfig::new(Access::ReadOnly, || 0)).await.unwrap();
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
    let Sample { name, recipe, members, others, sha256 } = sample;
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    let members: Vec<(usize, Vec<u8>)> = members.iter().map(|(&role, path)| (role, read(path))).collect();
    let others: Vec<Vec<u8>> = others.iter().map(read).collect();
    let mut whole = None;
    for set in 0..1_u32 << members.len() {
        let (lost, left): (Vec<_>, Vec<_>) =
            members.iter().enumerate().partition(|(at, _)| set >> at & 1 == 1);
        let lost: Vec<usize> = lost.into_iter().map(|(_, member)| member.0).collect();
        let given = left.iter().map(|(_, member)| &member.1).chain(&others);
        let read = content(given);
        let gone = (0..recipe.members.len()).filter(|role| !left.iter().any(|(_, member)| member.0 == *role));
        let survives = cases::survives(recipe, &gone.collect());
        assert_eq!(read.is_some(), survives, "{name}: taken or refused, lost {lost:?}");
        let Some(read) = read else { continue };
        let whole = whole.get_or_insert_with(|| {
            assert_eq!(files::sha256_of(&read), *sha256, "{name}");
            read.clone()
        });
        assert!(read == *whole, "{name}: content, lost {lost:?}");
    }
}

#[test]
fn usual_arrays_are_read_after_every_loss_that_they_tolerate() {
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    let sample = |made: golden::Made| Sample {
        name: made.recipe.name(),
        recipe: made.recipe,
        members: made.members.into_iter().enumerate().collect(),
        others: Vec::new(),
        sha256: made.sha256,
    };
    each(&made.into_iter().map(sample).collect::<Vec<_>>(), check);
}

/// Arrays that lack members already lose more. Those whose redundancy is not true are another matter; members that missed
/// writes are not given, since they are an array of their own.
#[test]
fn arrays_in_any_state_are_read_after_every_further_loss_that_they_tolerate() {
    let Some(mut all) = or_skip(left(Kernel::Release, cases::all())) else { return };
    all.retain(|left| !matches!(left.case.state, State::HalfResynced | State::LostInResync(_)));
    let sample = |left: Left| {
        let (mut members, mut others) = (BTreeMap::new(), Vec::new());
        for (path, member) in left.paths.into_iter().zip(left.members) {
            match member {
                Some(Member { role: Some(role), recovered: None, .. }) => {
                    members.insert(usize::from(role), path);
                }
                Some(_) => others.push(path),
                None => {}
            }
        }
        Sample { name: left.case.name(), recipe: left.case.recipe, members, others, sha256: left.sha256 }
    };
    each(&all.into_iter().map(sample).collect::<Vec<_>>(), check);
}

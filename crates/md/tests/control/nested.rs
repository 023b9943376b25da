//! Arrays as members of arrays, with members lost inside.

use brindle_array::{Array, RoleState};
use brindle_format::md::Version;
use brindle_io::memory::Memory;
use brindle_io::{Io, MemberId, Pool};
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, Candidate, assemble};
use brindle_md::create::{CreateSpec, plan};
use brindle_volume::nest;

use crate::common::*;

/// An array of arrays, all of them with superblocks.
struct Nested {
    memory: Memory,
    io: Io,
    pool: Pool,
    /// By inner array, its members.
    leaves: Vec<Vec<MemberId>>,
    inner: Vec<Array>,
    outer: Array,
    model: Vec<u8>,
}

async fn make(io: &Io, pool: &Pool, spec: &CreateSpec, ids: &[MemberId]) -> Array {
    plan(spec).unwrap().write(io, pool, ids).await.unwrap();
    let mut candidates = Vec::new();
    for id in ids {
        candidates.push(Candidate::read(io, pool, *id, id.to_string()).await.unwrap());
    }
    let assembly = assemble(&candidates, AssembleOptions::default()).unwrap();
    brindle_md::open(io, assembly, ids, patient()).await.unwrap()
}

impl Nested {
    fn new(outer: Level, inner: Level, members: usize) -> Self {
        let memory = Memory::new();
        let io = Io::new(Box::new(memory.clone()));
        let pool = io.pool(16 << 20);
        let leaves: Vec<Vec<_>> =
            (0..2).map(|_| (0..members).map(|_| memory.add_ram(8 * MIB)).collect()).collect();
        let (inner, outer) = io.block_on(async {
            let mut arrays = Vec::new();
            for ids in &leaves {
                arrays.push(make(&io, &pool, &spec(inner, members, Version::V1_2), ids).await);
            }
            let ids: Vec<_> = arrays.iter().map(|array| nest::serve(&io, array.clone(), 8)).collect();
            let mut above = spec(outer, 2, Version::V1_2);
            for (member, id) in above.roles.iter_mut().flatten().zip(&ids) {
                member.info = io.member_info(*id).unwrap();
            }
            let outer = make(&io, &pool, &above, &ids).await;
            (arrays, outer)
        });
        let model = vec![0; 6 << 20];
        Self { memory, io, pool, leaves, inner, outer, model }
    }

    /// Writes of all sizes at the same time, then everything is read back in large pieces.
    fn work(&mut self, round: u64) {
        let mut at = 512 * round as usize;
        let mut writes = Vec::new();
        for n in 0..24u64 {
            let len = [512, 4096, 70_144, 200_704, 1 << 20][(n % 5) as usize];
            let bytes = pattern(round * 100 + n, len);
            if at + len > self.model.len() {
                break;
            }
            self.model[at..at + len].copy_from_slice(&bytes);
            let (array, pool, offset) = (self.outer.clone(), self.pool.clone(), at as u64);
            writes.push(self.io.spawn(async move { write(&pool, &array, offset, &bytes).await }));
            at += len + 512 * n as usize;
        }
        self.io.block_on(async {
            for write in writes {
                write.await.unwrap();
            }
            for at in (0..self.model.len()).step_by(1 << 20) {
                let bytes = read(&self.pool, &self.outer, at as u64, 1 << 20).await.unwrap();
                assert!(bytes == self.model[at..at + (1 << 20)], "round {round}, byte {at}");
            }
        });
    }

    fn kill(&self, inner: usize, member: usize) {
        self.memory.kill(self.leaves[inner][member]);
    }

    fn stop(&self) {
        self.io.block_on(async {
            self.outer.stop().await.unwrap();
            for array in &self.inner {
                array.stop().await.unwrap();
            }
        });
    }
}

#[test]
fn raid50_loses_a_member_in_each_half() {
    let mut nested = Nested::new(Level::Raid0, Level::Raid5, 4);
    nested.work(1);
    nested.kill(0, 1);
    nested.work(2);
    nested.kill(1, 3);
    nested.work(3);
    assert_eq!(nested.inner[0].state(1), RoleState::Failed);
    assert_eq!(nested.inner[1].state(3), RoleState::Failed);
    nested.stop();
}

#[test]
fn raid60_loses_two_members_in_each_half() {
    let mut nested = Nested::new(Level::Raid0, Level::Raid6, 5);
    nested.work(1);
    for (inner, member) in [(0, 0), (1, 4), (0, 3), (1, 2)] {
        nested.kill(inner, member);
        nested.work(2 + inner as u64 + member as u64);
    }
    assert_eq!(nested.inner[0].detail().degraded, 2);
    nested.stop();
}

#[test]
fn a_mirror_of_stripes_loses_a_stripe() {
    let mut nested = Nested::new(Level::Raid1, Level::Raid0, 3);
    nested.work(1);
    nested.kill(0, 2);
    nested.work(2);
    assert_eq!(nested.outer.state(0), RoleState::Failed);
    assert_eq!(nested.outer.state(1), RoleState::InSync);
    nested.io.block_on(nested.outer.stop()).unwrap();
}

/// A write that the outer array has merged is one request to the inner one. For whole rows nothing is read, and each
/// member is written once.
#[test]
fn a_merged_write_reaches_the_inner_arrays_in_one_piece() {
    for (inner, members) in [(Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 4)] {
        let nested = Nested::new(Level::Raid0, inner, members);
        let bytes = pattern(1, 2 << 20);
        let counts = || nested.leaves.iter().flatten().map(|&leaf| nested.memory.op_counts(leaf)).collect();
        // They mark the arrays dirty, and leave them expecting no others that could join.
        for at in (0..32).map(|n| n % 2 * (64 << 10)) {
            nested.io.block_on(write(&nested.pool, &nested.outer, at, &bytes[..4096])).unwrap();
        }
        let before: Vec<(u64, u64)> = counts();
        nested.io.block_on(write(&nested.pool, &nested.outer, 0, &bytes)).unwrap();
        let after: Vec<(u64, u64)> = counts();
        let done: Vec<_> = after.iter().zip(&before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        assert_eq!(done, vec![(0, 1); 2 * members], "reads and writes of {inner:?}");
        let read = nested.io.block_on(read(&nested.pool, &nested.outer, 0, 2 << 20)).unwrap();
        assert!(read == bytes);
        nested.stop();
    }
}

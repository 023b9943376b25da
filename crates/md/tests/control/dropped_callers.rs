//! Callers that wait for a change of state may be dropped: a change that has begun is written to its end.

use std::cell::Cell;

use brindle_array::{Array, Progress, RoleState};
use brindle_format::md::{DeviceRole, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Io, MemberId, Pool};
use brindle_layout::Level;
use brindle_md::assembly::{AssembleOptions, Candidate, assemble};
use brindle_md::create::plan;
use brindle_volume::Volume;

use crate::common::*;

/// Of a drive.
const SIZE: u64 = 24 * MIB;

/// An array on drives that take their time.
struct Slow {
    sim: Sim,
    io: Io,
    pool: Pool,
    ids: Vec<MemberId>,
    array: Array,
}

impl Slow {
    /// Redundancy is in doubt if `crashed`.
    fn new(level: Level, members: usize, crashed: bool) -> Self {
        let sim = Sim::new(1);
        let io = Io::new(Box::new(sim.clone()));
        let pool = io.pool(8 << 20);
        let mut spec = spec(level, members, Version::V1_2);
        spec.assume_clean = !crashed;
        spec.roles.iter_mut().flatten().for_each(|member| member.info.size = SIZE);
        let ids: Vec<_> = (0..members).map(|_| sim.add_blank_drive(Model::nvme(), SIZE)).collect();
        let array = io.block_on(async {
            plan(&spec).unwrap().write(&io, &pool, &ids).await.unwrap();
            let mut candidates = Vec::new();
            for id in &ids {
                candidates.push(Candidate::read(&io, &pool, *id, id.to_string()).await.unwrap());
            }
            let assembly = assemble(&candidates, AssembleOptions::default()).unwrap();
            brindle_md::open(&io, assembly, &ids, patient()).await.unwrap()
        });
        Self { sim, io, pool, ids, array }
    }

    fn superblock(&self, member: usize) -> Superblock {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        self.sim.peek(self.ids[member], Version::V1_2.superblock_offset(SIZE).unwrap(), &mut bytes);
        Superblock::parse(Version::V1_2, &bytes, SIZE).unwrap()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

#[test]
fn a_resync_dropped_while_it_records_how_far_it_came_leaves_an_array_that_can_be_written() {
    // Later the record has ended, and the next windows are under way.
    for micros in (0..=66).step_by(6) {
        let slow = Slow::new(Level::Raid5, 3, true);
        slow.io.block_on(async {
            let begun = Cell::new(false);
            let enough = async {
                while !begun.get() {
                    slow.io.sleep(Duration::from_micros(1)).await;
                }
                slow.io.sleep(Duration::from_micros(micros)).await;
            };
            // The first window goes by itself; two more are under way when the second has ended.
            let second = |progress: Progress| begun.set(progress.position > 4 * MIB);
            let ended = race(slow.array.resync(second), enough).await;
            assert_eq!(ended, Either::Second(()));
            write(&slow.pool, &slow.array, 4096, &pattern(micros, 4096)).await.unwrap();
            slow.array.stop().await.unwrap();
        });
        // The windows that were under way have ended, and count.
        assert_eq!(slow.superblock(0).resync_offset, Some(16 * MIB));
        assert_eq!(slow.array.detail().resync_offset, Some(16 * MIB));
    }
}

#[test]
fn a_failure_is_recorded_though_nobody_waits_for_it() {
    for micros in 0..40 {
        let slow = Slow::new(Level::Raid6, 5, false);
        slow.io.block_on(async {
            let _gone = race(slow.array.fail(2), slow.io.sleep(Duration::from_micros(micros))).await;
            assert_eq!(slow.array.state(2), RoleState::Failed);
            slow.array.fail(1).await.unwrap();
        });
        for role in [1, 2] {
            assert_eq!(slow.superblock(0).role_of(role), DeviceRole::Faulty, "after {micros} us");
        }
        slow.io.block_on(async {
            write(&slow.pool, &slow.array, 0, &pattern(1, 4096)).await.unwrap();
            slow.array.flush().await.unwrap();
        });
    }
}

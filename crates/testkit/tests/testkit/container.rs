//! Two arrays of one container share their devices: one that is lost to one of them is lost to both, once, before either
//! acknowledges anything that relies on that.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::ledger::State;
use brindle_array::{Array, RoleState};
use brindle_io::sim::{Faults, Model, Sim, When};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId};
use brindle_layout::{Geometry, Layout, Level};
use brindle_testkit::container::{Container, create};
use brindle_testkit::random::pattern;
use brindle_testkit::world::{patient, read, write};
use brindle_volume::Volume;

const SIZE: u64 = 1 << 20;
/// Bytes of each device that an array has.
const SHARE: u64 = 256 << 10;
const CHUNK: u64 = 4096;
const ROUNDS: u64 = 8;
/// The round in which the device is lost, and which.
const LOSS: u64 = 3;
const LOST: u16 = 2;

fn arrays(container: &Container) -> [Array; 2] {
    let geometry =
        |level| Geometry::new(level, Layout::default_for(level), CHUNK, &[SHARE; 3]).expect("it is possible");
    let open = |n: usize, level| container.array(n, geometry(level), n as u64 * SHARE, &patient());
    [open(0, Level::Raid5), open(1, Level::Raid1)]
}

/// Each round has a row of its own: what is being written when the power goes harms nothing else.
fn place(round: u64) -> u64 {
    round * 2 * CHUNK
}

fn content(array: usize, round: u64) -> Vec<u8> {
    pattern(100 * array as u64 + round, CHUNK as usize)
}

/// The acknowledged rounds by array, and whether any of them relies on the absence of the lost device.
#[derive(Default)]
struct Acknowledged {
    rounds: [Vec<u64>; 2],
    relies: bool,
}

struct Run {
    sim: Sim,
    drives: Vec<MemberId>,
    acknowledged: Rc<RefCell<Acknowledged>>,
}

impl Run {
    fn new() -> Self {
        let sim = Sim::new(1);
        let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
        let drives: Vec<MemberId> = (0..3).map(|_| sim.add_blank_drive(quick, SIZE)).collect();
        create(&sim, &drives, SIZE, &[State::default(); 2]);
        Self { sim, drives, acknowledged: Rc::default() }
    }

    /// A device is lost while both arrays are written to; `first` is the one that meets the loss. The power goes before a
    /// step, if the run has as many. Gives whether it had, and the last record's generation if not.
    fn live(&self, first: usize, cut: u64) -> Option<u64> {
        let io = Io::new(Box::new(self.sim.clone()));
        self.sim.cut_power_at(When::Step(cut));
        let ended = io.block_on(self.sim.until_end(&io, self.both(&io, first)));
        if !self.sim.has_ended() {
            self.sim.cut_power();
        }
        io.shutdown();
        ended
    }

    async fn both(&self, io: &Io, first: usize) -> u64 {
        let pool = io.pool(1 << 20);
        let given: Vec<_> = self.drives.iter().copied().map(Some).collect();
        let container = Container::open(io, &pool, &given).await.expect("they can be read").expect("records");
        let arrays = arrays(&container);
        let lanes = (0..2).map(|n| {
            let (io, pool, arrays) = (io.clone(), pool.clone(), arrays.clone());
            let (sim, drive) = (self.sim.clone(), self.drives[usize::from(LOST)]);
            let acknowledged = Rc::clone(&self.acknowledged);
            io.clone().spawn(async move {
                for round in 0..ROUNDS {
                    if round == LOSS && n == first {
                        sim.kill(drive);
                    } else if round == LOSS {
                        // It does not meet the loss itself, but gets notice of it.
                        io.sleep(Duration::from_millis(3)).await;
                    }
                    write(&pool, &arrays[n], place(round), &content(n, round)).await.unwrap();
                    arrays[n].flush().await.unwrap();
                    let relies = arrays[n].state(LOST) == RoleState::Failed;
                    let mut acknowledged = acknowledged.borrow_mut();
                    acknowledged.rounds[n].push(round);
                    acknowledged.relies |= relies;
                    let other = arrays[1 - n].state(LOST) == RoleState::Failed;
                    assert!(other || !relies, "one array goes on with a device that the other does without");
                }
            })
        });
        join_all(lanes.collect::<Vec<_>>()).await;
        container.record().generation
    }

    /// After the power is back, and with it the device: what the container says, and what both arrays hold.
    fn judge(&self, who: &str) -> bool {
        let sim = self.sim.restart(2);
        self.drives.iter().for_each(|&drive| sim.afflict(drive, |faults| *faults = Faults::default()));
        let io = Io::new(Box::new(sim));
        let acknowledged = self.acknowledged.borrow();
        let pool = io.pool(1 << 20);
        let given: Vec<_> = self.drives.iter().copied().map(Some).collect();
        io.block_on(async {
            let container =
                Container::open(&io, &pool, &given).await.expect("they can be read").expect("records");
            let lost = container.lost();
            assert!(!acknowledged.relies || lost == [LOST], "{who}: {lost:?} are called lost");
            if !lost.is_empty() {
                // Dirty and degraded: rows that were being written may be wrong, others not.
                container.force(0);
            }
            for (n, array) in arrays(&container).iter().enumerate() {
                let lost = array.state(LOST) == RoleState::Missing;
                assert_eq!(lost, container.lost() == [LOST], "{who}: array {n}");
                for &round in &acknowledged.rounds[n] {
                    let found = read(&pool, array, place(round), CHUNK as usize).await.unwrap();
                    assert!(found == content(n, round), "{who}: array {n}, round {round}");
                }
            }
        });
        io.shutdown();
        acknowledged.relies
    }
}

#[test]
fn two_arrays_lose_a_device_once_and_together_wherever_the_power_goes() {
    for first in 0..2 {
        let (mut relied, mut steps) = (0, 0);
        for cut in 0.. {
            let run = Run::new();
            let ended = run.live(first, cut);
            relied += u64::from(run.judge(&format!("array {first} first, cut {cut}")));
            steps = cut;
            if let Some(generation) = ended {
                // The first, dirty of each array, and one that calls the device lost.
                assert_eq!(generation, 4, "array {first} first");
                break;
            }
        }
        assert!(relied > 50 && steps > relied + 50, "{relied} of {steps}");
    }
}

//! Roles with two devices: either may fail, and the other has all.

use brindle_array::{Array, Device, RoleState};
use brindle_io::MemberId;
use brindle_layout::{Layout, Level, ParityLayout};
use brindle_testkit::world::{in_memory, read, write};
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: u64 = 8192;
const SIZE: u64 = 8 * CHUNK;
/// The role that has a second device.
const ROLE: u16 = 1;

type Shape = (Level, Layout, usize);

const SHAPES: [Shape; 2] =
    [(Level::Raid1, Layout::None, 2), (Level::Raid5, Layout::Parity(ParityLayout::LeftSymmetric), 3)];

/// An array of which nothing is recorded, with content, and a second device that has none of it.
struct Doubled {
    run: Running,
    array: Array,
    content: Vec<u8>,
    first: MemberId,
    second: MemberId,
}

impl Doubled {
    fn new((level, layout, members): Shape) -> Self {
        let run = world::start(level, layout, CHUNK, members, SIZE);
        let content = world::pattern(7, run.size() as usize);
        run.run(async |run| run.write_all(&content).await).unwrap();
        run.stop();
        let device = |&id: &MemberId| Some(Device { id, data_offset: DATA_OFFSET });
        let devices = run.ids.iter().map(device).collect();
        let array = in_memory(&run.io, run.array.geometry().clone(), devices);
        let (first, second) = (run.ids[usize::from(ROLE)], run.bench.add_ram(SIZE));
        array.begin_second(ROLE, Device { id: second, data_offset: 0 }).unwrap();
        Self { run, array, content, first, second }
    }

    /// Gives the second device the first `len` bytes of the member.
    fn fill(&self, len: u64) -> Result<(), VolumeError> {
        self.run.io.block_on(async {
            for pos in (0..len).step_by(2 * CHUNK as usize) {
                self.array.fill_second(ROLE, pos, 2 * CHUNK).await?;
            }
            Ok(())
        })
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.run.io.block_on(write(&self.run.pool, &self.array, at as u64, bytes)).unwrap();
        self.content[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self) -> Vec<u8> {
        let len = self.content.len();
        self.run.io.block_on(read(&self.run.pool, &self.array, 0, len)).unwrap()
    }

    fn holds(&self, id: MemberId, start: u64) -> Vec<u8> {
        let mut bytes = vec![0; SIZE as usize];
        self.run.bench.peek(id, start, &mut bytes);
        bytes
    }

    fn same(&self) -> bool {
        self.holds(self.first, DATA_OFFSET) == self.holds(self.second, 0)
    }
}

#[test]
fn a_second_device_takes_every_change_and_is_given_the_rest() {
    for shape in SHAPES {
        let mut doubled = Doubled::new(shape);
        doubled.fill(SIZE / 2).unwrap();
        for at in [0, 3 * CHUNK as usize + 512, doubled.content.len() - 4096] {
            doubled.write(at, &world::pattern(at as u64, 1024));
        }
        assert!(!doubled.same(), "{shape:?}");
        assert_eq!(doubled.array.second(ROLE).map(|(_, good)| good), Some(SIZE / 2));
        doubled.run.io.block_on(doubled.array.fill_second(ROLE, SIZE / 2, SIZE / 2)).unwrap();
        assert!(doubled.same(), "{shape:?}");
        doubled.write(2048, &[9; 19_968]);
        doubled.run.io.block_on(doubled.array.write_zeroes(512, 29_696, ZeroOptions::default())).unwrap();
        doubled.run.io.block_on(doubled.array.flush()).unwrap();
        assert!(doubled.same(), "{shape:?}");
        let (reads, _) = doubled.run.bench.op_counts(doubled.second);
        doubled.read();
        assert_eq!(doubled.run.bench.op_counts(doubled.second).0, reads, "the member answers");
    }
}

#[test]
fn a_second_device_that_fails_only_leaves_its_role() {
    for shape in SHAPES {
        for refuse in [false, true] {
            let mut doubled = Doubled::new(shape);
            doubled.fill(SIZE).unwrap();
            if refuse {
                doubled.run.bench.refuse_writes(doubled.second);
            } else {
                doubled.run.bench.kill(doubled.second);
            }
            doubled.write(1024, &[5; 3 * CHUNK as usize]);
            assert!(doubled.array.second(ROLE).is_none(), "{shape:?}");
            assert_eq!(doubled.array.state(ROLE), RoleState::InSync, "{shape:?}");
            assert!(doubled.read() == doubled.content, "{shape:?}");
            assert_eq!(doubled.fill(CHUNK), Err(VolumeError::TooManyLost));
        }
    }
}

#[test]
fn a_member_that_fails_is_replaced_by_the_second_device_that_holds_all_of_it() {
    for shape in SHAPES {
        let mut doubled = Doubled::new(shape);
        doubled.fill(SIZE).unwrap();
        doubled.run.bench.refuse_writes(doubled.first);
        doubled.write(512, &[3; 3 * CHUNK as usize]);
        assert_eq!(doubled.array.state(ROLE), RoleState::InSync, "{shape:?}");
        assert!(doubled.array.second(ROLE).is_none());
        // It is not the redundancy that makes up for it: that can lose another one yet.
        doubled.run.io.block_on(doubled.array.fail(0)).unwrap();
        assert!(doubled.read() == doubled.content, "{shape:?}");
        doubled.write(4096, &[4; 2048]);
        assert!(doubled.read() == doubled.content, "{shape:?}");
    }
}

#[test]
fn a_member_that_fails_while_the_second_device_is_being_filled_fails() {
    for shape in SHAPES {
        let mut doubled = Doubled::new(shape);
        doubled.fill(SIZE / 2).unwrap();
        doubled.run.bench.refuse_writes(doubled.first);
        doubled.write(512, &[3; 3 * CHUNK as usize]);
        assert_eq!(doubled.array.state(ROLE), RoleState::Failed, "{shape:?}");
        assert!(doubled.array.second(ROLE).is_none());
        assert!(doubled.read() == doubled.content, "{shape:?}");
    }
}

#[test]
fn what_the_member_can_not_read_the_second_device_gives_where_it_holds_it() {
    for shape in SHAPES {
        let doubled = Doubled::new(shape);
        doubled.fill(SIZE / 2).unwrap();
        // Nothing else makes up for it.
        doubled.run.io.block_on(doubled.array.fail(0)).unwrap();
        doubled.run.bench.spoil(doubled.first, DATA_OFFSET + 1024, 512);
        assert!(doubled.read() == doubled.content, "{shape:?}");
        doubled.run.bench.spoil(doubled.first, DATA_OFFSET + SIZE / 2 + 512, 512);
        let len = doubled.content.len();
        let all = doubled.run.io.block_on(read(&doubled.run.pool, &doubled.array, 0, len));
        assert!(all.is_err(), "{shape:?}: of that the second holds nothing");
    }
}

//! The door without a socket: its clients have what clients of doors with sockets have.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use brindle_export::access::{AccessList, Right, Rule, Who};
use brindle_export::{Config, Gate, Rates};
use brindle_io::sim::Sim;
use brindle_io::sync::{join_all, race};
use brindle_io::{Duration, Io};
use brindle_testkit::conformance::{conforms, refuses_changes};
use brindle_testkit::door::MemoryDoor;
use brindle_testkit::ram::RamVolume;
use brindle_volume::{Volume, VolumeError};

const SIZE: u64 = 256 << 10;

fn config() -> Config {
    Config { memory: 1 << 20, connections: 4, requests: 8, ..Config::default() }
}

/// A world with a door to one volume.
struct House {
    io: Io,
    door: MemoryDoor<RamVolume>,
    volume: Rc<RamVolume>,
    gate: Rc<Gate>,
}

impl House {
    fn new(config: Config) -> Self {
        let io = Io::new(Box::new(Sim::new(7)));
        let (volume, gate) = (RamVolume::new(&io, SIZE), Rc::<Gate>::default());
        let door = MemoryDoor::new(&io, config);
        door.exports.offer("disk", "", Rc::clone(&volume), Rc::clone(&gate));
        Self { io, door, volume, gate }
    }

    /// Stops the door: nothing is left of it.
    fn end(self) {
        self.io.block_on(async {
            self.door.exports.stop(&self.door.sessions).await;
            self.io.yield_now().await;
            self.io.yield_now().await;
        });
        assert_eq!((self.io.tasks_alive(), self.door.sessions.memory_in_use()), (0, 0));
        assert_eq!((self.door.sessions.stats(), self.volume.busy.get()), (Vec::new(), 0));
        assert_eq!(Rc::strong_count(&self.volume), 1, "the volume is still held");
        self.io.shutdown();
    }
}

#[test]
fn a_client_of_the_door_has_the_volume() {
    let house = House::new(config());
    house.volume.dawdle(3);
    house.io.block_on(async {
        let client = house.door.connect("disk").await.expect("a place");
        conforms("a door in memory", &house.io, &house.io.pool(4 << 20), &client).await;
        assert_eq!(house.door.exports.stats()[0].connections, 1);
        assert!(house.door.exports.stats()[0].total.written_bytes > 0);
        assert!(house.door.connect("disc").await.is_none());
    });
    house.end();
}

/// A member that hangs holds memory of a request that has ended without it. The request after that may need more than half of what there is.
#[test]
fn a_client_that_is_alone_does_not_wait_for_memory_of_a_member_that_hangs() {
    let house = House::new(Config { memory: 128 << 10, ..config() });
    house.io.block_on(async {
        let client = house.door.connect("disk").await.expect("a place");
        let buf = house.io.pool(1 << 20).alloc(64 << 10).await;
        house.volume.keep_memory(true);
        client.write(0, buf.slice(0..4096), false).await.expect("a write");
        assert!(house.door.sessions.memory_in_use() >= 4096, "some memory is pinned");
        client.read(0, buf.slice(0..44 << 10)).await.expect("a read");
        house.volume.keep_memory(false);
    });
    house.end();
}

#[test]
fn rights_limits_and_places_are_those_of_all_doors() {
    let house = House::new(Config { connections: 2, ..config() });
    let reads = Rule { who: Who::Local, right: Some(Right::Read) };
    drop(house.gate.set_access(AccessList(vec![reads])));
    house.io.block_on(async {
        let pool = house.io.pool(4 << 20);
        let client = house.door.connect("disk").await.expect("a place");
        refuses_changes("a reader of a door in memory", &house.io, &pool, &client).await;
        let second = house.door.connect("disk").await.expect("a place");
        // Both have chosen, and move: there is no place for a third.
        assert!(house.door.connect("disk").await.is_none());
        drop(second);
        house.io.sleep(Duration::from_secs(1)).await;
        let second = house.door.connect("disk").await.expect("the place of the one that has left");
        house.gate.set_rates(&house.io, Rates { requests: 10.try_into().ok(), ..Rates::default() });
        let (begun, buf) = (house.io.now(), pool.alloc(4096).await);
        for _ in 0..11 {
            second.read(0, buf.slice(0..512)).await.expect("a read");
        }
        assert_eq!(house.io.now().since(begun), Duration::from_secs(1));
        house.gate.withdraw(true);
        drop(client);
        house.io.sleep(Duration::from_secs(1)).await;
        assert!(house.door.connect("disk").await.is_none());
    });
    house.end();
}

#[test]
fn requests_under_way_are_answered_when_the_door_stops_and_no_others_are_taken() {
    let house = House::new(config());
    house.volume.dawdle(50);
    house.io.block_on(async {
        let pool = house.io.pool(4 << 20);
        let client = house.door.connect("disk").await.expect("a place");
        let lanes = (0..6_u64).map(async |lane| {
            let buf = pool.alloc(64 << 10).await;
            buf.bytes_mut().fill(lane as u8 + 1);
            let (mut done, at) = (0, lane * (32 << 10));
            loop {
                match client.write(at, buf.slice(0..32 << 10), false).await {
                    Ok(()) => done += 1,
                    Err(error) => return (done, error),
                }
            }
        });
        let stopping = async {
            for _ in 0..400 {
                house.io.yield_now().await;
            }
            house.door.exports.remove("disk", &house.door.sessions).await;
        };
        let ended = Cell::new(Vec::<(u32, VolumeError)>::new());
        let both: [Pin<Box<dyn Future<Output = ()> + '_>>; 2] =
            [Box::pin(async { ended.set(join_all(lanes).await) }), Box::pin(stopping)];
        join_all(both).await;
        let ended = ended.take();
        assert!(ended.iter().all(|(done, error)| *done > 0 && *error == VolumeError::Stopping), "{ended:?}");
        let done: u32 = ended.iter().map(|(done, _)| done).sum();
        // All that was begun has been answered, and nothing else has reached the volume.
        assert_eq!(house.volume.asked.borrow().len(), done as usize);
    });
    house.end();
}

#[test]
fn a_client_that_holds_much_leaves_something_for_the_next_and_one_that_is_dropped_lets_go() {
    let house = House::new(config());
    house.volume.dawdle(200);
    house.io.block_on(async {
        let pool = house.io.pool(8 << 20);
        let (greedy, modest) = (
            house.door.connect("disk").await.expect("a place"),
            house.door.connect("disk").await.expect("a place"),
        );
        let bufs: Vec<_> = join_all((0..8).map(|_| pool.alloc(SIZE as usize))).await;
        let mut much = Box::pin(join_all(bufs.iter().map(|buf| greedy.read(0, buf.all()))));
        let small = pool.alloc(4096).await;
        // The small request is done while large ones still wait for memory.
        let first = race(&mut much, modest.read(0, small.slice(0..4096))).await;
        assert!(matches!(first, brindle_io::sync::Either::Second(Ok(()))));
        assert!(house.door.sessions.stats()[0].held_bytes <= 512 << 10);
        // Its requests go on to their end without it.
        drop(much);
    });
    house.end();
}

//! The other end of a connection keeps the contract of volumes (`brindle_volume::Volume`), as what is served there does.
//! Those are judged in `crates/testkit`.

use std::rc::Rc;

use crate::support::{World, small};
use brindle_export::nbd::Server;
use brindle_export::nbd::client::Remote;
use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_layout::Level;
use brindle_testkit::conformance::{conforms, refuses_changes};
use brindle_testkit::ram::{RamRequest, RamVolume};
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{self, patient};
use brindle_volume::{Volume, stretches};

const SIZE: u64 = 256 << 10;

/// Serves a volume, and judges what a client has of it.
async fn judge<V: Volume + 'static>(name: &str, io: &Io, sim: &Sim, volume: Rc<V>) {
    let (server, listener) = (Server::new(io, small()), sim.listen());
    let read_only = volume.limits().read_only;
    server.add_export("disk", "", volume).expect("a fresh name");
    server.serve(listener);
    let pool = io.pool(8 << 20);
    let remote = Remote::connect(io, sim.connect(listener), "disk", &pool).await.expect("a server");
    if read_only {
        refuses_changes(name, io, &pool, &remote).await;
    } else {
        conforms(name, io, &pool, &remote).await;
    }
    remote.leave().await;
    server.stop().await;
}

#[test]
fn the_other_end_of_a_connection_conforms() {
    for turns in [0, 5] {
        let sim = Sim::new(16);
        let io = Io::new(Box::new(sim.clone()));
        let volume = RamVolume::new(&io, SIZE);
        volume.dawdle(turns);
        io.block_on(judge("a connection", &io, &sim, volume));
        let volume = RamVolume::with(&io, |limits| limits.read_only = true);
        io.block_on(judge("a connection, read-only", &io, &sim, volume));
        io.shutdown();
    }
}

#[test]
fn an_array_at_the_other_end_of_a_connection_conforms() {
    let shape = Shape { rows: 32, ..Shape::new(Level::Raid5, 4) };
    let running = world::World::in_sim(&shape, Model::nvme(), 17).assembled(&[], patient());
    let (io, sim) = (running.io.clone(), running.bench.clone());
    io.block_on(judge("an array far away", &io, &sim, Rc::new(running.array.clone())));
    running.stop();
}

/// A list is one request of the protocol, as far as that allows.
#[test]
fn a_list_of_slices_is_one_request() {
    let world = World::sim(small(), SIZE);
    world.io.block_on(async {
        let pool = world.io.pool(1 << 20);
        let remote =
            Remote::connect(&world.io, world.connect_socket(), "disk", &pool).await.expect("a server");
        let buf = pool.alloc(64 << 10).await;
        buf.bytes_mut().iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at % 251) as u8);
        let list = [4096..8192, 0..512, 512..512, 16384..32768].map(|range| buf.slice(range));
        remote.write(8192, &list, false).await.expect("written");
        let into = [0..512, 512..20480, 20480..20992].map(|range| buf.slice(range));
        let expected: Vec<u8> = list.iter().flat_map(|slice| slice.bytes().to_vec()).collect();
        remote.read(8192, &into).await.expect("read");
        for (at, slice) in stretches(0, &into) {
            assert_eq!(*slice.bytes(), expected[at as usize..at as usize + slice.len()]);
        }
        drop((list, into, buf));
        remote.leave().await;
        world.settle(0).await;
    });
    assert_eq!(
        *world.volume.asked.borrow(),
        [RamRequest::Write(8192, 20992, false), RamRequest::Read(8192, 20992)]
    );
    world.end();
}

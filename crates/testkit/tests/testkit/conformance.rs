//! Every volume there is keeps the contract of volumes (`brindle_volume::Volume`): arrays of each level, whole and without
//! members, arrays of arrays, and the volume in RAM. The other end of a connection is judged in `crates/export`, members by
//! themselves and volumes whose requests take modelled time in `crates/lab`.

use brindle_array::{Access, Array, Device, OpenConfig, SyncMode, SyncReport};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Io, MemberId};
use brindle_layout::{Family, Geometry, Layout, Level};
use brindle_testkit::conformance::{Subject, conforms, conforms_without, refuses_changes};
use brindle_testkit::ram::RamVolume;
use brindle_testkit::running::Running;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, in_memory, patient};
use brindle_volume::Volume;
use brindle_volume::nest;

/// Every level, with members that it can do without.
fn shapes() -> Vec<(Shape, &'static [&'static [u16]])> {
    let shape = |level, members| Shape { rows: 32, ..Shape::new(level, members) };
    vec![
        (shape(Level::Linear, 2), &[]),
        (shape(Level::Raid0, 3), &[]),
        (shape(Level::Raid1, 3), &[&[0], &[1, 2]]),
        (shape(Level::Raid10, 4), &[&[1]]),
        (shape(Level::Raid10, 4).layout("f2"), &[&[0]]),
        (shape(Level::Raid4, 4), &[&[0], &[3]]),
        (shape(Level::Raid5, 4), &[&[1]]),
        (shape(Level::Raid6, 5), &[&[2], &[0, 3]]),
    ]
}

fn started(shape: &Shape, lost: &[u16]) -> Running<Sim> {
    World::in_sim(shape, Model::nvme(), 11).assembled(lost, patient())
}

fn judge(shape: &Shape, lost: &[u16]) {
    let running = started(shape, lost);
    let name = format!("{} without {lost:?}", shape.level);
    let geometry = running.array.geometry().clone();
    let missing = |at: u64| match geometry.family() {
        Family::Parity(map) => {
            let position = map.position(at);
            lost.contains(&map.row(position.row).data_member(position.data_index))
        }
        _ => false,
    };
    running.run(async |r| {
        conforms_without(&name, &r.io, &r.pool, &r.array, &missing).await;
        // Whatever was done to it, also with memory that changed meanwhile.
        let found = r.scrub(SyncMode::Check).await.expect("members that answer");
        assert_eq!((found.mismatch_sectors, found.unreadable), (0, 0), "{name}");
    });
    running.stop();
}

#[test]
fn arrays_of_each_level_conform() {
    shapes().iter().for_each(|(shape, _)| judge(shape, &[]));
}

#[test]
fn arrays_without_members_conform() {
    for (shape, losses) in shapes() {
        losses.iter().for_each(|lost| judge(&shape, lost));
    }
}

#[test]
fn arrays_that_are_read_only_refuse_changes() {
    for (shape, _) in shapes() {
        let config = OpenConfig { access: Access::ReadOnly, ..patient() };
        let running = World::in_sim(&shape, Model::nvme(), 12).assembled(&[], config);
        let name = format!("{}, read-only", shape.level);
        running.run(async |r| refuses_changes(&name, &r.io, &r.pool, &r.array).await);
    }
}

#[test]
fn what_was_flushed_or_written_with_fua_is_there_after_a_power_cut() {
    for (shape, _) in shapes() {
        let name = format!("{}", shape.level);
        let running = started(&shape, &[]);
        let stable = running.run(async |r| {
            let subject = Subject::new(&name, &r.io, &r.pool, &r.array).await;
            subject.leave_for_a_power_cut().await
        });
        running.bench.cut_power();
        let next = running.into_world().restart(13).assembled(&[], patient());
        let found = next.run(async |r| r.read_all().await.expect("all of it"));
        let lost = found.iter().zip(&stable).position(|(found, stable)| stable.is_some_and(|s| s != *found));
        assert_eq!(lost, None, "{name}: the first byte that was stable and is lost");
        next.stop();
    }
}

/// An array whose state lives in memory, on members of a sim.
fn volatile(io: &Io, level: Level, ids: impl IntoIterator<Item = (MemberId, u64)>) -> Array {
    let devices: Vec<_> = ids.into_iter().collect();
    let sizes: Vec<u64> = devices.iter().map(|(_, size)| *size).collect();
    let chunk = if matches!(level, Level::Raid1 | Level::Linear) { 0 } else { 4096 };
    let geometry = Geometry::new(level, Layout::default_for(level), chunk, &sizes).expect("an array");
    let devices = devices.into_iter().map(|(id, _)| Some(Device { id, data_offset: 0 })).collect();
    in_memory(io, geometry, devices)
}

#[test]
fn arrays_of_arrays_conform() {
    let pairs = [
        (Level::Raid0, Level::Raid5, 4),
        (Level::Raid0, Level::Raid6, 5),
        (Level::Raid5, Level::Raid1, 2),
        (Level::Raid1, Level::Raid0, 2),
        (Level::Linear, Level::Raid10, 4),
    ];
    for (outer, inner, members) in pairs {
        let sim = Sim::new(14);
        let io = Io::new(Box::new(sim.clone()));
        let pool = io.pool(16 << 20);
        let inners = if outer == Level::Raid5 { 3 } else { 2 };
        let mut inner_arrays = Vec::new();
        let served: Vec<_> = (0..inners)
            .map(|_| {
                let ids = (0..members).map(|_| (sim.add_blank_drive(Model::nvme(), 128 << 10), 128 << 10));
                let array = volatile(&io, inner, ids);
                let size = array.limits().size;
                inner_arrays.push(array.clone());
                (nest::serve(&io, array, 8), size)
            })
            .collect();
        let array = volatile(&io, outer, served);
        let name = format!("{outer} of {inner}");
        io.block_on(conforms(&name, &io, &pool, &array));
        for array in inner_arrays.iter().chain([&array]) {
            let found = io.block_on(array.sync_window(0, array.sync_len(), SyncMode::Check));
            assert_eq!(found, Ok(SyncReport::default()), "{name}");
        }
        io.shutdown();
    }
}

#[test]
fn the_volume_in_ram_conforms() {
    let io = Io::new(Box::new(Sim::new(15)));
    let pool = io.pool(8 << 20);
    for turns in [0, 5] {
        let volume = RamVolume::new(&io, 512 << 10);
        volume.dawdle(turns);
        io.block_on(conforms("RAM", &io, &pool, &*volume));
    }
    let volume = RamVolume::with(&io, |limits| limits.read_only = true);
    io.block_on(refuses_changes("RAM, read-only", &io, &pool, &*volume));
    io.shutdown();
}

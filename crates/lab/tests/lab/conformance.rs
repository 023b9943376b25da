//! Members by themselves keep the contract of volumes (`brindle_volume::Volume`): those that make zeroes, and those that don't.

use brindle_io::Io;
use brindle_io::sim::{Model, Sim};
use brindle_testkit::conformance::{conforms, refuses_changes};
use brindle_volume::LoneMember;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

/// A member, written to and only looked at.
fn world(model: Model) -> (Io, LoneMember, LoneMember) {
    let sim = Sim::new(22);
    let member = sim.add_blank_drive(model, 256 << 10);
    let io = Io::new(Box::new(sim));
    let device = |read_only| LoneMember::new(&io, member, read_only).expect("a member");
    let (own, looked_at) = (device(false), device(true));
    (io, own, looked_at)
}

#[test]
fn members_by_themselves_conform() {
    for (name, model) in [("an SSD", Model::nvme()), ("a disk", Model::hdd())] {
        let (io, own, looked_at) = world(model);
        let pool = io.pool(8 << 20);
        io.block_on(conforms(name, &io, &pool, &own));
        io.block_on(refuses_changes(name, &io, &pool, &looked_at));
        io.shutdown();
    }
}

#[test]
fn zeroes_that_must_be_fast_are_refused_by_who_makes_none() {
    let fast = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
    let (io, own, _) = world(Model::hdd());
    assert_eq!(io.block_on(own.write_zeroes(0, 4096, fast)), Err(VolumeError::Unsupported));
    let (io, own, _) = world(Model::nvme());
    assert_eq!(io.block_on(own.write_zeroes(0, 4096, fast)), Ok(()));
}

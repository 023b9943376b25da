//! For what an operation is reaches the drives with it: clients, background work, what is known of the array.

use brindle_array::SyncMode;
use brindle_io::OpClass;
use brindle_io::sim::{Model, Sim};
use brindle_layout::Level;
use brindle_testkit::running::Running;

use crate::common::*;

fn counts(world: &Running<Sim>, class: OpClass) -> u64 {
    world.ids.iter().map(|&id| world.bench.operations_of(id, class)).sum()
}

#[test]
fn drives_are_told_what_is_for_clients_what_is_repair_and_what_is_metadata() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid6, 5)] {
        let shape = Shape { rows: 16, ..Shape::new(level, members) };
        let world = Running::start(World::in_sim(&shape, Model::nvme(), 3), patient());
        let [clients, repair, metadata] = [OpClass::Client, OpClass::Repair, OpClass::Metadata]
            .map(|class| move |world: &Running<Sim>| counts(world, class));
        let at_rest = (clients(&world), repair(&world));
        assert_eq!(at_rest.1, 0);
        let before = metadata(&world);
        world.io.block_on(world.write(0, &pattern(1, 8192))).unwrap();
        assert!(
            clients(&world) > at_rest.0 && metadata(&world) > before,
            "{level}: a write, and the mark before it"
        );
        let before = (clients(&world), repair(&world));
        world.io.block_on(world.array.check(SyncMode::Check, |_| ())).unwrap();
        assert!(repair(&world) > 0);
        assert_eq!((clients(&world), before.1), (before.0, 0), "{level}: a check asks nothing for clients");
    }
}

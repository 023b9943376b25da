//! A pool whose members are in memory, where a test looks at what they hold and spoils it.

use brindle_io::Io;
use brindle_io::memory::Memory;
use brindle_testkit::pools::house::{House, Kind};

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) house: House,
    pub(crate) io: Io,
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        let memory = Memory::new();
        let house = House::new(kind, |size| memory.add_ram(size));
        let io = Io::new(Box::new(memory.clone()));
        io.block_on(house.create(&io));
        Self { memory, house, io }
    }
}

//! Where commit f8c2f50 said otherwise: `scripts/bench-sim` puts another text in the place of this file there.

use brindle_array::ledger::Nothing;
use brindle_array::{Access, Array, Device, OpenConfig};
use brindle_io::{Duration, Io};
use brindle_layout::Geometry;
pub(crate) use brindle_volume::Volume;

/// An array whose state nobody keeps, and that is never marked clean.
pub(crate) fn array(io: &Io, geometry: Geometry, devices: Vec<Option<Device>>) -> Array {
    let idle = Duration::from_secs(1 << 20);
    let config = OpenConfig { idle, ..OpenConfig::new(Access::ReadWrite, || 0) };
    Array::kept(io, geometry, devices, Box::new(Nothing), &config)
}

//! Models of drives: as files, as they ship with the program, and fitted to measured tables. Pure.

mod error;
mod file;
mod fit;
mod probe;
mod scope;
mod shipped;
mod table;
mod write;

use std::rc::Rc;

use brindle_io::sim::Stations;

pub use error::{DriveError, DriveErrorKind};
pub use file::parse;
pub use fit::{Fitted, Port, fit, fit_reads};
pub use probe::{probes, tables};
pub use scope::Scope;
pub use shipped::{SHIPPED, shipped};
pub use table::{Measure, Row, Table, table};
pub use write::to_toml;

/// A drive that can be put into a sim.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// The drive's name on the command line.
    pub name: String,
    /// Where its figures come from.
    pub source: String,
    /// Bytes.
    pub size: u64,
    /// The stations that a request passes, and the time that each takes.
    pub stations: Rc<Stations>,
    /// The loads that it was fitted to; none where its figures are a data sheet's.
    pub fitted: Option<Scope>,
}

impl Drive {
    /// This drive without its write cache. With one, a disk acknowledges random writes at once until the cache is
    /// full.
    pub fn without_write_cache(&self) -> Self {
        let mut stations = (*self.stations).clone();
        if let Some(platter) = &mut stations.platter {
            platter.cache = 0;
        }
        Self { stations: stations.into(), ..self.clone() }
    }

    /// The same drive on a link that moves so many bytes a second in either direction, for all drives of an array together; what it hangs on
    /// already is no wider for that.
    #[must_use]
    pub fn on_link(&self, rate: u64) -> Self {
        let mut stations = (*self.stations).clone();
        stations.uplink = if stations.uplink == 0 { rate } else { stations.uplink.min(rate) };
        Self { stations: stations.into(), ..self.clone() }
    }

    /// The drive in one of `groups` equal groups, which share the link of all drives.
    #[must_use]
    pub fn of_groups(&self, groups: u32) -> Self {
        let mut stations = (*self.stations).clone();
        if stations.uplink > 0 {
            stations.uplink = (stations.uplink / u64::from(groups.max(1))).max(1);
        }
        Self { stations: stations.into(), ..self.clone() }
    }

    /// The same drive, whose head chooses among `queue` of the waiting requests; a drive without a head stays as it
    /// is.
    pub fn with_queue(&self, queue: u32) -> Self {
        let mut stations = (*self.stations).clone();
        if let Some(platter) = &mut stations.platter {
            platter.queue = queue.max(1);
        }
        Self { stations: stations.into(), ..self.clone() }
    }
}

/// The constants that were chosen with an array's figures in view; all others come from single drives alone. They are
/// frozen: docs/bench/accuracy.md gives the reason for each.
pub mod constants {
    /// Standard deviation of the time until a read's first byte, per cent: cells are read at different speeds, and a request
    /// over several drives waits for the slowest.
    pub const READ_SPREAD: u32 = 20;
    /// Bytes a second that drives on SATA ports move together in either direction: a chipset's link of four lanes.
    pub const SATA_UPLINK: u64 = 1_780_000_000;
    /// Nanoseconds for which one piece of a request keeps what all processors share in md (counters and locks).
    pub const MD_PIECE: u64 = 335;
    /// Nanoseconds for which a read of RAID 4, 5 or 6 keeps the array's lock besides, before Linux 5.14.
    pub const MD_LOCKED_READ: u64 = 190;
    /// The parity thread needs the same lock, and loses so many times the time for which reads hold it, at the square of the share of time in
    /// which it is held.
    pub const MD_CONTENTION: f64 = 5.0;
    /// Nanoseconds of md's parity thread for a stripe, a page of each member, whatever is done with it. How what 4K writes cost divides into this
    /// and blocks was fitted to figures that were written down from memory: no stored table has them.
    pub const MD_STRIPE: u64 = 12_000;
    /// The same for each block of it that is read.
    pub const MD_BLOCK_READ: u64 = 1_100;
    /// And for each that is written.
    pub const MD_BLOCK_WRITTEN: u64 = 3_230;
    /// Nanoseconds of its own processor that a job takes for a request to a drive, and for each KiB of it: the job sends nothing meanwhile.
    pub const JOB_REQUEST: u64 = 4_684;
    /// See [`JOB_REQUEST`]: pages are pinned and mapped. Measured, in no array's figures: reads past the page cache, by their size.
    pub const JOB_KIB: u64 = 37;
    /// Nanoseconds of the job's processor that md takes for each piece of a request to RAID 0.
    pub const MD_JOB_PIECE: u64 = 1_175;
    /// The same for each copy that is asked.
    pub const MD_JOB_COPY: u64 = 2_817;
}

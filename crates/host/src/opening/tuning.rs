//! Settings of arrays and pools of a host.

use std::num::NonZeroU64;

use brindle_array::{OnFull, OpenConfig, ReadPolicy, Recovery, Speeds, scratch_at_home};
use brindle_io::Duration;
use brindle_pool::PoolConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::written::{self, Written, WrittenTime};

/// Bytes of memory that a change of a pool's map takes.
const CHANGE: u64 = 96;
/// Bytes for requests to a pool, at least.
const LEAST: usize = 4 << 20;
/// Bytes for the map of a pool, at least: some branches of it, and leaves below each.
const LEAST_OF_MAP: u64 = 1 << 20;
/// The part of a machine's memory that maps of pools may take.
const OF_MACHINE: u64 = 16;

/// How arrays and pools run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tuning {
    /// Most bytes for buffers, of all of the host: a number, or text such as "256M".
    #[serde(deserialize_with = "written::size")]
    #[schemars(with = "Written")]
    pub memory: u64,
    /// Most bytes for the maps of pools, of all of the host; without it a sixteenth of the memory that the machine or its container has.
    #[serde(deserialize_with = "written::limit")]
    #[schemars(with = "Option<Written>")]
    pub map_memory: Option<NonZeroU64>,
    /// The copy that a mirror is read from.
    #[serde(with = "ReadPolicyWord")]
    #[schemars(with = "ReadPolicyWord")]
    pub read_policy: ReadPolicy,
    /// The treatment of a member that has no space for a write.
    #[serde(with = "OnFullWord")]
    #[schemars(with = "OnFullWord")]
    pub on_full: OnFull,
    /// Read errors of a member that are borne.
    pub read_errors: u32,
    /// Time that members may take.
    pub patience: Patience,
    /// Most bytes a second for processes that go over a whole array; without it as fast as they go.
    #[serde(deserialize_with = "written::limit")]
    #[schemars(with = "Option<Written>")]
    pub max_speed: Option<NonZeroU64>,
    /// Least bytes a second for such a process, whatever clients ask for.
    #[serde(deserialize_with = "written::limit")]
    #[schemars(with = "Option<Written>")]
    pub min_speed: Option<NonZeroU64>,
    /// Time that a member of a pool may be lost before what lies on it is moved, so that it has all the redundancy that it can have. With its
    /// unit: "15m".
    #[serde(with = "written::span")]
    #[schemars(with = "WrittenTime")]
    pub raise_after: u64,
}

/// The words of [`ReadPolicy`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ReadPolicy", rename_all = "kebab-case")]
enum ReadPolicyWord {
    LeastOutstanding,
    First,
    RoundRobin,
    Nearest,
    /// For predictions.
    #[serde(skip)]
    FewestPending,
}

/// The words of [`OnFull`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "OnFull", rename_all = "kebab-case")]
enum OnFullWord {
    Wait,
    Fail,
}

/// Time that members may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Patience {
    /// Milliseconds until a member that has not answered a read or write is failed; not said, 20 s, and less where clients are
    /// known to bear less.
    pub answer_ms: Option<u64>,
    /// Milliseconds that a flush, discard or write of zeroes may take.
    pub flush_ms: u64,
    /// Milliseconds after which a read is answered from other members, where they can.
    pub read_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Patience {
    /// The default of a host.
    pub const USUAL: Self = Self { answer_ms: None, flush_ms: 120_000, read_ms: 500 };

    /// Milliseconds that a member may take to answer a read or write.
    pub fn answer(&self) -> u64 {
        self.answer_ms.unwrap_or(20_000)
    }
}

impl From<Patience> for brindle_array::Patience {
    fn from(patience: Patience) -> Self {
        Self {
            answer: Duration::from_millis(patience.answer()),
            flush: Duration::from_millis(patience.flush_ms),
            read: Duration::from_millis(patience.read_ms),
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Tuning {
    /// The default of a host.
    pub const USUAL: Self = Self {
        memory: 256 << 20,
        map_memory: None,
        read_policy: ReadPolicy::LeastOutstanding,
        on_full: OnFull::Wait,
        read_errors: OpenConfig::READ_ERRORS,
        patience: Patience::USUAL,
        max_speed: None,
        min_speed: None,
        raise_after: 15 * 60 * 1000,
    };

    /// Bytes for requests in flight; the rest is the arrays'.
    pub fn for_requests(&self) -> u64 {
        self.memory / 2
    }

    /// How an array is opened that shares the memory with others, `arrays` in all, and with its channels on all but one of so many `reactors`.
    /// `clock` shows seconds since 1970.
    pub fn array(
        &self,
        access: brindle_array::Access,
        recovery: Recovery,
        (arrays, reactors): (u64, usize),
        clock: fn() -> u64,
    ) -> OpenConfig {
        OpenConfig {
            // A half is the export's, a quarter is for what the commands hold themselves.
            scratch_bytes: scratch_at_home(self.memory / 4 / arrays, reactors) as usize,
            read_policy: self.read_policy,
            on_full: self.on_full,
            patience: self.patience.into(),
            recovery,
            read_errors: self.read_errors,
            speeds: Speeds { pace: self.max_speed, floor: self.min_speed },
            ..OpenConfig::new(access, clock)
        }
    }

    /// Bytes for the maps of all pools of a machine that has so many.
    pub fn map_memory(&self, machine: u64) -> u64 {
        self.map_memory.map_or(machine / OF_MACHINE, NonZeroU64::get)
    }

    /// The part of that which each of so many pools has.
    pub fn share_of_map(all: u64, pools: usize) -> usize {
        (all / pools.max(1) as u64).max(LEAST_OF_MAP) as usize
    }

    /// How a pool is opened whose map has so many bytes: an eighth of the memory each for batches and for reads; half is the export's. As many
    /// changes wait as an eighth could hold, if the map's memory has room for them.
    pub fn pool(&self, map_memory: usize, clock: fn() -> u64) -> PoolConfig {
        let share = self.memory / 8;
        PoolConfig {
            patience: self.patience.into(),
            changes: (share / CHANGE) as usize,
            map_memory,
            dirty_memory: PoolConfig::dirty_of(map_memory),
            memory: (share as usize).max(LEAST),
            waits_for_space: self.on_full == OnFull::Wait,
            raise_after: Duration::from_millis(self.raise_after),
            ..PoolConfig::new(clock)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_patience_is_that_of_the_engine() {
        assert_eq!(brindle_array::Patience::from(Patience::USUAL), brindle_array::Patience::default());
    }

    #[test]
    fn memory_is_shared_by_arrays_and_never_too_little_for_a_pool() {
        let tuning = Tuning { memory: 16 << 20, ..Tuning::USUAL };
        let of = |arrays, reactors| {
            let shares = (arrays, reactors);
            tuning.array(brindle_array::Access::ReadOnly, Recovery::Manual, shares, || 0).scratch_bytes
        };
        assert_eq!((of(1, 1), of(4, 1), tuning.for_requests()), (4 << 20, 1 << 20, 8 << 20));
        // Each of four channels has a quarter of what home has.
        assert_eq!(of(1, 5), 2 << 20);
        assert_eq!(tuning.pool(1 << 20, || 0).memory, LEAST);
    }

    #[test]
    fn maps_have_a_sixteenth_of_the_machine_or_what_is_said_and_share_it() {
        const GIB: u64 = 1 << 30;
        let said = Tuning { map_memory: NonZeroU64::new(96 << 20), ..Tuning::USUAL };
        for (tuning, all) in [(Tuning::USUAL, GIB), (said, 96 << 20)] {
            assert_eq!(tuning.map_memory(16 * GIB), all);
            assert_eq!(Tuning::share_of_map(all, 3), (all / 3) as usize);
            let config = tuning.pool(Tuning::share_of_map(all, 1), || 0);
            assert_eq!((config.map_memory, config.dirty_memory), (all as usize, all as usize / 4));
        }
        assert_eq!(Tuning::share_of_map(16 << 20, 1000), LEAST_OF_MAP as usize);
    }
}

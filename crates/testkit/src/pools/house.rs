//! Members that carry a small pool.

use brindle_format::pool::{Features, VdevKind};
use brindle_io::{Io, MemberId};
use brindle_pool::{How, Pool, PoolConfig, PoolOpenError, PoolSpec, Recovered, VdevSpec, create, open, plan};
use uuid::Uuid;

/// Bytes of a member: the fewest units that a pool can have, and some more.
pub const MEMBER: u64 = (2 << 20) + (80 << 16);

/// Shapes of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RAID-Z: the number of parity blocks, and of members.
    Raidz(u8, usize),
    /// A mirror of this many members.
    Mirror(usize),
    /// Vdevs of one device.
    Plain(usize),
    /// Two vdevs of raidz1 with three members.
    Two,
    /// A vdev of raidz1 with three members, and one of one device, which bears no loss.
    Unlike,
    /// A vdev of raidz2 with four members, and a mirror of two.
    Mixed,
}

impl Kind {
    fn vdevs(self, size: u64) -> Vec<VdevSpec> {
        let vdev = |kind, parity, count| VdevSpec { kind, parity, sizes: vec![size; count] };
        match self {
            Self::Raidz(parity, count) => vec![vdev(VdevKind::Raidz, parity, count)],
            Self::Mirror(count) => vec![vdev(VdevKind::Mirror, count as u8 - 1, count)],
            Self::Plain(count) => vec![vdev(VdevKind::Plain, 0, 1); count],
            Self::Two => vec![vdev(VdevKind::Raidz, 1, 3); 2],
            Self::Unlike => vec![vdev(VdevKind::Raidz, 1, 3), vdev(VdevKind::Plain, 0, 1)],
            Self::Mixed => vec![vdev(VdevKind::Raidz, 2, 4), vdev(VdevKind::Mirror, 1, 2)],
        }
    }
}

/// A pool's members.
pub struct House {
    /// Its shape.
    pub kind: Kind,
    /// Its devices, by the member that each was when the pool was made.
    pub ids: Vec<MemberId>,
    /// One more device, which takes the place of a member now and then.
    pub extra: Option<MemberId>,
    /// Devices that it may grow by.
    pub more: Vec<MemberId>,
    /// Bytes of each.
    pub size: u64,
    /// Bytes of a unit, if they are not chosen by the size.
    pub unit: Option<u64>,
    /// Changes in memory after which a checkpoint is due.
    pub changes: usize,
    /// Features of the pool.
    pub features: Features,
    /// It is run as a user's pool is, but for how long members may take.
    pub usual: bool,
}

impl House {
    /// On devices that `add` makes, of [`MEMBER`] bytes.
    pub fn new(kind: Kind, add: impl FnMut(u64) -> MemberId) -> Self {
        Self::of(kind, MEMBER, add)
    }

    /// A pool on devices of `size` bytes that `add` makes.
    pub fn of(kind: Kind, size: u64, mut add: impl FnMut(u64) -> MemberId) -> Self {
        let count = kind.vdevs(size).iter().map(|vdev| vdev.sizes.len()).sum();
        let ids = (0..count).map(|_| add(size)).collect();
        let features = Features::NOW;
        let (extra, more, unit) = (None, Vec::new(), Some(64 << 10));
        Self { kind, ids, extra, more, size, unit, changes: 200, features, usual: false }
    }

    /// Devices that take the roles of members by turns.
    pub fn seats(&self) -> impl Iterator<Item = MemberId> + use<'_> {
        self.ids.iter().copied().chain(self.extra)
    }

    /// All devices, those of members first.
    pub fn devices(&self) -> impl Iterator<Item = MemberId> + use<'_> {
        self.ids.iter().copied().chain(self.extra).chain(self.more.clone())
    }

    /// The specification of the pool.
    pub fn spec(&self) -> PoolSpec {
        PoolSpec {
            name: "tank".into(),
            id: Uuid::from_u128(0x7461_6e6b),
            members: (0..self.ids.len()).map(|n| Uuid::from_u128(n as u128 + 1)).collect(),
            opening: 0x1000,
            created: 1_800_000_000,
            vdevs: self.kind.vdevs(self.size),
            unit: self.unit,
        }
    }

    /// Creates the pool.
    ///
    /// # Panics
    /// If a device does not take it.
    pub async fn create(&self, io: &Io) {
        let spec = self.spec();
        let mut label = plan(&spec).expect("a pool that can be");
        label.features = self.features;
        create(io, &label, spec.opening, &self.ids).await.expect("members that are well");
    }

    /// The settings of the pool.
    pub fn config(&self) -> PoolConfig {
        let patience = brindle_members::patience::Patience {
            answer: brindle_io::Duration::from_secs(2),
            flush: brindle_io::Duration::from_secs(4),
            ..Default::default()
        };
        let usual = PoolConfig { patience, ..PoolConfig::new(|| 1_800_000_001) };
        if self.usual {
            return usual;
        }
        // Blocks on members that are lost are moved at once: with the usual settings much later.
        let raise_after = brindle_io::Duration::ZERO;
        let (changes, batches, map_memory, memory) = (self.changes, 300, 64 << 10, 8 << 20);
        PoolConfig { changes, batches, map_memory, memory, raise_after, ..usual }
    }

    /// Opens the pool for writing, with all devices.
    ///
    /// # Panics
    /// If it does not open.
    pub async fn open(&self, io: &Io, opening: u64) -> Pool {
        self.open_without(io, 0, How::writing(opening)).await.expect("a pool that is well").0
    }

    /// Opens the pool without the first devices.
    ///
    /// # Errors
    /// As of [`open`].
    pub async fn open_without(
        &self,
        io: &Io,
        lost: usize,
        how: How,
    ) -> Result<(Pool, Recovered), PoolOpenError> {
        open(io, &self.ids[lost..], how, None, self.config()).await
    }
}

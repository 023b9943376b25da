//! An array on members in RAM, for the tests.
use brindle_array::{Array, Config, Device, SyncMode, SyncReport, Volume, VolumeError};
use brindle_io::memory::Memory;
use brindle_io::{Io, MemberId, Pool};
use brindle_layout::{Geometry, Layout, Level};

/// Where the data area begins on every member: off the zero, to catch who forgets it.
pub(crate) const DATA_OFFSET: u64 = 8192;

/// Bytes that the whole array is read or written in.
const STEP: u64 = 256 << 10;

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) io: Io,
    pub(crate) pool: Pool,
    pub(crate) ids: Vec<MemberId>,
    pub(crate) array: Array,
}

pub(crate) fn config() -> Config {
    Config { scratch_bytes: 1 << 20, ..Config::default() }
}

/// Bytes that differ from seed to seed and from place to place.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; len];
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    bytes
}

/// Random numbers from a seed (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 8) % end
    }
}

/// By role; those that are lost are missing.
fn devices(ids: &[MemberId], lost: &[u16]) -> Vec<Option<Device>> {
    let device = |(role, &id)| (!lost.contains(&role)).then_some(Device { id, data_offset: DATA_OFFSET });
    (0..).zip(ids).map(device).collect()
}

impl World {
    pub(crate) fn new(level: Level, layout: Layout, chunk: u64, members: usize, size: u64) -> Self {
        Self::with(level, layout, chunk, &vec![size; members], config())
    }

    pub(crate) fn with(level: Level, layout: Layout, chunk: u64, sizes: &[u64], config: Config) -> Self {
        let memory = Memory::new();
        let ids: Vec<_> = sizes.iter().map(|size| memory.add_ram(DATA_OFFSET + size)).collect();
        Self::over(memory, ids, level, layout, chunk, sizes, config)
    }

    pub(crate) fn over(
        memory: Memory,
        ids: Vec<MemberId>,
        level: Level,
        layout: Layout,
        chunk: u64,
        sizes: &[u64],
        config: Config,
    ) -> Self {
        let geometry = Geometry::new(level, layout, chunk, sizes).unwrap();
        let io = Io::new(Box::new(memory.clone()));
        let pool = io.pool(2 << 20);
        let array = Array::volatile(&io, geometry, devices(&ids, &[]), config);
        Self { memory, io, pool, ids, array }
    }

    /// The same members, some of them missing.
    pub(crate) fn without(&self, lost: &[u16]) -> Self {
        let geometry = self.array.geometry().clone();
        let array = Array::volatile(&self.io, geometry, devices(&self.ids, lost), config());
        let (io, pool) = (self.io.clone(), self.pool.clone());
        Self { memory: self.memory.clone(), io, pool, ids: self.ids.clone(), array }
    }

    /// Runs to the end of `work`.
    pub(crate) fn run<'a, T>(&'a self, work: impl AsyncFnOnce(&'a Self) -> T) -> T {
        self.io.block_on(work(self))
    }

    pub(crate) async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let buf = self.pool.alloc(bytes.len()).await;
        buf.bytes_mut().copy_from_slice(bytes);
        self.array.write(offset, buf.all(), false).await
    }

    pub(crate) async fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, VolumeError> {
        let buf = self.pool.alloc(len).await;
        buf.bytes_mut().fill(0xEE);
        self.array.read(offset, buf.all()).await?;
        Ok(buf.bytes().to_vec())
    }

    pub(crate) async fn read_all(&self) -> Result<Vec<u8>, VolumeError> {
        let size = self.array.limits().size;
        let mut all = Vec::with_capacity(size as usize);
        while (all.len() as u64) < size {
            let len = (size - all.len() as u64).min(STEP) as usize;
            all.extend(self.read(all.len() as u64, len).await?);
        }
        Ok(all)
    }

    pub(crate) async fn write_all(&self, bytes: &[u8]) -> Result<(), VolumeError> {
        for (at, step) in bytes.chunks(STEP as usize).enumerate() {
            self.write(at as u64 * STEP, step).await?;
        }
        Ok(())
    }

    /// Goes over all redundancy.
    pub(crate) async fn scrub(&self, mode: SyncMode) -> Result<SyncReport, VolumeError> {
        let mut report = SyncReport::default();
        for pos in (0..self.array.sync_len()).step_by(STEP as usize) {
            let len = STEP.min(self.array.sync_len() - pos);
            report.add(&self.array.sync_window(pos, len, mode).await?);
        }
        Ok(report)
    }

    /// The same members, one of them with nothing rebuilt yet.
    pub(crate) fn recovering(&self, role: u16) -> Self {
        let world = self.without(&[role]);
        let id = self.ids[usize::from(role)];
        world.array.begin_recovery(role, Device { id, data_offset: DATA_OFFSET });
        world
    }

    /// Whether a member gives these bytes when asked directly.
    pub(crate) fn readable(&self, id: MemberId, offset: u64, len: usize) -> bool {
        self.io.block_on(async {
            let buf = self.pool.alloc(len).await;
            let mut group = self.io.group();
            group.read(id, offset, &buf.all());
            group.submit().await.is_ok()
        })
    }
}

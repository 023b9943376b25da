//! Arrays on RAM members.

use brindle_array::assembly::{AssembleOptions, Assembly, AssemblyError, Candidate, assemble};
use brindle_array::create::CreateSpec;
use brindle_array::{Access, Array, OpenConfig, OpenError, Volume, VolumeError};
use brindle_format::md::{SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::memory::Memory;
use brindle_io::{Duration, Io, MemberId, Pool};

use crate::common::*;

/// What the superblocks of these tests show as the time of their last change.
pub(crate) const NOW: u64 = 1_800_000_000;

/// Members in RAM and an executor over them.
pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) io: Io,
    pub(crate) pool: Pool,
    pub(crate) ids: Vec<MemberId>,
    version: Version,
    size: u64,
}

impl World {
    /// Members that carry a new array.
    pub(crate) fn create(spec: &CreateSpec) -> Self {
        let memory = Memory::new();
        let ids: Vec<MemberId> = given(spec).iter().map(|m| memory.add_ram(m.info.size)).collect();
        for write in planned(spec).superblocks {
            memory.poke(ids[write.device], write.offset, &write.bytes);
        }
        Self::over(memory, ids, spec.version)
    }

    fn over(memory: Memory, ids: Vec<MemberId>, version: Version) -> Self {
        let io = Io::new(Box::new(memory.clone()));
        let size = io.member_info(ids[0]).unwrap().size;
        Self { pool: io.pool(8 << 20), io, memory, ids, version, size }
    }

    /// Members with the same bytes in another world: what a new process finds after the old one was killed.
    pub(crate) fn reboot(&self) -> Self {
        let memory = Memory::new();
        let copy = |id: &MemberId| {
            let size = self.io.member_info(*id).unwrap().size;
            let mut bytes = vec![0; size as usize];
            self.memory.peek(*id, 0, &mut bytes);
            let copy = memory.add_ram(size);
            memory.poke(copy, 0, &bytes);
            copy
        };
        let ids = self.ids.iter().map(copy).collect();
        Self::over(memory, ids, self.version)
    }

    /// All bytes of a member.
    pub(crate) fn image(&self, member: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        self.memory.peek(self.ids[member], 0, &mut bytes);
        bytes
    }

    /// Brings members home from another world: `from` there becomes `to` here.
    pub(crate) fn bring(&self, other: &Self, members: &[(usize, usize)]) {
        for &(from, to) in members {
            self.memory.poke(self.ids[to], 0, &other.image(from));
        }
    }

    /// Without some of the members.
    pub(crate) fn without(mut self, members: &[usize]) -> Self {
        let mut numbers = 0..;
        self.ids.retain(|_| numbers.next().is_some_and(|n| !members.contains(&n)));
        self
    }

    pub(crate) fn assembly(&self) -> Result<Assembly, AssemblyError> {
        self.assembly_with(AssembleOptions::default())
    }

    pub(crate) fn assembly_with(&self, options: AssembleOptions) -> Result<Assembly, AssemblyError> {
        let candidates: Vec<Candidate> = self.io.block_on(async {
            let mut found = Vec::new();
            for id in &self.ids {
                found.push(Candidate::read(&self.io, &self.pool, *id, format!("ram{}", id.0)).await.unwrap());
            }
            found
        });
        assemble(&candidates, options)
    }

    pub(crate) fn try_open(&self, assembly: Assembly, config: OpenConfig) -> Result<Array, OpenError> {
        self.io.block_on(Array::open(&self.io, assembly, &self.ids, config))
    }

    /// Assembles and opens, marking clean only on stop.
    pub(crate) fn open(&self) -> Array {
        self.try_open(self.assembly().unwrap(), patient()).unwrap()
    }

    /// The superblock on a member, as it is on "disk" now.
    pub(crate) fn superblock(&self, member: usize) -> Superblock {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        self.memory.peek(self.ids[member], self.version.superblock_offset(self.size).unwrap(), &mut bytes);
        Superblock::parse(self.version, &bytes, self.size).unwrap()
    }

    /// Changes the superblock on a member.
    pub(crate) fn change(&self, member: usize, edit: impl FnOnce(&mut Superblock)) {
        let mut sb = self.superblock(member);
        edit(&mut sb);
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        sb.encode(&mut bytes).unwrap();
        self.memory.poke(self.ids[member], sb.super_offset, &bytes);
    }

    pub(crate) fn superblocks(&self) -> Vec<Superblock> {
        (0..self.ids.len()).map(|n| self.superblock(n)).collect()
    }

    pub(crate) fn write(&self, array: &Array, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        self.io.block_on(write(&self.pool, array, offset, bytes))
    }

    pub(crate) fn read(&self, array: &Array, offset: u64, len: usize) -> Result<Vec<u8>, VolumeError> {
        self.io.block_on(read(&self.pool, array, offset, len))
    }

    pub(crate) fn stop(&self, array: &Array) {
        self.io.block_on(array.stop()).unwrap();
    }
}

pub(crate) async fn write(
    pool: &Pool,
    volume: &impl Volume,
    offset: u64,
    bytes: &[u8],
) -> Result<(), VolumeError> {
    let buf = pool.alloc(bytes.len()).await;
    buf.bytes_mut().copy_from_slice(bytes);
    volume.write(offset, buf.all(), false).await
}

pub(crate) async fn read(
    pool: &Pool,
    volume: &impl Volume,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, VolumeError> {
    let buf = pool.alloc(len).await;
    volume.read(offset, buf.all()).await?;
    let bytes = buf.bytes().to_vec();
    Ok(bytes)
}

impl Drop for World {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

/// Read-write, marked clean on stop only.
pub(crate) fn patient() -> OpenConfig {
    OpenConfig { idle: Duration::from_secs(3600), ..OpenConfig::new(Access::ReadWrite, || NOW) }
}

/// Bytes that tell their place.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (seed.wrapping_mul(0x9e37_79b9).wrapping_add(n * 131 + n / 251)) as u8).collect()
}

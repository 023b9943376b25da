//! The real world: one ring on this thread, the devices named on the command line, and the arrays on them.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use brindle_array::assembly::{AssembleOptions, Assembly, Candidate, Limitation, assemble};
use brindle_array::{Array, OpenConfig, nest};
use brindle_io::device::{Access, Device, Identity};
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId, MemberInfo, PAGE, Pool};

use crate::cli::{ReadPolicy, Tuning};
use crate::failure::Failure;
use crate::look;
use crate::units::Bytes;

/// Requests to an array that is a member, carried out at the same time.
const NESTED_SLOTS: usize = 64;

/// Least and most memory: room for a request of a usual size on each side, and what one machine may have.
const MEMORY: (Bytes, Bytes) = (Bytes(16 << 20), Bytes(1 << 36));

/// Bytes of metadata that are read at a time.
const PIECE: usize = 16 * PAGE;

/// Joins the members of an array that is itself a member: `m0+m1+m2`.
const JOIN: char = '+';

/// How devices and arrays are opened.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) access: Access,
    /// Use arrays of which some bytes may be wrong.
    pub(crate) force: bool,
    pub(crate) tuning: Tuning,
}

impl Opening {
    /// To look at superblocks only.
    pub(crate) const LOOK: Self = Self {
        access: Access::Examine,
        force: true,
        tuning: Tuning { read_policy: ReadPolicy::First, memory: Bytes(4 << 20) },
    };
}

/// A device, or an array in its place, that was named on the command line.
pub(crate) struct Named {
    pub(crate) label: String,
    pub(crate) id: MemberId,
    pub(crate) info: MemberInfo,
    pub(crate) candidate: Candidate,
    /// A file that is known to read as zeroes.
    pub(crate) is_zero: bool,
}

/// A ring, its executor, and what was opened on it.
pub(crate) struct World {
    pub(crate) uring: Uring,
    pub(crate) io: Io,
    /// For superblocks and what else is looked at before an array runs. One for all: a pool lives as long as its
    /// executor.
    pub(crate) metadata: Pool,
    opening: Opening,
    devices: Vec<(Identity, PathBuf)>,
    /// Arrays that are members, innermost first.
    pub(crate) nested: Vec<Array>,
    /// What limits the use of those.
    pub(crate) nested_limits: Vec<Limitation>,
    /// Arrays in all, which share the memory for parity and reconstruction.
    arrays: u64,
}

impl World {
    pub(crate) fn new(opening: Opening) -> Result<Self, Failure> {
        let uring = Uring::new()?;
        let io = Io::new(Box::new(uring.clone()));
        Ok(Self {
            uring,
            metadata: io.pool(PIECE),
            io,
            opening,
            devices: Vec::new(),
            nested: Vec::new(),
            nested_limits: Vec::new(),
            arrays: 1,
        })
    }

    /// Opens everything that is named, in order; each device must be another.
    pub(crate) fn open_all(&mut self, names: &[PathBuf]) -> Result<Vec<Named>, Failure> {
        self.arrays = 1 + names.iter().filter(|name| parts(name).is_some()).count() as u64;
        names.iter().map(|name| self.open(name)).collect()
    }

    fn open(&mut self, name: &Path) -> Result<Named, Failure> {
        match parts(name) {
            Some(parts) => self.open_array(name, &parts),
            None => self.open_device(name),
        }
    }

    fn open_device(&mut self, path: &Path) -> Result<Named, Failure> {
        self.refuse_twice(path)?;
        let device = Device::open(path, self.opening.access)?;
        self.devices.push((device.identity(), path.to_owned()));
        let info = device.info();
        let label = path.display().to_string();
        let candidate = look::candidate(&label, info, look::reader(&device))?;
        let is_zero = device.is_hole(0, info.size).unwrap_or(false);
        let id = self.uring.add_member(device);
        Ok(Named { label, id, info, candidate, is_zero })
    }

    /// Told before a second lock on the device would be refused as another Brindle's.
    fn refuse_twice(&self, path: &Path) -> Result<(), Failure> {
        let Ok(device) = Device::open(path, Access::Examine) else { return Ok(()) };
        match self.devices.iter().find(|(identity, _)| *identity == device.identity()) {
            None => Ok(()),
            Some((_, first)) => Err(Failure::Usage(format!(
                "{} and {} are the same device: name each member once",
                first.display(),
                path.display()
            ))),
        }
    }

    /// Opens an array and serves it as a member.
    fn open_array(&mut self, name: &Path, parts: &[PathBuf]) -> Result<Named, Failure> {
        let members = parts.iter().map(|part| self.open_device(part)).collect::<Result<Vec<_>, _>>()?;
        let assembly = self.assemble(&members, self.opening.force)?;
        self.nested_limits.extend(assembly.limits.iter().cloned());
        let array = self.start(assembly, &members)?;
        let label = name.display().to_string();
        let id = nest::serve(&self.io, array.clone(), NESTED_SLOTS);
        self.nested.push(array);
        let candidate = self.look(id, &label)?;
        Ok(Named { info: candidate.member, label, id, candidate, is_zero: false })
    }

    /// The array that `members` form, with what its journal tells.
    pub(crate) fn assemble(&self, members: &[Named], force: bool) -> Result<Assembly, Failure> {
        let candidates: Vec<Candidate> = members.iter().map(|member| member.candidate.clone()).collect();
        let mut assembly = assemble(&candidates, AssembleOptions { force })?;
        self.io.block_on(assembly.look_into_journal(&self.io, &ids(members)))?;
        Ok(assembly)
    }

    /// Opens the array that was assembled from `members`.
    pub(crate) fn start(&self, assembly: Assembly, members: &[Named]) -> Result<Array, Failure> {
        Ok(self.io.block_on(Array::open(&self.io, assembly, &ids(members), self.config()))?)
    }

    fn config(&self) -> OpenConfig {
        let access = match self.opening.access {
            Access::Write => brindle_array::Access::ReadWrite,
            Access::Read | Access::Examine => brindle_array::Access::ReadOnly,
        };
        let tuning = self.opening.tuning;
        OpenConfig {
            // A half is the export's, a quarter is for what the commands hold themselves.
            scratch_bytes: (tuning.memory.0 / 4 / self.arrays) as usize,
            read_policy: match tuning.read_policy {
                ReadPolicy::LeastOutstanding => brindle_array::ReadPolicy::LeastOutstanding,
                ReadPolicy::RoundRobin => brindle_array::ReadPolicy::RoundRobin,
                ReadPolicy::First => brindle_array::ReadPolicy::First,
            },
            ..OpenConfig::new(access, seconds_since_1970)
        }
    }

    /// Ends an array and the arrays that are its members, outermost first: each marks itself clean.
    pub(crate) async fn stop(&self, array: &Array) -> Result<(), Failure> {
        for array in std::iter::once(array).chain(self.nested.iter().rev()) {
            array.stop().await.map_err(|source| Failure::Volume { doing: "stopping the array", source })?;
        }
        Ok(())
    }

    /// Reads the superblocks of a member.
    pub(crate) fn look(&self, id: MemberId, label: &str) -> Result<Candidate, Failure> {
        let read = self.io.block_on(Candidate::read(&self.io, &self.metadata, id, label));
        read.map_err(|error| Failure::probe(label, error))
    }

    /// Reads bytes at any alignment.
    pub(crate) fn read_at(&self, member: &Named, offset: u64, len: usize) -> Result<Vec<u8>, Failure> {
        let block = u64::from(member.info.logical_block);
        let first = offset / block * block;
        let end = (offset + len as u64).next_multiple_of(block);
        let mut bytes = Vec::with_capacity((end - first) as usize);
        self.io.block_on(async {
            for at in (first..end).step_by(PIECE) {
                let buf = self.metadata.alloc((end - at).min(PIECE as u64) as usize).await;
                let mut group = self.io.group();
                group.read(member.id, at, &buf.all());
                group.submit().await.ok().map_err(|error| Failure::probe(&member.label, error))?;
                bytes.extend_from_slice(&buf.bytes());
            }
            Ok::<(), Failure>(())
        })?;
        let skip = (offset - first) as usize;
        Ok(bytes[skip..skip + len].to_vec())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

/// The members of an array that is itself named as a member. A file whose name has the sign in it is a file.
fn parts(name: &Path) -> Option<Vec<PathBuf>> {
    let text = name.to_str()?;
    (text.contains(JOIN) && !name.exists()).then(|| text.split(JOIN).map(PathBuf::from).collect())
}

fn ids(members: &[Named]) -> Vec<MemberId> {
    members.iter().map(|member| member.id).collect()
}

/// An array that was put together from devices, and the world in which it runs.
pub(crate) struct Running {
    pub(crate) array: Array,
    pub(crate) assembly: Assembly,
    pub(crate) world: World,
}

/// Opens devices and the array on them.
pub(crate) fn open(names: &[PathBuf], opening: Opening) -> Result<Running, Failure> {
    let memory = opening.tuning.memory;
    if !(MEMORY.0..=MEMORY.1).contains(&memory) {
        return Err(Failure::Usage(format!(
            "--memory {memory} is not possible: give {} to {}",
            MEMORY.0, MEMORY.1
        )));
    }
    let mut world = World::new(opening)?;
    let members = world.open_all(names)?;
    let assembly = world.assemble(&members, opening.force)?;
    let array = world.start(assembly.clone(), &members)?;
    Ok(Running { array, assembly, world })
}

/// The time of day, for the superblocks.
pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_names_are_an_array_unless_a_file_is_called_so() {
        assert_eq!(parts(Path::new("a+b")), Some(vec!["a".into(), "b".into()]));
        assert_eq!(parts(Path::new("/dev/sda")), None);
        let file = std::env::temp_dir().join(format!("brindle+{}", std::process::id()));
        std::fs::write(&file, b"").unwrap();
        assert_eq!(parts(&file), None);
        std::fs::remove_file(&file).unwrap();
    }
}

//! Devices named on the command line: opened, looked at, put together.

use std::path::{Path, PathBuf};

use brindle_array::assembly::{AssembleOptions, Assembly, AssemblyError, Candidate, assemble};
use brindle_format::md::probe_offsets;
use brindle_format::signature::{self, Window};
use brindle_io::device::{Access, Device};

use crate::failure::Failure;

/// A device and the superblocks on it.
pub(crate) struct Member {
    pub(crate) device: Device,
    pub(crate) candidate: Candidate,
}

/// Opens a device and reads its superblocks.
pub(crate) fn open(path: &Path, access: Access) -> Result<Member, Failure> {
    let device = Device::open(path, access)?;
    let probe_failed = |source| Failure::Probe { path: path.display().to_string(), source };
    let mut blocks = Vec::new();
    for probe in probe_offsets(device.info().size) {
        let bytes = device.read_at(probe.offset, probe.len).map_err(probe_failed)?;
        blocks.push((probe, bytes));
    }
    let blocks = blocks.iter().map(|(probe, bytes)| (*probe, &bytes[..]));
    let candidate = Candidate::from_blocks(path.display().to_string(), device.info(), blocks);
    Ok(Member { device, candidate })
}

/// Opens devices, each of which must be another.
pub(crate) fn open_all(paths: &[PathBuf], access: Access) -> Result<Vec<Member>, Failure> {
    let mut members: Vec<Member> = Vec::with_capacity(paths.len());
    for path in paths {
        // Told before the second lock on one device would be refused as another Brindle's.
        if let Ok(device) = Device::open(path, Access::Examine)
            && let Some(first) = members.iter().find(|m| m.device.identity() == device.identity())
        {
            return Err(Failure::Usage(format!(
                "{} and {} are the same device: name each member once",
                first.device.path().display(),
                path.display()
            )));
        }
        members.push(open(path, access)?);
    }
    Ok(members)
}

/// The array that devices form.
pub(crate) fn assembly(members: &[Member], force: bool) -> Result<Assembly, AssemblyError> {
    let candidates: Vec<Candidate> = members.iter().map(|member| member.candidate.clone()).collect();
    assemble(&candidates, AssembleOptions { force })
}

/// What stands on a device, md and everything else that is known.
pub(crate) fn signatures(device: &Device) -> Result<Vec<signature::Found>, Failure> {
    let size = device.info().size;
    let mut read = Vec::new();
    for (offset, len) in signature::needed(size) {
        let bytes = device
            .read_at(offset, len)
            .map_err(|source| Failure::Probe { path: device.path().display().to_string(), source })?;
        read.push((offset, bytes));
    }
    let windows: Vec<Window> = read.iter().map(|(offset, bytes)| Window { offset: *offset, bytes }).collect();
    Ok(signature::detect(size, &windows))
}

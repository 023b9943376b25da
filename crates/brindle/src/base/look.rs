//! The content of a device, recognised from a few places of it, before it is part of anything.

use brindle_format::md::{SuperblockError, probe_offsets};
use brindle_format::signature::{self, Found, Sample};
use brindle_io::MemberInfo;
use brindle_io::device::OpenDevice;
use brindle_md::assembly::Candidate;

use crate::base::failure::Failure;

/// The content of a device.
pub(crate) struct Look {
    /// md and everything else that is known.
    pub(crate) found: Vec<Found>,
    /// All that was looked at is zero.
    pub(crate) blank: bool,
}

/// Reads a device as it is.
pub(crate) fn reader(device: &OpenDevice) -> impl FnMut(u64, usize) -> Result<Vec<u8>, Failure> {
    |offset, len| {
        device
            .read_at(offset, len)
            .map_err(|error| Failure::probe(&device.path().display().to_string(), error))
    }
}

/// The md superblocks on a device, as [`Candidate::from_places`] has it.
pub(crate) fn candidate(
    label: &str,
    info: MemberInfo,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, Failure>,
) -> Result<Candidate, Failure> {
    let places = probe_offsets(info.size).map(|probe| (probe, read(probe.offset, probe.len)));
    let mut candidate = Candidate::from_places(label, info, places)?;
    let mut pages = Vec::new();
    while let Some((offset, len)) = candidate.look_for_partition(&pages) {
        // A place that can't be read shows no partition.
        pages.push((offset, read(offset, len).unwrap_or_else(|_| vec![0; len])));
    }
    Ok(candidate)
}

/// Whether a device can be no member as it is: it has no superblock, or one that is damaged, another device's, or of
/// more than is here. A superblock with impossible values was written so, and has to be reported.
pub(crate) fn is_unfit(candidate: &Candidate) -> bool {
    use SuperblockError::{BeyondDevice, Misplaced, OfPartition};
    match candidate.superblock() {
        Ok(_) => false,
        Err(None) => true,
        Err(Some(why)) => {
            why.is_damage() || matches!(why, BeyondDevice { .. } | Misplaced { .. } | OfPartition { .. })
        }
    }
}

/// Recognises the content of a device of `size` bytes.
pub(crate) fn look(
    size: u64,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, Failure>,
) -> Result<Look, Failure> {
    let places = signature::needed(size).into_iter();
    let read: Vec<(u64, Vec<u8>)> =
        places.map(|(offset, len)| Ok((offset, read(offset, len)?))).collect::<Result<_, Failure>>()?;
    let samples: Vec<Sample<'_>> =
        read.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
    let blank = samples.iter().all(|sample| sample.bytes.iter().all(|byte| *byte == 0));
    Ok(Look { found: signature::detect(size, &samples), blank })
}

/// Reads the readable parts of a failing device.
pub(crate) struct Patient<R> {
    read: R,
    /// The reason why some of the device can't be read.
    pub(crate) failure: Option<Failure>,
}

/// Blocks that are tried one by one where a long read fails.
const BLOCK: usize = 4096;

impl<R: FnMut(u64, usize) -> Result<Vec<u8>, Failure>> Patient<R> {
    pub(crate) fn new(read: R) -> Self {
        Self { read, failure: None }
    }

    /// The bytes, with zeroes for unreadable parts.
    pub(crate) fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        if let Ok(bytes) = (self.read)(offset, len) {
            return bytes;
        }
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let n = BLOCK.min(len - bytes.len());
            match (self.read)(offset + bytes.len() as u64, n) {
                Ok(block) => bytes.extend(block),
                Err(failure) => {
                    self.failure.get_or_insert(failure);
                    bytes.resize(bytes.len() + n, 0);
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_beside_a_bad_sector_is_reported() {
        const SIZE: u64 = 16 << 20;
        let disk = |offset: u64, len: usize| {
            let end = offset + len as u64;
            if (offset..end).contains(&9000) {
                return Err(Failure::probe("disk", std::io::Error::from_raw_os_error(5)));
            }
            let mut bytes = vec![0; len];
            if offset == 0 {
                bytes[..4].copy_from_slice(b"XFSB");
            }
            Ok(bytes)
        };
        assert!(look(SIZE, disk).is_err());
        let mut patient = Patient::new(disk);
        let seen = look(SIZE, |offset, len| Ok(patient.read(offset, len))).unwrap();
        assert_eq!(seen.found.len(), 1);
        assert!(seen.found[0].to_string().contains("XFS") && !seen.blank);
        assert!(patient.failure.unwrap().to_string().contains("can't be read"));
    }
}

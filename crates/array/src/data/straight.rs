//! Reads that go straight to the members that hold the bytes.

use brindle_io::Slice;
use brindle_volume::VolumeError;

use super::list::Cut;
use crate::door::{Door, Sent};
use crate::members::Device;

/// Bytes that lie together on one member.
pub(crate) struct Stretch {
    pub(crate) device: Device,
    /// First byte, of the data area.
    pub(crate) offset: u64,
    /// How many bytes there are from it on.
    pub(crate) len: u64,
}

/// Asks the members for a range that is not empty. One operation per member: the group joins what is contiguous there.
/// `place` tells what lies at a byte of the array, if it can be read.
///
/// # Errors
/// [`VolumeError::TooManyLost`] where a place can't be read.
#[inline(always)]
pub(crate) fn send_list<'a>(
    door: Door<'a>,
    offset: u64,
    into: &[Slice],
    place: impl Fn(u64) -> Option<Stretch>,
) -> Result<Sent<'a>, VolumeError> {
    let (mut group, mut cut, mut at) = (door.ask(), Cut::of(into), offset);
    while !cut.is_empty() {
        let stretch = place(at).ok_or(VolumeError::TooManyLost)?;
        let Some(piece) = cut.take(stretch.len) else { break };
        group.read(stretch.device, stretch.offset, &piece);
        at += piece.len() as u64;
    }
    Ok(group.submit())
}

/// The same for a write: `place` tells where a byte of the array goes to.
///
/// # Errors
/// [`VolumeError::TooManyLost`] where a place can't be written to.
#[inline(always)]
pub(crate) fn send_writes<'a>(
    door: Door<'a>,
    offset: u64,
    from: &[Slice],
    fua: bool,
    place: impl Fn(u64) -> Option<Stretch>,
) -> Result<Sent<'a>, VolumeError> {
    let (mut group, mut cut, mut at) = (door.ask(), Cut::of(from), offset);
    while !cut.is_empty() {
        let stretch = place(at).ok_or(VolumeError::TooManyLost)?;
        let Some(piece) = cut.take(stretch.len) else { break };
        group.write(stretch.device, stretch.offset, &piece, fua);
        at += piece.len() as u64;
    }
    Ok(group.submit())
}

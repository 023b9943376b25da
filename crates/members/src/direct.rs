//! Reads and writes that go directly to the members that hold the bytes.

use brindle_io::{Pending, Slice};
use brindle_volume::VolumeError;

use crate::door::{Asked, Door, Sent};
use crate::members::Device;

/// Bytes that lie together on one member.
pub struct Stretch {
    /// The member.
    pub device: Device,
    /// First byte, of the data area.
    pub offset: u64,
    /// The number of bytes from there on.
    pub len: u64,
}

/// Asks the members for a range that is not empty. One operation per member: the group joins what is contiguous there.
/// `place` gives the member and offset of a byte of the array, if it can be read.
///
/// # Errors
/// [`VolumeError::TooManyLost`] where a place can't be read.
pub fn send_reads<'a>(
    door: Door<'a>,
    offset: u64,
    into: &[Slice],
    place: impl Fn(u64) -> Option<Stretch>,
) -> Result<Sent<'a>, VolumeError> {
    let mut ops = door.ask();
    for_each(offset, into, place, |stretch, slice, start, len| {
        ops.read(stretch.device, stretch.offset, &slice.slice(start..start + len));
    })?;
    Ok(ops.submit())
}

/// Sends the writes of a request: `place` maps a byte of the array to its member.
///
/// # Errors
/// [`VolumeError::TooManyLost`] where a place can't be written to.
pub fn send_writes<'a>(
    door: Door<'a>,
    offset: u64,
    from: &[Slice],
    fua: bool,
    place: impl Fn(u64) -> Option<Stretch>,
) -> Result<Sent<'a>, VolumeError> {
    let mut ops = door.ask();
    for_each(offset, from, place, |stretch, slice, start, len| {
        ops.write(stretch.device, stretch.offset, &slice.slice(start..start + len), fua);
    })?;
    Ok(ops.submit())
}

/// As [`send_reads`], where reads [go alone](Door::reads_alone).
///
/// # Errors
/// [`VolumeError::TooManyLost`] where a place can't be read.
#[inline(always)]
pub fn read_alone(
    door: Door<'_>,
    offset: u64,
    into: &[Slice],
    place: impl Fn(u64) -> Option<Stretch>,
) -> Result<(Pending, Asked), VolumeError> {
    let mut ops = door.alone();
    for_each(offset, into, place, |stretch, slice, start, len| {
        ops.read(stretch.device, stretch.offset, slice, start, len);
    })?;
    Ok(ops.submit())
}

/// As [`send_writes`], where writes [go alone](Door::writes_alone).
///
/// # Errors
/// [`VolumeError::TooManyLost`] where a place can't be written to.
#[inline(always)]
pub fn write_alone(
    door: Door<'_>,
    offset: u64,
    from: &[Slice],
    fua: bool,
    place: impl Fn(u64) -> Option<Stretch>,
) -> Result<(Pending, Asked), VolumeError> {
    let mut ops = door.alone();
    for_each(offset, from, place, |stretch, slice, start, len| {
        ops.write(stretch.device, stretch.offset, slice, start, len, fua);
    })?;
    Ok(ops.submit())
}

/// The parts of slices that lie together on one member: where in its slice each begins, and its bytes.
#[inline(always)]
fn for_each(
    offset: u64,
    list: &[Slice],
    place: impl Fn(u64) -> Option<Stretch>,
    mut each: impl FnMut(&Stretch, &Slice, usize, usize),
) -> Result<(), VolumeError> {
    let mut at = offset;
    for slice in list {
        let (mut done, len) = (0, slice.len());
        while done < len {
            let stretch = place(at).ok_or(VolumeError::TooManyLost)?;
            let step = stretch.len.min((len - done) as u64) as usize;
            each(&stretch, slice, done, step);
            done += step;
            at += step as u64;
        }
    }
    Ok(())
}

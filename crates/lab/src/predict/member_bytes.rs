//! The bytes that requests cost each member, to be held against those of a kernel's own md.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::Io;
use brindle_volume::{Volume, VolumeError};

use super::costs::Costs;
use super::stage::Stage;
use super::{PredictError, Spec};
use crate::job::Direction;
use crate::load::Request;
use crate::run::{Trouble, WhyNot};

/// Bytes that one member was asked to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberBytes {
    /// Bytes that it was asked to read.
    pub read: u64,
    /// Bytes that it was asked to write.
    pub written: u64,
}

/// Requests to an array just opened.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Roles without a member.
    pub missing: &'a [u16],
    /// Requests that come first, one after the other: their bytes do not count.
    pub before: &'a [Request],
    /// Reads and writes, as many in flight as the job says.
    pub requests: &'a [Request],
    /// Stripes that md keeps in memory, of arrays with parity; [`Trial::STRIPES`] as a rule.
    pub stripes: u32,
}

impl Trial<'_> {
    /// The stripes that md keeps in memory if nobody has told it otherwise: a page of each member each.
    pub const STRIPES: u32 = 256;
}

/// Carries out requests on the array of `spec`, whose job says how many are in flight and nothing else: what each member moved for them, by
/// role.
///
/// # Errors
/// As [`super::predict`].
///
/// # Panics
/// Without a shape: one drive by itself moves what it is asked for.
pub fn member_bytes(spec: &Spec, trial: &Trial<'_>) -> Result<Vec<MemberBytes>, PredictError> {
    spec.check()?;
    let shape = spec.shape.as_ref().expect("an array");
    let stage = Stage::new(spec, spec.members());
    let (array, geometry) = stage.array(shape, spec, None, (trial.missing, trial.stripes))?;
    let array = stage.costly(array, Costs::new(spec.policies, &geometry).shared_by(spec.visited()));
    let moved = || stage.drives.iter().map(|drive| stage.sim.moved(*drive)).collect::<Vec<_>>();
    carry(&stage.io, &array, 1, trial.before)?;
    let begun = moved();
    carry(&stage.io, &array, spec.job.depth(), trial.requests)?;
    let bytes = |([read, written], [read_before, written_before]): ([u64; 2], [u64; 2])| MemberBytes {
        read: read - read_before,
        written: written - written_before,
    };
    Ok(moved().into_iter().zip(begun).map(bytes).collect())
}

/// Carries out requests, as many in flight as `depth` says.
fn carry<V: Volume + Clone + 'static>(
    io: &Io,
    array: &V,
    depth: u32,
    requests: &[Request],
) -> Result<(), PredictError> {
    let longest = requests.iter().map(|request| request.len).max().unwrap_or(0);
    let pool = io.pool((longest * u64::from(depth)) as usize);
    let (all, next) = (Rc::<[Request]>::from(requests), Rc::new(Cell::new(0)));
    let slot = |_| {
        let (array, pool) = (array.clone(), pool.clone());
        let (all, next) = (Rc::clone(&all), Rc::clone(&next));
        io.spawn(async move {
            let memory = pool.alloc(longest as usize).await;
            loop {
                let at = next.replace(next.get() + 1);
                let Some(&request) = all.get(at) else { return Ok::<_, PredictError>(()) };
                let slice = [memory.slice(0..request.len as usize)];
                let done = match request.direction {
                    Direction::Write => array.write(request.offset, &slice, false).await,
                    _ => array.read(request.offset, &slice).await,
                };
                done.map_err(|why| trouble(request, why))?;
            }
        })
    };
    let slots: Vec<_> = (0..depth).map(slot).collect();
    io.block_on(async {
        for slot in slots {
            slot.await?;
        }
        Ok(())
    })
}

fn trouble(request: Request, why: VolumeError) -> PredictError {
    PredictError::Trouble(Trouble { request, why: WhyNot::Volume(why) })
}

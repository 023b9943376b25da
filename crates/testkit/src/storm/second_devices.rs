//! Second devices of an array's roles: filled while clients ask, and the same as the first in the end.

use brindle_array::{Array, Device};
use brindle_io::sync::join_all;
use brindle_io::{Io, Task};
use brindle_layout::Place;

use super::judge::Failure;
use super::stage::Stage;

/// Bytes of a member that are filled at a time, a multiple of any chunk of these arrays.
const STEP: u64 = 64 << 10;
/// Bytes that are compared at a time.
const UNIT: u64 = 4096;

/// The second devices of one boot.
pub(super) struct SecondDevices(Vec<Task<()>>);

impl SecondDevices {
    /// Gives each role whose member is in sync the second device that the world has for it.
    pub(super) fn begin(io: &Io, array: &Array, stage: &Stage) -> Self {
        let fill = |(role, &id): (u16, &_)| {
            let device = Device { id, data_offset: stage.plan.shape.data_offset() };
            array.begin_second(role, device).ok()?;
            let (array, size) = (array.clone(), array.geometry().member_size());
            Some(io.spawn(async move {
                for pos in (0..size).step_by(STEP as usize) {
                    // A device that fails the copy loses its place: the array judges.
                    if array.fill_second(role, pos, STEP.min(size - pos)).await.is_err() {
                        return;
                    }
                }
            }))
        };
        Self((0..).zip(&*stage.seconds).filter_map(fill).collect())
    }

    /// Returns when no more is filled.
    pub(super) async fn filled(self) {
        join_all(self.0).await;
    }
}

/// A second device to which nothing happened is still in its role.
pub(super) fn judge_lost(array: &Array, stage: &Stage, struck: &[u16]) -> Result<(), Failure> {
    let second_devices = (0..array.geometry().members()).zip(&*stage.seconds).map(|(role, _)| role);
    let mut lost = second_devices.filter(|role| !struck.contains(role) && array.second(*role).is_none());
    lost.next().map_or(Ok(()), |role| Err(Failure::SecondLost(role)))
}

/// Both devices of a role hold the same in all that the array has on them, where the second is good.
pub(super) fn judge(array: &Array, stage: &Stage) -> Result<(), Failure> {
    let geometry = array.geometry();
    for (role, &first) in (0..geometry.members()).zip(&*stage.drives) {
        let Some((second, u64::MAX)) = array.second(role) else { continue };
        let held = |id, offset| {
            let mut bytes = vec![0; UNIT as usize];
            stage.sim.peek(id, second.data_offset + offset, &mut bytes);
            bytes
        };
        let mut used = (0..geometry.member_size() / UNIT * UNIT)
            .step_by(UNIT as usize)
            .filter(|&offset| geometry.place(role, offset) != Place::Unused);
        if let Some(offset) = used.find(|&offset| held(first, offset) != held(second.id, offset)) {
            return Err(Failure::SecondsDiffer { role, offset });
        }
    }
    Ok(())
}

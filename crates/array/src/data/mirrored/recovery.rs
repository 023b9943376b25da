//! Rebuilds members of mirrors from other copies.

use brindle_io::{Buf, PAGE};
use brindle_layout::Place;
use brindle_members::lock::Hold;
use brindle_members::members::RoleState;
use brindle_volume::VolumeError;

use super::Mirror;
use super::read_errors::{STEP, Suspects};
use crate::data::report::SyncReport;
use crate::row_log::Change;

impl Mirror {
    /// Rebuilds a range of the members of some roles, as far as these are still to be rebuilt; of one at least.
    pub(crate) async fn recover(
        &self,
        roles: &[u16],
        pos: u64,
        len: u64,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        let step = ((self.core.scratch.capacity() / 4) & !(PAGE - 1)) as u64;
        for from in (pos..pos + len).step_by(step as usize) {
            let mut done = Err(VolumeError::TooManyLost);
            for &role in roles.iter().filter(|&&role| self.core.members.writable(role).is_some()) {
                match self.recover_step(role, from, step.min(pos + len - from), report).await {
                    // The others go on without it.
                    Err(error) if self.core.members.writable(role).is_none() => done = done.or(Err(error)),
                    other => {
                        other?;
                        done = Ok(());
                    }
                }
            }
            done?;
        }
        Ok(())
    }

    async fn recover_step(
        &self,
        role: u16,
        pos: u64,
        len: u64,
        report: &mut SyncReport,
    ) -> Result<(), VolumeError> {
        // Extents of the array that the member's range holds, with where each begins in it.
        let mut extents: Vec<(u64, u64, u64)> = Vec::new();
        let mut at = 0;
        while at < len {
            let Place::Data { array_offset, copy } = self.geometry.place(role, pos + at) else {
                // A remainder that fills no chunk of the array.
                let chunk = self.geometry.chunk().max(512);
                at += chunk - (pos + at) % chunk;
                continue;
            };
            let step = self.map.locate(array_offset, copy).len.min(len - at);
            extents.push((array_offset, step, at));
            at += step;
        }
        // All places in the queue are taken before any is waited for, so that no two wait for each other.
        let enter =
            |&(offset, len, _): &(u64, u64, u64)| self.locks.enter(offset..offset + len, Hold::Exclusive);
        let held: Vec<_> = extents.iter().map(enter).collect();
        for held in &held {
            held.granted().await;
        }
        let buf = self.core.scratch.alloc(len as usize + STEP).await;
        let memory = |start: u64, len: u64| buf.slice(start as usize..(start + len) as usize);
        // A member that holds it gives it to its role's second device.
        let held_by_it = self.core.members.state(role) == RoleState::InSync;
        let mut group = self.ask();
        for &(offset, len, start) in &extents {
            let copy =
                self.readable_copies(offset, len).filter(|copy| (copy.extent.member == role) == held_by_it);
            // Write-mostly members are read last.
            let copy = copy.min_by_key(|copy| self.paces.is_write_mostly(copy.extent.member));
            let copy = copy.ok_or(VolumeError::TooManyLost)?;
            group.read(copy.device, copy.extent.offset, &memory(start, len));
        }
        let read = group.submit().await.is_ok();
        if !read {
            let mut parts = Vec::new();
            for extent in extents {
                parts.extend(self.read_parts(role, pos, extent, &buf, report).await?);
            }
            extents = parts;
        }
        let device = self.core.members.writable(role).ok_or(VolumeError::TooManyLost)?;
        let mut group = self.ask();
        for &(_, len, start) in &extents {
            // The window holds bytes of another copy, which need not be those of this member.
            if read {
                group.write_rebuilt(role, device, pos + start, &memory(start, len));
            } else {
                group.write(device, pos + start, &memory(start, len), false);
            }
        }
        let _maintenance = self.core.maintenance(Change::Member { role, range: pos..pos + len }).await?;
        let outcome = group.submit().await;
        self.core.settle_writes(&outcome, false).await?;
        outcome.named()
    }

    /// Reads what an extent (of the array: where it begins, its bytes, and where those are in `buf`) holds, for a member whose
    /// step begins at `pos`; gives the parts that some copy gave. The other blocks are left bad.
    async fn read_parts(
        &self,
        role: u16,
        pos: u64,
        (offset, len, start): (u64, u64, u64),
        buf: &Buf,
        report: &mut SyncReport,
    ) -> Result<Vec<(u64, u64, u64)>, VolumeError> {
        let spare = buf.slice(buf.len() - STEP..buf.len());
        let read = async |at: u64, len: u64| {
            let into = buf.slice((start + at) as usize..(start + at + len) as usize);
            self.read_carefully_held(offset + at, &into, &spare, &Suspects::new()).await
        };
        let part = |at: u64, len: u64| (offset + at, len, start + at);
        let (mut parts, block) = (Vec::new(), u64::from(self.core.limits.block));
        for step in (0..len).step_by(STEP) {
            let end = len.min(step + STEP as u64);
            if read(step, end - step).await.is_ok() {
                parts.push(part(step, end - step));
                continue;
            }
            for at in (step..end).step_by(block as usize) {
                let len = block.min(end - at);
                match read(at, len).await {
                    Ok(()) => parts.push(part(at, len)),
                    Err(why) => {
                        let place = pos + start + at..pos + start + at + len;
                        self.core.leave_bad(role, place, why, report).await?;
                    }
                }
            }
        }
        Ok(parts)
    }
}

//! Faults that strike the drives of a boot, and their end.

use std::rc::Rc;

use brindle_array::Array;
use brindle_io::sim::{Faults, When};
use brindle_io::{Duration, MemberId};

use super::super::tally::Strike;
use super::Run;
use crate::faults::Fault;
use crate::random::Random;

impl Run {
    pub(super) fn plan_faults(&self, array: &Array) {
        let mut random = self.boot.random.clone();
        if self.stage.drives.iter().chain(&*self.stage.seconds).any(|&drive| self.may_yet_fail(drive)) {
            self.stage.oracle.borrow_mut().upset();
        }
        self.plan_faults_of_files();
        for planned in &self.boot.faults {
            let Some(drive) = self.drive_of(array, planned.role) else { continue };
            let place = self.place(array, &mut random);
            // A spare takes the place only of what has been struck: the array can bear that it is, too.
            let spares = &self.stage.drives[self.stage.plan.shape.members..];
            let spare = (!spares.is_empty() && random.one_in(4)).then(|| *random.pick(spares));
            let drive = spare.unwrap_or(drive);
            let seconds = self.stage.seconds.get(usize::from(planned.role));
            let drive = seconds.filter(|_| random.one_in(2)).copied().unwrap_or(drive);
            let (board, oracle) = (Rc::clone(&self.board), Rc::clone(&self.stage.oracle));
            let fault = planned.fault;
            if fault.lasts().is_some() {
                self.pause(drive, fault, planned.step);
                continue;
            }
            self.stage.sim.schedule(When::Step(planned.step), drive, move |faults| {
                if board.calmed.get() {
                    return;
                }
                board.note(Strike::Fault(fault));
                oracle.borrow_mut().upset();
                fault.strike(faults, place);
            });
        }
    }

    /// A boot before has left a drive a fault that takes something from the array when it is met.
    fn may_yet_fail(&self, drive: MemberId) -> bool {
        let faults = self.stage.sim.faults(drive);
        !faults.unreadable.is_empty() || !faults.unwritable.is_empty() || faults.failing_flushes > 0
    }

    /// The drive that fills a role now, or did.
    fn drive_of(&self, array: &Array, role: u16) -> Option<MemberId> {
        let detail = array.detail();
        let device = detail.roles[usize::from(role)].device.map(|at| detail.devices[at].id);
        device.or_else(|| self.stage.drives.get(usize::from(role)).copied())
    }

    /// Some sectors of the data area of a member.
    fn place(&self, array: &Array, random: &mut Random) -> core::ops::Range<u64> {
        let shape = &self.stage.plan.shape;
        let block = u64::from(self.stage.plan.model.logical_block);
        let area = array.geometry().member_size().min(shape.chunk * shape.rows);
        let start = shape.data_offset() + random.below(area / block) * block;
        start..start + block * (1 + random.below(4))
    }

    /// A drive does not answer for a while. Its step is taken for microseconds.
    fn pause(&self, drive: MemberId, fault: Fault, step: u64) {
        let (sim, io, board) = (self.stage.sim.clone(), self.io.clone(), Rc::clone(&self.board));
        drop(self.io.spawn(async move {
            io.sleep(Duration::from_micros(step * 10)).await;
            if board.calmed.get() {
                return;
            }
            board.note(Strike::Fault(fault));
            sim.afflict(drive, |faults| fault.strike(faults, 0..0));
            io.sleep(fault.lasts().unwrap_or(Duration::from_millis(1))).await;
            sim.afflict(drive, |faults| faults.hangs = false);
        }));
    }

    /// Nothing more strikes, and what has struck a drive is over: but for places that can't be read, and for drives that are gone.
    pub(super) fn end_faults(&self) {
        self.board.calmed.set(true);
        for &drive in self.stage.drives.iter().chain(&*self.stage.seconds) {
            self.stage.sim.afflict(drive, |faults| {
                let (gone, slowness) = (faults.gone, self.stage.plan.slower);
                let unreadable = core::mem::take(&mut faults.unreadable);
                let (no_write_zeroes, no_discard) = (faults.no_write_zeroes, faults.no_discard);
                let slowness =
                    if drive == self.stage.drives[0] { slowness } else { Faults::default().slowness };
                *faults =
                    Faults { gone, slowness, unreadable, no_write_zeroes, no_discard, ..Faults::default() };
            });
        }
    }
}

//! Answers that are no plain success: the size of the member is read before they are handed over.
//!
//! The size of a block device is a number that the kernel keeps, and is read at once. A file system may take its time to tell the
//! length of a file, so that it is asked as an operation in the place of the one that failed.

use super::{UringState, errno, probe};
use crate::op::{Completion, MemberId, OpKey};

impl UringState {
    /// The completion for the kernel's answer, or, if the size was asked for, for the one that was put aside; `None`
    /// if the size is asked for now.
    #[cold]
    pub(super) fn doubted(
        &mut self,
        key: OpKey,
        member: MemberId,
        result: Result<u32, i32>,
    ) -> Option<Completion> {
        let running = &mut self.running[key.0 as usize];
        let (answer, size) = match running.take_answer(result) {
            Some(known) => known,
            None if !self.members.device(member).may_wait() => {
                (result, probe::size_of(self.members.device(member)).ok())
            }
            None if running.ask_size(self.members.origin(member), result) => {
                self.send(key);
                return None;
            }
            None => (result, None),
        };
        self.in_kernel -= 1;
        let lost = self.members.lost(member, size);
        let answer = answer.map_err(|errno| errno::error(running.kind(), errno));
        let moved = answer.and_then(|moved| running.moved(moved, self.members.block(member)));
        self.members.end(&self.engine, member);
        Some(Completion { key, result: lost.map_or(moved, Err) })
    }
}

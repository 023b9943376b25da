//! Discard and write-zeroes of levels without parity.

use core::ops::Range;

use brindle_io::OpError;
use brindle_volume::{VolumeError, ZeroOptions};

use crate::door::{Done, Door, Refused};
use crate::events::Cause;

/// Bytes of the array that one round of a discard or write-zeroes covers: bounds the operations in flight.
const ROUND: u64 = 256 << 20;
/// Bytes that are looked at a time for what is not zero.
const LOOK: u64 = 64 << 10;

/// Contiguous ranges of members, joined as they come.
#[derive(Default)]
pub struct Spans(Vec<(u16, u64, u64)>);

impl Spans {
    /// The same bytes of the data areas of several members.
    pub fn of(members: impl Iterator<Item = u16>, offset: u64, len: u64) -> Self {
        Self(members.map(|member| (member, offset, len)).collect())
    }

    /// Adds bytes of a member's data area.
    pub fn add(&mut self, member: u16, offset: u64, len: u64) {
        // Only the last range of each member can go on; stripes are few, so the walk is short.
        match self.0.iter_mut().rev().find(|span| span.0 == member) {
            Some(span) if span.1 + span.2 == offset => span.2 += len,
            _ => self.0.push((member, offset, len)),
        }
    }
}

impl Door<'_> {
    /// Discards a range round by round; `spans` tells where a part of it lies. Discards are hints: a member that can't,
    /// does not.
    pub async fn discard_rounds(self, offset: u64, len: u64, spans: impl Fn(u64, u64) -> Spans) {
        for at in (0..len).step_by(ROUND as usize) {
            let mut group = self.ask();
            for (role, offset, len) in spans(offset + at, ROUND.min(len - at)).0 {
                if let Some(device) = self.set.members.writable(role) {
                    group.discard(device, offset, len);
                }
            }
            let _hint = group.submit().await;
        }
    }

    /// Zeroes a range round by round; `spans` tells where a part of it lies.
    ///
    /// # Errors
    /// As of [`MemberSet::settle_writes`](crate::set::MemberSet::settle_writes).
    pub async fn zero_rounds(
        self,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        spans: impl Fn(u64, u64) -> Spans,
    ) -> Result<(), VolumeError> {
        for at in (0..len).step_by(ROUND as usize) {
            let round = ROUND.min(len - at);
            let range = offset + at..offset + at + round;
            self.zero_spans(&spans(range.start, round).0, options, range).await?;
        }
        if options.fua { self.set.flush_members().await } else { Ok(()) }
    }

    /// Zeroes a range as [`Door::zero_rounds`] does on members that are there, up to the first failure of one, which is not settled.
    ///
    /// # Errors
    /// Of the member that failed first.
    pub async fn put_zero_rounds(
        self,
        offset: u64,
        len: u64,
        options: ZeroOptions,
        spans: impl Fn(u64, u64) -> Spans,
    ) -> Result<(), VolumeError> {
        for at in (0..len).step_by(ROUND as usize) {
            let mut round = spans(offset + at, ROUND.min(len - at)).0;
            round.retain(|&(role, ..)| self.set.members.writable(role).is_some());
            self.put_zeroes(&round, options).await?.named()?;
        }
        Ok(())
    }

    /// Zeroes ranges of members (role, offset in the data area, bytes). The caller holds the ranges, which are `doubtful`, as a resync counts,
    /// if a member has no room for zeroes.
    ///
    /// # Errors
    /// As of [`MemberSet::settle_writes`](crate::set::MemberSet::settle_writes).
    pub async fn zero_spans(
        self,
        spans: &[(u16, u64, u64)],
        options: ZeroOptions,
        doubtful: Range<u64>,
    ) -> Result<(), VolumeError> {
        let outcome = self.put_zeroes(spans, options).await?;
        self.settle_zeroes(&outcome, doubtful).await
    }

    /// Zeroes ranges of members (role, offset in the data area, bytes); sends zeroes where a member must be sent them. The caller settles what
    /// members refuse.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] where the members can't do without one that is missing.
    pub async fn put_zeroes(
        self,
        spans: &[(u16, u64, u64)],
        options: ZeroOptions,
    ) -> Result<Done, VolumeError> {
        let redundant = self.set.dependence().redundant;
        let mut group = self.ask();
        for &(role, offset, len) in spans {
            match self.set.members.writable(role) {
                Some(device) => {
                    group.write_zeroes(device, offset, len, !options.keep_allocated);
                }
                None if redundant => {}
                None => return Err(VolumeError::TooManyLost),
            }
        }
        let outcome = group.submit().await;
        if outcome.is_ok() {
            return Ok(outcome);
        }
        let mut left = Vec::new();
        for refused in outcome.refused() {
            let mut done = Err(refused.error);
            if refused.error == OpError::Unsupported {
                self.set.note_sent_zeroes(options);
                done = self.send_zeroes(refused).await;
            }
            if let Err(error) = done {
                left.push(refused.with(error));
            }
        }
        Ok(Done::of_refused(left))
    }

    /// Settles the outcome of [`Door::put_zeroes`].
    async fn settle_zeroes(self, outcome: &Done, doubtful: Range<u64>) -> Result<(), VolumeError> {
        let redundant = self.set.dependence().redundant;
        if outcome.is_ok() {
            return self.set.settle_writes(outcome, redundant).await;
        }
        // Members that were left out have to be recorded as failed here too.
        let mut result = self.set.recorded().await;
        for refused in outcome.refused().iter().filter(|refused| refused.is_of(&self.set.members)) {
            let error = refused.error;
            let failed = if self.set.is_kept(refused.role, error) {
                let why = Cause::from(refused);
                if error == OpError::NoSpace && self.zero_in_place(refused).await {
                    self.set.owner()?.full(refused.role, why);
                } else {
                    self.set.owner()?.note_no_space(doubtful.clone(), &[(refused.role, why)]);
                }
                Err(VolumeError::of_member(refused.role, error))
            } else if redundant {
                self.set.fail_member(refused.role, error, self.set.dependence().coupled).await
            } else {
                Err(VolumeError::of_member(refused.role, error))
            };
            result = result.and(failed);
        }
        result
    }

    /// Writes zeroes to a member, or a role's second device, that makes none by itself.
    async fn send_zeroes(self, asked: &Refused) -> Result<(), OpError> {
        let Refused { role, offset, len, .. } = *asked;
        let (members, zeroes) = (&self.set.members, self.set.zeroes());
        let mut at = 0;
        while at < len {
            // It may become the member meanwhile.
            let second = members.second(role).filter(|second| second.device.id == asked.member);
            let member = members.writable(role).ok_or(OpError::Gone)?;
            let mut group = self.ask();
            for _ in 0..16 {
                let step = (len - at).min(zeroes.len() as u64);
                let part = zeroes.slice(0..step as usize);
                match second {
                    _ if step == 0 => {}
                    Some(_) => group.write_to_second(role, offset + at, &part),
                    None => group.write(member, offset + at, &part, false),
                }
                at += step;
            }
            group.submit().await.ok()?;
        }
        Ok(())
    }

    /// Writes zeroes where a member that has no room holds something else: in place, which takes none. True if it holds
    /// zeroes everywhere then, as that which was never written does.
    async fn zero_in_place(self, asked: &Refused) -> bool {
        let Refused { role, offset, len, .. } = *asked;
        let Some(member) = self.set.members.writable(role) else { return false };
        let block = self.set.io.member_info(member.id).map_or(512, |info| info.logical_block as usize);
        let buf = self.set.scratch.alloc(LOOK as usize).await;
        for at in (0..len).step_by(LOOK as usize) {
            let part = buf.slice(0..LOOK.min(len - at) as usize);
            let mut group = self.ask();
            group.read(member, offset + at, &part);
            if !group.submit().await.is_ok() {
                return false;
            }
            let mut group = self.ask();
            for (place, found) in (offset + at..).step_by(block).zip(part.bytes().chunks(block)) {
                if found.iter().any(|&byte| byte != 0) {
                    group.write(member, place, &self.set.zeroes().slice(0..found.len()), false);
                }
            }
            if !group.is_empty() && !group.submit().await.is_ok() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_member_are_joined_where_they_touch() {
        let mut spans = Spans::default();
        for (member, offset, len) in
            [(0, 512, 512), (1, 0, 512), (0, 1024, 512), (0, 4096, 512), (1, 512, 1024)]
        {
            spans.add(member, offset, len);
        }
        assert_eq!(spans.0, [(0, 512, 1024), (1, 0, 1536), (0, 4096, 512)]);
    }
}

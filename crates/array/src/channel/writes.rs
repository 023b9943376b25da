//! Writes in a channel, where home has lent the part of the array.
//!
//! Nothing is judged here. Without parity each byte goes to all members that have it. Such a write that did not come to a good end is carried
//! out once more by home, whole, before anybody has an answer. That gives each member the same bytes again, and home decides what becomes of
//! one that does not take them. Before the rows are let go, home knows that copies may differ there, since it may refuse the request by then.
//!
//! Rows with parity are written by [`Parity`](crate::data::parity::Parity), with the channel's core. Home settles those that members have
//! refused (`settling.rs`).
//!
//! In either case home knows of writes that were given up and may still land: it sends nothing more to such a member until then.

use core::ops::Range;
use std::rc::Rc;

use brindle_io::{Loan, MemberId, OpSpan, Slice};
use brindle_layout::Family;
use brindle_members::direct::write_alone;
use brindle_members::lock::{Hold, RangeGuard};

use super::leases::Within;
use super::open::{OpenChannel, Port};
use super::state::Channel;
use crate::array::STREAMS;
use crate::channels::shared::Tell;
use crate::data::{mirrored, striped};

/// A change under way, with the rows that it has.
pub(super) struct UnderWay<'a> {
    channel: &'a Channel,
    open: &'a OpenChannel,
    /// Units of buckets, where the array has copies or parity.
    pub(super) units: Range<u64>,
    _rows: Option<RangeGuard<'a>>,
    _within: Within<'a>,
}

impl Drop for UnderWay<'_> {
    #[inline]
    fn drop(&mut self) {
        let Self { channel, open, units, .. } = self;
        if !units.is_empty() {
            channel.leave(open, units.clone());
        }
        let left = channel.writing.get() - 1;
        channel.writing.set(left);
        if left == 0 && channel.is_awaited.get() {
            channel.all_are_written(open);
        }
    }
}

impl Channel {
    /// Writes a range; false if home has to.
    pub(super) async fn write(self: &Rc<Self>, offset: u64, from: &[Slice], fua: bool) -> bool {
        let Some(open) = self.now() else { return false };
        let Some(under_way) = self.begin_write(&open, offset, from) else { return false };
        if let Some(parity) = &open.parity {
            let is_written = parity.write(offset, from, fua).await.is_ok();
            if is_written {
                self.count();
            }
            return is_written;
        }
        let door = open.core.door(None);
        let (members, map) = (&open.core.members, open.plan.geometry.family());
        let sent = match map {
            Family::Striped(map) => {
                write_alone(door, offset, from, fua, |at| striped::place_to_write(map, members, at))
            }
            Family::Mirrored(map) => {
                let mut ops = door.alone();
                mirrored::write_copies(map, members, offset, from, |device, at, piece| {
                    ops.write(device, at, piece, 0, piece.len(), fua);
                })
                .map(|()| ops.submit())
            }
            Family::Parity(_) => return false,
        };
        let Ok((pending, asked)) = sent else { return false };
        let outcome = pending.await;
        if asked.is_well(&open.core, &outcome) {
            self.count();
            return true;
        }
        Box::pin(self.unwritten(&open, under_way.units.clone())).await;
        false
    }

    #[inline]
    fn begin_write<'a>(&'a self, open: &'a OpenChannel, offset: u64, from: &[Slice]) -> Option<UnderWay<'a>> {
        // Home says what is wrong with a request, and copies what others change meanwhile.
        let len = open.plan.limits.check_list(offset, from).ok().filter(|&len| len > 0)?;
        if from.iter().any(|slice| slice.is_shared() || slice.is_pinned()) {
            return None;
        }
        self.begin_change(open, offset..offset + len)
    }

    /// Begins a change of a range that is not empty, if all that it needs is here. Nothing has to be waited for between this and the members,
    /// so that both are of one state.
    #[inline]
    pub(super) fn begin_change<'a>(
        &'a self,
        open: &'a OpenChannel,
        range: Range<u64>,
    ) -> Option<UnderWay<'a>> {
        let (writes, leases) = (open.plan.writes.as_ref()?, open.leases.as_ref()?);
        self.patrol();
        let wants = |part| {
            self.telling.tell(Tell::Wants(part));
        };
        let within = leases.begin(&range, wants)?;
        let (units, rows) = match &writes.buckets {
            None => (0..0, None),
            Some(buckets) => {
                let has_copies = open.parity.is_none();
                // Overlapping writes go one after the other, or copies could keep different ones.
                if has_copies && open.rows.last_over(&range).is_some() {
                    return None;
                }
                let units = open.units(&range)?;
                let me = self.seed.to;
                let units = buckets.enter(me, units.clone(), |_| self.freed()).then_some(units)?;
                let rows = || open.rows.enter_after(range, Hold::Exclusive, None);
                (units, has_copies.then(rows))
            }
        };
        self.writing.set(self.writing.get() + 1);
        Some(UnderWay { channel: self, open, units, _rows: rows, _within: within })
    }

    #[inline]
    fn leave(&self, open: &OpenChannel, units: Range<u64>) {
        let buckets = open.plan.writes.as_ref().and_then(|writes| writes.buckets.as_ref());
        buckets.into_iter().for_each(|buckets| buckets.leave(units.clone(), |_| self.freed()));
    }

    #[cold]
    fn freed(&self) {
        self.telling.tell(Tell::Freed);
    }

    /// The last write has ended of those that were under way when home closed, or asked for the leases.
    #[cold]
    fn all_are_written(&self, open: &OpenChannel) {
        self.is_awaited.set(false);
        if self.open.borrow().is_none() {
            open.close();
        }
        self.written.notify();
        self.tell_if_settled();
    }

    /// Has home know that copies may differ, and of writes that were given up, before the rows are let go: it may refuse the request by now.
    #[cold]
    pub(super) async fn unwritten(self: &Rc<Self>, open: &Rc<OpenChannel>, units: Range<u64>) {
        let mut told = 0;
        for unit in units {
            told = self.telling.tell(Tell::Differs(unit));
        }
        self.telling.taken(told).await;
        self.tell_orphans(open).await;
    }

    /// Has home know of writes that were given up and may still land.
    pub(super) async fn tell_orphans(self: &Rc<Self>, open: &Rc<OpenChannel>) {
        for (at, port) in open.ports.iter().enumerate() {
            if self.io.orphans(port.id) == 0 {
                continue;
            }
            let number = port.orphans.get().unwrap_or_else(|| self.has_orphans(open, at, port));
            self.telling.taken(number).await;
        }
    }

    fn has_orphans(self: &Rc<Self>, open: &Rc<OpenChannel>, at: usize, port: &Port) -> u64 {
        let number = self.telling.tell(Tell::Orphans(port.number()));
        port.orphans.set(Some(number));
        self.orphaned.set(self.orphaned.get() + 1);
        let (channel, open) = (Rc::clone(self), Rc::clone(open));
        drop(self.io.spawn(async move {
            let port = &open.ports[at];
            channel.io.orphans_ended(port.id).await;
            port.orphans.set(None);
            channel.telling.tell(Tell::Landed(port.number()));
            channel.orphaned.set(channel.orphaned.get() - 1);
            channel.tell_if_settled();
        }));
        number
    }

    /// See [`Volume::comes`](brindle_volume::Volume::comes).
    pub(super) fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        let open = self.now()?;
        Some(open.parity.as_ref()?.comes(offset, len)? + open.number * STREAMS)
    }

    /// See [`Volume::came`](brindle_volume::Volume::came). A stream of what was open before has no writes any more that wait for it.
    pub(super) fn came(&self, stream: usize) {
        let open = self.last.borrow().upgrade().filter(|open| open.number == stream / STREAMS);
        let parity = open.as_ref().and_then(|open| open.parity.as_ref());
        parity.into_iter().for_each(|parity| parity.came(stream % STREAMS));
    }

    /// Home waits for a row.
    pub(super) fn hurry(&self, row: u64) {
        let open = self.last.borrow().upgrade();
        open.iter().filter_map(|open| open.parity.as_ref()).for_each(|parity| parity.hurry(row));
    }

    /// Home has lent a part of the array; false if it is of no use any more.
    pub(super) fn lease(&self, part: u64, number: u64) -> bool {
        let open = self.open.borrow();
        open.as_ref()
            .and_then(|open| open.leases.as_ref())
            .is_some_and(|leases| leases.has_come(part, number))
    }

    /// Gives all leases back. The answer comes when the last write has ended.
    pub(super) fn give_back(self: &Rc<Self>, loan: Loan) {
        let open = self.last.borrow().upgrade();
        open.iter().filter_map(|open| open.leases.as_ref()).for_each(|leases| leases.clear());
        self.is_awaited.set(self.writing.get() > 0);
        let channel = Rc::clone(self);
        drop(self.io.spawn(async move {
            channel.written.until(|| (channel.writing.get() == 0).then_some(())).await;
            loan.answer(0);
        }));
    }

    /// Gives up all writes that wait for a device.
    pub(super) fn give_up(&self, device: u64) {
        let Some(open) = self.last.borrow().upgrade() else { return };
        let device = MemberId::device(device as u32);
        for port in open.ports.iter().filter(|port| port.device == device) {
            for span in [OpSpan::Write, OpSpan::Slow] {
                self.io.give_up(port.id, span, self.io.ran());
            }
        }
    }
}

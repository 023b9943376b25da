//! Leases: the parts of an array that channels may change, and what channels tell of their writes.
//!
//! A lease is a change of its part that has begun at home, and ends when the channel gives the lease back. The array is marked dirty, bits of
//! the bitmap stand on record, and whoever waits for changes to end waits for it: nothing has to be counted by two threads. A request that
//! finds no lease is carried out by home, and the channel has one for those that follow. A channel gives leases back that it does not use.
//!
//! Home asks for all of them if something is in the way of writes in channels: then requests come home until that is over ([`Channels::quiet`]).

use core::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use brindle_io::sync::Notify;
use brindle_io::{Duration, Instant, Io, MemberId, MemberKind, OpClass};
use brindle_members::buckets::Buckets;
use brindle_members::members::Members;

use super::settling::Settling;
use super::shared::{Ask, Tell, bytes_of_unit};
use super::{Channels, Told};

/// Numbers of leases, which are used in turn.
const NUMBERS: u64 = 1 << 30;

/// A part of the array that a channel may change.
struct Lease {
    /// The reactor that has it, or is about to.
    to: usize,
    part: u64,
    /// No other lease of the part had it.
    number: u64,
    asked_back: Cell<bool>,
    over: Cell<bool>,
    ended: Notify,
}

/// The leases of an array, and the writes of its channels that home has to know of.
pub(crate) struct Leases {
    buckets: OnceCell<Arc<Buckets>>,
    /// By the reactor, and the part.
    all: RefCell<BTreeMap<(usize, u64), Rc<Lease>>>,
    next: Cell<u64>,
    /// As many have asked that there be none.
    refused: Cell<usize>,
    /// Channels that were asked to give all back, and have not answered.
    asked: Cell<usize>,
    /// A lease was given back, or rows are free.
    changed: Notify,
    /// The devices by which channels write.
    devices: RefCell<Vec<MemberId>>,
    /// Devices on which writes that a channel has given up may still land.
    orphans: RefCell<Vec<(usize, MemberId)>>,
    /// Since when the oldest write of a channel to a device has been under way, where that is long.
    waits: RefCell<Vec<(usize, MemberId, Instant)>>,
    /// Writes of channels that some members have refused.
    pub(super) settling: Settling,
}

/// No channel changes the array as long as this lives.
#[must_use]
pub(crate) struct Quiet<'a>(&'a Leases);

impl<'a> Quiet<'a> {
    /// One that was forgotten.
    pub(super) fn again(leases: &'a Leases) -> Self {
        Self(leases)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.refused.set(self.0.refused.get() - 1);
    }
}

impl Leases {
    pub(super) fn new(io: &Io) -> Self {
        Self {
            buckets: OnceCell::new(),
            all: RefCell::default(),
            next: Cell::new(0),
            refused: Cell::new(0),
            asked: Cell::new(0),
            changed: Notify::new(io),
            devices: RefCell::default(),
            orphans: RefCell::default(),
            waits: RefCell::default(),
            settling: Settling::default(),
        }
    }

    /// The rows that reactors hold against each other. An array without channels has none.
    pub(crate) fn buckets(&self) -> &Arc<Buckets> {
        self.buckets.get_or_init(Arc::default)
    }

    /// Channels write by these devices from now on.
    pub(crate) fn set_devices(&self, devices: impl Iterator<Item = MemberId>) {
        self.devices.replace(devices.collect());
    }

    /// No channel changes anything, and none has been asked to give leases back without having answered.
    pub(crate) fn are_back(&self) -> bool {
        self.all.borrow().is_empty() && self.asked.get() == 0
    }

    /// Writes to a device that some channel has given up may still land.
    pub(crate) fn has_orphans(&self, device: MemberId) -> bool {
        self.orphans.borrow().iter().any(|(_, id)| *id == device)
    }

    pub(super) fn refuse(&self) -> Quiet<'_> {
        self.refused.set(self.refused.get() + 1);
        Quiet(self)
    }

    /// Waits for something that channels let go of.
    pub(super) async fn freed(&self, is_free: impl Fn() -> bool) {
        self.changed.until(|| is_free().then_some(())).await;
    }

    /// Ends leases of a reactor.
    fn end(&self, to: usize, which: impl Fn(&Lease) -> bool) {
        let all = self.all.borrow();
        for (_, lease) in all.range((to, 0)..=(to, u64::MAX)).filter(|(_, lease)| which(lease)) {
            lease.end();
        }
    }

    /// Reactors that have leases, or are about to.
    fn holders(&self) -> Vec<usize> {
        let mut holders: Vec<usize> = self.all.borrow().keys().map(|(to, _)| *to).collect();
        holders.dedup();
        holders
    }
}

impl Lease {
    fn end(&self) {
        self.over.set(true);
        self.ended.notify();
    }
}

impl Channels {
    /// Returns once no channel changes the array, nor will as long as the guard lives.
    pub(crate) async fn quiet(&self) -> Quiet<'_> {
        let quiet = self.leases.refuse();
        self.take_leases_back();
        self.leases.changed.until(|| self.leases.are_back().then_some(())).await;
        quiet
    }

    /// Asks for all leases that have not been asked for.
    pub(super) fn take_leases_back(&self) {
        let mut from: Vec<usize> = Vec::new();
        for (&(to, _), lease) in &*self.leases.all.borrow() {
            if !lease.asked_back.replace(true) {
                from.push(to);
            }
        }
        from.dedup();
        for to in from {
            self.leases.asked.set(self.leases.asked.get() + 1);
            let (me, asking) = (self.me.clone(), self.ask(to, Ask::GiveBack, [0; 2]));
            drop(self.io.spawn_as(OpClass::Metadata, async move {
                // One that ends writes nothing any more.
                let _ = asking.await;
                if let Some(me) = me.upgrade() {
                    me.leases.end(to, |lease| lease.asked_back.get());
                    me.leases.asked.set(me.leases.asked.get() - 1);
                    me.leases.changed.notify();
                }
            }));
        }
    }

    pub(super) fn ask(
        &self,
        to: usize,
        what: Ask,
        words: [u64; 2],
    ) -> impl Future<Output = Option<u64>> + use<> {
        let (io, question) = (self.io.clone(), [what.word(), self.shared.number, words[0], words[1]]);
        async move { io.ask(to, question, false, &[]).await.ok() }
    }

    /// Hears what the channel of a reactor has to tell, as long as the array runs.
    pub(super) fn listen(&self, to: usize) {
        let me = self.me.clone();
        drop(self.io.spawn_as(OpClass::Metadata, async move {
            while let Some(asking) = me.upgrade().map(|me| me.ask(to, Ask::Listen, [0; 2])) {
                let answer = asking.await;
                let Some(me) = me.upgrade() else { return };
                let told = answer.map_or(Tell::Gone, Tell::of);
                me.hear(to, told);
                // A run that ends hears of all writes that are still under way.
                let is_last = answer.is_none() || told == Tell::Gone && me.told.get() == Told::Over;
                if is_last {
                    return;
                }
            }
        }));
    }

    fn hear(&self, to: usize, what: Tell) {
        let leases = &self.leases;
        match what {
            Tell::Gone => {
                leases.end(to, |_| true);
                leases.settling.forget(to);
                let orphans = leases.orphans.borrow().clone();
                let waits = leases.waits.borrow().clone();
                for (_, device) in orphans.into_iter().filter(|(from, _)| *from == to) {
                    self.note_orphans(to, device, false);
                }
                for (_, device, _) in waits.into_iter().filter(|(from, ..)| *from == to) {
                    self.note_waits(to, device, None);
                }
            }
            Tell::Wants(part) => self.lend(to, part),
            Tell::GivesBack(part, number) => {
                let all = leases.all.borrow();
                let lease = all.get(&(to, part)).filter(|lease| lease.number == number);
                lease.into_iter().for_each(|lease| lease.end());
            }
            Tell::Freed => leases.changed.notify(),
            Tell::Orphans(device) => self.note_orphans(to, MemberId::device(device), true),
            Tell::Landed(device) => self.note_orphans(to, MemberId::device(device), false),
            Tell::Differs(unit) => {
                self.array.get().into_iter().for_each(|array| array.differs(bytes_of_unit(unit)));
            }
            Tell::At(place) => leases.settling.at(to, place),
            Tell::Refused(device, why) => leases.settling.refused(to, MemberId::device(device), why),
            Tell::Settle(number, len) => self.settle(to, number, len),
            Tell::Waits(device, age) => {
                let since = self.io.ran().before(Duration::from_millis(u64::from(age)));
                self.note_waits(to, MemberId::device(device), (age > 0).then_some(since));
            }
        }
    }

    /// Home waits for a row that a reactor has.
    pub(super) fn hurry(&self, to: usize, row: u64) {
        let asking = self.ask(to, Ask::Hurry, [row, 0]);
        drop(self.io.spawn_as(OpClass::Metadata, async move {
            let _ = asking.await;
        }));
    }

    fn note_orphans(&self, to: usize, device: MemberId, some: bool) {
        let mut orphans = self.leases.orphans.borrow_mut();
        orphans.retain(|&one| one != (to, device));
        if some {
            orphans.push((to, device));
        }
        drop(orphans);
        let since = self.leases.has_orphans(device).then(|| self.io.ran());
        if let Some((members, role)) = self.role_of(device) {
            let before = members.orphans_elsewhere(role);
            members.set_orphans_elsewhere(role, since.map(|now| before.unwrap_or(now)));
        }
    }

    fn note_waits(&self, to: usize, device: MemberId, since: Option<Instant>) {
        let mut waits = self.leases.waits.borrow_mut();
        waits.retain(|&(from, id, _)| (from, id) != (to, device));
        waits.extend(since.map(|since| (to, device, since)));
        let oldest = waits.iter().filter(|(_, id, _)| *id == device).map(|&(_, _, since)| since).min();
        if let Some((members, role)) = self.role_of(device) {
            members.set_waits_elsewhere(role, oldest);
        }
    }

    /// The role of a device that is in use. Nobody waits for one that is not.
    fn role_of(&self, device: MemberId) -> Option<(Rc<Members>, u16)> {
        let members = self.array.get()?.members()?;
        let role = members.role_of(device)?;
        let is_in_use = members.writable(role).is_some_and(|found| found.id == device);
        is_in_use.then_some((members, role))
    }

    /// Has channels give up writes to devices that are out of use: none of these is waited for.
    pub(super) fn give_up_lost(&self) {
        let mut lost = self.leases.devices.borrow().clone();
        lost.retain(|&id| self.role_of(id).is_none());
        lost.into_iter().for_each(|device| self.give_up(device));
    }

    /// Has channels give up writes to a device. They go home, and the operations go on by themselves.
    pub(crate) fn give_up(&self, device: MemberId) {
        let MemberKind::Device(number) = device.kind() else { return };
        for to in self.leases.holders() {
            let asking = self.ask(to, Ask::GiveUp, [u64::from(number), 0]);
            drop(self.io.spawn_as(OpClass::Metadata, async move {
                let _ = asking.await;
            }));
        }
    }

    /// Gives a channel the lease of a part that it wants, if nothing is in the way.
    fn lend(&self, to: usize, part: u64) {
        let leases = &self.leases;
        let array = self.array.get().filter(|array| array.may_be_leased());
        let is_open = self.told.get() == Told::Open && leases.refused.get() == 0 && leases.asked.get() == 0;
        let is_there = leases.all.borrow().contains_key(&(to, part));
        let Some(array) = array.filter(|_| is_open && !is_there) else { return };
        let (number, ended) = (leases.next.get(), Notify::new(&self.io));
        leases.next.set((number + 1) % NUMBERS);
        let (asked_back, over) = (Cell::new(false), Cell::new(false));
        let lease = Rc::new(Lease { to, part, number, asked_back, over, ended });
        leases.all.borrow_mut().insert((to, part), Rc::clone(&lease));
        let lent = array.lend(part, Box::pin(hold(self.me.clone(), lease)));
        let me = self.me.clone();
        drop(self.io.spawn_as(OpClass::Metadata, async move {
            lent.await;
            if let Some(me) = me.upgrade() {
                me.leases.all.borrow_mut().remove(&(to, part));
                me.leases.changed.notify();
            }
        }));
    }
}

/// Has a channel know that its lease has begun, and waits until it is over.
async fn hold(channels: Weak<Channels>, lease: Rc<Lease>) {
    let asking = channels.upgrade().filter(|_| !lease.asked_back.get());
    let Some(asking) = asking.map(|all| all.ask(lease.to, Ask::Lease, [lease.part, lease.number])) else {
        return;
    };
    if asking.await == Some(1) {
        lease.ended.until(|| lease.over.get().then_some(())).await;
    }
}

//! Channels of an array as its home knows them: who has one, what they were told, and whether all have taken it.
//!
//! Home has the array: all changes, all decisions, all records. A reactor beside it may have a *channel* of the array ([`crate::channel`]): a
//! port of each member on its own ring, and a copy of the states of members. While a
//! member is slow or has bad blocks, while writes that were given up may still land, and so on ([`crate::whole`]), there is no copy, and all
//! requests go home. Members that are missing are not in it: home does what needs their bytes, and all changes of arrays with parity.

pub(crate) mod leases;
pub(crate) mod rows;
pub(crate) mod settling;
pub(crate) mod shared;

use core::cell::{Cell, OnceCell, RefCell};
use core::ops::Range;
use core::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpClass};
use brindle_members::members::Members;

use leases::Leases;
use settling::RefusedWrite;
use shared::{Ask, ChannelCounts, ChannelPlan, Given, Seed, SharedPlan};

/// The array that channels read and write.
pub(crate) trait ChannelSource {
    /// The members that it lacks, if every byte of the others can be read as it is; `None`: home does everything.
    fn lacks(&self) -> Option<Lack>;

    /// All that channels go by; `None` if a member can't be asked by other reactors.
    fn plan(&self) -> Option<ChannelPlan>;

    /// Its members, in the shape that it has.
    fn members(&self) -> Option<Rc<Members>>;

    /// Copies of these bytes may differ: they are brought in sync.
    fn differs(&self, range: Range<u64>);

    /// Members have refused their parts of a change of this range, which is counted as a resync counts, and held by the channel that made it:
    /// whether its success may be acknowledged.
    fn settle(&self, refused: Vec<RefusedWrite>, range: Range<u64>) -> Pin<Box<dyn Future<Output = bool>>>;

    /// Channels may change it now.
    fn may_be_leased(&self) -> bool;

    /// Begins a change of a part of the array, then sees `lease` to its end, and ends the change.
    fn lend(&self, part: u64, lease: Pin<Box<dyn Future<Output = ()>>>) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// The members that an array lacks, by number. A plan holds as long as they are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lack {
    /// Members whose bytes are not all there.
    pub(crate) lost: u16,
    /// Those among them that are being rebuilt.
    pub(crate) rebuilt: u16,
}

/// The state that the channels of an array were told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// To hand all requests to home.
    Closed,
    /// To go by the plan.
    Open,
    /// To hand all requests to home; the run ends, and nothing else will be told.
    Over,
}

/// A reactor that has a channel, or had one.
struct Far {
    /// Its number in the crew.
    to: usize,
    counts: Arc<ChannelCounts>,
}

/// The channels of an array. It has none where there is one reactor.
pub(crate) struct Channels {
    me: Weak<Self>,
    io: Io,
    shared: Arc<SharedPlan>,
    far: RefCell<Vec<Far>>,
    told: Cell<Told>,
    /// The members that the array lacks by the plan.
    lacking: Cell<Lack>,
    /// Channels that may still read by a plan that is true no more.
    untaken: Cell<usize>,
    taken: Notify,
    /// The parts of the array that channels may change.
    pub(crate) leases: Leases,
    /// The array, in the shape that it has: found once there is a channel.
    array: OnceCell<Box<dyn ChannelSource>>,
}

impl Channels {
    /// Without any.
    pub(crate) fn new(io: &Io) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            io: io.clone(),
            shared: SharedPlan::new(),
            far: RefCell::default(),
            told: Cell::new(Told::Closed),
            lacking: Cell::default(),
            untaken: Cell::new(0),
            taken: Notify::new(io),
            leases: Leases::new(io),
            array: OnceCell::new(),
        })
    }

    /// There will be channels of this array.
    pub(crate) fn of(&self, array: impl ChannelSource + 'static) {
        self.array.get_or_init(|| Box::new(array));
    }

    /// Whether there is a channel, or was.
    pub(crate) fn is_any(&self) -> bool {
        self.array.get().is_some()
    }

    /// The reactor of that number will have a channel: it is told of all changes from now on.
    pub(crate) fn seed(&self, to: usize) -> Seed {
        let mut all = self.far.borrow_mut();
        let at = all.iter().position(|far| far.to == to).unwrap_or_else(|| {
            all.push(Far { to, counts: Arc::default() });
            self.listen(to);
            all.len() - 1
        });
        Seed { shared: Arc::clone(&self.shared), counts: Arc::clone(&all[at].counts), to }
    }

    /// Something has changed: closes all channels if what they go by is true no more. They are opened again where `may_open`:
    /// they are not at each change, so that an array which comes and goes does not have them do so as often.
    pub(crate) fn look(&self, may_open: bool) {
        let Some(array) = self.array.get() else { return };
        match self.told.get() {
            Told::Open if array.lacks() != Some(self.lacking.get()) => self.close(),
            Told::Closed if may_open && self.leases.are_back() => {
                if let Some((lacking, plan)) = array.lacks().zip(array.plan()) {
                    self.leases.set_devices(plan.members.iter().flatten().map(|member| member.id));
                    self.lacking.set(lacking);
                    self.tell(Told::Open, Some(plan));
                }
            }
            // Of what comes later some may be in the way of writes that are still under way.
            Told::Closed | Told::Over if !self.leases.are_back() => self.give_up_lost(),
            _ => {}
        }
    }

    /// Has all requests come home, until the next look that may open.
    pub(crate) fn close(&self) {
        if self.told.get() == Told::Open {
            self.tell(Told::Closed, None);
            self.take_leases_back();
            self.give_up_lost();
        }
    }

    /// No channel carries anything out any more, and none will.
    pub(crate) fn end(&self) {
        if self.told.get() != Told::Over {
            self.tell(Told::Over, None);
            self.take_leases_back();
            self.give_up_lost();
        }
    }

    fn tell(&self, told: Told, plan: Option<ChannelPlan>) {
        self.told.set(told);
        self.shared.put(plan);
        // Nobody relies on an opening.
        let closes = told != Told::Open;
        for far in &*self.far.borrow() {
            self.untaken.set(self.untaken.get() + usize::from(closes));
            let (me, io, to) = (self.me.clone(), self.io.clone(), far.to);
            let question = [Ask::Look.word(), self.shared.number, u64::from(told == Told::Over), 0];
            drop(self.io.spawn_as(OpClass::Metadata, async move {
                // One that ends reads nothing any more.
                let _ = io.ask(to, question, false, &[]).await;
                if let Some(me) = me.upgrade().filter(|_| closes) {
                    me.untaken.set(me.untaken.get() - 1);
                    me.taken.notify();
                }
            }));
        }
    }

    /// Some channel may still read by a plan that is true no more.
    #[inline]
    pub(crate) fn is_untaken(&self) -> bool {
        self.untaken.get() > 0
    }

    /// Waits until no channel answers reads by a plan that is true no more.
    pub(crate) async fn taken(&self) {
        self.taken.until(|| (!self.is_untaken()).then_some(())).await;
    }

    /// Requests that channels have carried out.
    pub(crate) fn requests(&self) -> u64 {
        self.far.borrow().iter().map(|far| far.counts.requests()).sum()
    }

    /// Requests of channels that a device has carried out.
    pub(crate) fn given(&self, member: MemberId) -> Given {
        self.far.borrow().iter().map(|far| far.counts.given(member)).fold(Given::default(), Given::and)
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        // Of an array that is let go of without a stop.
        self.end();
    }
}

//! Opens a pool.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use brindle_format::pool::{BLOCK, DATA_START, Host, LINEAGE, MAX_MEMBERS, MAX_NUMBER, OVERRULED, Vdev};
use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpError};
use brindle_members::events::Events;
use brindle_members::flushes::Flushes;
use brindle_members::lock::RangeLock;
use brindle_members::members::{Dependence, Device, Members};
use brindle_members::scratch::Scratch;
use brindle_members::set::{MemberSet, Treatment};
use brindle_members::watch::watch;
use brindle_volume::VolumeError;

use crate::core::{Core, PoolConfig, Written};
use crate::events::PoolEvent;
use crate::log::crew::Crew;
use crate::log::refusals::Refusals;
use crate::log::state::Log;
use crate::opening::look::{Chosen, PoolOpenError, Returning, WrongLabel, choose, look};
use crate::opening::replay::{Recovered, WrongSlot};
use crate::opening::tables::refuse_unlisted;
use crate::opening::whose::Belonging;
use crate::pool::Pool;
use crate::record::label::CurrentLabel;
use crate::record::state::Record;
use crate::role::Role;
use crate::run::Run;
use crate::spares::Spares;
use crate::store::history::PoolHistory;
use crate::store::map::Map;
use crate::store::space::Space;
use crate::store::volumes::VolumeList;
use crate::upkeep::checkpoint::Why;
use crate::upkeep::checkpoints::Checkpoints;
use crate::upkeep::cleaner::Cleaner;
use crate::upkeep::resilvering::Resilvering;
use crate::upkeep::scrubs::Scrubs;

/// The greatest number of an uberblock, a checkpoint or a batch behind which a pool is opened for writing.
const LAST_TO_WRITE: u64 = MAX_NUMBER / 2;

/// How a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// For reading alone: nothing is written.
    ReadOnly,
    /// For writing; the number of this opening is of chance.
    Writing {
        /// The number.
        opening: u64,
        /// Members that may be missing though they were in use: they are out of use from then on.
        lacking: Lacking,
    },
}

impl How {
    /// For writing, with all members that were in use.
    pub fn writing(opening: u64) -> Self {
        Self::Writing { opening, lacking: Lacking::AtMost(0) }
    }

    /// For writing, with the members that there are.
    pub fn degraded(opening: u64) -> Self {
        Self::Writing { opening, lacking: Lacking::Any }
    }
}

/// Members that were in use, without which a pool is opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// So many: devices were named that are no members any more.
    AtMost(usize),
    /// All that are missing.
    Any,
}

/// Opens the pool that stands on these devices.
///
/// # Errors
/// [`PoolOpenError`]. For reading alone nothing was written; else at most what recovery writes anew.
pub async fn open(
    io: &Io,
    ids: &[MemberId],
    how: How,
    take: Option<(usize, u16)>,
    config: PoolConfig,
) -> Result<(Pool, Recovered), PoolOpenError> {
    let mut looked = Vec::new();
    for &id in ids {
        looked.push(look(io, &format!("device {}", id.index()), id).await?);
    }
    open_chosen(io, choose(&looked, take)?, how, config).await
}

/// Opens a pool by devices that have been looked at. A pool that has no room for its own pages opens for reading alone.
///
/// # Errors
/// As of [`open`].
pub async fn open_chosen(
    io: &Io,
    chosen: Chosen,
    how: How,
    config: PoolConfig,
) -> Result<(Pool, Recovered), PoolOpenError> {
    prepare(io, chosen, how, config).await?.open().await
}

/// A pool that is about to be opened: all that it holds is known, and no opening is on record yet.
pub struct Prepared {
    core: Rc<Core>,
    how: How,
    recovered: Recovered,
    /// Blocks of the log that are wrong on their members.
    wrong: Vec<WrongSlot>,
    overruled: Vec<u64>,
    labels: Vec<WrongLabel>,
    blank: Vec<(MemberId, u64, u64)>,
    /// Members that are taken again.
    returned: Vec<Returning>,
}

/// Reads what a pool holds, and whether it can be opened so. Only members that are out of use and come back
/// may be written to.
///
/// # Errors
/// As of [`open`].
pub async fn prepare(
    io: &Io,
    chosen: Chosen,
    how: How,
    config: PoolConfig,
) -> Result<Prepared, PoolOpenError> {
    match prepare_as(io, chosen.clone(), how, config).await {
        Err(why @ PoolOpenError::NoRoom { .. }) => {
            let prepared = prepare_as(io, chosen, How::ReadOnly, config).await?;
            prepared.core.shut.replace(Some(why));
            Ok(prepared)
        }
        prepared => prepared,
    }
}

async fn prepare_as(
    io: &Io,
    mut chosen: Chosen,
    how: How,
    config: PoolConfig,
) -> Result<Prepared, PoolOpenError> {
    let unknown = chosen.label.features.unknown();
    if how != How::ReadOnly && unknown.read_only != 0 {
        return Err(PoolOpenError::Features(unknown));
    }
    if how != How::ReadOnly {
        Belonging::check(&chosen.head, config.host, config.takes_over).map_err(PoolOpenError::Anothers)?;
    }
    refuse_absent(&chosen)?;
    refuse_unlisted(&chosen)?;
    let returned = if how == How::ReadOnly { Vec::new() } else { chosen.returning.clone() };
    returned.iter().for_each(|&one| chosen.take(one));
    let (overruled, labels) = (chosen.overruled.clone(), chosen.wrong.clone());
    let (missing, blank) = (chosen.missing.clone(), chosen.blank.clone());
    let core = begin(io, chosen, how, config);
    let known = core.known(how, &missing, &returned).await;
    let known = match (known, how) {
        (Ok(known), How::Writing { .. }) => core.has_room_to_open().await.map(|()| known),
        (known, _) => known,
    };
    match known {
        Ok((recovered, wrong)) => {
            Ok(Prepared { core, how, recovered, wrong, overruled, labels, blank, returned })
        }
        Err(why) => {
            core.set.ended.set(true);
            Err(why)
        }
    }
}

/// A vdev without any member can't be opened in any case. How many segments it has, none of the devices confirms, and it would be believed: each
/// takes memory.
fn refuse_absent(chosen: &Chosen) -> Result<(), PoolOpenError> {
    let (label, mut is_there) = (&chosen.label, vec![false; chosen.label.vdevs.len()]);
    let role = |member: u16| label.members.get(usize::from(member)).and_then(|record| record.role);
    let mut missing = Vec::new();
    for (member, device) in (0..).zip(&chosen.members) {
        match (role(member), device) {
            (Some((vdev, _)), Some(_)) => is_there[usize::from(vdev)] = true,
            (Some(_), None) => missing.push(Role::of(label, member).to_string()),
            (None, _) => {}
        }
    }
    match is_there.iter().all(|&is_there| is_there) {
        true => Ok(()),
        false => Err(PoolOpenError::TooManyMissing { missing: missing.join(", ") }),
    }
}

/// A pool of which nothing is known yet.
fn begin(io: &Io, chosen: Chosen, how: How, config: PoolConfig) -> Rc<Core> {
    let core = core_of(&io.owned(), chosen, how, config);
    // From the first read on: a member that falls silent is given up then, too.
    drop(core.set.io.spawn(watch(core.me.clone(), core.set.io.clone(), config.patience)));
    core
}

impl Prepared {
    /// The pool as it would be; it takes no requests.
    pub fn pool(&self) -> Pool {
        Pool::new(Rc::clone(&self.core))
    }

    /// Leaves the pool as it was.
    pub fn give_up(self) {
        self.core.set.ended.set(true);
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`PoolOpenError`].
    pub async fn open(self) -> Result<(Pool, Recovered), PoolOpenError> {
        let core = Rc::clone(&self.core);
        if let How::Writing { opening, .. } = self.how
            && let Err(why) = self.record(opening).await
        {
            core.set.ended.set(true);
            return Err(why);
        }
        core.run.opens();
        core.space.borrow_mut().opened();
        // Each of these goes through all segments.
        core.set.io.yield_now().await;
        if !core.read_only {
            core.has_copies_of_all();
            core.forget_void_copies();
            core.begin_succession();
        }
        core.set.io.yield_now().await;
        core.plan_raise();
        core.see_to_parity();
        core.set.io.yield_now().await;
        core.begin_resilver();
        Ok((Pool::new(core), self.recovered))
    }

    /// Puts on record, before the first request, that the pool is open and which members are out of use.
    async fn record(&self, opening: u64) -> Result<(), PoolOpenError> {
        let core = &self.core;
        core.allocate(&self.blank).await?;
        // A member that the uberblock calls one in use has the config that it names.
        core.give_config(&self.labels).await?;
        core.set_right(&self.wrong).await;
        {
            let lineage = &mut core.record.last.borrow_mut().lineage;
            lineage.splice(0..0, self.overruled.iter().flat_map(|&opening| [OVERRULED, opening]));
            lineage.truncate(LINEAGE);
        }
        if core.config.host != Host::NONE {
            core.went_so("opened for writing");
        }
        core.checkpoint(Why::Opening(opening)).await?;
        {
            let _turn = core.record.turns.turn().await;
            core.let_configs_rest().await?;
        }
        let is_in = |one: &&Returning| core.set.members.writable(one.member).is_some();
        for one in self.returned.iter().filter(is_in) {
            core.happened(PoolEvent::MemberReturned, Some(one.member), None);
        }
        // Segments that this one has freed the next gives to the log.
        match core.checkpoint(Why::Due).await {
            Ok(()) | Err(VolumeError::Member { error: OpError::NoSpace, .. }) => {}
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }
}

fn core_of(io: &Io, chosen: Chosen, how: How, config: PoolConfig) -> Rc<Core> {
    let Chosen { label, head, members: ids, spares, torn, wrong, .. } = chosen;
    let seconds = wrong.iter().filter(|label| label.place == 1).map(|label| (label.member, label.at));
    let label_of_now = CurrentLabel::found(label.clone(), seconds);
    let device = |id: Option<MemberId>| id.map(|id| Device { id, data_offset: DATA_START });
    let members = Rc::new(Members::new(io, ids.into_iter().map(device)));
    // Each vdev bears losses of its own; `lose` asks which.
    let redundant = label.vdevs.iter().any(|vdev| vdev.parity > 0);
    let treatment = Treatment {
        dependence: Dependence { redundant, coupled: false },
        patience: config.patience,
        waits_for_space: false,
        observed: false,
        scratch: 4 << 20,
    };
    let count = members.len();
    let (last, scrub) = (head.sequence, head.scrub);
    let space = Space::unread(&label, BTreeMap::new());
    Rc::new_cyclic(|me: &Weak<Core>| Core {
        set: MemberSet::new(io, members, Flushes::new(io), &treatment, me.clone()),
        config,
        read_only: how == How::ReadOnly,
        locks: RangeLock::new(io),
        space: RefCell::new(space),
        map: RefCell::new(Map::default()),
        map_memory: Cell::new(config.map_memory),
        dirty_memory: Cell::new(config.dirty_memory),
        log: Log::new(io, last),
        crew: Crew::new(io),
        loading: RefCell::default(),
        batches: Scratch::new(io, config.memory, count),
        reads: Scratch::new(io, config.memory, count),
        record: Record::new(io, head, torn),
        run: Run::default(),
        checkpoints: Checkpoints::new(io),
        refusals: Refusals::new(MAX_MEMBERS as u16),
        volumes: VolumeList::default(),
        history: PoolHistory::default(),
        room: Notify::new(io),
        room_unsure: Cell::new(true),
        shut: RefCell::default(),
        cleaner: Cleaner::default(),
        resilvering: Resilvering::default(),
        changing: RefCell::default(),
        coming: RefCell::default(),
        spares: Spares::new(spares),
        scrubs: Scrubs::found(scrub),
        damage: RefCell::default(),
        written: Cell::new(Written::default()),
        requests: Cell::new(0),
        events: Events::new(io),
        label: label_of_now,
        me: me.clone(),
    })
}

impl Core {
    /// Reads what the pool holds, and which blocks of the log are wrong on their members; refuses what can't be opened so. Of members that have
    /// `returned` nothing is read that they may have otherwise: they decide on no batch, so that the pool holds what it held without them.
    async fn known(
        &self,
        how: How,
        missing: &[u16],
        returned: &[Returning],
    ) -> Result<(Recovered, Vec<WrongSlot>), PoolOpenError> {
        // By the number of members, then by what lies on them.
        self.refuse_missing()?;
        if let Err(why) = self.load_tables(returned).await {
            // Pages that can't be read are on those.
            self.refuse_many_missing()?;
            return Err(why);
        }
        self.refuse_missing()?;
        self.refuse_lacking(how, missing)?;
        let (recovered, wrong) = self.replay().await;
        if how != How::ReadOnly && recovered.lost > 0 {
            return Err(PoolOpenError::Lost { first: recovered.first_lost, count: recovered.lost });
        }
        if how != How::ReadOnly {
            self.refuse_last_numbers()?;
        }
        Ok((recovered, wrong))
    }

    /// An opening for writing leaves numbers to those behind it: one that ran out of them could not be recorded.
    fn refuse_last_numbers(&self) -> Result<(), PoolOpenError> {
        let head = self.record.last.borrow();
        let all =
            [("records", head.record), ("checkpoints", head.checkpoint), ("batches", self.log.settled())];
        match all.into_iter().find(|(_, number)| *number > LAST_TO_WRITE) {
            Some((what, number)) => Err(PoolOpenError::NumbersEnd { what, number }),
            None => Ok(()),
        }
    }

    fn refuse_lacking(&self, how: How, missing: &[u16]) -> Result<(), PoolOpenError> {
        match how {
            How::Writing { lacking: Lacking::AtMost(most), .. } if missing.len() > most => {
                Err(PoolOpenError::Degraded { missing: self.names_of(missing.iter().copied()) })
            }
            _ => Ok(()),
        }
    }

    fn names_of(&self, members: impl Iterator<Item = u16>) -> String {
        let names = members.map(|member| self.role_of(member).to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    fn refuse_missing(&self) -> Result<(), PoolOpenError> {
        let is_missing = |member: u16| self.set.members.readable(member, u64::MAX).is_none();
        if self.space.borrow().can_lose(is_missing) {
            return Ok(());
        }
        Err(self.too_many_missing())
    }

    fn too_many_missing(&self) -> PoolOpenError {
        let is_missing = |member: u16| self.set.members.readable(member, u64::MAX).is_none();
        let missing = (0..self.set.members.len()).filter(|&member| is_missing(member));
        PoolOpenError::TooManyMissing { missing: self.names_of(missing) }
    }

    /// The same by the number of members.
    fn refuse_many_missing(&self) -> Result<(), PoolOpenError> {
        let present = self.present();
        let lost = |(vdev, present): (&Vdev, &u64)| {
            u32::from(vdev.members) - present.count_ones() > u32::from(vdev.parity)
        };
        if self.label.get().vdevs.iter().zip(&present).any(lost) {
            Err(self.too_many_missing())
        } else {
            Ok(())
        }
    }
}

const _: () = assert!(DATA_START.is_multiple_of(BLOCK as u64));

//! Pools among the devices on the command line: which devices are members of one, and how it is opened.

pub(crate) mod holder;
mod report;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use brindle_format::pool::{LABEL_BYTES, Label, PoolError};
use brindle_host::opening::{Lacking, Tuning};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::{Io, MemberId};
use brindle_pool::{
    Belonging, Chosen, How, Looked, MemberHead, Pool, PoolConfig, PoolOpenError, Prepared, Recovered, choose,
    look, prepare,
};

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::host::{host_as_it_is, this_host};
use crate::base::look::{candidate, is_unfit, reader};
use crate::base::machine;
use crate::base::random::random_uuid;
use crate::base::typed;
use crate::devices::world::{self, World, WorldOptions, file_of, place, seconds_since_1970};
pub(crate) use report::PoolReport;

/// The label of a device that is a member of a pool.
pub(crate) fn label_of(path: &Path) -> Option<Label> {
    Some(asked(path, &Tuning::USUAL)?.ok()?.label)
}

/// The label of a device that is a member of a pool, with its youngest uberblock.
///
/// # Errors
/// It is a member of one that this release does not read: [`PoolOpenError::OtherVersion`].
pub(crate) fn member_head(path: &Path) -> Result<Option<MemberHead>, Failure> {
    match asked(path, &Tuning::USUAL) {
        Some(Err(error)) if error.is_of_another_version() => {
            Err(PoolOpenError::OtherVersion { device: path.display().to_string(), error }.into())
        }
        found => Ok(found.and_then(Result::ok)),
    }
}

/// The UUIDs of pools that a device's labels name, of whatever version these are, as reports write them. The device may hang.
pub(crate) fn named_on(path: &Path) -> Vec<String> {
    let Ok(device) = OpenDevice::open(file_of(path), DeviceAccess::Examine) else { return Vec::new() };
    let at = |offset: u64| device.read_at(offset, LABEL_BYTES as usize).ok();
    brindle_pool::pools_named(device.info().size, at).iter().map(ToString::to_string).collect()
}

/// Reads a device's label; `None` if the device does not answer in time.
fn asked(path: &Path, tuning: &Tuning) -> Option<Result<MemberHead, PoolError>> {
    let path = file_of(path).to_owned();
    let patience = std::time::Duration::from_millis(tuning.patience.answer());
    let read = move || {
        let none = PoolError::Magic { what: "label" };
        let device = OpenDevice::open(&path, DeviceAccess::Examine).map_err(|_| none)?;
        let at = |offset: u64| device.read_at(offset, LABEL_BYTES as usize).ok();
        brindle_pool::head_of(device.info().size, at)
    };
    within(patience, read).ok().flatten()
}

/// Whether one of these is a member of a pool, be it of one that this release does not read.
pub(crate) fn are_of_pool(members: &[PathBuf]) -> bool {
    let is_of_pool =
        |found: Result<MemberHead, PoolError>| found.map_or_else(|why| why.is_of_another_version(), |_| true);
    members.iter().any(|path| asked(path, &Tuning::USUAL).is_some_and(is_of_pool))
}

/// The named devices, sorted into members of pools and others.
#[derive(Default)]
pub(crate) struct Sorted {
    /// The pools, each in the place of the first device that says that it is a member.
    pub(crate) pools: Vec<SortedPool>,
    /// Members of pools that this release does not read.
    pub(crate) refused: Vec<(PathBuf, PoolError)>,
    /// All other devices.
    pub(crate) others: Vec<PathBuf>,
    /// Devices that did not answer, by their names: each further try would leave one more question with them.
    pub(crate) silent: Vec<String>,
}

/// A pool among named devices.
pub(crate) struct SortedPool {
    /// The label of the first of its members.
    pub(crate) label: Label,
    pub(crate) members: Vec<PathBuf>,
}

/// Separates members of pools from other members.
pub(crate) fn sort(members: &[PathBuf], tuning: &Tuning) -> Sorted {
    let mut sorted = Sorted::default();
    for path in members {
        let label = asked(path, tuning);
        if label.is_none() {
            sorted.silent.push(path.display().to_string());
        }
        match label {
            Some(Err(why)) if why.is_of_another_version() => sorted.refused.push((path.clone(), why)),
            None | Some(Err(_)) => sorted.others.push(path.clone()),
            Some(Ok(MemberHead { label, .. })) => {
                match sorted.pools.iter_mut().find(|pool| pool.label.pool == label.pool) {
                    Some(pool) => pool.members.push(path.clone()),
                    None => sorted.pools.push(SortedPool { label, members: vec![path.clone()] }),
                }
            }
        }
    }
    sorted
}

impl SortedPool {
    /// Its UUID, as reports write it.
    pub(crate) fn uuid(&self) -> String {
        self.label.pool.to_string()
    }

    /// Members that were not named.
    fn lacks(&self) -> usize {
        self.label.members.len().saturating_sub(self.members.len())
    }
}

impl Sorted {
    /// Gives devices that are members of nothing to pools that lack as many: they may have lost their labels, and don't keep the others from
    /// being used. Where there are more of them they stay what they are.
    pub(crate) fn give_lost_devices(&mut self) {
        let all: usize = self.pools.iter().map(SortedPool::lacks).sum();
        if all == 0 {
            return;
        }
        let (lost, others): (Vec<PathBuf>, Vec<PathBuf>) =
            self.others.iter().cloned().partition(|path| is_nobodys(path));
        if lost.len() > all {
            return;
        }
        let mut lost = lost.into_iter();
        for pool in &mut self.pools {
            let lacks = pool.lacks();
            pool.members.extend(lost.by_ref().take(lacks));
        }
        self.others = others;
    }
}

/// Whether a device is there, and has no superblock of an array.
fn is_nobodys(path: &Path) -> bool {
    let Ok(device) = place::open(file_of(path), DeviceAccess::Examine) else { return false };
    let found = candidate(&path.display().to_string(), device.info(), reader(&device));
    found.is_ok_and(|found| is_unfit(&found))
}

/// A pool that was opened, and how its members were named.
pub(crate) struct Opened {
    pub(crate) pool: Pool,
    pub(crate) recovered: Recovered,
    /// The members that the pool uses, by number.
    pub(crate) members: Vec<Option<String>>,
    /// All devices that were opened for it.
    pub(crate) devices: Vec<(String, MemberId)>,
    /// Devices that were named and are done without, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// Devices with a damaged label, and its byte there.
    pub(crate) damaged: Vec<(String, u64)>,
    /// Members that were in use and are missing, for which it waits; until then it is for reading alone.
    pub(crate) waits_for: Vec<String>,
    /// Damaged labels were written anew.
    mended: bool,
    /// The host that it belonged to before.
    whose: Belonging,
}

/// How a pool is opened.
#[derive(Clone, Copy)]
pub(crate) struct PoolUse {
    pub(crate) access: DeviceAccess,
    /// The treatment of a pool without members that were in use.
    pub(crate) lacking: Lacking,
    /// The side of a pool whose members went apart, and a member of it.
    pub(crate) take: Option<(usize, u16)>,
    /// One that another host has not exported is taken from it.
    pub(crate) takes_over: bool,
    pub(crate) tuning: Tuning,
    /// Pools that share the memory for their maps.
    pub(crate) pools: usize,
}

impl Opened {
    /// Opens the pool of these members in a world, unless `check` refuses that: then it is left as it was.
    pub(crate) fn open(
        world: &World,
        members: &[PathBuf],
        how: PoolUse,
        check: Check<'_>,
    ) -> Result<Self, Failure> {
        let (mut named, mut left_out) = (Vec::new(), Vec::new());
        for path in members {
            let name = path.display().to_string();
            match world.open_bare(path, how.access) {
                Ok(id) => named.push((name, id)),
                Err(failure) => left_out.push((name, or_done_without(failure)?)),
            }
        }
        let ids: Vec<MemberId> = named.iter().map(|(_, id)| *id).collect();
        let opened = world.io.block_on(Self::of(&world.io, named, left_out, how, check));
        if opened.is_err() {
            // Another may open them.
            let _stuck = world.locks.unlock_those(&world.close_devices(&ids));
        }
        opened
    }

    /// Looks whether the pool of these members can be opened: it is left as it was.
    pub(crate) fn try_open(world: &World, members: &[PathBuf], how: PoolUse) -> Result<(), Failure> {
        let is_known = Cell::new(false);
        let stop = |_: &Pool| {
            is_known.set(true);
            Err(Failure::Refused("it was only looked at".to_owned()))
        };
        match Self::open(world, members, how, &stop) {
            Err(why) if !is_known.get() => Err(why),
            _ => Ok(()),
        }
    }

    /// The same of devices that are open, each with its name, and of those that are done without.
    pub(crate) async fn of(
        io: &Io,
        named: Vec<(String, MemberId)>,
        mut left_out: Vec<(String, String)>,
        PoolUse { access, lacking, take, takes_over, tuning, pools }: PoolUse,
        check: Check<'_>,
    ) -> Result<Self, Failure> {
        let looked = look_at(io, &named, &mut left_out).await?;
        let chosen = choose(&looked, take)?;
        let names = |id| looked.iter().find(|one| Some(one.id) == id).map(|one| one.name.clone());
        let damaged = chosen.wrong.iter().filter(|label| label.damaged);
        let damaged = damaged.filter_map(|label| Some((names(Some(label.id))?, label.at))).collect();
        let how = match access {
            DeviceAccess::Write => how_to_write(lacking, left_out.len())?,
            DeviceAccess::Read | DeviceAccess::Examine => How::ReadOnly,
        };
        // An opening for writing has looked at them.
        let may_return = access != DeviceAccess::Write;
        let returning: Vec<MemberId> =
            chosen.returning.iter().filter(|_| may_return).map(|one| one.id).collect();
        let map_memory = Tuning::share_of_map(tuning.map_memory(machine::memory()), pools);
        let config = tuning.pool(map_memory, seconds_since_1970);
        let host = if access == DeviceAccess::Write { this_host() } else { host_as_it_is() };
        let config = PoolConfig { host, takes_over, ..config };
        let (name, whose) = (chosen.label.name.clone(), Belonging::of(&chosen.head, host));
        let prepared = prepared(io, chosen, how, lacking, config).await;
        let (prepared, waits_for) = prepared.map_err(|source| without(failure(&name, source), &left_out))?;
        if let Err(why) = check(&prepared.pool()) {
            prepared.give_up();
            return Err(why);
        }
        let opened = prepared.open().await;
        let (pool, recovered) = opened.map_err(|source| without(source.into(), &left_out))?;
        let used: Vec<Option<MemberId>> = pool.status().members.iter().map(|member| member.device).collect();
        left_out.extend(stale(&looked, &used, &returning));
        let members = used.into_iter().map(names).collect();
        let mended = !pool.is_read_only();
        Ok(Self { pool, recovered, members, devices: named, left_out, damaged, waits_for, mended, whose })
    }

    /// Warns on standard error of members that are missing, and of damaged labels.
    pub(crate) fn warn(&self) {
        self.left_out.iter().for_each(|(_, why)| eprintln!("brindle: {why}; going on without it"));
        if !self.waits_for.is_empty() {
            eprintln!(
                "brindle: {}: members that were in use are missing: {}; it is read-only until they are here, unless its settings say \
                 degraded = true",
                self.pool.label().name,
                self.waits_for.join(", ")
            );
        }
        let label = self.pool.label();
        if let Some(told) = holder::told(&label.name, self.whose, self.pool.is_read_only()) {
            eprintln!("brindle: {told}");
        }
        let then = if self.mended { "it is written anew from" } else { "going on with" };
        for (name, at) in &self.damaged {
            eprintln!("brindle: {name}: its label at byte {at} is damaged; {then} the other");
        }
        if let Some(why) = self.pool.why_read_only() {
            eprintln!("brindle: {why}");
        }
        if self.recovered.lost > 0 {
            eprintln!(
                "brindle: {} batches that were on stable storage are lost, from number {} on: blocks that were written then are as they \
                 were before",
                self.recovered.lost, self.recovered.first_lost
            );
        }
    }
}

/// The reason why a pool is opened without a device that could not be.
///
/// # Errors
/// The failure itself, if it is for the user to put right.
pub(crate) fn or_done_without(failure: Failure) -> Result<String, Failure> {
    match failure {
        Failure::Probe { .. } | Failure::Unfit { .. } => Ok(failure.to_string()),
        failure => Err(failure),
    }
}

/// The failure to open the pool of that name.
fn failure(name: &str, why: PoolOpenError) -> Failure {
    match why {
        PoolOpenError::Anothers(of) => Failure::Refused(holder::refused(name, &of)),
        why => why.into(),
    }
}

fn without(source: Failure, left_out: &[(String, String)]) -> Failure {
    if left_out.is_empty() {
        return source;
    }
    let left_out = left_out.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ");
    Failure::Without { source: Box::new(source), left_out }
}

/// Refuses a pool that is known and not open yet.
pub(crate) type Check<'a> = &'a dyn Fn(&Pool) -> Result<(), Failure>;

/// Looks at devices; the pool does without devices that can't be members. One of another version is one: it is refused, and does not count as
/// missing.
async fn look_at(
    io: &Io,
    named: &[(String, MemberId)],
    left_out: &mut Vec<(String, String)>,
) -> Result<Vec<Looked>, Failure> {
    let mut looked = Vec::new();
    for (name, id) in named {
        match look(io, name, *id).await {
            Ok(one) => looked.push(one),
            Err(
                why @ (PoolOpenError::Unreadable { .. }
                | PoolOpenError::NoLabel { .. }
                | PoolOpenError::TooSmall { .. }),
            ) => left_out.push((name.clone(), why.to_string())),
            Err(why) => return Err(why.into()),
        }
    }
    if looked.is_empty() {
        let whys: Vec<&str> = left_out.iter().map(|(_, why)| why.as_str()).collect();
        return Err(Failure::Refused(whys.join("; ")));
    }
    Ok(looked)
}

/// An opening for writing. Devices that are there and are no members any more may be members that were in use.
fn how_to_write(lacking: Lacking, lost: usize) -> Result<How, Failure> {
    let opening = random_uuid()?.as_u64_pair().0 | 1;
    let lacking = match lacking {
        Lacking::Degraded => brindle_pool::Lacking::Any,
        Lacking::Refused | Lacking::ReadOnly => brindle_pool::Lacking::AtMost(lost),
    };
    Ok(How::Writing { opening, lacking })
}

/// A pool that is about to be opened, and the members for which it waits.
async fn prepared(
    io: &Io,
    chosen: Chosen,
    how: How,
    lacking: Lacking,
    config: PoolConfig,
) -> Result<(Prepared, Vec<String>), PoolOpenError> {
    match prepare(io, chosen.clone(), how, config).await {
        Err(PoolOpenError::Degraded { .. }) if lacking == Lacking::ReadOnly => {
            let name = |&member: &u16| brindle_pool::Role::of(&chosen.label, member).to_string();
            let waits_for = chosen.missing.iter().map(name).collect();
            Ok((prepare(io, chosen, How::ReadOnly, config).await?, waits_for))
        }
        prepared => Ok((prepared?, Vec::new())),
    }
}

/// Devices that are of the pool and not in use.
fn stale(looked: &[Looked], used: &[Option<MemberId>], returning: &[MemberId]) -> Vec<(String, String)> {
    let is_stale = |one: &&Looked| used.get(usize::from(one.label.member)) != Some(&Some(one.id));
    let why = |one: &Looked| {
        let then = match returning.contains(&one.id) {
            true => {
                "it is used again as soon as the pool is written to, if nothing that counts on it is out of date"
            }
            false => "it is out of date",
        };
        let why = format!("{}: the pool was written to without it, and {then}", one.name);
        (one.name.clone(), why)
    };
    looked.iter().filter(is_stale).map(why).collect()
}

/// A pool in a world of its own, for a command that ends with it.
pub(crate) struct Alone {
    pub(crate) opened: Opened,
    pub(crate) world: World,
}

impl Alone {
    /// Opens a pool, and reports the members that are missing.
    pub(crate) fn open(members: &[PathBuf], access: DeviceAccess, tuning: Tuning) -> Result<Self, Failure> {
        let how =
            PoolUse { access, lacking: Lacking::Refused, take: None, takes_over: false, tuning, pools: 1 };
        Self::open_so(members, how, &|_| Ok(()))
    }

    /// Opens a pool for a change that `check` does not refuse; `degraded` if members may be missing that were in use.
    pub(crate) fn open_to_change(
        members: &[PathBuf],
        degraded: bool,
        check: Check<'_>,
    ) -> Result<Self, Failure> {
        let lacking = if degraded { Lacking::Degraded } else { Lacking::Refused };
        let (access, tuning) = (DeviceAccess::Write, Tuning::USUAL);
        let how = PoolUse { access, lacking, take: None, takes_over: false, tuning, pools: 1 };
        Self::open_so(members, how, check)
    }

    /// Opens a pool that becomes this host's, by `force` also from a host that has not exported it.
    pub(crate) fn open_to_import(
        members: &[PathBuf],
        (degraded, force): (bool, bool),
    ) -> Result<Self, Failure> {
        let lacking = if degraded { Lacking::Degraded } else { Lacking::Refused };
        let (access, tuning) = (DeviceAccess::Write, Tuning::USUAL);
        let how = PoolUse { access, lacking, take: None, takes_over: force, tuning, pools: 1 };
        Self::open_so(members, how, &|_| Ok(()))
    }

    fn open_so(members: &[PathBuf], how: PoolUse, check: Check<'_>) -> Result<Self, Failure> {
        let PoolUse { access, tuning, .. } = how;
        world::check_budget(&tuning)?;
        let world = World::new(WorldOptions { access, tuning, ..WorldOptions::LOOK })?;
        let opened = Opened::open(&world, members, how, check)?;
        opened.warn();
        Ok(Self { opened, world })
    }

    /// Closes the pool in order, and gives it away: no host has it from then on.
    pub(crate) fn export(self) -> Result<(), Failure> {
        note(&self.opened.pool);
        let exported = self.world.io.block_on(self.opened.pool.export());
        exported.map_err(|source| Failure::Volume { doing: "exporting the pool", source })
    }

    /// Runs work on the pool, and closes it in order. The command goes down in its history.
    pub(crate) fn finish<T>(self, work: impl AsyncFnOnce(&Pool) -> Result<T, Failure>) -> Result<T, Failure> {
        let pool = self.opened.pool.clone();
        let done = self.world.io.block_on(work(&pool));
        if done.is_ok() {
            note(&pool);
        }
        let stopped = self.world.io.block_on(pool.stop());
        stopped.map_err(|source| Failure::Volume { doing: "stopping the pool", source })?;
        done
    }
}

/// The command of this process goes down in the history of a pool that it has changed.
pub(crate) fn note(pool: &Pool) {
    pool.note_command(&typed::command_line(), Some(typed::user()));
}

/// The pool and the volume of `POOL/NAME`.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Failure> {
    name.split_once('/')
        .filter(|(pool, volume)| !pool.is_empty() && !volume.is_empty())
        .ok_or_else(|| Failure::Usage(format!("'{name}' names no volume of a pool: give POOL/NAME")))
}

//! Pools among the devices on the command line: which devices are members of one, and how it is opened.

mod report;

use std::path::{Path, PathBuf};

use brindle_format::pool::{CONFIG_BYTES, LABEL, Label, second_label};
use brindle_host::opening::Tuning;
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::{Io, MemberId};
use brindle_pool::{
    Chosen, DamagedLabel, How, Looked, Pool, PoolOpenError, Recovered, choose, look, open_chosen,
};

use crate::deadline::within;
use crate::failure::Failure;
use crate::random::random_uuid;
use crate::world::{self, Opening, World, file_of, seconds_since_1970};
pub(crate) use report::PoolReport;

/// The label of a device that is a member of a pool. No ring is needed for that.
pub(crate) fn label_of(path: &Path) -> Option<Label> {
    asked(path, &Tuning::USUAL)?
}

/// Reads a device's label; `None` if the device does not answer in time.
fn asked(path: &Path, tuning: &Tuning) -> Option<Option<Label>> {
    let path = file_of(path).to_owned();
    let patience = std::time::Duration::from_millis(tuning.patience.answer());
    let read = move || {
        let device = OpenDevice::open(&path, DeviceAccess::Examine).ok()?;
        let size = device.info().size;
        let at = |offset: u64| {
            let fits = offset.checked_add(CONFIG_BYTES as u64).is_some_and(|end| end <= size);
            let bytes = fits.then(|| device.read_at(offset, CONFIG_BYTES).ok()).flatten()?;
            Label::parse(&bytes).ok()
        };
        at(LABEL).or_else(|| at(second_label(size)))
    };
    within(patience, read).ok()?
}

/// Whether one of these is a member of a pool.
pub(crate) fn are_of_pool(members: &[PathBuf]) -> bool {
    members.iter().any(|path| label_of(path).is_some())
}

/// The named devices, sorted into members of pools and others.
#[derive(Default)]
pub(crate) struct Sorted {
    /// The members of pools, pool by pool.
    pub(crate) pools: Vec<Vec<PathBuf>>,
    /// All other devices.
    pub(crate) others: Vec<PathBuf>,
    /// Devices that did not answer, by their names: each further try would leave one more question with them.
    pub(crate) silent: Vec<String>,
}

/// Separates members of pools from other members.
pub(crate) fn sort(members: &[PathBuf], tuning: &Tuning) -> Sorted {
    let mut pools: Vec<(_, Vec<PathBuf>)> = Vec::new();
    let mut sorted = Sorted::default();
    for path in members {
        let label = asked(path, tuning);
        if label.is_none() {
            sorted.silent.push(path.display().to_string());
        }
        match label.flatten() {
            None => sorted.others.push(path.clone()),
            Some(label) => match pools.iter_mut().find(|(id, _)| *id == label.pool) {
                Some((_, members)) => members.push(path.clone()),
                None => pools.push((label.pool, vec![path.clone()])),
            },
        }
    }
    sorted.pools = pools.into_iter().map(|(_, members)| members).collect();
    sorted
}

/// A pool that was opened, and how its members were named.
pub(crate) struct Opened {
    pub(crate) pool: Pool,
    pub(crate) recovered: Recovered,
    /// The members that the pool uses, by number.
    pub(crate) members: Vec<Option<String>>,
    /// All devices that were opened for it.
    pub(crate) devices: Vec<MemberId>,
    /// Devices that were named and are done without, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// Devices with a damaged label, and its byte there.
    pub(crate) damaged: Vec<(String, u64)>,
    /// Damaged labels were written anew.
    mended: bool,
}

/// How a pool is opened.
#[derive(Clone, Copy)]
pub(crate) struct PoolUse {
    pub(crate) access: DeviceAccess,
    /// The side of a pool whose members went apart, and a member of it.
    pub(crate) take: Option<(usize, u16)>,
    pub(crate) tuning: Tuning,
}

impl Opened {
    /// Opens the pool of these members in a world.
    pub(crate) fn open(
        world: &World,
        members: &[PathBuf],
        access: DeviceAccess,
        take: Option<(usize, u16)>,
        tuning: Tuning,
    ) -> Result<Self, Failure> {
        let (mut named, mut left_out) = (Vec::new(), Vec::new());
        for path in members {
            let name = path.display().to_string();
            match world.open_bare(path, access) {
                Ok(id) => named.push((name, id)),
                Err(failure) => left_out.push((name, or_done_without(failure)?)),
            }
        }
        world.io.block_on(Self::of(&world.io, named, left_out, PoolUse { access, take, tuning }))
    }

    /// The same of devices that are open, each with its name, and of those that are done without.
    pub(crate) async fn of(
        io: &Io,
        named: Vec<(String, MemberId)>,
        mut left_out: Vec<(String, String)>,
        PoolUse { access, take, tuning }: PoolUse,
    ) -> Result<Self, Failure> {
        let mut looked = Vec::new();
        let devices = named.iter().map(|(_, id)| *id).collect();
        for (name, id) in named {
            match look(io, &name, id).await {
                Ok(one) => looked.push(one),
                Err(
                    why @ (PoolOpenError::Unreadable { .. }
                    | PoolOpenError::NoLabel { .. }
                    | PoolOpenError::TooSmall { .. }),
                ) => {
                    left_out.push((name, why.to_string()));
                }
                Err(why) => return Err(why.into()),
            }
        }
        if looked.is_empty() {
            let whys: Vec<String> = left_out.into_iter().map(|(_, why)| why).collect();
            return Err(Failure::Refused(whys.join("; ")));
        }
        let chosen = choose(&looked, take)?;
        left_out.extend(stale(&looked, &chosen));
        let names = |id| looked.iter().find(|one| Some(one.id) == id).map(|one| one.name.clone());
        let members = chosen.members.iter().map(|&id| names(id)).collect();
        let damaged = |(id, label): &(MemberId, DamagedLabel)| Some((names(Some(*id))?, label.at));
        let damaged = chosen.damaged.iter().filter_map(damaged).collect();
        let how = match access {
            DeviceAccess::Write => How::Writing { opening: random_uuid()?.as_u64_pair().0 | 1 },
            DeviceAccess::Read | DeviceAccess::Examine => How::ReadOnly,
        };
        let opened = open_chosen(io, chosen, how, tuning.pool(seconds_since_1970)).await;
        let (pool, recovered) = opened.map_err(|source| without(source, &left_out))?;
        let mended = !pool.is_read_only();
        Ok(Self { pool, recovered, members, devices, left_out, damaged, mended })
    }

    /// Warns on standard error of members that are missing, and of damaged labels.
    pub(crate) fn warn(&self) {
        self.left_out.iter().for_each(|(_, why)| eprintln!("brindle: {why}; going on without it"));
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

fn without(source: PoolOpenError, left_out: &[(String, String)]) -> Failure {
    let source = Failure::from(source);
    if left_out.is_empty() {
        return source;
    }
    let left_out = left_out.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>().join("; ");
    Failure::Without { source: Box::new(source), left_out }
}

/// Members that missed the last writes.
fn stale(looked: &[Looked], chosen: &Chosen) -> Vec<(String, String)> {
    let is_stale = |one: &&Looked| chosen.members[usize::from(one.label.member)] != Some(one.id);
    let why = |one: &Looked| {
        let why = format!("{}: the pool was written to without it, and it is out of date", one.name);
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
        world::check_budget(tuning.memory)?;
        let world = World::new(Opening { access, tuning, ..Opening::LOOK })?;
        let opened = Opened::open(&world, members, access, None, tuning)?;
        opened.warn();
        Ok(Self { opened, world })
    }

    /// Runs work on the pool, and closes it in order.
    pub(crate) fn finish<T>(self, work: impl AsyncFnOnce(&Pool) -> Result<T, Failure>) -> Result<T, Failure> {
        let pool = self.opened.pool.clone();
        let done = self.world.io.block_on(work(&pool));
        let stopped = self.world.io.block_on(pool.stop());
        stopped.map_err(|source| Failure::Volume { doing: "stopping the pool", source })?;
        done
    }
}

/// The pool and the volume of `POOL/NAME`.
pub(crate) fn split(name: &str) -> Result<(&str, &str), Failure> {
    name.split_once('/')
        .filter(|(pool, volume)| !pool.is_empty() && !volume.is_empty())
        .ok_or_else(|| Failure::Usage(format!("'{name}' names no volume of a pool: give POOL/NAME")))
}

//! `brindle pool`: creates, reports and destroys pools. `brindle volume` does the same with their volumes.

mod create;
mod disks;
mod erase;
mod volume;

use std::path::Path;
use std::time::{Duration, Instant};

use brindle_host::opening::Tuning;
use brindle_host::status::{PoolFacts, PoolStatus, Report, VolumeFacts};
use brindle_io::device::DeviceAccess;
use serde::Serialize;
use serde_json::json;

use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::base::{report, runtime};
use crate::client::ask::{self, Target, stop_here};
use crate::client::control::{Answer, Request};
use crate::client::status::text_of_pool;
use crate::devices::pools::{Alone, PoolReport};
use crate::flags::cli::{Pool, PoolCommand, PoolDestroy, PoolReportArgs};
pub(crate) use volume::volume;

/// `brindle pool`.
pub(crate) fn pool(args: &Pool) -> Result<(), Failure> {
    match &args.command {
        PoolCommand::Create(args) => create::create(args),
        PoolCommand::Status(args) => {
            let pools = reports(args)?;
            let served: Vec<String> = pools.iter().filter_map(Shown::status).map(text_of_pool).collect();
            if args.stopped.members.is_empty() {
                return show(args.json, &pools, || served.join("\n"));
            }
            let alone = Alone::open(&args.stopped.members, DeviceAccess::Read, Tuning::USUAL)?;
            let report = PoolReport::of(&alone.opened);
            if args.json { report::print_json(&report) } else { report::print(&report.text()) }
        }
        PoolCommand::List(args) => {
            let pools = reports(args)?;
            show(args.json, &pools, || pools.iter().map(line).collect())
        }
        PoolCommand::Rename(args) => volume::rename_pool(args),
        PoolCommand::Destroy(args) => destroy(args),
    }
}

/// A pool that is served, or one whose members were given.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
    Served(Box<PoolStatus>),
    Alone { name: String, volumes: Vec<VolumeFacts>, pool: Box<PoolReport> },
}

impl Shown {
    fn name(&self) -> &str {
        match self {
            Self::Served(status) => &status.name,
            Self::Alone { name, .. } => name,
        }
    }

    fn facts(&self) -> &PoolFacts {
        match self {
            Self::Served(status) => &status.pool,
            Self::Alone { pool, .. } => pool.facts(),
        }
    }

    fn volumes(&self) -> &[VolumeFacts] {
        match self {
            Self::Served(status) => &status.volumes,
            Self::Alone { volumes, .. } => volumes,
        }
    }

    fn status(&self) -> Option<&PoolStatus> {
        match self {
            Self::Served(status) => Some(status),
            Self::Alone { .. } => None,
        }
    }
}

fn show(json: bool, pools: &[Shown], text: impl FnOnce() -> String) -> Result<(), Failure> {
    match (json, pools.is_empty()) {
        // In the order of a report that comes over the control socket.
        (true, _) => report::print_json(&json!(pools)),
        (false, true) => report::print("no pool is served\n"),
        (false, false) => report::print(&text()),
    }
}

/// A pool in a line, as `zpool list` has it.
fn line(shown: &Shown) -> String {
    let PoolFacts { capacity, sold, stored, state, .. } = shown.facts();
    let [capacity, sold, stored] = [*capacity, *sold, *stored].map(Bytes);
    let (name, state) = (shown.name(), state.join(", "));
    format!("{name}  {capacity} to be sold, {sold} sold, {stored} stored  {state}\n")
}

/// Reports of the pools that are meant: served ones, or that of the members that were given.
pub(super) fn reports(args: &PoolReportArgs) -> Result<Vec<Shown>, Failure> {
    if !args.stopped.members.is_empty() {
        let alone = Alone::open(&args.stopped.members, DeviceAccess::Read, Tuning::USUAL)?;
        refuse_other(alone.opened.pool.label().name.as_str(), args.name.as_deref())?;
        let name = alone.opened.pool.label().name.clone();
        let pool = Box::new(PoolReport::of(&alone.opened));
        return Ok(vec![Shown::Alone { name, volumes: pool.volumes().to_vec(), pool }]);
    }
    let folder = runtime::folder(args.runtime.folder())?;
    let pools = match &args.name {
        Some(name) => vec![served(&folder, name)?],
        None => all(&folder),
    };
    Ok(pools.into_iter().map(|status| Shown::Served(Box::new(status))).collect())
}

/// All pools that are served here.
fn all(folder: &Path) -> Vec<PoolStatus> {
    let pools = ask::reports(folder).into_iter().filter_map(|report| match report {
        Report::Pool(status) => Some(*status),
        Report::Array(_) | Report::Absent(_) | Report::Other(_) => None,
    });
    pools.collect()
}

/// The pool of that name.
pub(super) fn served(folder: &Path, name: &str) -> Result<PoolStatus, Failure> {
    all(folder).into_iter().find(|status| status.name == name).ok_or_else(|| {
        Failure::NoServer(format!(
            "no server in {} has a pool '{name}': serve it, or give its members with --array",
            folder.display()
        ))
    })
}

/// The pool of the members is the one that was named.
pub(super) fn refuse_other(is: &str, named: Option<&str>) -> Result<(), Failure> {
    match named {
        Some(named) if named != is => Err(Failure::Usage(format!(
            "the members are of the pool '{is}', not of '{named}': name that pool, or the members of this one"
        ))),
        _ => Ok(()),
    }
}

fn destroy(args: &PoolDestroy) -> Result<(), Failure> {
    let members = if args.pool.stopped.members.is_empty() {
        let folder = runtime::folder(args.runtime.folder())?;
        if !args.force {
            refuse_open(&folder, &args.name)?;
        }
        let status = served(&folder, &args.name)?;
        let here = status.folder.as_deref().unwrap_or(Path::new("."));
        let paths = status.pool.devices.iter().filter_map(|device| device.path.as_ref());
        let paths = paths.map(|path| here.join(path)).collect();
        stop_here(&folder, &Target::of(&status.server, Some(&args.name)))?;
        paths
    } else {
        args.pool.stopped.members.clone()
    };
    let check = |pool: &brindle_pool::Pool| refuse_other(&pool.label().name, Some(&args.name));
    let alone = Alone::open_to_change(&members, args.pool.degraded, &check)?;
    let label = alone.opened.pool.label();
    let status = alone.opened.pool.status();
    let there = (0..).zip(&status.members).filter_map(|(number, member)| Some((number, member.device?)));
    let there: Vec<_> = there.collect();
    let Alone { opened, world } = alone;
    let stopped = world.io.block_on(opened.pool.stop());
    stopped.map_err(|source| Failure::Volume { doing: "stopping the pool", source })?;
    world.io.block_on(brindle_pool::clear(&world.io, &label, &there))?;
    for &(member, id) in &there {
        let name = opened.members.get(usize::from(member)).and_then(Option::as_deref).unwrap_or("a member");
        disks::erase_table(&world, id, name)?;
    }
    if args.json {
        return report::print_json(&json!({"name": args.name, "destroyed": true}));
    }
    report::print(&format!("{} is destroyed: {} devices are members no more\n", args.name, there.len()))
}

/// Refuses to destroy a pool of which clients have volumes open.
fn refuse_open(folder: &Path, name: &str) -> Result<(), Failure> {
    let clients = || {
        let status = served(folder, name)?;
        Ok::<_, Failure>(status.connections.max(status.devices.len()))
    };
    // The end of a connection may be on its way.
    let begun = Instant::now();
    let mut left = clients()?;
    while left > 0 && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(100));
        left = clients()?;
    }
    if left == 0 {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "{name} is open: its volumes have {left} clients; unmount them where they are mounted, `brindle detach` them or have the clients \
         leave, or give --force"
    )))
}

/// Asks the server of a pool, which answers with how the pool is.
pub(super) fn order(folder: &Path, server: &str, request: &Request) -> Result<Answer<Report>, Failure> {
    ask::ask(folder, server, request)
}

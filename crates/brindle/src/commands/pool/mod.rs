//! `brindle pool`: creates, reports and destroys pools. `brindle volume` does the same with their volumes.

mod create;
mod disks;
mod erase;
mod export;
mod grow;
mod history;
mod import;
mod iostat;
mod members;
mod scrub;
mod status;
mod tree;
mod volume;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use brindle_host::opening::Tuning;
use brindle_host::status::{AbsentStatus, PoolFacts, PoolStatus, Report, VolumeFacts};
use brindle_io::device::DeviceAccess;
use serde::Serialize;
use serde_json::json;

use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::base::{report, runtime};
use crate::client::ask::{self, Target, stop_here};
use crate::client::control::{Answer, Request};
use crate::devices::pools::{Alone, PoolReport};
use crate::flags::cli::{Pool, PoolCommand, PoolEnd, PoolReportArgs, PoolStatusArgs};
use status::Seen;
pub(crate) use volume::volume;

/// `brindle pool`.
pub(crate) fn pool(args: &Pool) -> Result<ExitCode, Failure> {
    let done = match &args.command {
        PoolCommand::Create(args) => create::create(args),
        PoolCommand::Status(args) => show_status(args),
        PoolCommand::List(args) => {
            let pools = reports(args)?;
            show(args.json, &pools, || list(&pools))
        }
        PoolCommand::Iostat(args) => iostat::iostat(args),
        PoolCommand::History(args) => history::history(args),
        PoolCommand::Export(args) => export::export(args),
        PoolCommand::Import(args) => import::import(args),
        PoolCommand::Scrub(args) => return scrub::begin(args),
        PoolCommand::Rename(args) => volume::rename_pool(args),
        PoolCommand::Offline(args) => members::offline(args),
        PoolCommand::Online(args) => members::online(args),
        PoolCommand::Replace(args) => members::replace(args),
        PoolCommand::Add(args) => grow::add(args),
        PoolCommand::Attach(args) => grow::attach(args),
        PoolCommand::Detach(args) => grow::detach(args),
        PoolCommand::Destroy(args) => destroy(args),
    };
    done.map(|()| ExitCode::SUCCESS)
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

    fn seen(&self) -> Seen<'_> {
        let (left_out, served) = match self {
            Self::Served(status) => (status.left_out.iter().map(|one| &*one.why).collect(), Some(&**status)),
            Self::Alone { pool, .. } => (pool.left_out().collect(), None),
        };
        Seen { name: self.name(), pool: self.facts(), left_out, served }
    }
}

/// Pools with their faults, and those that settings mean and that are not served.
fn show_status(args: &PoolStatusArgs) -> Result<(), Failure> {
    let mut pools = reports(&args.of)?;
    let is_all = args.of.name.is_none() && args.of.stopped.members.is_empty();
    if args.faulty {
        pools.retain(|shown| shown.seen().is_faulty());
    }
    if args.of.json {
        return match (&pools[..], args.of.stopped.members.is_empty()) {
            // As it was printed before pools were told by name there.
            ([Shown::Alone { pool, .. }], false) => report::print_json(pool),
            _ => report::print_json(&json!(pools)),
        };
    }
    let absent = if is_all { absent(&runtime::folder(args.of.runtime.folder())?) } else { Vec::new() };
    let mut texts: Vec<String> = pools.iter().map(|shown| shown.seen().text(args.verbose)).collect();
    texts.extend(absent.iter().map(status::absent));
    report::print(&match (texts.is_empty(), args.faulty, &args.of.name) {
        (false, ..) => texts.join("\n"),
        (true, true, Some(name)) => format!("pool '{name}' is healthy\n"),
        (true, true, None) => "all pools are healthy\n".to_owned(),
        (true, false, _) => "no pool is served\n".to_owned(),
    })
}

/// Pools that settings mean, and that no server has.
fn absent(folder: &Path) -> Vec<AbsentStatus> {
    let of = |report| match report {
        Report::Absent(status) if status.kind == "pool" => Some(*status),
        _ => None,
    };
    ask::reports(folder).into_iter().filter_map(of).collect()
}

fn show(json: bool, pools: &[Shown], text: impl FnOnce() -> String) -> Result<(), Failure> {
    match (json, pools.is_empty()) {
        // In the order of a report that comes over the control socket.
        (true, _) => report::print_json(&json!(pools)),
        (false, true) => report::print("no pool is served\n"),
        (false, false) => report::print(&text()),
    }
}

/// Pools in a line each, as `zpool list` has them. Sizes are those of content: what redundancy takes is not among them.
fn list(pools: &[Shown]) -> String {
    let mut lines = vec![["NAME", "SIZE", "ALLOC", "FREE", "CAP", "HEALTH"].map(str::to_owned).to_vec()];
    for shown in pools {
        let PoolFacts { capacity, stored, .. } = shown.facts();
        let [size, alloc, free] =
            [*capacity, *stored, capacity.saturating_sub(*stored)].map(|of| Bytes(of).to_string());
        let cap = format!("{}%", stored.saturating_mul(100) / (*capacity).max(1));
        lines.push(vec![
            shown.name().to_owned(),
            size,
            alloc,
            free,
            cap,
            status::state(shown.facts()).to_owned(),
        ]);
    }
    columns(&lines)
}

/// Lines of columns, of which the first and the last begin at the left.
pub(super) fn columns(lines: &[Vec<String>]) -> String {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |line: &Vec<String>, at: usize| line.get(at).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> =
        (0..count).map(|at| lines.iter().map(|line| cell(line, at)).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
            let is_left = at == 0 || at + 1 == count;
            if is_left { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
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
    served_or(folder, name, "serve it, or give its members with --array")
}

/// The same for a command that does not take members; `way` is the way out.
pub(super) fn served_or(folder: &Path, name: &str, way: &str) -> Result<PoolStatus, Failure> {
    let none = || format!("no server in {} has a pool '{name}': {way}", folder.display());
    all(folder).into_iter().find(|status| status.name == name).ok_or_else(|| Failure::NoServer(none()))
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

fn destroy(args: &PoolEnd) -> Result<(), Failure> {
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

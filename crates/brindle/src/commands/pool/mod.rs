//! `brindle pool`: creates, reports and destroys pools. `brindle volume` does the same with their volumes.

mod create;
mod disks;
mod erase;
mod volume;

use std::path::Path;
use std::time::{Duration, Instant};

use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use serde_json::{Value, json};

use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::base::{report, runtime};
use crate::client::ask::{Target, ask, status_of_all, stop_here};
use crate::client::control::{Request, Response};
use crate::devices::pools::{Alone, PoolReport};
use crate::flags::cli::{Pool, PoolCommand, PoolDestroy, PoolReportArgs};
pub(crate) use volume::volume;

/// `brindle pool`.
pub(crate) fn pool(args: &Pool) -> Result<(), Failure> {
    match &args.command {
        PoolCommand::Create(args) => create::create(args),
        PoolCommand::Status(args) => {
            let pools = reports(args)?;
            let text = |pools: &[Value]| {
                pools.iter().map(crate::client::status::text).collect::<Vec<_>>().join("\n")
            };
            if args.stopped.members.is_empty() {
                return show(args.json, &pools, || text(&pools));
            }
            let alone = Alone::open(&args.stopped.members, DeviceAccess::Read, Tuning::USUAL)?;
            let report = PoolReport::of(&alone.opened);
            if args.json { report::print_json(&report) } else { report::print(&report.text()) }
        }
        PoolCommand::List(args) => {
            let pools = reports(args)?;
            show(args.json, &pools, || pools.iter().map(line).collect())
        }
        PoolCommand::Destroy(args) => destroy(args),
    }
}

fn show(json: bool, pools: &[Value], text: impl FnOnce() -> String) -> Result<(), Failure> {
    match (json, pools.is_empty()) {
        (true, _) => report::print_json(&pools),
        (false, true) => report::print("no pool is served\n"),
        (false, false) => report::print(&text()),
    }
}

/// A pool in a line, as `zpool list` has it.
fn line(report: &Value) -> String {
    let pool = &report["pool"];
    let bytes = |field: &str| Bytes(pool[field].as_u64().unwrap_or(0)).to_string();
    let state = pool["state"].as_array().into_iter().flatten().filter_map(Value::as_str);
    format!(
        "{}  {} to be sold, {} sold, {} stored  {}\n",
        report["name"].as_str().unwrap_or("-"),
        bytes("capacity"),
        bytes("sold"),
        bytes("stored"),
        state.collect::<Vec<_>>().join(", ")
    )
}

/// Reports of the pools that are meant: served ones, or that of the members that were given.
pub(super) fn reports(args: &PoolReportArgs) -> Result<Vec<Value>, Failure> {
    if !args.stopped.members.is_empty() {
        let alone = Alone::open(&args.stopped.members, DeviceAccess::Read, Tuning::USUAL)?;
        refuse_other(alone.opened.pool.label().name.as_str(), args.name.as_deref())?;
        let name = alone.opened.pool.label().name.clone();
        let report = serde_json::to_value(PoolReport::of(&alone.opened)).unwrap_or_default();
        return Ok(vec![json!({"name": name, "volumes": report["volumes"], "pool": report})]);
    }
    let folder = runtime::folder(args.runtime.folder())?;
    match &args.name {
        Some(name) => Ok(vec![served(&folder, name)?.1]),
        None => Ok(all(&folder).into_iter().map(|(_, report)| report).collect()),
    }
}

/// All pools that are served here, each with its server.
fn all(folder: &Path) -> Vec<(String, Value)> {
    let pools = status_of_all(folder).into_iter().flat_map(|(server, answer)| {
        let reports = match answer {
            Ok(Response::Report(reported)) => report::of_arrays(&reported).to_vec(),
            _ => Vec::new(),
        };
        reports
            .into_iter()
            .filter(|report| report["pool"].is_object())
            .map(move |report| (server.clone(), report))
    });
    pools.collect()
}

/// The pool of that name, and its server.
pub(super) fn served(folder: &Path, name: &str) -> Result<(String, Value), Failure> {
    let found = all(folder).into_iter().find(|(_, report)| report["name"] == *name);
    found.ok_or_else(|| {
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
        let (server, report) = served(&folder, &args.name)?;
        let here = report::folder(&report);
        let paths = report["pool"]["devices"].as_array().into_iter().flatten();
        let paths = paths.filter_map(|device| device["path"].as_str()).map(|path| here.join(path)).collect();
        stop_here(&folder, &Target { server, array: Some(args.name.clone()) })?;
        paths
    } else {
        args.pool.stopped.members.clone()
    };
    let check = |pool: &brindle_pool::Pool| refuse_other(&pool.label().name, Some(&args.name));
    let alone = Alone::open_to_change(&members, args.pool.degraded, &check)?;
    let label = alone.opened.pool.label().clone();
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
        let (_, report) = served(folder, name)?;
        let devices = report["devices"].as_array().map_or(0, Vec::len) as u64;
        Ok::<_, Failure>(report["connections"].as_u64().unwrap_or(0).max(devices))
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
pub(super) fn order(folder: &Path, server: &str, request: &Request) -> Result<Value, Failure> {
    ask(folder, server, request)
}

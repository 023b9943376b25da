//! `brindle export`, `unexport` and `disconnect`: who may come to a running array.

use std::path::PathBuf;

use serde_json::Value;

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{self, Meant, Target};
use crate::client::control::Ask;
use crate::flags::cli::{Attach, Detach, Disconnect, Export, Runtime, Unexport};

/// Asks for something of an array.
fn asked(flags: &Runtime, array: &str, request: Ask) -> Result<Value, Failure> {
    let folder = runtime::folder(flags.folder())?;
    let target = Target::find(&folder, array);
    Meant::of(&folder, &target, Some(array))?;
    let Target { server, array } = target;
    ask::ask(&folder, &server, &request.of(array))
}

fn tell(json: bool, answer: &Value, words: &str) -> Result<(), Failure> {
    if json { report::print_json(answer) } else { report::print(words) }
}

pub(crate) fn export(args: &Export) -> Result<(), Failure> {
    let limits = args.limits.said();
    let saving = args.save.begin()?;
    let answer = asked(&args.runtime, &args.array, Ask::Export { limits })?;
    if let Some(mut saving) = saving {
        saving.offer(&answer, limits)?;
        saving.keep()?;
    }
    tell(args.json, &answer, &format!("{} is offered to clients\n", args.array))
}

pub(crate) fn unexport(args: &Unexport) -> Result<(), Failure> {
    let saving = args.save.begin()?;
    let answer = asked(&args.runtime, &args.array, Ask::Unexport)?;
    if let Some(mut saving) = saving {
        saving.withdraw(&answer)?;
        saving.keep()?;
    }
    tell(args.json, &answer, &format!("{} is offered to no client any more; it runs on\n", args.array))
}

/// The server that has a volume: by the volume's name, its pool's, or the device.
fn server_of(flags: &Runtime, name: &str) -> Result<(PathBuf, String), Failure> {
    let folder = runtime::folder(flags.folder())?;
    let device = name.strip_prefix("/dev/").unwrap_or(name);
    let is_device = |reported: &Value| reported == &format!("/dev/{device}");
    let has = |report: &Value| {
        let volumes = report["devices"].as_array().into_iter().flatten();
        is_device(&report["device"]) || volumes.into_iter().any(|pair| is_device(&pair[1]))
    };
    let reports = ask::reports(&folder);
    if let Some(report) = reports.iter().find(|report| has(report)) {
        let server = report["server"].as_str().or(report["name"].as_str()).unwrap_or_default();
        return Ok((folder, server.to_owned()));
    }
    let meant = name.split_once('/').filter(|(pool, _)| !pool.is_empty()).map_or(name, |(pool, _)| pool);
    let Target { server, .. } = Target::find(&folder, meant);
    Ok((folder, server))
}

/// `brindle attach`.
pub(crate) fn attach(args: &Attach) -> Result<(), Failure> {
    let (folder, server) = server_of(&args.runtime, &args.array)?;
    let answer = ask::ask(
        &folder,
        &server,
        &Ask::Attach {
            index: args.device,
            connections: args.connections,
            dead_timeout: args.dead_timeout.0.div_ceil(1000),
        }
        .of(args.array.clone()),
    )?;
    let device = answer["device"].as_str().unwrap_or_default();
    let more = match (answer["link"].as_str(), answer["remark"].as_str()) {
        (Some(link), _) => format!(", named {link}"),
        (None, Some(remark)) => format!("; {remark}"),
        (None, None) => String::new(),
    };
    tell(args.json, &answer, &format!("{} is {device}{more}\n", args.array))
}

/// `brindle detach`.
pub(crate) fn detach(args: &Detach) -> Result<(), Failure> {
    let (folder, server) = server_of(&args.runtime, &args.array)?;
    let answer = ask::ask(&folder, &server, &Ask::Detach.of(args.array.clone()))?;
    let (name, device) =
        (answer["name"].as_str().unwrap_or_default(), answer["device"].as_str().unwrap_or_default());
    tell(args.json, &answer, &format!("{name} is {device} no more; it is served on\n"))
}

/// Whether a report is of a pool with that volume, which is called POOL/VOLUME.
fn has_volume(report: &Value, name: &str) -> bool {
    let Some((pool, volume)) = name.split_once('/').filter(|_| report["pool"].is_object()) else {
        return false;
    };
    let volumes = report["volumes"].as_array().into_iter().flatten();
    report["name"] == *pool && volumes.into_iter().any(|of| of["name"] == *volume)
}

pub(crate) fn disconnect(args: &Disconnect) -> Result<(), Failure> {
    let client = args.client.clone();
    let folder = runtime::folder(args.runtime.folder())?;
    let answer = match ask::reports(&folder).iter().find(|report| has_volume(report, &args.array)) {
        Some(pool) => {
            let server = pool["server"].as_str().unwrap_or_default();
            ask::ask(&folder, server, &Ask::Disconnect { client }.of(args.array.clone()))?
        }
        None => asked(&args.runtime, &args.array, Ask::Disconnect { client })?,
    };
    let ended = answer["disconnected"].as_u64().unwrap_or(0);
    tell(args.json, &answer, &format!("{}: {ended} connections were ended\n", args.array))
}

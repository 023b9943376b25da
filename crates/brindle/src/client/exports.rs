//! `brindle export`, `unexport` and `disconnect`: who may come to a running array.

use std::path::PathBuf;

use brindle_host::status::Report;
use brindle_host::{Done, KernelDevice};
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{self, Order, Target};
use crate::client::control::{Answer, Ask, Told};
use crate::flags::cli::{Attach, Detach, Disconnect, Export, Runtime, Unexport};

/// Orders something for an array.
fn ordered<T: Told>(flags: &Runtime, array: &str, order: Ask) -> Result<Answer<T>, Failure> {
    let folder = runtime::folder(flags.folder())?;
    let target = Target::find(&folder, array);
    Order::of(&folder, &target, Some(array))?.give(order)
}

pub(super) fn tell(json: bool, answer: &impl Serialize, words: &str) -> Result<(), Failure> {
    if json { report::print_json(answer) } else { report::print(words) }
}

pub(crate) fn export(args: &Export) -> Result<(), Failure> {
    let limits = args.limits.said();
    let saving = args.save.begin()?;
    let answer: Answer<Report> = ordered(&args.runtime, &args.array, Ask::Export { limits })?;
    if let Some(mut saving) = saving {
        saving.offer(&answer, limits)?;
        saving.keep()?;
    }
    tell(args.json, &answer, &format!("{} is offered to clients\n", args.array))
}

pub(crate) fn unexport(args: &Unexport) -> Result<(), Failure> {
    let saving = args.save.begin()?;
    let answer: Answer<Report> = ordered(&args.runtime, &args.array, Ask::Unexport)?;
    if let Some(mut saving) = saving {
        saving.withdraw(&answer)?;
        saving.keep()?;
    }
    tell(args.json, &answer, &format!("{} is offered to no client any more; it runs on\n", args.array))
}

/// The server that has a volume: by the volume's name, its pool's, or the device.
pub(super) fn server_of(flags: &Runtime, name: &str) -> Result<(PathBuf, String), Failure> {
    let folder = runtime::folder(flags.folder())?;
    let device = name.strip_prefix("/dev/").unwrap_or(name);
    let device = format!("/dev/{device}");
    let reports = ask::reports(&folder);
    if let Some(report) = reports.iter().find(|report| report.kernels_devices().contains(&&*device)) {
        return Ok((folder, report.server().to_owned()));
    }
    let meant = name.split_once('/').filter(|(pool, _)| !pool.is_empty()).map_or(name, |(pool, _)| pool);
    let Target { server, .. } = Target::find(&folder, meant);
    Ok((folder, server))
}

/// `brindle attach`.
pub(crate) fn attach(args: &Attach) -> Result<(), Failure> {
    let (folder, server) = server_of(&args.runtime, &args.array)?;
    let order = Ask::Attach {
        index: args.device,
        connections: args.connections,
        dead_timeout: args.dead_timeout.0.div_ceil(1000),
    };
    let answer = ask::ask::<KernelDevice>(&folder, &server, &order.of(args.array.clone()))?;
    let device = &answer.device;
    let more = match (&answer.link, &answer.remark) {
        (Some(link), _) => format!(", named {link}"),
        (None, Some(remark)) => format!("; {remark}"),
        (None, None) => String::new(),
    };
    tell(args.json, &answer, &format!("{} is {device}{more}\n", args.array))
}

/// `brindle detach`.
pub(crate) fn detach(args: &Detach) -> Result<(), Failure> {
    let (folder, server) = server_of(&args.runtime, &args.array)?;
    let answer = ask::ask::<KernelDevice>(&folder, &server, &Ask::Detach.of(args.array.clone()))?;
    let KernelDevice { name, device, .. } = &*answer;
    tell(args.json, &answer, &format!("{name} is {device} no more; it is served on\n"))
}

/// Whether a report is of a pool with that volume, which is called POOL/VOLUME.
fn has_volume(report: &Report, name: &str) -> bool {
    let (Some(status), Some((pool, volume))) = (report.pool(), name.split_once('/')) else { return false };
    status.name == pool && status.volumes.iter().any(|of| of.name == volume)
}

pub(crate) fn disconnect(args: &Disconnect) -> Result<(), Failure> {
    let order = Ask::Disconnect { client: args.client.clone() };
    let folder = runtime::folder(args.runtime.folder())?;
    // Only the name of a volume has a slash, or that of a member.
    let reports = if args.array.contains('/') { ask::reports(&folder) } else { Vec::new() };
    let answer: Answer<Done> = match reports.iter().find(|report| has_volume(report, &args.array)) {
        Some(pool) => ask::ask(&folder, pool.server(), &order.of(args.array.clone()))?,
        None => ordered(&args.runtime, &args.array, order)?,
    };
    let ended = answer.disconnected;
    tell(args.json, &answer, &format!("{}: {ended} connections were ended\n", args.array))
}

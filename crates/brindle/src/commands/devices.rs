//! `brindle add`, `remove` and `replace`: devices that come to an array and go, running or stopped; `fail` of one that is
//! stopped.

mod exchange;

use std::path::{Path, PathBuf};

use brindle_array::{Array, Detail, DeviceDetail, DeviceState, Recovery};
use brindle_host::opening::Tuning;
use brindle_host::status::{DeviceStatus, EventStatus, JoinedStatus, RefusedStatus, Report};
use brindle_host::{
    Coming, Done, MISSING, Source, are_meant, not_replaced, removal, take_all_again, take_each_again,
    those_there,
};
use brindle_io::MemberId;
use serde_json::json;

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{Meant, Order, Target, ask, known_as};
use crate::client::control::{Answer, Ask};
use crate::commands::detail;
use crate::devices::host::Host;
use crate::devices::world::{self, FormerMembers, Newcomer, Search, Terms};
use crate::flags::cli::{Add, Fail, Given, Remove, Replace};
use exchange::Exchange;

/// `brindle add`.
pub(crate) fn add(args: &Add) -> Result<(), Failure> {
    let coming = Coming { force: args.force, re_add: args.re_add };
    refuse_missing(args)?;
    refuse_flags(&args.names)?;
    if !args.stopped.members.is_empty() {
        if args.save.save.is_some() {
            return Err(Failure::Usage(
                "--save is for an array that is served: settings say what is".to_owned(),
            ));
        }
        return add_to_stopped(args, coming);
    }
    refuse_given(&args.given)?;
    let (array, names) = split(&args.names)?;
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, Some(array))?;
    let meant = Meant::of(&folder, &target, Some(array))?;
    let device = |name: &String| {
        let known = meant.reported.iter().any(|report| report.has_device(name));
        let as_named = known || name == MISSING;
        if as_named && args.re_add { Ok(PathBuf::from(name)) } else { absolute(name) }
    };
    let devices = names.iter().map(device).collect::<Result<Vec<_>, _>>()?;
    let Coming { force, re_add } = coming;
    // With --re-add a device is taken only as the member of this array that it was.
    if !re_add {
        meant.refuse_doubtful(&folder, &target.server, &devices, world::block_devices)?;
    }
    let saving = args.save.begin()?;
    let request = Ask::Add { devices: devices.clone(), force, re_add }.of(target.array);
    let answer = ask::<Done>(&folder, &target.server, &request)?;
    if let Some(mut saving) = saving {
        let of = meant.reported.iter().find(|report| report.name() == answer.name);
        of.map_or(Ok(()), |report| saving.add(report, &devices))?;
        saving.keep()?;
    }
    let Done { name, added, joined, refused, .. } = &*answer;
    let text = added_text(&added.join(", "), name, joined, refused);
    tell(args.json, &text, || Ok(&answer))
}

/// Behind `--` all are names: a flag there is meant as one, unless there is such a file.
fn refuse_flags(names: &[String]) -> Result<(), Failure> {
    let is_flag = |name: &&String| name.starts_with('-') && !Path::new(name.as_str()).exists();
    match names.iter().find(is_flag) {
        Some(flag) => Err(Failure::Usage(format!(
            "'{flag}' stands behind -- and is taken for a device: say it before --array"
        ))),
        None => Ok(()),
    }
}

/// `missing` stands for members that were, and for all of them.
fn refuse_missing(args: &Add) -> Result<(), Failure> {
    let meant = args.names.iter().filter(|name| *name == MISSING).count();
    let devices = if args.stopped.members.is_empty() { args.names.len() - 1 } else { args.names.len() };
    match (meant, args.re_add) {
        (0, _) => Ok(()),
        (_, false) => Err(Failure::Usage(format!(
            "'{MISSING}' stands for all former members, and is meant for --re-add; a file of that name is ./{MISSING}"
        ))),
        _ if devices > 1 => {
            Err(Failure::Usage(format!("'{MISSING}' stands for all former members: name no other beside it")))
        }
        _ => Ok(()),
    }
}

fn added_text(added: &str, array: &str, joined: &[JoinedStatus], refused: &[RefusedStatus]) -> String {
    let mut text = match (added, !refused.is_empty()) {
        ("", false) => format!("no former member of {array} is to be found\n"),
        ("", true) => String::new(),
        (added, _) => format!("{added} added to {array}\n{}", joined_text(joined)),
    };
    text.extend(refused.iter().map(|refused| format!("left as it is: {}\n", refused.why)));
    text
}

/// The text for devices that were members before.
fn joined_text(joined: &[JoinedStatus]) -> String {
    let line = |JoinedStatus { path, role, why, .. }: &JoinedStatus| match (role, why) {
        (Some(role), _) => Some(format!(
            "{path} is the member of role {role} again, and is given what was written while it was away\n"
        )),
        (None, Some(why)) => Some(format!("{path} is a spare, and not the member that it was: {why}\n")),
        (None, None) => None,
    };
    joined.iter().filter_map(line).collect()
}

/// `brindle replace`.
pub(crate) fn replace(args: &Replace) -> Result<(), Failure> {
    let Exchange { array, old, with } = Exchange::asked(args)?;
    if !args.stopped.members.is_empty() {
        return replace_stopped(args, old, with);
    }
    refuse_given(&args.given)?;
    let Some(array) = array else {
        return Err(Failure::Usage(format!(
            "name the array of '{old}' before it, or give its members with --array"
        )));
    };
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, Some(array))?;
    let meant = Meant::of(&folder, &target, Some(array))?;
    let member = known_as(&meant.reported, old);
    let known = meant.reported.iter().any(|report| report.has_device(with));
    let named = with;
    let with = if known { PathBuf::from(named) } else { absolute(named)? };
    if !known {
        meant.refuse_doubtful(&folder, &target.server, std::slice::from_ref(&with), world::block_devices)?;
    }
    let request = Ask::Replace { member, with, force: args.force }.of(target.array);
    let answer = ask::<Done>(&folder, &target.server, &request)?;
    let array = &answer.name;
    let text = format!("{} of {array} is being replaced by {named}\n", named_as(&meant.reported, old));
    tell(args.json, &text, || Ok(&answer))
}

/// `brindle replace`, of an array that is not served: the copy begins when it is served.
fn replace_stopped(args: &Replace, old_name: &str, with_name: &str) -> Result<(), Failure> {
    let (members, bitmaps) = (&args.stopped.members, &args.given.bitmaps);
    let with = PathBuf::from(with_name);
    change(members, bitmaps, |host, array| {
        let detail = array.detail();
        let in_sync = |device: &&DeviceDetail| device.state == DeviceState::InSync;
        let old = device(&detail, old_name).filter(in_sync).ok_or_else(|| {
            let names = names(&detail);
            Failure::Refused(format!("{old_name} is not a member in sync of the array: it has {names}"))
        })?;
        let refused = |why| Failure::Refused(not_replaced(array, old.id, &why));
        array.may_be_replaced(old.id).map_err(refused)?;
        let known = detail.devices.iter().find(|device| device.label == with_name);
        let new = match known {
            Some(known) => known.id,
            None => {
                let coming = Coming { force: args.force, re_add: false };
                take_in(host, array, std::slice::from_ref(&with), coming)?[0].0
            }
        };
        host.world.io.block_on(array.replace(old.id, new)).map_err(refused)
    })?;
    let came = (!members.contains(&with)).then_some(with);
    let all: Vec<PathBuf> = members.iter().cloned().chain(came).collect();
    let text = format!("{old_name} is replaced by {with_name} once the array is served\n");
    tell(args.json, &text, || detail::of(&all, bitmaps))
}

/// `brindle remove`.
pub(crate) fn remove(args: &Remove) -> Result<(), Failure> {
    refuse_flags(&args.names)?;
    if !args.stopped.members.is_empty() {
        let mut left = args.stopped.members.clone();
        let bitmaps = &args.given.bitmaps;
        let removed = remove_from_stopped(&left, bitmaps, &args.names)?;
        left.retain(|member| !removed.iter().any(|name| Path::new(name) == member));
        return tell(args.json, &removed_text(&removed.join(", ")), || detail::of(&left, bitmaps));
    }
    refuse_given(&args.given)?;
    let (array, names) = split(&args.names)?;
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, Some(array))?;
    let order = Order::of(&folder, &target, Some(array))?;
    let answer: Answer<Done> = order.of_devices(names, |devices| Ask::Remove { devices })?;
    tell(args.json, &removed_text(&answer.removed.join(", ")), || Ok(&answer))
}

/// `brindle fail`.
pub(crate) fn fail(args: &Fail) -> Result<(), Failure> {
    if !args.stopped.members.is_empty() {
        return fail_stopped(args);
    }
    refuse_given(&args.given)?;
    let folder = runtime::folder(args.runtime.folder())?;
    let target = match &args.array {
        Some(name) => Target::find(&folder, name),
        None => Target::with_member(&folder, &args.member)?,
    };
    let by_member = args.array.is_none() && target.array.is_none();
    let wanted = args.array.as_deref().or(by_member.then_some(&args.member));
    let order = Order::of_patient(&folder, &target, wanted);
    let named = order.noted().map(|noted| named_as(noted, &args.member));
    let answer: Answer<Report> = order.of_member(&args.member, |member| Ask::Fail { member })?;
    if args.json {
        return report::print_json(&answer);
    }
    let array = args.array.as_deref().unwrap_or(answer.name());
    let named = named.unwrap_or_else(|| failed_as(&answer, &args.member));
    report::print(&format!("{named} of {array} has failed and is out of service\n"))
}

/// The name of a member for messages: a role's number, and the device that fills it.
fn named_as(reported: &[Report], member: &str) -> String {
    let Ok(role) = member.parse::<u16>() else { return member.to_owned() };
    let is_in_use = |device: &&DeviceStatus| device.state == "in-sync" || device.state == "recovering";
    let of_role = |device: &&DeviceStatus| device.role == Some(role) && is_in_use(device);
    let array = reported.first().and_then(Report::array);
    role_text(
        role,
        array.and_then(|status| status.array.devices.iter().find(of_role)).map(|device| &*device.path),
    )
}

/// The same of a member that was failed, by its server's answer.
fn failed_as(reported: &Report, member: &str) -> String {
    let Ok(role) = member.parse::<u16>() else { return member.to_owned() };
    let is_it = |event: &&EventStatus| {
        event.kind == "member-failed" && event.role == Some(role) && event.array.is_none()
    };
    let failed = reported.array().and_then(|status| status.events.iter().rev().find(is_it));
    role_text(role, failed.and_then(|event| event.member.as_deref()))
}

fn role_text(role: u16, path: Option<&str>) -> String {
    path.map_or_else(|| format!("the member in role {role}"), |path| format!("{path} (role {role})"))
}

/// `brindle fail`, of an array that is not served.
fn fail_stopped(args: &Fail) -> Result<(), Failure> {
    refuse_both(args.array.as_deref())?;
    let (members, bitmaps) = (&args.stopped.members, &args.given.bitmaps);
    change(members, bitmaps, |host, array| {
        let detail = array.detail();
        let role = device(&detail, &args.member).and_then(|device| device.role).ok_or_else(|| {
            Failure::Refused(format!(
                "{} is not a member of the array: it has {}",
                args.member,
                names(&detail)
            ))
        })?;
        let failed = host.world.io.block_on(array.fail(role));
        failed.map_err(|source| Failure::Volume { doing: "failing a member", source })
    })?;
    tell(args.json, &format!("{} has failed and is out of service\n", args.member), || {
        detail::of(members, bitmaps)
    })
}

/// A server has the file, or was started without.
fn refuse_given(given: &Given) -> Result<(), Failure> {
    if given.bitmaps.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(
        "--bitmap gives the file that has the bitmap of an array that nobody serves: give its members with --array".to_owned(),
    ))
}

pub(crate) fn refuse_both(running: Option<&str>) -> Result<(), Failure> {
    let both = |array| format!("give a running array ('{array}') or --array, not both");
    running.map_or(Ok(()), |array| Err(Failure::Usage(both(array))))
}

/// `brindle add`, to an array that is not served.
fn add_to_stopped(args: &Add, coming: Coming) -> Result<(), Failure> {
    let (members, bitmaps) = (&args.stopped.members, &args.given.bitmaps);
    let devices: Vec<PathBuf> = args.names.iter().map(PathBuf::from).collect();
    let all_former = are_meant(&devices);
    let reported = if all_former {
        add_missing(members, bitmaps)?
    } else {
        add_devices(members, bitmaps, &devices, coming)?
    };
    let paths = reported.joined.iter().map(|joined| PathBuf::from(&joined.path));
    let new = paths.filter(|path| !members.contains(path));
    let all: Vec<PathBuf> = members.iter().cloned().chain(new).collect();
    let FormerMembers { joined, refused, .. } = &reported;
    let added = reported.joined.iter().map(|joined| &*joined.path).collect::<Vec<_>>().join(", ");
    let text = added_text(&added, "the array", joined, refused);
    tell(args.json, &text, || {
        let mut report = serde_json::to_value(detail::of(&all, bitmaps)?).unwrap_or_default();
        report["joined"] = json!(joined);
        if all_former {
            report["refused"] = json!(refused);
        }
        Ok(report)
    })
}

/// Takes all former members that can be found into an array that is not served.
fn add_missing(members: &[PathBuf], bitmaps: &[PathBuf]) -> Result<FormerMembers, Failure> {
    let mut reported = FormerMembers::default();
    change(members, bitmaps, |host, array| {
        let (there, names) = host.world.io.block_on(those_there(array));
        let names = names.into_iter().chain(world::block_devices()).collect();
        let known = host.world.known().into_iter().map(|(identity, _)| identity).collect();
        let search = Search { names, array: array.detail().uuid, known };
        let (found, refused) = search.find();
        refused.iter().for_each(|(label, why)| reported.refused(label, why));
        let mut devices = there;
        for newcomer in found {
            let label = newcomer.label().to_owned();
            match host.world.take_newcomer(newcomer) {
                Ok(newcomer) => devices.push((newcomer.id, label)),
                Err(why) => reported.refused(&label, &why),
            }
        }
        let done = host.world.io.block_on(take_each_again(array, &devices));
        for ((_, label), done) in devices.iter().zip(done) {
            match done {
                Ok(role) => reported.joined(label, role),
                Err(why) => reported.refused(label, &Failure::Add(why)),
            }
        }
        Ok(())
    })?;
    Ok(reported)
}

fn add_devices(
    members: &[PathBuf],
    bitmaps: &[PathBuf],
    devices: &[PathBuf],
    coming: Coming,
) -> Result<FormerMembers, Failure> {
    let mut reported = FormerMembers::default();
    let members =
        &if coming.re_add { members.to_vec() } else { without_those_out(members, bitmaps, devices)? };
    change(members, bitmaps, |host, array| {
        reported.joined = if coming.re_add {
            take_again(host, array, devices)?
        } else {
            take_in(host, array, devices, coming)?.into_iter().map(|(_, joined)| joined).collect()
        };
        Ok(())
    })?;
    Ok(reported)
}

/// The members without the devices that are to be added and that the array is degraded by: these come to it like any other device.
fn without_those_out(
    members: &[PathBuf],
    bitmaps: &[PathBuf],
    devices: &[PathBuf],
) -> Result<Vec<PathBuf>, Failure> {
    if !devices.iter().any(|device| members.contains(device)) {
        return Ok(members.to_vec());
    }
    let out = detail::of(members, bitmaps)?.left_out();
    let comes = |member: &&PathBuf| devices.contains(member) && out.contains(&member.display().to_string());
    Ok(members.iter().filter(|member| !comes(member)).cloned().collect())
}

/// Takes devices into an array again that is not served: none, if one of them can't be taken.
fn take_again(host: &Host, array: &Array, devices: &[PathBuf]) -> Result<Vec<JoinedStatus>, Failure> {
    let detail = array.detail();
    let (mut known, mut new) = (Vec::new(), Vec::new());
    for path in devices {
        match device(&detail, &path.display().to_string()) {
            Some(device) => known.push((device.id, device.label.clone())),
            None => new.push(path.clone()),
        }
    }
    let newcomers = terms(host, Coming { force: false, re_add: true })
        .look_at(new.into_iter().map(Source::Named).collect())?;
    let mut devices = known;
    for newcomer in newcomers {
        let newcomer = host.world.take_newcomer(newcomer)?;
        devices.push((newcomer.id, newcomer.label));
    }
    let (back, not) = host.world.io.block_on(take_all_again(array, &devices));
    not.map_or(Ok(back), |why| Err(Failure::Add(why)))
}

/// The terms for devices that come to an array that is not served.
fn terms(host: &Host, coming: Coming) -> Terms {
    let known = host.world.known().into_iter();
    let known = known
        .map(|(identity, path)| (identity, format!("a device of the array already, {}", path.display())));
    Terms { known: known.collect(), coming }
}

/// Takes devices into an array that is not served; gives their numbers, and the outcome of each.
pub(crate) fn take_in(
    host: &Host,
    array: &Array,
    devices: &[PathBuf],
    coming: Coming,
) -> Result<Vec<(MemberId, JoinedStatus)>, Failure> {
    let add = |newcomer: Newcomer| {
        let label = newcomer.label().to_owned();
        let added = host.world.io.block_on(host.world.add_to(array, newcomer, coming.force));
        let (id, now) = added.map_err(|(_, why)| why)?;
        Ok((id, JoinedStatus::of(&label, &now)))
    };
    terms(host, coming)
        .look_at(devices.iter().cloned().map(Source::Named).collect())?
        .into_iter()
        .map(add)
        .collect()
}

fn remove_from_stopped(
    members: &[PathBuf],
    bitmaps: &[PathBuf],
    wanted: &[String],
) -> Result<Vec<String>, Failure> {
    let mut removed = Vec::new();
    change(members, bitmaps, |host, array| {
        for name in wanted {
            let before = array.detail();
            let which =
                removal(name, |name| device(&before, name).map(|device| device.id)).ok_or_else(|| {
                    Failure::Refused(format!(
                        "{name} is not a device of the array: it has {}",
                        names(&before)
                    ))
                })?;
            let gone = host.world.io.block_on(array.remove(which));
            let gone = gone.map_err(|why| Failure::Refused(why.to_string()))?;
            let is_gone = |device: &&DeviceDetail| gone.contains(&device.id);
            removed.extend(before.devices.iter().filter(is_gone).map(|device| device.label.clone()));
        }
        Ok(())
    })?;
    Ok(removed)
}

/// Opens an array that is not served, does something to it, and stops it. `bitmaps` are files given for its write-intent bitmap.
pub(crate) fn change(
    members: &[PathBuf],
    bitmaps: &[PathBuf],
    work: impl FnOnce(&Host, &Array) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let host = Host::open_to_change(members, bitmaps, Tuning::USUAL, Recovery::Manual)?;
    let hosted = &host.array;
    let done = work(&host, &hosted.array);
    let stopped = host.world.io.block_on(hosted.stop());
    done.and(stopped)
}

/// The device of that name, or in the role of that number.
fn device<'a>(detail: &'a Detail, name: &str) -> Option<&'a DeviceDetail> {
    let in_role = || detail.roles.get(name.parse::<usize>().ok()?)?.device.map(|at| &detail.devices[at]);
    detail.devices.iter().find(|device| device.label == name).or_else(in_role)
}

fn names(detail: &Detail) -> String {
    detail.devices.iter().map(|device| device.label.as_str()).collect::<Vec<_>>().join(", ")
}

/// The server may run in another folder.
fn absolute(name: &str) -> Result<PathBuf, Failure> {
    std::path::absolute(name).map_err(|source| Failure::system(name, source))
}

/// The array's name, then those of devices.
fn split(names: &[String]) -> Result<(&str, &[String]), Failure> {
    match names {
        [array, devices @ ..] if !devices.is_empty() => Ok((array, devices)),
        _ => Err(Failure::Usage(format!(
            "name an array and then devices of it: '{}' is one name only",
            names.join(" ")
        ))),
    }
}

pub(crate) fn tell<R: serde::Serialize>(
    json: bool,
    text: &str,
    report: impl FnOnce() -> Result<R, Failure>,
) -> Result<(), Failure> {
    if json { report::print_json(&report()?) } else { report::print(text) }
}

fn removed_text(removed: &str) -> String {
    if removed.is_empty() { "there is no such device\n".to_owned() } else { format!("{removed} removed\n") }
}

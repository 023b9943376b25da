//! Settings by which a daemon serves what servers have now: arrays and pools, where their members are, and how clients come.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brindle_format::md::split_name;
use brindle_host::opening::{Config, Listen, Permission, VolumeOpening};
use serde_json::Value;

use crate::base::failure::Failure;
use crate::base::path::real;
use crate::base::report;
use crate::client::ask;
use crate::client::control::{Ask, Response};
use crate::devices::scan::covers;
use crate::devices::world;
use crate::flags::cli::NbdUri;
use crate::server::settings::called;

/// Settings, and remarks on what of the servers they leave out.
pub(super) struct Written {
    pub(super) config: Config,
    pub(super) remarks: Vec<String>,
}

/// Settings that serve the arrays and pools that run.
pub(super) fn written(folder: &Path) -> Result<Written, Failure> {
    let reports = ask::reports(folder);
    if reports.is_empty() {
        return Err(Failure::NoServer(format!("no array is served (looked in {})", folder.display())));
    }
    let (before, mut remarks) = of_servers(folder);
    let mut config =
        Config { homehost: Some("none".to_owned()), arrays: Vec::new(), pools: Vec::new(), ..before.clone() };
    let served: Vec<&Value> = reports.iter().filter(|report| report["not_served"].is_null()).collect();
    let mut devices = Vec::new();
    for report in &served {
        let here = report::folder(report);
        if report["pool"].is_object() {
            config.pools.push(pool(report, &before.pools));
        } else {
            config.arrays.push(array(report, here, &before.arrays));
        }
        remarks.extend(nested(report).into_iter().chain(renamed(report)));
        devices.extend(members(report).map(|path| here.join(path)));
    }
    remarks.extend(absent(&before.arrays, &config.arrays).chain(absent(&before.pools, &config.pools)));
    let addresses = nbd(&served);
    if !addresses.is_empty() {
        config.exports.nbd = addresses;
    }
    // Each volume has its own limits. Limits for all would be given to volumes that have none.
    if served.iter().any(|report| report["limits"].is_null()) {
        config.exports.limits = None;
    }
    if let Some(iscsi) = &mut config.exports.iscsi
        && iscsi.portals.iter().any(|portal| portal.ends_with(":0"))
    {
        // The kernel has chosen the port, and initiators know it.
        iscsi.portals = portals(&reports).into_iter().collect();
    }
    // A daemon has volumes in the order in which it found them.
    for volumes in [&mut config.arrays, &mut config.pools] {
        volumes.sort_by(|one, other| (&one.name, &one.uuid).cmp(&(&other.name, &other.uuid)));
    }
    config.devices = places(before.devices, &devices);
    Ok(Written { config, remarks })
}

/// The remark on an array that has arrays for members.
fn nested(report: &Value) -> Option<String> {
    report["arrays"].as_array().filter(|nested| !nested.is_empty())?;
    let name = report["name"].as_str().unwrap_or_default().escape_debug();
    Some(format!("{name} has arrays for members, which a daemon does not find: `brindle serve` serves it"))
}

/// The remark on an array that a server calls by another name than its own, which a daemon does not.
fn renamed(report: &Value) -> Option<String> {
    let (name, full) = (report["name"].as_str()?, report["array"]["name"].as_str()?);
    let (_, own) = split_name(full);
    let uuid = report["array"]["uuid"].as_str()?.replace(':', "-");
    (name != own && name != uuid).then(|| {
        let (name, own) = (name.escape_debug(), own.escape_debug());
        format!("{name} is called {own} by a daemon, which is the name of its export: `brindle update --update name --name {name}` makes it the array's own")
    })
}

/// Remarks on entries of the settings in force whose array or pool is not served now.
fn absent(before: &[VolumeOpening], now: &[VolumeOpening]) -> impl Iterator<Item = String> {
    let is_served = |entry: &VolumeOpening| {
        let word = |word: &Option<String>| word.clone().unwrap_or_default();
        now.iter().any(|volume| entry.means(&word(&volume.name), &word(&volume.uuid)))
    };
    before.iter().filter(move |entry| !is_served(entry)).map(|entry| {
        format!(
            "{} is not served now and is left out: copy its entry from the settings in force",
            called(entry)
        )
    })
}

/// Places where NBD clients come, each once.
fn nbd(served: &[&Value]) -> Vec<Listen> {
    let mut places: Vec<Listen> = Vec::new();
    for uri in served.iter().filter_map(|report| report["nbd"].as_array()).flatten() {
        places.extend(uri.as_str().and_then(place).filter(|place| !places.contains(place)));
    }
    places
}

/// HOST:PORT of all portals.
fn portals(reports: &[Value]) -> BTreeSet<String> {
    let of = |report: &Value| {
        let uris = report["iscsi"]["addresses"].as_array().or_else(|| report["iscsi"].as_array()).cloned();
        uris.unwrap_or_default()
    };
    let portal = |uri: &Value| Some(uri.as_str()?.strip_prefix("iscsi://")?.split_once('/')?.0.to_owned());
    reports.iter().flat_map(of).filter_map(|uri| portal(&uri)).collect()
}

/// The settings in force: of several servers the first one's, with the volumes and addresses of all.
fn of_servers(folder: &Path) -> (Config, Vec<String>) {
    let answers = ask::ask_all(folder, &Ask::Settings.into()).into_iter();
    let config = |answer| match answer {
        Ok(Response::Report(settings)) => serde_json::from_value::<Config>(settings).ok(),
        _ => None,
    };
    let (mut servers, mut remarks) = (Vec::new(), Vec::new());
    for (name, answer) in answers {
        match config(answer) {
            Some(config) => servers.push((name, config)),
            None => remarks.push(format!(
                "{} does not say how it serves: add its certificates, access file and secrets by hand",
                name.escape_debug()
            )),
        }
    }
    let mut servers = servers.into_iter();
    let Some((first, mut all)) = servers.next() else { return (Config::default(), remarks) };
    for (name, other) in servers {
        if how(&all) != how(&other) {
            remarks.push(format!(
                "{} and {} serve in other ways, and the settings are those of {0}: compare exports, tuning and policies",
                first.escape_debug(),
                name.escape_debug()
            ));
        }
        let Config { devices, arrays, pools, exports, metrics, .. } = other;
        all.devices.extend(devices);
        all.arrays.extend(arrays);
        all.pools.extend(pools);
        let more = metrics.listen.into_iter().filter(|listen| !all.metrics.listen.contains(listen));
        all.metrics.listen.extend(more.collect::<Vec<_>>());
        if let Some(iscsi) = exports.iscsi {
            let own = all.exports.iscsi.get_or_insert_default();
            own.portals.extend(iscsi.portals);
        }
    }
    (all, remarks)
}

/// The settings of all volumes of a server, but for its addresses.
fn how(config: &Config) -> Config {
    let mut how = config.clone();
    how.exports.nbd.clear();
    how.exports.iscsi.iter_mut().for_each(|iscsi| iscsi.portals.clear());
    how.metrics.listen.clear();
    let usual = Config::default();
    Config {
        name: usual.name,
        homehost: None,
        devices: Vec::new(),
        arrays: Vec::new(),
        pools: Vec::new(),
        ..how
    }
}

/// The entry that settings had for a volume, or a new one, called as a report has it.
fn entry(report: &Value, of: &Value, before: &[VolumeOpening]) -> VolumeOpening {
    let word = |of: &Value, field: &str| of[field].as_str().map(str::to_owned);
    let (name, uuid) = (word(report, "name"), word(of, "uuid"));
    let means = |entry: &&VolumeOpening| {
        entry.means(name.as_deref().unwrap_or_default(), uuid.as_deref().unwrap_or_default())
    };
    let own = before.iter().find(means).cloned().unwrap_or_default();
    let limits = serde_json::from_value(report["limits"].clone()).ok().flatten();
    let is_read_only = of["state"].as_array().into_iter().flatten().any(|word| *word == "read-only");
    let waits = report["waits_for"].as_array().is_some_and(|waits| !waits.is_empty());
    let access = (is_read_only && !waits).then_some(Permission::ReadOnly);
    let withdrawn = report["exported"] == false;
    VolumeOpening { name, uuid, access, limits, withdrawn, ..own }
}

fn pool(report: &Value, before: &[VolumeOpening]) -> VolumeOpening {
    let attach = report["devices"].as_array().is_some_and(|devices| !devices.is_empty());
    VolumeOpening { attach, ..entry(report, &report["pool"], before) }
}

fn array(report: &Value, here: &Path, before: &[VolumeOpening]) -> VolumeOpening {
    let bitmap = report["array"]["bitmap"]["file"].as_str().map(|file| here.join(file));
    let attach = report["device"].is_string();
    VolumeOpening { attach, bitmap, ..entry(report, &report["array"], before) }
}

/// Names of all devices of a report, also of devices that its array or pool does without.
fn members(report: &Value) -> impl Iterator<Item = &str> {
    let lists = [&report["array"]["devices"], &report["pool"]["devices"], &report["left_out"]];
    let nested = report["arrays"].as_array().into_iter().flatten().map(|nested| &nested["devices"]);
    let devices = lists.into_iter().chain(nested).filter_map(Value::as_array).flatten();
    devices.filter_map(|device| device["path"].as_str())
}

/// Where an NBD client comes, whether by TLS or not.
fn place(uri: &str) -> Option<Listen> {
    let plain = uri.strip_prefix("nbds://").map(|rest| format!("nbd://{rest}"));
    plain.as_deref().unwrap_or(uri).parse::<NbdUri>().ok().map(|uri| uri.place)
}

/// Places where all members are found: the places of the settings, and members that these do not cover. None if all members are disks or
/// partitions of this machine, which a daemon looks at in any case.
fn places(before: Vec<PathBuf>, members: &[PathBuf]) -> Vec<PathBuf> {
    let usual: BTreeSet<PathBuf> = world::block_devices().iter().map(|device| real(device)).collect();
    // A name that stands for several devices, a+b, is that of no file.
    let there = || members.iter().filter(|member| member.exists());
    if before.is_empty() && there().all(|member| usual.contains(&real(member))) {
        return before;
    }
    let mut places = before;
    for member in there() {
        if !places.iter().any(|place| covers(place, member)) {
            places.push(member.clone());
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_each_member_once_and_folders_stay() {
        let dir = std::env::temp_dir().join(format!("brindle-places-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("disks")).unwrap();
        let member = |name: &str| {
            let path = dir.join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let (inside, outside) = (member("disks/a"), member("b"));
        let gone = dir.join("gone");
        let of =
            |before: &[PathBuf]| places(before.to_vec(), &[inside.clone(), outside.clone(), gone.clone()]);
        assert_eq!(of(&[]), [inside.clone(), outside.clone()]);
        assert_eq!(of(&[dir.join("disks")]), [dir.join("disks"), outside.clone()]);
        assert_eq!(places(Vec::new(), &[]), Vec::<PathBuf>::new());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn clients_that_speak_tls_come_to_the_same_place() {
        for uri in ["nbd://127.0.0.1:7/data", "nbds://127.0.0.1:7"] {
            assert_eq!(place(uri), Some(Listen::Tcp("127.0.0.1:7".to_owned())), "{uri}");
        }
        assert_eq!(place("nbd+unix:///a?socket=/run/s"), Some(Listen::Unix("/run/s".into())));
    }
}

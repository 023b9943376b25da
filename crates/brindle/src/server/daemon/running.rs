//! Settings by which a daemon serves what servers have now: arrays and pools, where their members are, and how clients come.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brindle_format::md::split_name;
use brindle_host::opening::{Config, Listen, Permission, VolumeOpening};
use brindle_host::status::{ExportStatus, PoolStatus, Report};

use crate::base::failure::Failure;
use crate::base::path::real;
use crate::base::runtime;
use crate::client::ask;
use crate::client::control::{Answer, Ask, Response};
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
    let served: Vec<&Report> = reports.iter().filter(|report| !report.is_absent()).collect();
    let mut devices = Vec::new();
    for report in &served {
        let here = report.folder().unwrap_or(Path::new("."));
        match report {
            Report::Pool(status) => config.pools.push(pool(status, &before.pools)),
            Report::Array(status) => {
                config.arrays.push(array(status, here, &before.arrays));
                remarks.extend(nested(status).into_iter().chain(renamed(status)));
            }
            Report::Absent(_) | Report::Other(_) => {}
        }
        devices.extend(members(report).map(|path| here.join(path)));
    }
    remarks.extend(absent(&before.arrays, &config.arrays).chain(absent(&before.pools, &config.pools)));
    let addresses = nbd(&served);
    if !addresses.is_empty() {
        config.exports.nbd = addresses;
    }
    // Each volume has its own limits. Limits for all would be given to volumes that have none.
    if served.iter().any(|report| report.limits().is_none()) {
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
fn nested(status: &ExportStatus) -> Option<String> {
    if status.arrays.is_empty() {
        return None;
    }
    let name = status.name.escape_debug();
    Some(format!("{name} has arrays for members, which a daemon does not find: `brindle serve` serves it"))
}

/// The remark on an array that a server calls by another name than its own, which a daemon does not.
fn renamed(status: &ExportStatus) -> Option<String> {
    let name = &status.name;
    let (_, own) = split_name(&status.array.facts.name);
    let uuid = runtime::uuid_name(&status.array.facts.uuid);
    (name != own && *name != uuid).then(|| {
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
fn nbd(served: &[&Report]) -> Vec<Listen> {
    let mut places: Vec<Listen> = Vec::new();
    for uri in served.iter().flat_map(|report| report.nbd()) {
        places.extend(place(uri).filter(|place| !places.contains(place)));
    }
    places
}

/// HOST:PORT of all portals.
fn portals(reports: &[Report]) -> BTreeSet<String> {
    let portal = |uri: &String| Some(uri.strip_prefix("iscsi://")?.split_once('/')?.0.to_owned());
    reports.iter().flat_map(Report::iscsi).filter_map(portal).collect()
}

/// The settings in force: of several servers the first one's, with the volumes and addresses of all.
fn of_servers(folder: &Path) -> (Config, Vec<String>) {
    let answers = ask::ask_all::<Config>(folder, &Ask::Settings.into()).into_iter();
    let config = |answer| match answer {
        Ok(Response::Report(settings)) => Some(Answer::into_read(settings)),
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

/// The entry that settings had for a volume, or a new one.
fn entry(name: &str, uuid: &str, before: &[VolumeOpening]) -> VolumeOpening {
    let own = before.iter().find(|entry| entry.means(name, uuid)).cloned().unwrap_or_default();
    VolumeOpening { name: Some(name.to_owned()), uuid: Some(uuid.to_owned()), ..own }
}

fn pool(status: &PoolStatus, before: &[VolumeOpening]) -> VolumeOpening {
    let is_read_only = status.pool.is("read-only");
    VolumeOpening {
        attach: !status.devices.is_empty(),
        access: (is_read_only && status.waits_for.is_empty()).then_some(Permission::ReadOnly),
        limits: status.limits,
        withdrawn: !status.exported,
        ..entry(&status.name, &status.pool.uuid, before)
    }
}

fn array(status: &ExportStatus, here: &Path, before: &[VolumeOpening]) -> VolumeOpening {
    let bitmap = status.array.bitmap.as_ref().and_then(|bitmap| bitmap.file.as_ref());
    VolumeOpening {
        attach: status.device.is_some(),
        bitmap: bitmap.map(|file| here.join(file)),
        access: status.array.is("read-only").then_some(Permission::ReadOnly),
        limits: status.limits,
        withdrawn: !status.exported,
        ..entry(&status.name, &status.array.facts.uuid, before)
    }
}

/// Names of all devices of a report, also of devices that its array or pool does without.
fn members(report: &Report) -> impl Iterator<Item = &str> {
    let devices = report.devices().into_iter().map(|(path, _)| path);
    devices.chain(report.left_out().iter().map(|left_out| &*left_out.path))
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

//! Finds the array that a name means. A name is no identity: an older server may have an array of the same name, and
//! other members of one may lie here. The array that was found is named before it is changed, and a device that would
//! be overwritten is refused as long as another array could be meant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_format::md::{display_uuid, split_name};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring;
use serde_json::Value;

use super::{Target, ask, real_name, status_of_all};
use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::{look, report, runtime};
use crate::client::control::{Ask, Response};
use crate::devices::world;

/// Time that all files that could be members of another array may take.
const LOOKING: Duration = Duration::from_secs(2);

/// Files of a folder that are looked at.
const MOST_FILES: usize = 1000;

/// The array that a command is about to change.
pub(crate) struct Meant {
    /// The server's report: of the array, or of all that it has.
    pub(crate) reported: Value,
    /// The array was found by this name alone.
    name: Option<String>,
}

impl Meant {
    /// Asks the server for its arrays. Prints on standard error which array was taken, if it was given to the server
    /// in another folder than this command's and is not named by its UUID or a member.
    pub(crate) fn of(folder: &Path, target: &Target, wanted: Option<&str>) -> Result<Self, Failure> {
        let reported = ask(folder, &target.server, &Ask::Status.of(target.array.clone()))?;
        let by_name_alone = wanted.is_none_or(|wanted| !is_certain(&reported, wanted));
        if by_name_alone && !is_given_here(&reported) {
            let name = wanted.unwrap_or(&target.server);
            report::of_arrays(&reported)
                .iter()
                .filter(|report| is_served(report))
                .for_each(|array| eprintln!("brindle: {}", found(name, array)));
        }
        Ok(Self { reported, name: wanted.filter(|_| by_name_alone).map(str::to_owned) })
    }

    /// Refuses to overwrite a device for an array that was found by its name, while another of that name could be meant.
    /// `blocks` names the block devices of this machine.
    pub(crate) fn refuse_doubtful(
        &self,
        folder: &Path,
        devices: &[PathBuf],
        blocks: fn() -> Vec<PathBuf>,
    ) -> Result<(), Failure> {
        let Some(name) = &self.name else { return Ok(()) };
        let arrays = report::of_arrays(&self.reported);
        let uuids: Vec<String> = arrays.iter().filter_map(uuid).map(str::to_owned).collect();
        let served = served_elsewhere(folder, name, &uuids);
        let lies = || members_elsewhere(name, &uuids, devices, blocks);
        let Some(other) = served.or_else(lies) else { return Ok(()) };
        let taken: Vec<String> = arrays.iter().map(|array| found(name, array)).collect();
        Err(Failure::Refused(format!(
            "{}; but {other}: nothing was written; give which is meant by its UUID in place of the name",
            taken.join("; ")
        )))
    }
}

/// A server also reports what it should serve and does not.
fn is_served(report: &Value) -> bool {
    report["not_served"].is_null()
}

fn uuid(report: &Value) -> Option<&str> {
    report["array"]["uuid"].as_str()
}

/// Whether an array is named by its UUID, or by a member.
fn is_certain(reported: &Value, wanted: &str) -> bool {
    let bare = |uuid: &str| uuid.replace([':', '-'], "").to_lowercase();
    let is_uuid = |report: &Value| report::uuid(report).is_some_and(|uuid| bare(uuid) == bare(wanted));
    let real = real_name(wanted);
    let is_member = |device: &Value| device["path"] == *wanted || device["path"] == *real;
    report::of_arrays(reported).iter().any(is_uuid) || report::devices(reported).any(is_member)
}

/// Whether the server was started in the folder in which this command runs.
fn is_given_here(reported: &Value) -> bool {
    let here = std::env::current_dir().ok();
    let given = |report: &Value| report["folder"].as_str().map(PathBuf::from);
    let served = report::of_arrays(reported).iter().filter(|report| is_served(report));
    served.into_iter().all(|report| here.is_some() && given(report) == here)
}

/// `'data' is the array 01:..:ef of /srv/m0, /srv/m1, served by process 7 from /srv`.
fn found(name: &str, report: &Value) -> String {
    let members: Vec<&str> = report::devices(report).filter_map(|device| device["path"].as_str()).collect();
    let kind = if report["pool"].is_object() { "pool" } else { "array" };
    format!(
        "'{name}' is the {kind} {} of {}, served by process {} from {}",
        report::uuid(report).unwrap_or("of unknown UUID"),
        members.join(", "),
        report["pid"],
        report["folder"].as_str().unwrap_or("another folder")
    )
}

/// Another array of that name, or server of that name, that runs.
fn served_elsewhere(folder: &Path, name: &str, uuids: &[String]) -> Option<String> {
    let here = status_of_all(folder).into_iter().find_map(|(server, answer)| {
        let Ok(Response::Report(reported)) = answer else { return None };
        let is_other =
            |report: &&Value| uuid(report).is_some_and(|uuid| !uuids.iter().any(|own| own == uuid));
        let is_called = |report: &&Value| {
            let own = report["array"]["name"].as_str().unwrap_or_default();
            report["name"] == *name || own == name || split_name(own).1 == name
        };
        let other = report::of_arrays(&reported).iter().filter(is_other).find(is_called)?;
        Some(format!("server '{server}' has an array of that name as well, {}", uuid(other)?))
    });
    here.or_else(|| {
        let other = |other: &PathBuf| {
            let socket = runtime::control_socket(other, name);
            other.as_path() != folder && socket.exists() && !uring::is_abandoned(&socket)
        };
        let other = runtime::usual_folders().into_iter().find(other)?;
        Some(format!("a server of that name runs as well, with its socket in {}", other.display()))
    })
}

/// A superblock of another array of that name: on the devices, or on a file beside them or in the folder of this command; where
/// they are block devices, on any other of this machine.
fn members_elsewhere(
    name: &str,
    uuids: &[String],
    devices: &[PathBuf],
    blocks: fn() -> Vec<PathBuf>,
) -> Option<String> {
    let (name, uuids) = (name.to_owned(), uuids.to_vec());
    let devices: Vec<PathBuf> = devices.iter().map(|device| world::file_of(device).to_owned()).collect();
    let look = move || {
        let mut folders = BTreeSet::from([PathBuf::from(".")]);
        folders.extend(devices.iter().filter_map(|device| Some(device.parent()?.to_owned())));
        let files = folders.iter().flat_map(|folder| files(folder));
        let are_blocks = devices.iter().any(|device| device.starts_with("/dev"));
        let blocks = are_blocks.then(blocks).into_iter().flatten();
        let mut all = devices.iter().cloned().chain(files).chain(blocks);
        all.find_map(|path| other_array(&path, &name, &uuids))
    };
    // A file that does not answer is left out.
    within(LOOKING, look).ok().flatten().flatten()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_file = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.flatten().filter(is_file).take(MOST_FILES).map(|entry| entry.path()).collect()
}

/// The description of a file, if it is a member of an array of that name that is none of these.
fn other_array(path: &Path, name: &str, uuids: &[String]) -> Option<String> {
    let device = OpenDevice::open(path, DeviceAccess::Examine).ok()?;
    let label = path.display().to_string();
    let candidate = look::candidate(&label, device.info(), look::reader(&device)).ok()?;
    let (superblock, _) = candidate.superblock().ok()?;
    let uuid = display_uuid(superblock.set_uuid).to_string();
    let called = superblock.name == name || split_name(&superblock.name).1 == name;
    (called && !uuids.contains(&uuid)).then(|| format!("{label} is of another array of that name, {uuid}"))
}

//! Finds the array that a name means. A name is no identity: an older server may have an array of the same name, and
//! other members of one may lie here. The array that was found is named before it is changed, and a device that would
//! be overwritten is refused as long as another array could be meant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_format::md::{display_uuid, split_name};
use brindle_host::Volumes;
use brindle_host::status::Report;
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring;

use super::{Target, reach, real_name, status_of_others};
use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::{look, runtime};
use crate::client::control::{Ask, Line, Response};
use crate::devices::world;

/// Time that all files that could be members of another array may take.
const LOOKING: Duration = Duration::from_secs(2);

/// Files of a folder that are looked at.
const MOST_FILES: usize = 1000;

/// The array that a command is about to change.
pub(crate) struct Meant {
    /// The server's reports: of the array, or of all that it has.
    pub(crate) reported: Vec<Report>,
    /// The array was found by this name alone.
    name: Option<String>,
}

impl Meant {
    /// Asks the server for its arrays. Prints on standard error which array was taken, if it was given to the server
    /// in another folder than this command's and is not named by its UUID or a member.
    pub(crate) fn of(folder: &Path, target: &Target, wanted: Option<&str>) -> Result<Self, Failure> {
        match &target.noted {
            Some(noted) => Ok(Self::told(vec![noted.clone()], target, wanted)),
            None => Self::by(reach(folder, &target.server)?, target, wanted),
        }
    }

    /// The same, by a connection that is there.
    pub(super) fn by(mut line: Line, target: &Target, wanted: Option<&str>) -> Result<Self, Failure> {
        let reported = line.ask::<Volumes>(&Ask::Status.of(target.array.clone()))?;
        Ok(Self::told(reported.into_read().into_all(), target, wanted))
    }

    fn told(reported: Vec<Report>, target: &Target, wanted: Option<&str>) -> Self {
        let by_name_alone = tell(&reported, target, wanted);
        Self { reported, name: wanted.filter(|_| by_name_alone).map(str::to_owned) }
    }

    /// Refuses to overwrite a device for an array that was found by its name, while another of that name could be meant.
    /// `blocks` names the block devices of this machine.
    pub(crate) fn refuse_doubtful(
        &self,
        folder: &Path,
        server: &str,
        devices: &[PathBuf],
        blocks: fn() -> Vec<PathBuf>,
    ) -> Result<(), Failure> {
        let Some(name) = &self.name else { return Ok(()) };
        let uuids: Vec<String> = self.reported.iter().filter_map(uuid).map(str::to_owned).collect();
        // A report names the server if that has several arrays.
        let has_others = |report: &Report| report.array().is_none_or(|status| status.server.is_some());
        let own = Some(server).filter(|_| !self.reported.iter().any(has_others));
        let served = served_elsewhere(folder, own, name, &uuids);
        let lies = || members_elsewhere(name, &uuids, devices, blocks);
        let Some(other) = served.or_else(lies) else { return Ok(()) };
        let taken: Vec<String> = self.reported.iter().map(|array| found(name, array)).collect();
        Err(Failure::Refused(format!(
            "{}; but {other}: nothing was written; give which is meant by its UUID in place of the name",
            taken.join("; ")
        )))
    }
}

/// Prints which arrays were taken, if these were found by their name alone and given to the server in another folder. Whether they were
/// found by their name alone.
pub(super) fn tell(reported: &[Report], target: &Target, wanted: Option<&str>) -> bool {
    let by_name_alone = wanted.is_none_or(|wanted| !is_certain(reported, wanted));
    if by_name_alone && !is_given_here(reported) {
        let name = wanted.unwrap_or(&target.server);
        served(reported).for_each(|array| eprintln!("brindle: {}", found(name, array)));
    }
    by_name_alone
}

/// A server also reports what it should serve and does not.
fn served(reported: &[Report]) -> impl Iterator<Item = &Report> {
    reported.iter().filter(|report| !report.is_absent())
}

/// The UUID of an array.
fn uuid(report: &Report) -> Option<&str> {
    report.array().map(|status| &*status.array.facts.uuid)
}

/// Whether an array is named by its UUID, or by a member.
fn is_certain(reported: &[Report], wanted: &str) -> bool {
    let bare = |uuid: &str| uuid.replace([':', '-'], "").to_lowercase();
    let is_uuid = |report: &Report| report.served_uuid().is_some_and(|uuid| bare(uuid) == bare(wanted));
    let real = real_name(wanted);
    let is_member = |report: &Report| report.has_device(wanted) || report.has_device(&real);
    reported.iter().any(is_uuid) || reported.iter().any(is_member)
}

/// Whether the server was started in the folder in which this command runs.
fn is_given_here(reported: &[Report]) -> bool {
    let here = std::env::current_dir().ok();
    served(reported).all(|report| here.is_some() && report.folder() == here.as_deref())
}

/// `'data' is the array 01:..:ef of /srv/m0, /srv/m1, served by process 7 from /srv`.
fn found(name: &str, report: &Report) -> String {
    let members: Vec<&str> = report.devices().into_iter().map(|(path, _)| path).collect();
    let kind = if report.pool().is_some() { "pool" } else { "array" };
    format!(
        "'{name}' is the {kind} {} of {}, served by process {} from {}",
        report.served_uuid().unwrap_or("of unknown UUID"),
        members.join(", "),
        report.pid(),
        report.folder().and_then(Path::to_str).unwrap_or("another folder")
    )
}

/// Another array of that name, or server of that name, that runs. `own` is the server that was found, if it has no other array.
fn served_elsewhere(folder: &Path, own: Option<&str>, name: &str, uuids: &[String]) -> Option<String> {
    let here = status_of_others(folder, own).into_iter().find_map(|(server, answer)| {
        let Ok(Response::Report(reported)) = answer else { return None };
        let is_other =
            |report: &&Report| uuid(report).is_some_and(|uuid| !uuids.iter().any(|own| own == uuid));
        let is_called = |report: &&Report| {
            let own = report.array().map_or("", |status| &status.array.facts.name);
            report.name() == name || own == name || split_name(own).1 == name
        };
        let other = reported.all().iter().filter(is_other).find(is_called)?;
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

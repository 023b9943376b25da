//! The choice among all that was found on devices: the arrays that are to be started, and how long to wait for their
//! members.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brindle_host::status::Report;

use crate::base::path::real;
use crate::base::runtime;
use crate::client::ask;
use crate::devices::scan::{Findable, Scanned, scan};

/// Pause between two looks for members that are waited for.
const REST: Duration = Duration::from_secs(1);

/// The volumes that are meant, the places where they are looked for, and for how long.
pub(crate) struct Choice<'a> {
    /// Devices, and folders of them; none for all of this machine.
    pub(crate) places: &'a [PathBuf],
    /// Whether something is named.
    pub(crate) named: &'a dyn Fn(&Findable) -> bool,
    /// Arrays of these hosts are meant, too.
    pub(crate) own: Option<&'a Hosts>,
    /// Time to wait for members that were there when an array was last used.
    pub(crate) wait: Duration,
}

/// The hosts whose arrays are started without being named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// No host's.
    None,
    /// All that is found.
    Any,
    /// Hosts of these names, as superblocks have them.
    These(Vec<String>),
}

impl Hosts {
    /// The hosts that a user says: `none`, `any`, or a name; else this machine by its names.
    pub(crate) fn said(word: Option<&str>) -> Self {
        match word {
            None => Self::These(runtime::host_names()),
            Some("none") => Self::None,
            Some("any") => Self::Any,
            Some(name) => Self::These(vec![name.to_owned()]),
        }
    }

    /// Whether an array or a pool of these hosts is started. A pool says itself whether it is this one's, whatever the name.
    pub(crate) fn start(&self, found: &Findable) -> bool {
        let is_own = |host: &str| self.are(host);
        let is_this = || runtime::host_names().iter().any(|name| self.are(name));
        matches!(self, Self::Any)
            || found.homehost.as_deref().is_some_and(is_own)
            || found.is_here() && is_this()
    }

    /// Whether a host is one of these by name.
    pub(crate) fn are(&self, host: &str) -> bool {
        matches!(self, Self::These(names) if names.iter().any(|name| name == host))
    }
}

impl Choice<'_> {
    /// Whether it is to be started.
    pub(crate) fn is_meant(&self, found: &Findable) -> bool {
        let own = |hosts: &Hosts| hosts.start(found);
        (self.named)(found) || self.own.is_some_and(own)
    }

    /// Scans until no chosen array lacks a member that it had when it was last used, or the wait is over. Gives the
    /// UUIDs of served arrays too.
    pub(crate) fn wait_for_members(&self, folder: &Path) -> (Scanned, Vec<String>) {
        let until = Instant::now() + self.wait;
        let mut reported = false;
        loop {
            let (scanned, served) = (scan(self.places), served(folder));
            let lacks = |found: &&Findable| {
                self.is_meant(found) && !served.contains(&found.uuid) && !found.newly_missing.is_empty()
            };
            let waits: Vec<String> = scanned.all.iter().filter(lacks).map(lacking).collect();
            if waits.is_empty() || Instant::now() >= until {
                return (scanned, served);
            }
            if !reported {
                let seconds = self.wait.as_millis().div_ceil(1000);
                eprintln!("brindle: waiting {seconds} s at most for {}", waits.join("; "));
                reported = true;
            }
            std::thread::sleep(REST.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// For people: `members 1, 2 of data`.
pub(crate) fn lacking(found: &Findable) -> String {
    let members = if found.newly_missing.len() == 1 { "member" } else { "members" };
    format!("{members} {} of {}", found.newly_missing.join(", "), found.name.escape_debug())
}

/// UUIDs of all that is served here.
pub(crate) fn served(folder: &Path) -> Vec<String> {
    ask::reports(folder).iter().filter_map(Report::served_uuid).map(str::to_owned).collect()
}

/// A pool that a server has for reading alone until members are here that were in use.
pub(crate) struct Waiting {
    pub(crate) uuid: String,
    /// These members, as `VDEV.ROLE`.
    missing: Vec<String>,
    /// The devices that it has.
    held: Vec<PathBuf>,
}

/// Pools that are served here and wait.
pub(crate) fn waiting(folder: &Path) -> Vec<Waiting> {
    let waits = |report: &Report| {
        let status = report.pool().filter(|status| !status.waits_for.is_empty())?;
        let here = status.folder.as_deref().unwrap_or(Path::new("."));
        let devices = status.pool.devices.iter().filter_map(|device| device.path.as_ref());
        let held = devices.chain(status.left_out.iter().map(|left_out| &left_out.path));
        let held = held.map(|path| real(&here.join(path))).collect();
        Some(Waiting { uuid: status.pool.uuid.clone(), missing: status.waits_for.clone(), held })
    };
    ask::reports(folder).iter().filter_map(waits).collect()
}

impl Waiting {
    /// Members for which it waits, and which were not found.
    pub(crate) fn lacks<'a>(&'a self, found: &'a Findable) -> impl Iterator<Item = &'a String> {
        self.missing.iter().filter(|member| found.missing.contains(member))
    }

    /// Whether it has a device.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.held.contains(&real(path))
    }
}

//! Settings of a server: files and addresses that they name are looked at without a server, and other processes get those in force.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use brindle_host::HeldSettings;
use brindle_host::control::ControlRights;
use brindle_host::opening::{Config, ControlConfig, Listen, MetricsConfig, Opening, Principal, UnixRights};
use brindle_io::uring::SocketRights;

use super::access::{AccessFile, Proofs};
use super::crew;
use super::groups;
use super::iscsi::IscsiPlan;
use super::metrics::ScrapePlan;
use super::places::{self, ListenPlace};
use super::reload::Anew;
use super::tls::Certificates;
use crate::base::failure::Failure;
use crate::base::path::absolute;
use crate::base::runtime;
use crate::devices::world;
use crate::flags::cli::owners;
use crate::server::settings::{RunningSettings, called};

/// Findings about settings, made without a server.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Reasons for which a daemon would not start with them, or not serve all that they name.
    pub(crate) wrong: Vec<String>,
    /// Things that may be meant so.
    pub(crate) remarks: Vec<String>,
}

/// Opens all that settings name, as a server does before it runs.
pub(crate) fn check(config: &Config) -> Checked {
    let mut checked = Checked::default();
    let exports = &config.exports;
    checked.keep(runtime::check_name(&config.name));
    checked.keep(world::check_budget(&config.tuning));
    checked.keep(crew::check(&config.cores));
    checked.keep(rights(&exports.unix_rights));
    checked.keep(control_rights(&config.control));
    let certificates = checked.keep(exports.tls.as_ref().map(Certificates::read).transpose());
    // Without its certificates nothing is known of what an address demands.
    if let Some(certificates) = certificates {
        checked.keep(places::find(exports, certificates.as_ref()));
    }
    let plan = |iscsi| IscsiPlan::find(iscsi, exports.insecure);
    checked.keep(exports.iscsi.as_ref().map(plan).transpose());
    checked.keep(ScrapePlan::find(&config.metrics));
    let proofs = Proofs {
        secrets: exports.iscsi.as_ref().is_some_and(|iscsi| iscsi.secrets.is_some()),
        authorities: exports.tls.as_ref().is_some_and(|tls| tls.clients.is_some()),
    };
    let read = |file| AccessFile::read(file, None::<&[&str]>, proofs);
    checked.keep(exports.access.as_deref().map(read).transpose());
    let spare_groups = &config.policies.spare_groups;
    let mut names: Vec<&str> = config.arrays.iter().filter_map(|array| array.name.as_deref()).collect();
    names.extend(spare_groups.iter().flat_map(|group| &group.arrays).map(String::as_str));
    checked.keep(groups::check(spare_groups, &names, true));
    checked.listens(config);
    checked.reads(config);
    checked
}

impl Checked {
    /// Notes a failure, or gives what was read.
    fn keep<T>(&mut self, read: Result<T, Failure>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(why) => {
                self.wrong.push(for_whom(&why));
                None
            }
        }
    }

    /// Folders of sockets are there, and addresses are this machine's.
    fn listens(&mut self, config: &Config) {
        let own = runtime::usual_folders();
        let iscsi = config.exports.iscsi.iter().flat_map(|iscsi| &iscsi.portals).cloned().map(Listen::Tcp);
        let named = config.exports.nbd.iter().chain(&config.metrics.listen).cloned();
        for listen in named.chain(iscsi) {
            match &listen {
                Listen::Unix(path) => {
                    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                    let is_made = folder.is_none_or(|folder| own.iter().any(|own| own == folder));
                    if let Some(folder) = folder.filter(|folder| !is_made && !folder.is_dir()) {
                        self.wrong
                            .push(format!("{listen}: there is no folder {}: make it", folder.display()));
                    }
                }
                Listen::Tcp(_) => {
                    if let Ok(place) = ListenPlace::find(&listen)
                        && !is_here(&place)
                    {
                        self.wrong.push(format!("{listen}: this machine does not have that address now"));
                    }
                }
            }
        }
    }

    /// Files that are opened only once something is served.
    fn reads(&mut self, config: &Config) {
        for volume in config.volumes() {
            let Some(bitmap) = &volume.bitmap else { continue };
            let what = || format!("{}, the bitmap of {}", bitmap.display(), called(volume));
            self.keep(fs::File::open(bitmap).map_err(|source| Failure::system(what(), source)));
        }
        if let Some(state) = config.exports.iscsi.as_ref().and_then(|iscsi| iscsi.state.as_deref()) {
            let there = state.ancestors().find(|folder| folder.exists());
            if there.is_some_and(|there| !there.is_dir()) {
                self.wrong.push(format!("{}: it is no folder, and can't be made one", state.display()));
            }
        }
        for place in &config.devices {
            let looked = match fs::metadata(place) {
                Ok(meta) if meta.is_dir() => fs::read_dir(place).map(drop),
                Ok(_) => fs::File::open(place).map(drop),
                Err(why) => Err(why),
            };
            match looked {
                // A disk may come yet.
                Err(why) if why.kind() == ErrorKind::NotFound => {
                    self.remarks.push(format!("{}: it is not there now", place.display()));
                }
                looked => {
                    let what = place.display().to_string();
                    self.keep(looked.map_err(|source| Failure::system(what, source)));
                }
            }
        }
    }
}

/// A failure, for people; where this user may not look, it names the user who may.
fn for_whom(why: &Failure) -> String {
    match why {
        Failure::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            format!(
                "{why}: it may not be read by this user, so that nothing is known of it; check as the user of the daemon, root as a rule"
            )
        }
        why => why.to_string(),
    }
}

/// Whether this machine has one of the addresses. The port may be in use, by the daemon as well.
fn is_here(place: &ListenPlace) -> bool {
    let ListenPlace::Tcp(addresses) = place else { return true };
    let has = |mut address: SocketAddr| {
        // A link-local address keeps its interface.
        address.set_port(0);
        TcpListener::bind(address).is_ok()
    };
    addresses.iter().copied().any(has)
}

/// The rights of Unix sockets, with the numbers of users and groups.
pub(super) fn rights(rights: &UnixRights) -> Result<SocketRights, Failure> {
    let (owner, group) = owners(rights).map_err(Failure::Refused)?;
    Ok(SocketRights { mode: rights.mode, owner, group })
}

/// Rights to the control socket, with the numbers of groups.
pub(super) fn control_rights(control: &ControlConfig) -> Result<ControlRights, Failure> {
    let number = |of: &Option<Principal>| {
        let rights = UnixRights { group: of.clone(), ..UnixRights::default() };
        owners(&rights).map(|(_, group)| group)
    };
    let find = |of: &Option<Principal>, what: &str| {
        number(of).map_err(|why| Failure::Refused(format!("control.{what}: {why}")))
    };
    Ok(ControlRights {
        owner: rustix::process::geteuid().as_raw(),
        readers: find(&control.readers, "readers")?,
        operators: find(&control.operators, "operators")?,
    })
}

/// The settings by which a daemon would serve as flags have this server serve.
pub(super) fn as_of_daemon(opening: &Opening, metrics: &MetricsConfig) -> Config {
    let Opening { exports, tuning, policies, control, stop_timeout_ms, .. } = opening.clone();
    let mut config = Config {
        homehost: Some("none".to_owned()),
        stop_timeout: stop_timeout_ms,
        exports,
        tuning,
        policies,
        control,
        metrics: metrics.clone(),
        ..Config::default()
    };
    // Another process may be in another folder.
    for path in config.files() {
        *path = absolute(path);
    }
    config
}

/// Answers processes that ask for the settings: by the settings of a daemon, or by `flags` of a server without a file.
pub(super) fn in_force(flags: Config, anew: &Arc<Anew>) -> HeldSettings {
    let anew = Arc::clone(anew);
    Arc::new(move || {
        let settings = anew.settings.as_ref().map_or_else(|| flags.clone(), RunningSettings::in_force);
        serde_json::to_value(settings).map_err(|error| error.to_string())
    })
}

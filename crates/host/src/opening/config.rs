//! The settings of a daemon: all that a machine serves, as its file `brindle.toml` has it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::written::{self, WrittenTime};

use super::{
    Cores, Exports, Iscsi, Lacking, Listen, Opening, Policies, Principal, TlsFiles, Tuning, VolumeOpening,
};

/// All that a daemon serves, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// The server's name, as commands and its control socket have it.
    pub name: String,
    /// Arrays of this host are served without being named: as their superblocks name it, `any` for all, `none` for those alone that are
    /// named. Not said, the name of this machine.
    pub homehost: Option<String>,
    /// Devices among which members are looked for, and folders of them. None: all disks and partitions.
    pub devices: Vec<PathBuf>,
    /// Time that the start waits for members that were there when an array was used last. With its unit: "30s".
    #[serde(with = "written::span")]
    #[schemars(with = "WrittenTime")]
    pub wait: u64,
    /// Time that stopping may take. With its unit: "30s".
    #[serde(with = "written::span")]
    #[schemars(with = "WrittenTime")]
    pub stop_timeout: u64,
    /// The cores that have a reactor each: how many, or which, as "0-3,7".
    pub cores: Cores,
    /// Arrays by name or UUID, with what is special to each.
    pub arrays: Vec<VolumeOpening>,
    /// Pools by name or UUID, with what is special to each.
    pub pools: Vec<VolumeOpening>,
    /// How clients come.
    pub exports: Exports,
    /// How arrays and pools run.
    pub tuning: Tuning,
    /// Decisions that the server takes by itself.
    pub policies: Policies,
    /// Rights to ask and to command, besides those of the daemon's user and of root.
    pub control: ControlConfig,
    /// Where metrics are to be had.
    pub metrics: MetricsConfig,
    /// Receivers of events; without this table there are none.
    pub monitor: Option<MonitorConfig>,
}

/// Groups that may use the control socket, of which the console is a client. Folder and socket are the readers' then, so that operators are
/// in that group, too; without readers they are the operators'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ControlConfig {
    /// Members of this group may ask: a name or a number.
    pub readers: Option<Principal>,
    /// Members of this group may ask and command.
    pub operators: Option<Principal>,
}

/// Where metrics are to be had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MetricsConfig {
    /// Addresses of this machine: unix:PATH or HOST:PORT.
    pub listen: Vec<Listen>,
    /// A file whose first line is the secret that scrapes have to say.
    pub bearer: Option<PathBuf>,
    /// All of them, also histograms and what each member does; without it 100 of each array at most.
    pub full: bool,
}

/// Receivers of events, as `brindle monitor` has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MonitorConfig {
    /// The address that mail goes to.
    pub mail: Option<String>,
    /// The sender of mail.
    pub mail_from: Option<String>,
    /// A program that is run at each event, with mdadm's arguments.
    pub program: Option<PathBuf>,
    /// The program that sends mail.
    pub sendmail: Option<PathBuf>,
    /// An address that each event is posted to, as a line of JSON: http or https.
    pub webhook: Option<String>,
    /// Drives are looked at by smartctl, each half hour.
    pub smart: bool,
    /// The program that is run for that in place of smartctl.
    pub smartctl: Option<PathBuf>,
    /// Days after which an array with redundancy that was not compared is an event; 0 for never.
    pub scrub_overdue: u32,
    /// Time between two looks. With its unit: "10s".
    #[serde(with = "written::span")]
    #[schemars(with = "WrittenTime")]
    pub delay: u64,
    /// Steps of a rebuild, in percent, at which it is reported.
    #[schemars(range(min = 1, max = 99))]
    pub increment: u8,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            mail: None,
            mail_from: None,
            program: None,
            sendmail: None,
            webhook: None,
            smart: false,
            smartctl: None,
            scrub_overdue: 0,
            delay: 10_000,
            increment: 20,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let Opening { exports, tuning, policies, stop_timeout_ms, .. } = Opening::default();
        Self {
            name: "brindle".to_owned(),
            homehost: None,
            devices: Vec::new(),
            wait: 30_000,
            stop_timeout: stop_timeout_ms,
            cores: Cores::default(),
            arrays: Vec::new(),
            pools: Vec::new(),
            exports,
            tuning,
            policies,
            control: ControlConfig::default(),
            metrics: MetricsConfig::default(),
            monitor: None,
        }
    }
}

impl Config {
    /// Arrays and pools that are named.
    pub fn volumes(&self) -> impl Iterator<Item = &VolumeOpening> {
        self.arrays.iter().chain(&self.pools)
    }

    /// Files that the settings of exports and metrics name, sockets too.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let Exports { nbd, tls, iscsi, access, .. } = &mut self.exports;
        let MetricsConfig { listen, bearer, .. } = &mut self.metrics;
        let sockets = nbd.iter_mut().chain(listen).filter_map(|listen| match listen {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        });
        let tls = tls.iter_mut().flat_map(|TlsFiles { cert, key, clients, revoked }| {
            [Some(cert), Some(key), clients.as_mut(), revoked.as_mut()].into_iter().flatten()
        });
        let iscsi =
            iscsi.iter_mut().flat_map(|Iscsi { secrets, state, .. }| [secrets, state].into_iter().flatten());
        sockets.chain(tls).chain(iscsi).chain(access).chain(bearer)
    }

    /// The host that serves these members.
    pub fn opening(&self, members: Vec<PathBuf>) -> Opening {
        Opening {
            name: Some(self.name.clone()),
            own_names: true,
            lacking: Lacking::ReadOnly,
            members,
            bitmaps: self.volumes().filter_map(|volume| volume.bitmap.clone()).collect(),
            tuning: self.tuning,
            exports: self.exports.clone(),
            policies: self.policies.clone(),
            control: self.control.clone(),
            volumes: self.volumes().cloned().collect(),
            stop_timeout_ms: self.stop_timeout,
            cores: self.cores.clone(),
            ..Opening::default()
        }
    }

    /// Settings that can't be, each with its place.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (table, volumes) in [("arrays", &self.arrays), ("pools", &self.pools)] {
            for (at, volume) in volumes.iter().enumerate() {
                if volume.name.is_none() && volume.uuid.is_none() {
                    wrong.push(format!(
                        "{table}, entry {}: it has neither name nor uuid: give one of them",
                        at + 1
                    ));
                }
                let before = &volumes[..at];
                if let Some(first) = before.iter().position(|other| other.is_same(volume)) {
                    let (first, second) = (first + 1, at + 1);
                    wrong.push(format!("{table}, entries {first} and {second} mean the same: leave one"));
                }
            }
        }
        if let Some(monitor) = &self.monitor
            && !(1..=99).contains(&monitor.increment)
        {
            wrong.push(format!("monitor.increment is {}, and has to be 1 to 99", monitor.increment));
        }
        if let Some(url) = self.monitor.as_ref().and_then(|monitor| monitor.webhook.as_ref())
            && !is_web_address(url)
        {
            wrong
                .push("monitor.webhook has to begin with http:// or https://, and to be one word".to_owned());
        }
        wrong
    }
}

/// Whether events can be posted there.
pub fn is_web_address(url: &str) -> bool {
    let begins =
        ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
    begins && !url.chars().any(|letter| letter.is_control() || letter.is_whitespace())
}

//! A host as data: the arrays and pools to open, their settings, their exports, and the policies.
//!
//! Command lines and files of settings are read into one [`Opening`]. Nothing here knows where it came from. Words that it does not
//! know are refused with their names, and whatever is left out is as [`Opening::default`] has it.

mod config;
mod console;
mod cores;
mod exports;
mod tuning;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{RateLimits, WrittenLimits, written_limits};

pub use crate::written::{milliseconds, mode, written_time};
pub use config::{Config, ControlConfig, MetricsConfig, MonitorConfig, is_web_address};
pub use console::ConsoleOptions;
pub use cores::{Cores, CoresError};
pub use exports::{Exports, Iscsi, Listen, Principal, TlsFiles, UnixRights};
pub use tuning::{Patience, Tuning};

/// A host that is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Opening {
    /// The server's name, which is also that of its export if it has one array. The default is the name of the first
    /// array.
    pub name: Option<String>,
    /// Each array and its export has its own name, also if there is one only: others may join it.
    pub own_names: bool,
    /// Devices of arrays and pools, in any order: superblocks and labels say which belong together.
    pub members: Vec<PathBuf>,
    /// Files that have write-intent bitmaps of these arrays.
    pub bitmaps: Vec<PathBuf>,
    /// Permission to write.
    pub access: Permission,
    /// Use arrays of which some bytes may be wrong.
    pub force: bool,
    /// The treatment of a pool that lacks members which were in use.
    pub lacking: Lacking,
    /// Reshapes of arrays that are under way are gone on with.
    #[serde(rename = "continue")]
    pub goes_on: bool,
    /// UUIDs of arrays whose reshape the server was at in whose place this one is: those are gone on with, too.
    #[serde(skip)]
    pub moving: Vec<String>,
    /// The vdev and role of a member whose side is believed where members of a pool were written apart from each other.
    pub take: Option<(usize, u16)>,
    /// How arrays and pools run.
    pub tuning: Tuning,
    /// The exports of the volumes.
    pub exports: Exports,
    /// Decisions that the server takes by itself.
    pub policies: Policies,
    /// Rights to the control socket.
    pub control: ControlConfig,
    /// Arrays and pools that differ from what is said of all.
    pub volumes: Vec<VolumeOpening>,
    /// Milliseconds that stopping may take.
    pub stop_timeout_ms: u64,
    /// The cores that have a reactor each.
    pub cores: Cores,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            name: None,
            own_names: false,
            members: Vec::new(),
            bitmaps: Vec::new(),
            access: Permission::default(),
            force: false,
            lacking: Lacking::default(),
            goes_on: false,
            moving: Vec::new(),
            take: None,
            tuning: Tuning::default(),
            exports: Exports::default(),
            policies: Policies::default(),
            control: ControlConfig::default(),
            volumes: Vec::new(),
            stop_timeout_ms: 30_000,
            cores: Cores::default(),
        }
    }
}

impl Opening {
    /// Permission to write to the array or pool of that name and UUID.
    pub fn access_of(&self, name: &str, uuid: &str) -> Permission {
        let own = self.volumes.iter().filter(|volume| volume.means(name, uuid));
        own.filter_map(|volume| volume.access).next().unwrap_or(self.access)
    }

    /// The treatment of the pool of that name and UUID if it lacks members which were in use.
    pub fn lacking_of(&self, name: &str, uuid: &str) -> Lacking {
        let goes_on = self.volumes.iter().any(|volume| volume.degraded && volume.means(name, uuid));
        if goes_on { Lacking::Degraded } else { self.lacking }
    }

    /// Whether a reshape of the array of that name and UUID is gone on with.
    pub fn goes_on_with(&self, name: &str, uuid: &str) -> bool {
        let was_at_it = self.moving.iter().any(|moving| moving == uuid);
        self.goes_on
            || was_at_it
            || self.volumes.iter().any(|volume| volume.goes_on && volume.means(name, uuid))
    }

    /// Limits of its clients.
    pub fn limits_of(&self, name: &str, uuid: &str) -> Option<RateLimits> {
        let own = self.volumes.iter().filter(|volume| volume.means(name, uuid));
        own.filter_map(|volume| volume.limits).next().or(self.exports.limits)
    }

    /// Whether a volume is offered to no client at the start.
    pub fn withdraws(&self, name: &str, uuid: &str) -> bool {
        self.volumes.iter().any(|volume| volume.withdrawn && volume.means(name, uuid))
    }
}

/// An array or a pool, and how it differs from what is said of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct VolumeOpening {
    /// Its name, without a host's.
    pub name: Option<String>,
    /// Its UUID; with both, the name is for people alone.
    pub uuid: Option<String>,
    /// Permission to write.
    pub access: Option<Permission>,
    /// Limits of its clients, all together.
    #[serde(with = "written_limits")]
    #[schemars(with = "Option<WrittenLimits>")]
    pub limits: Option<RateLimits>,
    /// The file that has its write-intent bitmap.
    pub bitmap: Option<PathBuf>,
    /// A device of the kernel is made of it at each start: /dev/nbdN, which udev names /dev/brindle/NAME.
    pub attach: bool,
    /// It is offered to no client at the start, until `brindle export` offers it.
    pub withdrawn: bool,
    /// A pool is written to though members are missing that were in use, which are out of use from then on. Without it, it is read-only
    /// until they are here. Arrays are started so in any case, once the wait is over.
    pub degraded: bool,
    /// A reshape of the array into more members that is under way is gone on with. Without it, an array in the middle of one is read-only.
    #[serde(rename = "continue")]
    pub goes_on: bool,
}

impl VolumeOpening {
    /// Whether the array or pool of that name and UUID is meant.
    pub fn means(&self, name: &str, uuid: &str) -> bool {
        match &self.uuid {
            Some(own) => plain(own) == plain(uuid),
            None => self.name.as_deref() == Some(name),
        }
    }

    /// Whether it means an array or a pool by this name alone.
    pub fn calls(&self, name: &str) -> bool {
        self.uuid.is_none() && self.name.as_deref() == Some(name)
    }

    /// Whether both mean one.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.uuid, &other.uuid) {
            (Some(own), Some(other)) => plain(own) == plain(other),
            (None, None) => self.name.is_some() && self.name == other.name,
            _ => false,
        }
    }
}

/// A UUID without the marks between its digits, which are colons in md's form and dashes in others.
fn plain(uuid: &str) -> String {
    uuid.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase()
}

/// Permission to write to arrays and pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Writes are taken by each array whose features allow them.
    #[default]
    AsFeaturesAllow,
    /// Nothing is written to a member.
    ReadOnly,
    /// An array that can't be written to is refused.
    ReadWrite,
}

/// The opening of a pool that lacks members which were in use: they would be out of use from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lacking {
    /// It is refused.
    #[default]
    Refused,
    /// It is for reading alone, until they are here.
    ReadOnly,
    /// It goes on without them.
    Degraded,
}

/// Decisions that a host takes unasked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Policies {
    /// Arrays and pools that share their spares.
    pub spare_groups: Vec<SpareGroup>,
    /// Members that are out of date when the host starts are re-added, where a bitmap tells what they missed.
    pub re_add: bool,
    /// Re-adds members that failed while they were served, once they are back under their names.
    pub re_add_returned: bool,
}

/// Arrays that share their spares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SpareGroup {
    /// The group's name.
    pub name: String,
    /// Names of its arrays and pools; none for all of the host.
    #[serde(default)]
    pub arrays: Vec<String>,
}

impl SpareGroup {
    /// Whether an array of that name is in it.
    pub fn has(&self, array: &str) -> bool {
        self.arrays.is_empty() || self.arrays.iter().any(|name| name == array)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::limits::RateLimits;

    #[test]
    fn nothing_is_lost_when_an_opening_is_written_and_read() {
        let all = Opening {
            name: Some("store".to_owned()),
            own_names: true,
            members: vec!["/dev/a".into(), "/dev/b".into()],
            bitmaps: vec!["/run/bits".into()],
            access: Permission::ReadWrite,
            force: true,
            lacking: Lacking::Degraded,
            goes_on: true,
            moving: Vec::new(),
            take: Some((0, 2)),
            cores: "0-1,7".parse().unwrap(),
            tuning: Tuning {
                memory: 32 << 20,
                map_memory: NonZeroU64::new(7 << 20),
                read_policy: brindle_array::ReadPolicy::RoundRobin,
                on_full: brindle_array::OnFull::Fail,
                read_errors: 3,
                patience: Patience { answer_ms: Some(4000), flush_ms: 9000, read_ms: 20 },
                max_speed: NonZeroU64::new(1 << 20),
                min_speed: NonZeroU64::new(4096),
                raise_after: 7000,
            },
            exports: Exports {
                nbd: vec![Listen::Unix("/run/a.sock".into()), Listen::Tcp("[::1]:10809".to_owned())],
                unix_rights: UnixRights {
                    mode: 0o660,
                    owner: Some(1.into()),
                    group: Some(Principal::Name("disk".to_owned())),
                },
                tls: Some(TlsFiles {
                    cert: "cert.pem".into(),
                    key: "key.pem".into(),
                    clients: Some("clients.pem".into()),
                    revoked: None,
                }),
                iscsi: Some(Iscsi { portals: vec!["127.0.0.1:3260".to_owned()], ..Iscsi::default() }),
                access: Some("access".into()),
                insecure: true,
                limits: Some(RateLimits { iops: NonZeroU64::new(7), bandwidth: None, burst: 100 }),
                max_connections: 5,
            },
            control: ControlConfig {
                readers: Some(Principal::Name("adm".to_owned())),
                operators: Some(Principal::Number(7)),
            },
            policies: Policies {
                spare_groups: vec![SpareGroup { name: "fast".to_owned(), arrays: vec!["a".to_owned()] }],
                re_add: true,
                re_add_returned: true,
            },
            volumes: vec![VolumeOpening {
                name: Some("slow".to_owned()),
                uuid: None,
                access: Some(Permission::ReadOnly),
                limits: Some(RateLimits { iops: None, bandwidth: NonZeroU64::new(7), burst: 100 }),
                bitmap: Some("/run/bits".into()),
                attach: true,
                withdrawn: true,
                degraded: true,
                goes_on: true,
            }],
            stop_timeout_ms: 5,
        };
        for opening in [all, Opening::default()] {
            let text = serde_json::to_string(&opening).unwrap();
            assert_eq!(serde_json::from_str::<Opening>(&text).unwrap(), opening, "{text}");
        }
    }

    #[test]
    fn words_may_be_left_out_and_unknown_ones_are_named() {
        let few = r#"{"members": ["a"], "exports": {"nbd": ["unix:/run/a"]}, "policies": {"spare-groups": [{"name": "all"}]}}"#;
        let read: Opening = serde_json::from_str(few).unwrap();
        let (exports, group) = (&read.exports, &read.policies.spare_groups[0]);
        assert_eq!((exports.nbd[0].to_string(), exports.max_connections), ("unix:/run/a".to_owned(), 64));
        assert!(
            group.has("any") && read.tuning == Tuning::USUAL && read.access == Permission::AsFeaturesAllow
        );
        for (wrong, word) in [
            (r#"{"colour": 1}"#, "colour"),
            (r#"{"tuning": {"memori": 1}}"#, "memori"),
            (r#"{"exports": {"nbd": ["nowhere"]}}"#, "HOST:PORT"),
            (r#"{"exports": {"tls": {"cert": "a"}}}"#, "key"),
            (r#"{"exports": {"max-connections": 0}}"#, "1 to 4096"),
            (r#"{"access": "write"}"#, "read-write"),
            (r#"{"tuning": {"read-policy": "second"}}"#, "round-robin"),
        ] {
            let why = serde_json::from_str::<Opening>(wrong).unwrap_err().to_string();
            assert!(why.contains(word), "{wrong}: {why}");
        }
    }
}

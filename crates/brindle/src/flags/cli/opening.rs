//! Flags as the data that they stand for. Nothing below knows that there are flags.

use std::num::NonZeroU64;

use brindle_array as array;
use brindle_host::opening::{self, Exports, Lacking, MetricsConfig, Opening, Permission, Policies, TlsFiles};

use super::{Iscsi, MetricsFlags, OnFull, Patience, ReadPolicy, Serve, TlsFlags, Tuning};
use crate::base::units::Bytes;

impl From<Patience> for opening::Patience {
    fn from(flags: Patience) -> Self {
        Self {
            answer_ms: flags.member_timeout.map(|span| span.0),
            flush_ms: flags.flush_timeout.0,
            read_ms: flags.read_patience.0,
        }
    }
}

impl From<ReadPolicy> for array::ReadPolicy {
    fn from(flag: ReadPolicy) -> Self {
        match flag {
            ReadPolicy::LeastOutstanding => Self::LeastOutstanding,
            ReadPolicy::RoundRobin => Self::RoundRobin,
            ReadPolicy::First => Self::First,
        }
    }
}

impl From<OnFull> for array::OnFull {
    fn from(flag: OnFull) -> Self {
        match flag {
            OnFull::Wait => Self::Wait,
            OnFull::Fail => Self::Fail,
        }
    }
}

impl From<Tuning> for opening::Tuning {
    fn from(flags: Tuning) -> Self {
        Self {
            memory: flags.memory.map_or(Self::USUAL.memory, |memory| memory.0),
            map_memory: flags.map_memory.and_then(|bytes| NonZeroU64::new(bytes.0)),
            read_policy: flags.read_policy.into(),
            patience: flags.patience.into(),
            ..Self::USUAL
        }
    }
}

impl From<&Serve> for Opening {
    fn from(flags: &Serve) -> Self {
        let access = match (flags.read_only, flags.read_write) {
            (true, _) => Permission::ReadOnly,
            (false, true) => Permission::ReadWrite,
            (false, false) => Permission::AsFeaturesAllow,
        };
        Self {
            name: flags.name.clone(),
            own_names: false,
            members: flags.members.clone(),
            bitmaps: flags.given.bitmaps.clone(),
            access,
            force: flags.force,
            lacking: if flags.degraded { Lacking::Degraded } else { Lacking::Refused },
            moving: Vec::new(),
            goes_on: flags.goes_on,
            take: flags.take,
            tuning: opening::Tuning {
                on_full: flags.on_full.into(),
                read_errors: flags.read_errors,
                max_speed: speed(flags.max_speed),
                min_speed: speed(flags.min_speed),
                raise_after: flags.raise_after.0,
                ..flags.tuning.into()
            },
            exports: flags.into(),
            policies: Policies {
                spare_groups: flags.spare_group.iter().map(|said| said.0.clone()).collect(),
                re_add: flags.re_add,
                re_add_returned: flags.re_add_returned,
            },
            control: opening::ControlConfig::default(),
            volumes: Vec::new(),
            stop_timeout_ms: flags.stop_timeout.0,
            cores: flags.cores.clone(),
        }
    }
}

impl From<&MetricsFlags> for MetricsConfig {
    fn from(flags: &MetricsFlags) -> Self {
        Self { listen: flags.metrics.clone(), bearer: flags.metrics_bearer.clone(), full: flags.metrics_full }
    }
}

impl From<&Serve> for Exports {
    fn from(flags: &Serve) -> Self {
        Self {
            nbd: flags.sockets.nbd.clone(),
            unix_rights: flags.sockets.rights(),
            tls: tls(&flags.tls),
            iscsi: iscsi(&flags.iscsi),
            access: flags.sockets.access.clone(),
            insecure: flags.sockets.insecure,
            limits: flags.limits.said(),
            max_connections: flags.max_connections,
        }
    }
}

fn tls(flags: &TlsFlags) -> Option<TlsFiles> {
    let (Some(cert), Some(key)) = (&flags.tls_cert, &flags.tls_key) else { return None };
    let (clients, revoked) = (flags.tls_clients.clone(), flags.tls_revoked.clone());
    Some(TlsFiles { cert: cert.clone(), key: key.clone(), clients, revoked })
}

fn iscsi(flags: &Iscsi) -> Option<opening::Iscsi> {
    (!flags.iscsi.is_empty()).then(|| opening::Iscsi {
        portals: flags.iscsi.iter().map(|portal| portal.0.clone()).collect(),
        secrets: flags.iscsi_secrets.clone(),
        state: flags.iscsi_state.clone(),
        shared_writers: flags.shared_writers,
    })
}

/// 0 is none.
fn speed(said: Option<Bytes>) -> Option<NonZeroU64> {
    said.and_then(|bytes| NonZeroU64::new(bytes.0))
}

#[cfg(test)]
mod tests {
    use brindle_host::opening::{Listen, SpareGroup};
    use clap::Parser;

    use super::*;
    use crate::flags::cli::{Cli, Command};

    fn opening(words: &[&str]) -> Opening {
        let cli = Cli::parse_from(["brindle", "serve"].iter().chain(words));
        let Command::Serve(serve) = cli.command else { panic!("serve") };
        Opening::from(&*serve)
    }

    #[test]
    fn without_flags_a_host_is_as_it_is_by_default() {
        assert_eq!(opening(&["m"]), Opening { members: vec!["m".into()], ..Opening::default() });
    }

    #[test]
    fn each_flag_changes_what_it_stands_for() {
        let usual = opening(&["m"]);
        let changed = |words: &[&str], change: &dyn Fn(&mut Opening)| {
            let mut wanted = usual.clone();
            change(&mut wanted);
            assert_ne!(wanted, usual, "{words:?}");
            assert_eq!(opening(&[words, &["m"]].concat()), wanted, "{words:?}");
        };
        changed(&["--read-only"], &|o| o.access = Permission::ReadOnly);
        changed(&["--read-write"], &|o| o.access = Permission::ReadWrite);
        changed(&["--force"], &|o| o.force = true);
        changed(&["--continue"], &|o| o.goes_on = true);
        changed(&["--take", "1.0"], &|o| o.take = Some((1, 0)));
        changed(&["--bitmap", "./b"], &|o| o.bitmaps = vec!["./b".into()]);
        changed(&["--name", "n"], &|o| o.name = Some("n".into()));
        changed(&["--re-add"], &|o| o.policies.re_add = true);
        changed(&["--re-add-returned"], &|o| o.policies.re_add_returned = true);
        changed(&["--spare-group", "g=a,b"], &|o| {
            let arrays = vec!["a".to_owned(), "b".to_owned()];
            o.policies.spare_groups = vec![SpareGroup { name: "g".to_owned(), arrays }];
        });
        changed(&["--cores", "0,2-3"], &|o| o.cores = opening::Cores::These(vec![0, 2, 3]));
        changed(&["--stop-timeout", "1s"], &|o| o.stop_timeout_ms = 1000);
        changed(&["--memory", "32M"], &|o| o.tuning.memory = 32 << 20);
        changed(&["--map-memory", "1G"], &|o| o.tuning.map_memory = NonZeroU64::new(1 << 30));
        changed(&["--read-policy", "first"], &|o| o.tuning.read_policy = array::ReadPolicy::First);
        changed(&["--on-full", "fail"], &|o| o.tuning.on_full = array::OnFull::Fail);
        changed(&["--read-errors", "3"], &|o| o.tuning.read_errors = 3);
        changed(&["--max-speed", "1M"], &|o| o.tuning.max_speed = NonZeroU64::new(1 << 20));
        changed(&["--min-speed", "4K"], &|o| o.tuning.min_speed = NonZeroU64::new(4096));
        changed(&["--raise-after", "3s"], &|o| o.tuning.raise_after = 3000);
        changed(&["--member-timeout", "3s"], &|o| o.tuning.patience.answer_ms = Some(3000));
        changed(&["--flush-timeout", "3s"], &|o| o.tuning.patience.flush_ms = 3000);
        changed(&["--read-patience", "3s"], &|o| o.tuning.patience.read_ms = 3000);
        changed(&["--nbd", "unix:/s"], &|o| o.exports.nbd = vec![Listen::Unix("/s".into())]);
        changed(&["--socket-mode", "660"], &|o| o.exports.unix_rights.mode = 0o660);
        changed(&["--socket-owner", "7"], &|o| o.exports.unix_rights.owner = Some(7.into()));
        changed(&["--socket-group", "8"], &|o| o.exports.unix_rights.group = Some(8.into()));
        changed(&["--insecure"], &|o| o.exports.insecure = true);
        changed(&["--access", "f"], &|o| o.exports.access = Some("f".into()));
        changed(&["--max-connections", "5"], &|o| o.exports.max_connections = 5);
        changed(&["--max-iops", "7"], &|o| {
            let iops = NonZeroU64::new(7);
            o.exports.limits = Some(brindle_host::control::RateLimits { iops, bandwidth: None, burst: 100 });
        });
        changed(&["--tls-cert", "c", "--tls-key", "k"], &|o| {
            let (cert, key) = ("c".into(), "k".into());
            o.exports.tls = Some(TlsFiles { cert, key, clients: None, revoked: None });
        });
        changed(&["--iscsi", "a", "--shared-writers"], &|o| {
            let portals = vec!["a:3260".to_owned()];
            o.exports.iscsi = Some(opening::Iscsi { portals, shared_writers: true, ..Default::default() });
        });
    }
}

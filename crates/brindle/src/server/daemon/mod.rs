//! `brindle daemon`, `config` and `reload`: all that a machine serves, from a file of settings.

mod absent;
mod config;
mod ignore;
mod incremental;
mod more;
mod running;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use brindle_host::opening::{Config, Opening, VolumeOpening};

use brindle_host::{Changed, FailingDrives};

use crate::base::failure::Failure;
use crate::base::text::shell;
use crate::base::{report, runtime};
use crate::client::ask::{self, Target};
use crate::client::choice::{Choice, Hosts, lacking};
use crate::client::control::Ask;
use crate::client::monitor;
use crate::client::monitor::{MdadmArray, MdadmConf, is_named};
use crate::devices::scan::{Belongs, Findable};
use crate::devices::world::Through;
use crate::flags::cli::{Daemon, Reload};
use crate::server::descriptors::Room;
use crate::server::serve::{self, DaemonJob, Gathered, IsMeant, ServeJob, serve_here};
use crate::server::settings::{Settings, called};
pub(crate) use config::config;
pub(crate) use incremental::incremental;

/// `brindle daemon`.
pub(crate) fn daemon(args: &Daemon) -> Result<ExitCode, Failure> {
    let serve::Inherited { again, settings, moving } = serve::inherit();
    let settings = match settings {
        Some(text) => Settings::of_text(&args.config, text)?,
        None => Settings::read(&args.config)?,
    };
    settings.out_of_reach().iter().for_each(|why| eprintln!("brindle: {why}"));
    let config = settings.config.clone();
    let folder = runtime::folder(args.runtime.folder())?;
    // Another daemon had all members that there are: none is waited for then.
    let find = |goes_on: bool, room: Room| {
        let wait = if goes_on || again { 0 } else { config.wait };
        members(&config, &folder, wait, room)
    };
    let meant = Meant::by(&config);
    let is_meant = |served: &Findable| meant.is_meant(served);
    let failing = FailingDrives::default();
    let settings = match &config.monitor {
        Some(table) => settings.with_monitor(monitor::beside(&folder, table, failing.clone())?),
        None => settings,
    };
    let job = ServeJob {
        opening: Opening {
            cores: args.cores.clone().unwrap_or_else(|| config.cores.clone()),
            moving,
            ..config.opening(Vec::new())
        },
        metrics: config.metrics.clone(),
        search: Through::Never,
        folder: args.runtime.folder(),
        mount: None,
        background: false,
        json: args.json,
        daemon: Some(DaemonJob {
            find: &find,
            takes_over: Some(&is_meant as IsMeant<'_>).filter(|_| args.takeover && !again),
            settings,
            failing,
            more: more::take,
        }),
    };
    serve_here(job).map(|()| ExitCode::SUCCESS)
}

/// Members of all arrays and pools that are to be served. Members that were in use last are waited for, `wait` milliseconds. Arrays and pools
/// that can't be assembled are reported, and keep nothing else from being served. A daemon that finds none has work all the same if it
/// monitors, or if arrays can come later.
fn members(config: &Config, folder: &Path, wait: u64, room: Room) -> Result<Gathered, Failure> {
    let meant = Meant::by(config);
    let choice = Choice {
        places: &config.devices,
        named: &|found| meant.is_meant(found),
        own: None,
        wait: Duration::from_millis(wait),
    };
    serve::starts_within(choice.wait);
    let (scanned, served) = choice.wait_for_members(folder);
    scanned.tell_refused();
    for volume in config.volumes().filter(|volume| !scanned.all.iter().any(|found| means(volume, found))) {
        eprintln!("brindle: {} was not found", called(volume));
    }
    for found in scanned.all.iter().filter(|found| meant.is_left_to_md(found)) {
        eprintln!(
            "brindle: {} is left to md: mdadm.conf names it, and the settings do not",
            found.name.escape_debug()
        );
    }
    let is_elsewhere = |found: &Findable| served.contains(&found.uuid);
    let others = scanned.all.iter().filter(|found| !is_elsewhere(found));
    let foreign: Vec<String> = others.filter_map(|found| meant.foreign(found)).collect();
    foreign.iter().for_each(|why| eprintln!("brindle: not served: {why}"));
    let configured = absent::configured(config, &scanned, |found| choice.is_meant(found));
    let mut gathered = Gathered { members: Vec::new(), bitmaps: Vec::new(), configured };
    let all: Vec<&Findable> = scanned.all.iter().filter(|found| choice.is_meant(found)).collect();
    let count = all.iter().map(|found| found.members.len()).sum();
    for (at, found) in all.iter().enumerate() {
        let why = match &found.problem {
            _ if is_elsewhere(found) => Some(absent::elsewhere(folder, &found.uuid)),
            Some(why) => Some(why.clone()),
            None => room
                .lacks(gathered.members.len() + found.members.len(), count)
                .or_else(|| taken_name(found, &all, at))
                .or_else(|| serve::refused(found, &bitmaps(config, found))),
        };
        let name = found.name.escape_debug();
        match why {
            Some(why) => {
                eprintln!("brindle: {name} is not served: {why}");
                absent::note(&mut gathered.configured, found, &why);
            }
            None => {
                if !found.newly_missing.is_empty() {
                    eprintln!("brindle: {} was there when it was used last, and is missing", lacking(found));
                }
                gathered.members.extend_from_slice(&found.members);
                gathered.bitmaps.extend(bitmaps(config, found));
            }
        }
    }
    if gathered.members.is_empty() && gathered.configured.is_empty() && config.monitor.is_none() {
        let found = if foreign.is_empty() {
            "`brindle examine --scan` lists what is there".to_owned()
        } else {
            foreign.join("; ")
        };
        return Err(Failure::Refused(format!("nothing that the settings name can be served: {found}")));
    }
    Ok(gathered)
}

/// Arrays that a daemon is to serve, among all that are found.
struct Meant<'a> {
    config: &'a Config,
    /// The hosts whose arrays are served without being named.
    own: Hosts,
    /// Arrays that mdadm.conf names.
    of_md: Vec<MdadmArray>,
}

impl<'a> Meant<'a> {
    fn by(config: &'a Config) -> Self {
        // A file that can't be read names nothing.
        let conf = MdadmConf::read(None).unwrap_or_default();
        let mut own = Hosts::said(config.homehost.as_deref());
        if let (None, Some(host), Hosts::These(names)) = (&config.homehost, conf.homehost, &mut own) {
            names.push(host);
        }
        Self { config, own, of_md: conf.arrays }
    }

    /// Named by the settings, or of this host and not left to md.
    fn is_meant(&self, found: &Findable) -> bool {
        self.is_named(found) || self.is_own(found) && !self.is_mds(found)
    }

    /// Of this host, and named by mdadm.conf alone: md assembles it, now or later, and would find its members taken.
    fn is_left_to_md(&self, found: &Findable) -> bool {
        !self.is_named(found) && self.is_own(found) && self.is_mds(found)
    }

    fn is_named(&self, found: &Findable) -> bool {
        self.config.volumes().any(|volume| means(volume, found))
    }

    fn is_own(&self, found: &Findable) -> bool {
        self.own.start(found)
    }

    /// The reason why something is not served that the settings don't name; nothing if they do, or want nothing else.
    fn foreign(&self, found: &Findable) -> Option<String> {
        let Hosts::These(names) = &self.own else { return None };
        if self.is_meant(found) || self.is_mds(found) {
            return None;
        }
        let name = found.name.escape_debug();
        let mine = names.first().map_or_else(String::new, |own| own.escape_debug().to_string());
        Some(match &found.homehost {
            _ if let (Some(Belongs::Elsewhere(_)), Some(problem)) = (&found.belongs, &found.problem) => {
                problem.clone()
            }
            _ if found.belongs == Some(Belongs::Nowhere) => {
                format!(
                    "pool {name}: no host has it: `brindle pool import {}` makes it this host's",
                    shell(&found.name)
                )
            }
            _ if found.is_pool() => format!(
                "pool {name}: a pool is served if the settings name it: name = \"{name}\" below [[pools]]"
            ),
            None => {
                format!("array {name}: it names no host: name = \"{name}\" below [[arrays]] has it served")
            }
            Some(host) => {
                let host = host.escape_debug();
                format!(
                    "array {name}: it is of host {host}, and this host is {mine}: if it was renamed, homehost = \"{host}\" in the settings \
                     has all arrays of {host} served, name = \"{name}\" below [[arrays]] this one, and `brindle update --update homehost` \
                     makes it this host's"
                )
            }
        })
    }

    fn is_mds(&self, found: &Findable) -> bool {
        !found.is_pool() && self.of_md.iter().any(|array| is_named(array, found, &self.own))
    }
}

/// The reason why a pool can't have its name, which has no other: an array has it, or a pool before it. Arrays that share one are called
/// by their UUIDs.
fn taken_name(found: &Findable, all: &[&Findable], at: usize) -> Option<String> {
    let same = |other: &&&Findable| other.name == found.name;
    let arrays = all.iter().filter(|other| !other.is_pool()).filter(same).count();
    let before = all[..at].iter().filter(|other| other.is_pool()).any(|other| same(&other));
    (found.is_pool() && (arrays == 1 || before))
        .then(|| "there is an array or a pool of that name already".to_owned())
}

/// The files that the settings name for the write-intent bitmap of what was found.
fn bitmaps(config: &Config, found: &Findable) -> Vec<PathBuf> {
    let own = config.volumes().filter(|volume| means(volume, found));
    own.filter_map(|volume| volume.bitmap.clone()).collect()
}

/// Whether an entry of the settings names the array that was found.
fn means(volume: &VolumeOpening, found: &Findable) -> bool {
    volume.means(&found.name, &found.uuid)
        || volume.uuid.is_none() && volume.name.as_ref() == Some(&found.full_name)
}

/// `brindle reload`.
pub(crate) fn reload(args: &Reload) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let Target { server, .. } = Target::meant(&folder, args.server.as_deref())?;
    let answer = ask::ask::<Changed>(&folder, &server, &Ask::Reload.into())?;
    if args.json {
        return report::print_json(&answer);
    }
    let lines: Vec<String> = answer.changed.iter().map(|words| format!("{words}\n")).collect();
    report::print(&if lines.is_empty() { format!("{server}: nothing has changed\n") } else { lines.concat() })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn found(name: &str, host: Option<&str>, metadata: &str) -> Findable {
        Findable {
            uuid: "00000001:00000002:00000003:00000004".to_owned(),
            name: name.to_owned(),
            full_name: host.map_or(name.to_owned(), |host| format!("{host}:{name}")),
            homehost: host.map(str::to_owned),
            metadata: metadata.to_owned(),
            level: None,
            members: Vec::new(),
            missing: Vec::new(),
            newly_missing: Vec::new(),
            spares: 0,
            problem: None,
            risks: None,
            belongs: None,
        }
    }

    #[test]
    fn arrays_of_this_host_that_mdadm_conf_alone_names_are_left_to_md() {
        let named = |name: &str| VolumeOpening { name: Some(name.to_owned()), ..VolumeOpening::default() };
        let md = |name: &str| MdadmArray { name: Some(name.to_owned()), ..MdadmArray::default() };
        let by_uuid = |uuid: &str| MdadmArray { uuid: Some(uuid.to_owned()), ..md("x") };
        let device = MdadmArray { device: Some("/dev/md/a".to_owned()), ..MdadmArray::default() };
        let config = Config { arrays: vec![named("b")], ..Config::default() };
        let uuid = "00000001000000020000000300000004";
        for (own, of_md, is_own) in [
            ("here", md("a"), true),
            ("here", by_uuid(uuid), true),
            ("here", device, true),
            ("any", md("a"), true),
            ("none", md("a"), false),
            ("there", md("a"), false),
        ] {
            let meant = Meant { config: &config, own: Hosts::said(Some(own)), of_md: vec![of_md] };
            let one = found("a", Some("here"), "1.2");
            assert_eq!((meant.is_meant(&one), meant.is_left_to_md(&one)), (false, is_own), "{own}");
        }
        let of = |of_md: Vec<MdadmArray>| Meant { config: &config, own: Hosts::said(Some("here")), of_md };
        let here = found("a", Some("here"), "1.2");
        assert!(of(vec![by_uuid("5:6:7:8")]).is_meant(&here));
        assert!(of(vec![md("b")]).is_meant(&found("b", Some("here"), "1.2")), "the settings name it");
        assert!(!of(vec![md("tank")]).is_left_to_md(&found("tank", None, "pool")));
        let there = found("a", Some("there"), "1.2");
        assert!(!of(Vec::new()).is_meant(&there));
        let why = of(Vec::new()).foreign(&there).unwrap();
        for word in ["array a", "host there", "this host is here", "homehost = \"there\""] {
            assert!(why.contains(word), "{why}");
        }
        assert_eq!(of(Vec::new()).foreign(&here), None);
    }
}

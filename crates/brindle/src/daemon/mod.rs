//! `brindle daemon`, `config` and `reload`: all that a machine serves, from a file of settings.

mod config;
mod incremental;
mod more;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use brindle_host::opening::{Config, VolumeOpening};

use crate::ask::{self, Target};
use crate::choice::{Choice, lacking, this_host};
use crate::cli::{Daemon, Reload};
use crate::control::Request;
use crate::failure::Failure;
use crate::host::Host;
use crate::scan::Findable;
use crate::serve::{self, ServeJob, serve_here};
use crate::settings::{Settings, called};
use crate::world::{self, Through, World};
use crate::{monitor, report, runtime};
pub(crate) use config::config;
pub(crate) use incremental::incremental;

/// `brindle daemon`.
pub(crate) fn daemon(args: &Daemon) -> Result<ExitCode, Failure> {
    let serve::Inherited { again, settings } = serve::inherit();
    let settings = match settings {
        Some(text) => Settings::of_text(&args.config, text)?,
        None => Settings::read(&args.config)?,
    };
    let config = settings.config.clone();
    let folder = runtime::folder(args.runtime.folder())?;
    // Another daemon had all members that there are: none is waited for then.
    let find = |goes_on: bool| members(&config, &folder, if goes_on || again { 0 } else { config.wait });
    let settings = match &config.monitor {
        Some(table) => settings.with_monitor(monitor::beside(&folder, table)?),
        None => settings,
    };
    let job = ServeJob {
        opening: config.opening(Vec::new()),
        find: Some(&find),
        takes_over: args.takeover && !again,
        metrics: config.metrics.clone(),
        search: Through::Never,
        folder: args.runtime.folder(),
        background: false,
        json: args.json,
        settings: Some((settings, more::take)),
    };
    serve_here(job).map(|()| ExitCode::SUCCESS)
}

/// Members of all that is to be served; those that were there last are waited for so many milliseconds. What can't be assembled is reported, and keeps nothing else from being served.
fn members(config: &Config, folder: &Path, wait: u64) -> Result<Vec<PathBuf>, Failure> {
    let own = chosen_by(config);
    let is_named = |found: &Findable| config.volumes().any(|volume| means(volume, found));
    let choice = Choice {
        places: &config.devices,
        named: &is_named,
        own: (own != "none").then_some(&*own),
        wait: Duration::from_millis(wait),
    };
    let (scanned, served) = choice.wait_for_members(folder);
    for volume in config.volumes().filter(|volume| !scanned.all.iter().any(|found| means(volume, found))) {
        eprintln!("brindle: {} was not found", called(volume));
    }
    let mut members = Vec::new();
    for found in scanned.all.iter().filter(|found| choice.is_meant(found)) {
        let why = match &found.problem {
            _ if served.contains(&found.uuid) => Some("another server has it".to_owned()),
            Some(why) => Some(why.clone()),
            None => refused(found),
        };
        let name = found.name.escape_debug();
        match why {
            Some(why) => eprintln!("brindle: {name} is not served: {why}"),
            None => {
                if !found.newly_missing.is_empty() {
                    eprintln!("brindle: {} was there when it was used last, and is missing", lacking(found));
                }
                members.extend_from_slice(&found.members);
            }
        }
    }
    if members.is_empty() {
        return Err(Failure::Refused(
            "nothing that the settings name can be served: `brindle examine --scan` lists what is there"
                .to_owned(),
        ));
    }
    Ok(members)
}

/// The host whose arrays are served without being named; `none` and `any` are words.
fn chosen_by(config: &Config) -> String {
    config.homehost.clone().unwrap_or_else(this_host)
}

/// The reason why an array can't be assembled from the devices that were found, for this array alone.
fn refused(found: &Findable) -> Option<String> {
    if found.metadata == "pool" {
        return None;
    }
    let mut look = World::new(world::Opening { force: false, ..world::Opening::LOOK }).ok()?;
    Host::find(&mut look, &found.members, &[], false).err().map(|why| why.to_string())
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
    let answer = ask::ask(&folder, &server, &Request::Reload)?;
    if args.json {
        return report::print_json(&answer);
    }
    let words = answer["changed"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    let lines: Vec<String> = words.map(|words| format!("{words}\n")).collect();
    report::print(&if lines.is_empty() { format!("{server}: nothing has changed\n") } else { lines.concat() })
}

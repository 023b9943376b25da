//! The file of settings: read, held against what is known, and read anew while the daemon runs.

use brindle_host::Volumes;
use brindle_host::status::Report;
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use brindle_host::control::RateLimits;
use brindle_host::opening::{Config, Opening, VolumeOpening};

use crate::base::failure::Failure;
use crate::base::path;
use crate::client::ask::{Target, ask, stop_here};
use crate::client::choice::waiting;
use crate::client::control::{Ask, Request, Word};
use crate::client::monitor::Receivers;
use crate::server::reach;

/// The longest file of settings.
const MOST_BYTES: u64 = 1 << 20;

/// Settings, and the file that has them.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// As it was read.
    text: String,
    file: PathBuf,
    monitor: Option<Receivers>,
}

impl Settings {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        Self::of_text(file, text_of(file)?)
    }

    /// Settings that a file had, to which later changes are made.
    pub(crate) fn of_text(file: &Path, text: String) -> Result<Self, Failure> {
        let config = parsed(file, &text)?;
        Ok(Self { config, text, file: path::absolute(file), monitor: None })
    }

    /// All that the unit of this process does not let it reach.
    pub(super) fn out_of_reach(&self) -> Vec<String> {
        reach::lacking(&self.file, &self.text, &self.config)
    }

    /// Has the monitor of the arrays report events.
    pub(super) fn with_monitor(self, monitor: Receivers) -> Self {
        Self { monitor: Some(monitor), ..self }
    }

    /// The settings of a running server, to be reloaded.
    pub(crate) fn of(self, folder: &Path, server: &str, opening: &Opening, more: More) -> RunningSettings {
        let Self { config, text, file, monitor } = self;
        let members = opening.members.clone();
        let (folder, server) = (folder.to_owned(), server.to_owned());
        let (started, in_force) = (config.clone(), Mutex::new(config.clone()));
        let current = Mutex::new(CurrentSettings { config, text });
        RunningSettings { file, folder, server, members, monitor, more, started, current, in_force }
    }
}

/// An array or pool of the settings, for people.
pub(crate) fn called(volume: &VolumeOpening) -> String {
    match (&volume.name, &volume.uuid) {
        (Some(name), _) => format!("'{}'", name.escape_debug()),
        (None, Some(uuid)) => uuid.escape_debug().to_string(),
        (None, None) => "an entry without a name".to_owned(),
    }
}

pub(crate) fn read(file: &Path) -> Result<Config, Failure> {
    parsed(file, &text_of(file)?)
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let fail = |source| Failure::system(format!("{shown}"), source);
    let bytes = std::fs::metadata(file).map_err(fail)?.len();
    if bytes > MOST_BYTES {
        return Err(Failure::Refused(format!(
            "{shown} has {bytes} bytes, and settings have {MOST_BYTES} at most"
        )));
    }
    std::fs::read_to_string(file).map_err(fail)
}

fn parsed(file: &Path, text: &str) -> Result<Config, Failure> {
    parse(text).map_err(|why| Failure::Refused(format!("{}, {why}", file.display())))
}

/// Settings of a text; or the line where it is wrong, and why.
pub(crate) fn parse(text: &str) -> Result<Config, String> {
    let config: Config = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: {}", error.message().trim())
    })?;
    match config.wrong() {
        wrong if wrong.is_empty() => Ok(config),
        wrong => Err(wrong.join("; ")),
    }
}

/// An array or a pool that a server took while it ran.
pub(crate) struct Joined {
    pub(crate) name: String,
    pub(crate) uuid: String,
    /// For people.
    pub(crate) words: String,
}

/// The arrays and pools that a server is to take.
#[derive(Clone, Copy)]
pub(crate) enum Sought<'a> {
    /// The one of this UUID, though it may lack members.
    One(&'a str),
    /// All, of settings that follow these.
    All(&'a Config),
}

/// The outcome of the search.
#[derive(Default)]
pub(crate) struct Taken {
    /// Arrays and pools that are served now.
    pub(crate) joined: Vec<Joined>,
    /// The reasons why other arrays and pools are not served.
    pub(crate) others: Vec<String>,
    /// UUIDs of arrays and pools that earlier settings named, and that these do not mean.
    pub(crate) gone: Vec<String>,
}

/// Has the server take arrays and pools that settings mean and it lacks.
pub(crate) type More = Box<dyn Fn(&Config, Sought<'_>) -> Taken + Send + Sync>;

/// Settings of a server that runs.
pub(crate) struct RunningSettings {
    file: PathBuf,
    folder: PathBuf,
    server: String,
    members: Vec<PathBuf>,
    monitor: Option<Receivers>,
    more: More,
    /// Settings of its start.
    started: Config,
    current: Mutex<CurrentSettings>,
    /// Settings in force, for processes that ask: a lock of their own, since a reload holds `current` for as long as it takes.
    in_force: Mutex<Config>,
}

struct CurrentSettings {
    /// As the file had them last.
    config: Config,
    /// The settings that hold, as text.
    text: String,
}

impl RunningSettings {
    /// Reads the file, applies the settings that may change while a server runs, and reports the changes. A file that
    /// can't be taken changes nothing.
    pub(crate) fn read_anew(&self) -> Result<Vec<String>, Failure> {
        let text = text_of(&self.file)?;
        let new = parsed(&self.file, &text)?;
        // Before the lock, which others wait for: it asks file systems.
        let mut reported = reach::lacking(&self.file, &text, &new);
        let mut now = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let current = &now.config;
        self.set_limits(current, &new, &mut reported)?;
        self.set_speeds(current, &new, &mut reported)?;
        match (&new.monitor, &self.monitor) {
            (wanted, Some(receivers)) if *wanted != current.monitor => {
                receivers.replace(wanted.as_ref());
                reported.push("who is told of events is changed".to_owned());
            }
            (Some(_), None) => {
                reported.push("monitor is new: it begins when the daemon is started anew".to_owned());
            }
            _ => {}
        }
        let Taken { joined, mut others, gone } = (self.more)(&new, Sought::All(current));
        let stopped = self.stop_those(&gone, &mut others);
        let among =
            |all: &[Joined], volume: &VolumeOpening| all.iter().any(|one| volume.means(&one.name, &one.uuid));
        let is_here = |volume: &VolumeOpening| among(&joined, volume);
        let is_over = |volume: &VolumeOpening| among(&stopped, volume);
        reported.extend(later(current, &new, is_here, is_over));
        reported.extend(joined.iter().chain(&stopped).map(|one| one.words.clone()));
        others.iter().for_each(|why| tracing::warn!("{why}"));
        reported.extend(others);
        // Settings have been read from text, and can be written as such.
        let holds = holding(&self.started, &new);
        let text = toml::to_string(&holds).unwrap_or_else(|_| now.text.clone());
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = holds;
        *now = CurrentSettings { config: new, text };
        Ok(reported)
    }

    /// The settings in force, as far as files have them.
    pub(crate) fn in_force(&self) -> Config {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The text of the settings that hold now: by these it would serve what it serves.
    pub(crate) fn text(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    /// Takes an array that the settings mean, though it lacks members.
    pub(crate) fn take(&self, array: &str) -> Result<Vec<String>, Failure> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { joined, others, .. } = (self.more)(&current.config, Sought::One(array));
        for one in &joined {
            tracing::info!("{}", one.words);
        }
        if joined.is_empty() && !others.is_empty() {
            return Err(Failure::Refused(others.join("; ")));
        }
        Ok(joined.into_iter().map(|one| one.words).collect())
    }

    /// Takes members that pools wait for, if they are here. True if a pool waits still.
    pub(crate) fn take_waiting(&self) -> bool {
        let waiting = waiting(&self.folder);
        // The reason why one waits still is told in its status.
        waiting.iter().map(|one| self.take(&one.uuid)).filter(Result::is_err).count() > 0
    }

    /// Stops those of these UUIDs, and gives them. The last that is served goes on: the server would end with it.
    fn stop_those(&self, gone: &[String], others: &mut Vec<String>) -> Vec<Joined> {
        let mut stopped = Vec::new();
        if gone.is_empty() {
            return stopped;
        }
        let running = self.running();
        for (name, uuid) in running.iter().filter(|(_, uuid)| gone.contains(uuid)) {
            let shown = name.escape_debug();
            if stopped.len() + 1 >= running.len() {
                others.push(format!(
                    "'{shown}' is gone, and all that is served: it goes on until it is stopped, and the daemon with it"
                ));
                continue;
            }
            let target = Target::of(&self.server, Some(name));
            match stop_here(&self.folder, &target) {
                Ok(()) => {
                    let words = format!("{shown} is stopped: the settings mean it no more");
                    stopped.push(Joined { name: name.clone(), uuid: uuid.clone(), words });
                }
                Err(why) => others.push(format!("{shown} is not stopped, though it is gone: {why}")),
            }
        }
        stopped
    }

    /// Sets limits of clients that have changed.
    fn set_limits(&self, old: &Config, new: &Config, reported: &mut Vec<String>) -> Result<(), Failure> {
        for (name, uuid) in self.running() {
            let [before, after] =
                [old, new].map(|config| config.opening(self.members.clone()).limits_of(&name, &uuid));
            if before != after {
                let limits =
                    Some(after.unwrap_or(RateLimits { burst: RateLimits::BURST, ..RateLimits::default() }));
                self.order(&Ask::Export { limits }.of(name.clone()))?;
                reported.push(format!("limits of {name} are changed"));
            }
        }
        Ok(())
    }

    /// Sets speeds of processes that have changed.
    fn set_speeds(&self, old: &Config, new: &Config, reported: &mut Vec<String>) -> Result<(), Failure> {
        let speeds = |config: &Config| (config.tuning.max_speed, config.tuning.min_speed);
        if speeds(old) == speeds(new) {
            return Ok(());
        }
        let bytes = |speed: Option<std::num::NonZeroU64>| Some(speed.map_or(0, Into::into));
        let (max_speed, min_speed) = (bytes(new.tuning.max_speed), bytes(new.tuning.min_speed));
        for (name, _) in self.arrays() {
            self.order(&Ask::Action { action: Word::Speed, max_speed, min_speed }.of(name))?;
        }
        reported.push("speeds of processes are changed".to_owned());
        Ok(())
    }

    fn order(&self, request: &Request) -> Result<(), Failure> {
        ask::<IgnoredAny>(&self.folder, &self.server, request).map(drop)
    }

    /// Names and UUIDs of all that it serves now.
    fn running(&self) -> Vec<(String, String)> {
        self.reports(Report::served_uuid)
    }

    /// Names and UUIDs of the arrays that it serves now, without pools.
    fn arrays(&self) -> Vec<(String, String)> {
        self.reports(|report| report.served_uuid().filter(|_| report.array().is_some()))
    }

    fn reports(&self, uuid: impl Fn(&Report) -> Option<&str>) -> Vec<(String, String)> {
        let reported = ask::<Volumes>(&self.folder, &self.server, &Ask::Status.into());
        let reported = reported.map(|reported| reported.into_read().into_all()).unwrap_or_default();
        let named = |report: &Report| Some((report.name().to_owned(), uuid(report)?.to_owned()));
        reported.iter().filter_map(named).collect()
    }
}

/// Settings that hold after a change: the settings of the start, but new values of all that may change while a server runs.
fn holding(started: &Config, new: &Config) -> Config {
    let mut config = started.clone();
    (config.homehost, config.devices) = (new.homehost.clone(), new.devices.clone());
    (config.arrays, config.pools) = (new.arrays.clone(), new.pools.clone());
    config.exports.limits = new.exports.limits;
    (config.tuning.max_speed, config.tuning.min_speed) = (new.tuning.max_speed, new.tuning.min_speed);
    config.monitor = new.monitor.clone();
    config
}

/// Settings that have changed, and take effect when the daemon is started anew.
fn later(
    old: &Config,
    new: &Config,
    is_here: impl Fn(&VolumeOpening) -> bool,
    is_over: impl Fn(&VolumeOpening) -> bool,
) -> Vec<String> {
    let mut later = Vec::new();
    let mut note = |changed: bool, what: &str| {
        if changed {
            later.push(format!("{what} has changed: it takes effect when the daemon is started anew"));
        }
    };
    let apart_from_speeds = |config: &Config| {
        let mut tuning = config.tuning;
        (tuning.max_speed, tuning.min_speed) = (None, None);
        tuning
    };
    let apart_from_limits = |config: &Config| {
        let mut exports = config.exports.clone();
        exports.limits = None;
        exports
    };
    note(old.name != new.name, "name");
    note(old.homehost != new.homehost, "homehost");
    note(old.devices != new.devices, "devices");
    note(apart_from_limits(old) != apart_from_limits(new), "exports");
    note(apart_from_speeds(old) != apart_from_speeds(new), "tuning");
    note(old.policies != new.policies, "policies");
    note(old.metrics != new.metrics, "metrics");
    note(old.control != new.control, "control");
    note(old.stop_timeout != new.stop_timeout, "stop-timeout");
    note(old.cores != new.cores, "cores");
    let plain = |volume: &VolumeOpening| VolumeOpening { limits: None, ..volume.clone() };
    let all = |config: &Config| config.volumes().map(plain).collect::<Vec<_>>();
    let (before, after) = (all(old), all(new));
    let is_new = |volume: &&VolumeOpening| !before.contains(volume) && !is_here(volume);
    later.extend(after.iter().filter(is_new).map(|volume| {
        format!("{} is new or changed: it takes effect when the daemon is started anew", called(volume))
    }));
    let is_gone = |volume: &&VolumeOpening| {
        !after.iter().any(|other| called(other) == called(volume)) && !is_over(volume)
    };
    later.extend(before.iter().filter(is_gone).map(|volume| {
        format!("{} is gone: it is served until it is stopped, or the daemon is started anew", called(volume))
    }));
    later
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        for (text, words) in [
            ("name = \"a\"\ncolour = 1\n", "line 2: unknown field `colour`"),
            ("[[arrays]]\nname = \"a\"\n[[arrays]]\nname = \"a\"\n", "entries 1 and 2 mean the same"),
            ("[[pools]]\naccess = \"read-only\"\n", "pools, entry 1"),
            ("[tuning]\nmemory = \"12Q\"\n", "line 2: unknown unit 'q'"),
            ("wait = \"1d\"\n", "line 1: unknown unit 'd'"),
            ("[exports]\nnbd = [\"nowhere\"]\n", "HOST:PORT"),
            ("[monitor]\nincrement = 0\n", "1 to 99"),
            ("[monitor]\nwebhook = \"ftp://a\"\n", "monitor.webhook"),
            ("name = \n", "line 1"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn sizes_and_times_are_numbers_or_text() {
        let text = "wait = \"2m\"\n[tuning]\nmemory = \"64M\"\nmax-speed = \"1M\"\n[[arrays]]\nname = \"a\"\nlimits = { bandwidth = \"2M\" }\n";
        let config = parse(text).unwrap();
        assert_eq!((config.wait, config.tuning.memory), (120_000, 64 << 20));
        let limits = config.arrays[0].limits.unwrap();
        assert_eq!((limits.bandwidth.unwrap().get(), limits.burst), (2 << 20, RateLimits::BURST));
        let written = toml::to_string(&config).unwrap();
        assert_eq!(parse(&written).unwrap(), config, "{written}");
        assert_eq!(parse("").unwrap(), Config::default());
    }

    #[test]
    fn settings_that_hold_are_those_of_the_start_with_what_may_change() {
        let start = parse("[tuning]\nmemory = \"64M\"\n[exports]\nmax-connections = 7\n").unwrap();
        let new = "[[pools]]\nname = \"tank\"\n[tuning]\nmax-speed = 9\n[exports]\naccess = \"nowhere\"\nlimits = { iops = 3 }\n";
        let held = holding(&start, &parse(new).unwrap());
        assert_eq!(
            (held.tuning.memory, held.exports.max_connections, &held.exports.access),
            (64 << 20, 7, &None)
        );
        assert_eq!((held.pools.len(), held.tuning.max_speed.map(u64::from)), (1, Some(9)));
        assert_eq!(parse(&toml::to_string(&held).unwrap()).unwrap(), held);
    }

    #[test]
    fn what_takes_a_restart_is_reported() {
        let old = parse("[[arrays]]\nname = \"a\"\n").unwrap();
        let new = parse("[exports]\nmax-connections = 7\n[[arrays]]\nname = \"b\"\n").unwrap();
        let later = |new: &Config, is: bool| super::later(&old, new, |_| is, |_| is);
        let reported = later(&new, false).join("\n");
        for words in ["exports has changed", "'b' is new", "'a' is gone"] {
            assert!(reported.contains(words), "{reported}");
        }
        assert!(later(&old, false).is_empty());
        let reported = later(&new, true).join("\n");
        assert!(!reported.contains("'b' is new") && !reported.contains("'a' is gone"), "{reported}");
        let limited =
            parse("[[arrays]]\nname = \"a\"\nlimits = { iops = 3 }\n[exports.limits]\niops = 9\n").unwrap();
        assert!(later(&limited, false).is_empty(), "limits change at once");
    }
}

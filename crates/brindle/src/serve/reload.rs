//! Files that are read again at SIGHUP and by `brindle reload`: certificates, who may use which array, settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use brindle_host::mailbox::Sender;
use serde_json::json;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::access::AccessFile;
use super::tls::Certificates;
use crate::failure::Failure;
use crate::log;
use crate::settings::RunningSettings;

/// The file of access rules, and the channel to the server that applies them.
pub(super) struct Admission {
    pub(super) file: PathBuf,
    /// All that can ever be served, if that is known.
    pub(super) only: Option<Vec<String>>,
    pub(super) to: Sender<AccessFile>,
}

/// The time between two looks for members that a pool waits for.
const REST: Duration = Duration::from_secs(3);

/// Files that are read again, each of which takes effect as a whole or not at all.
pub(super) struct Anew {
    pub(super) certificates: Option<Certificates>,
    pub(super) access: Option<Admission>,
    pub(super) settings: Option<RunningSettings>,
    /// Pools wait for members, and a thread looks for these.
    pub(super) looks: AtomicBool,
    /// Events are printed.
    pub(super) json: bool,
}

impl Anew {
    /// Reads them at each SIGHUP. On a thread of its own, since a file system may take its time. Without any file the signal ends the
    /// program as ever.
    pub(super) fn watch(self: &Arc<Self>) -> Result<(), Failure> {
        if self.certificates.is_none() && self.access.is_none() && self.settings.is_none() {
            return Ok(());
        }
        let mut signals =
            Signals::new([SIGHUP]).map_err(|source| Failure::system("signals can't be watched", source))?;
        let this = Arc::clone(self);
        let work = move || {
            for _ in signals.forever() {
                // Each file has reported its own outcome.
                let _ = this.read();
            }
        };
        let started = std::thread::Builder::new().name("files".into()).spawn(work);
        started.map(drop).map_err(|source| Failure::system("the thread of files can't start", source))
    }

    /// Takes members that pools wait for once they are here, as long as any pool waits.
    pub(super) fn look_for_members(self: &Arc<Self>) {
        if self.settings.is_none() || self.looks.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = Arc::clone(self);
        let look = move || {
            std::thread::sleep(REST);
            while this.settings.as_ref().is_some_and(RunningSettings::take_waiting) {
                std::thread::sleep(REST);
            }
            this.looks.store(false, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("waiting".into()).spawn(look) {
            tracing::warn!("members are not looked for before `brindle reload`: {error}");
        }
    }

    /// Reads them, and reports the changes; if one can't be taken, why.
    pub(super) fn read(&self) -> Result<Vec<String>, String> {
        let (mut changed, mut kept) = (Vec::new(), Vec::new());
        let mut take = |of: &str, read: Result<Vec<String>, Failure>| {
            self.tell(of, &read);
            match read {
                Ok(mut words) => changed.append(&mut words),
                Err(why) => kept.push(why.to_string()),
            }
        };
        if let Some(certificates) = &self.certificates {
            let read = certificates.read_anew();
            take("certificates", read.map(|()| vec!["certificates are read anew".to_owned()]));
        }
        if let Some(Admission { file, only, to }) = &self.access {
            let read = AccessFile::read(file, only.as_deref()).map(|access| to.send(access));
            take("access", read.map(|()| vec!["who may use what is read anew".to_owned()]));
        }
        if let Some(settings) = &self.settings {
            take("settings", settings.read_anew());
        }
        if kept.is_empty() { Ok(changed) } else { Err(kept.join("; ")) }
    }

    /// Takes an array that its settings mean, and says so.
    pub(super) fn take(&self, array: &str) -> Result<Vec<String>, String> {
        match &self.settings {
            Some(settings) => settings.take(array).map_err(|why| why.to_string()),
            None => Err("it was started without settings, and serves what it was started with".to_owned()),
        }
    }

    /// Logs the outcome of each file, and prints it as an event.
    fn tell(&self, of: &str, read: &Result<Vec<String>, Failure>) {
        let event = match read {
            Ok(_) => {
                tracing::info!("{of}: read anew");
                json!({"event": format!("{of}-replaced")})
            }
            Err(why) => {
                tracing::error!("{of}: all stays as it was: {why}");
                json!({"event": format!("{of}-kept"), "why": why.to_string()})
            }
        };
        if self.json {
            log::print(format!("{event}\n"));
        }
    }
}

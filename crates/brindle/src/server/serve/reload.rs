//! Files that are read again at SIGHUP and by `brindle reload`: certificates, who may use which array, secrets, settings.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use brindle_host::mailbox::Sender;
use serde_json::json;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::access::{AccessFile, Admitted, Proofs, Servable};
use super::iscsi::secrets;
use super::metrics::BearerFile;
use super::tls::Certificates;
use crate::base::failure::Failure;
use crate::base::log;
use crate::server::settings::RunningSettings;

/// Files that say who may come in.
pub(super) struct Admission {
    pub(super) certificates: Option<Certificates>,
    /// The file of access rules.
    pub(super) access: Option<PathBuf>,
    pub(super) servable: Servable,
    /// Ways in which clients can prove their names, which stay as they are.
    pub(super) proofs: Proofs,
    /// The file of secrets of initiators.
    pub(super) secrets: Option<PathBuf>,
    /// The secret of those who scrape metrics.
    pub(super) bearer: Option<BearerFile>,
    /// The server that applies them.
    pub(super) to: Sender<Admitted>,
    /// One reader at a time: the files that were read last hold.
    pub(super) reading: Mutex<()>,
}

/// The time between two looks for members that a pool waits for.
const REST: Duration = Duration::from_secs(3);

/// The outcome of reading some files, which are called `of`.
struct Read {
    of: &'static str,
    outcome: Result<&'static str, String>,
}

/// Notes an outcome, if there are such files.
fn noted<T>(
    read: &mut Vec<Read>,
    of: &'static str,
    words: &'static str,
    outcome: Option<Result<T, Failure>>,
) -> Option<T> {
    let outcome = outcome?;
    let words = outcome.as_ref().map(|_| words).map_err(ToString::to_string);
    read.push(Read { of, outcome: words });
    outcome.ok()
}

impl Admission {
    /// Reads all files; they take effect if all of them are good, else none does.
    fn read_anew(&self) -> Vec<Read> {
        let Self { certificates, access, servable, proofs, secrets: file, bearer, to, reading } = self;
        let _alone = reading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = Vec::new();
        let next = certificates.as_ref().map(Certificates::read_anew);
        let next = noted(&mut read, "certificates", "certificates are read anew", next);
        let names = servable.now();
        let rules = access.as_ref().map(|file| {
            AccessFile::read(file, names.as_deref(), *proofs).and_then(|read| servable.heed(read))
        });
        let rules = noted(&mut read, "access", "who may use what is read anew", rules);
        let chap = file.as_deref().map(secrets);
        let chap = noted(&mut read, "secrets", "secrets are read anew", chap);
        let said = bearer.as_ref().map(BearerFile::read_anew);
        let said = noted(&mut read, "metrics-bearer", "the secret of metrics is read anew", said);
        let wrong: Vec<&str> = read.iter().filter(|read| read.outcome.is_err()).map(|read| read.of).collect();
        if wrong.is_empty() {
            if let (Some(certificates), Some(next)) = (certificates, next) {
                certificates.take(next);
            }
            if let (Some(bearer), Some(said)) = (bearer, said) {
                bearer.take(said);
            }
            to.send(Admitted { access: rules, chap });
            return read;
        }
        let why = format!("{} can't be taken, and all take effect together", wrong.join(" and "));
        for good in read.iter_mut().filter(|read| read.outcome.is_ok()) {
            good.outcome = Err(why.clone());
        }
        read
    }
}

/// Takes the signal that a terminal has gone from now on: a server is never ended by it.
pub(super) fn hear() -> Result<Signals, Failure> {
    Signals::new([SIGHUP]).map_err(|source| Failure::system("signals can't be watched", source))
}

/// All that is read again.
pub(super) struct Anew {
    pub(super) admission: Admission,
    pub(super) settings: Option<RunningSettings>,
    /// Pools wait for members, and a thread looks for these.
    pub(super) looks: AtomicBool,
    /// Events are printed.
    pub(super) json: bool,
}

impl Anew {
    /// Reads files at each SIGHUP. On a thread of its own, since a file system may take its time.
    pub(super) fn watch(self: &Arc<Self>, mut signals: Signals) -> Result<(), Failure> {
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
        for Read { of, outcome } in self.admission.read_anew() {
            self.tell(of, outcome.as_ref().err());
            match outcome {
                Ok(words) => changed.push(words.to_owned()),
                Err(why) => kept.push(why),
            }
        }
        if let Some(settings) = &self.settings {
            let read = settings.read_anew().map_err(|why| why.to_string());
            self.tell("settings", read.as_ref().err());
            match read {
                Ok(mut words) => changed.append(&mut words),
                Err(why) => kept.push(why),
            }
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

    /// Logs the outcome of a file, and prints it as an event.
    fn tell(&self, of: &str, why: Option<&String>) {
        let event = match why {
            None => {
                tracing::info!("{of}: read anew");
                json!({"event": format!("{of}-replaced")})
            }
            Some(why) => {
                tracing::error!("{of}: all stays as it was: {why}");
                json!({"event": format!("{of}-kept"), "why": why})
            }
        };
        if self.json {
            log::print(format!("{event}\n"));
        }
    }
}

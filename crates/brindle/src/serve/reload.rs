//! Files that are read again at SIGHUP: certificates, and who may use which array.

use std::path::PathBuf;

use brindle_host::mailbox::Sender;
use serde_json::json;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::access::AccessFile;
use super::tls::Certificates;
use crate::failure::Failure;
use crate::log;

/// The file that says who may use which array, and where what it says is taken.
pub(super) struct Admission {
    pub(super) file: PathBuf,
    pub(super) arrays: Vec<String>,
    pub(super) to: Sender<AccessFile>,
}

/// Files that are read again, each of which takes effect as a whole or not at all.
pub(super) struct Anew {
    pub(super) certificates: Option<Certificates>,
    pub(super) access: Option<Admission>,
    /// Events are printed.
    pub(super) json: bool,
}

impl Anew {
    /// Reads the files at each SIGHUP, on a thread of its own, since a file system may take its time. Without any
    /// file the signal ends the program as ever.
    pub(super) fn watch(self) -> Result<(), Failure> {
        if self.certificates.is_none() && self.access.is_none() {
            return Ok(());
        }
        let mut signals =
            Signals::new([SIGHUP]).map_err(|source| Failure::system("signals can't be watched", source))?;
        let work = move || {
            for _ in signals.forever() {
                self.read();
            }
        };
        let started = std::thread::Builder::new().name("files".into()).spawn(work);
        started.map(drop).map_err(|source| Failure::system("the thread of files can't start", source))
    }

    fn read(&self) {
        if let Some(certificates) = &self.certificates {
            self.tell("certificates", &certificates.read_anew());
        }
        if let Some(Admission { file, arrays, to }) = &self.access {
            self.tell("access", &AccessFile::read(file, arrays).map(|access| to.send(access)));
        }
    }

    /// Logs what became of files, and prints it as an event.
    fn tell(&self, of: &str, replaced: &Result<(), Failure>) {
        let event = match replaced {
            Ok(()) => {
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

//! `serve --background`: the server runs on in a process and a session of its own. The process that was started waits until
//! the exports answer, and hands on how that came out.
//!
//! A process with threads can't be doubled safely: the program is run anew, with the same words, and finds by a variable that it
//! is waited for. Its standard output is handed on until it serves; a zero byte ends that, and says that the exports answer.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::fs::OFlags;

use crate::base::failure::Failure;
use crate::base::{executable, log, report, text};

/// Set for a server that another process waits for.
const WAITED_FOR: &str = "BRINDLE_SERVE_WAITED_FOR";

/// The byte that ends the messages for the starting process.
const SERVES: u8 = 0;

/// Whether this process is the server that another waits for.
pub(super) fn is_waited_for() -> bool {
    std::env::var_os(WAITED_FOR).is_some()
}

/// Starts the server, and waits until its exports answer; the exit status is its own if they never do.
pub(super) fn start() -> Result<ExitCode, Failure> {
    let program =
        executable::program().map_err(|source| Failure::system("the program's own file", source))?;
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1)).env(WAITED_FOR, "1");
    let mut child = command
        .stdin(executable::nothing())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| Failure::system(format!("{} can't be run", program.display()), source))?;
    let said = listen(&mut child)?;
    match said.strip_suffix(&[SERVES]) {
        Some(said) => {
            report::print(&String::from_utf8_lossy(said))?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            report::print(&String::from_utf8_lossy(&said))?;
            ended(child.wait().map_err(|source| Failure::system("the server", source))?)
        }
    }
}

/// All that the server says until it serves, or ends.
fn listen(child: &mut Child) -> Result<Vec<u8>, Failure> {
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        let read = BufReader::new(out).read_until(SERVES, &mut said);
        read.map_err(|source| Failure::system("the server's output", source))?;
    }
    Ok(said)
}

/// The server has printed the reason, on the standard error that it shares with this process, unless it was killed.
fn ended(status: ExitStatus) -> Result<ExitCode, Failure> {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) if code != 0 => Ok(ExitCode::from(code)),
        _ => {
            let how = status.signal().map_or_else(String::new, |signal| format!(", by signal {signal}"));
            Err(Failure::Refused(format!("the server ended before its exports answered{how}")))
        }
    }
}

/// A server that another process waits for.
pub(super) struct Detached {
    log: File,
    path: PathBuf,
}

impl Detached {
    /// Leaves the session of the starting process, so that no terminal ends it, and opens the log for later messages.
    pub(super) fn begin(folder: &Path, name: &str) -> Result<Self, Failure> {
        rustix::process::setsid()
            .map_err(|errno| Failure::system("a session of the server's own", errno.into()))?;
        let path = folder.join(format!("{name}.log"));
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(|source| Failure::output(path.display(), source))?;
        Ok(Self { log, path })
    }

    /// How the server ends, and where its messages stand, for people.
    pub(super) fn text(&self, folder: Option<&Path>, name: &str, several: bool) -> String {
        let folder =
            folder.map(|folder| format!("--runtime-dir {} ", text::shell(&folder.display().to_string())));
        let (folder, all) = (folder.unwrap_or_default(), if several { "--all " } else { "" });
        let name = text::shell(name);
        format!(
            "process {} serves on in the background; what happens is told in {}\nto stop it: brindle stop {folder}{all}{name}\n",
            std::process::id(),
            self.path.display()
        )
    }

    /// The file of its messages.
    pub(super) fn log(&self) -> &Path {
        &self.path
    }

    /// Tells the process that waits that the exports answer. From here on nothing of the process that started it is held open.
    pub(super) fn serves(self) -> Result<(), Failure> {
        let turned = |result: rustix::io::Result<()>| {
            result.map_err(|errno| Failure::output(self.path.display(), errno.into()))
        };
        // Messages up to here are for the waiting process.
        log::flush();
        turned(rustix::stdio::dup2_stderr(&self.log))?;
        let mut out = std::io::stdout().lock();
        let reported = out.write_all(&[SERVES]).and_then(|()| out.flush());
        reported
            .map_err(|source| Failure::system("the process that started the server has ended", source))?;
        turned(rustix::stdio::dup2_stdout(&self.log))
    }
}

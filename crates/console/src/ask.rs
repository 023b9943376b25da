//! Asks a running server, by one line of JSON for a connection: each step has a deadline.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use brindle_host::Protocol;
use brindle_host::control::{Answer, Ask, Request, VERSION};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Time beyond that of a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest answer.
const MAX_ANSWER: u64 = 16 << 20;

/// How a server answers, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answering {
    Loading,
    Answers,
    Silent,
    Gone,
    Closed,
    OtherVersion,
    Unreadable,
}

/// Why a server gave no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Nobody listens.
    Gone,
    /// It takes no connection, or says nothing in time.
    Silent,
    /// This user may not ask.
    Closed,
    /// It hung up within its answer, or before.
    Cut,
    /// Its answer is none that is known: it speaks another version, if it tells one.
    Misread { why: String, theirs: Option<u32> },
    /// It says why not.
    Refused(String),
}

impl Silence {
    /// For people.
    pub(crate) fn words(&self, server: &str) -> String {
        let server = server.escape_debug();
        match self {
            Self::Gone => format!("the server '{server}' has ended"),
            Self::Silent => {
                format!(
                    "the server '{server}' does not answer: its process is stopped, or has no processor time"
                )
            }
            Self::Closed => format!(
                "the console may not ask the server '{server}': [control] of its settings names the groups that may"
            ),
            Self::Cut => format!("the server '{server}' hung up before its answer was whole"),
            Self::Misread { why, theirs: Some(theirs) } if *theirs != VERSION => format!(
                "the server '{server}' is of another version: it speaks version {theirs} of the control protocol, and the console version {VERSION}; start \
                 both anew from one package ({why})"
            ),
            Self::Misread { why, .. } => format!("the answer of the server '{server}' can't be read ({why})"),
            Self::Refused(why) => why.clone(),
        }
    }
}

/// The socket of a server.
fn socket(folder: &Path, server: &str) -> std::path::PathBuf {
    folder.join(format!("{server}.control"))
}

/// Whether a name can be that of a server: a part of a path.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= 64 && !name.starts_with('.');
    fits && !name.contains('/') && !name.contains(char::is_control)
}

/// Names of the servers that have a control socket there; none where there is no folder.
///
/// # Errors
/// This user may not look, for people.
pub(crate) fn servers(folder: &Path) -> Result<Vec<String>, String> {
    use std::os::unix::fs::FileTypeExt;
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries.flatten(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(format!(
                "{}: {error}: the console may not see which servers run there; [control] of their settings lets groups in, or --runtime-dir names \
                 another folder",
                folder.display().to_string().escape_debug()
            ));
        }
    };
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let name =
        |entry: std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".control")?.to_owned());
    let mut names: Vec<String> = sockets.filter_map(name).filter(|name| is_name(name)).collect();
    names.sort();
    Ok(names)
}

/// Asks, and gives the report as it was told.
pub(crate) async fn ask(folder: &Path, server: &str, request: &Request) -> Result<Value, Silence> {
    let answer = exchange(folder, server, request).await?;
    match serde_json::from_slice::<Answer>(&answer) {
        Ok(Answer::Ok(told)) => Ok(told),
        Ok(Answer::Error(why)) => Err(Silence::Refused(why)),
        Err(_) if !answer.ends_with(b"\n") => Err(Silence::Cut),
        Err(error) => Err(misread(folder, server, &error.to_string()).await),
    }
}

/// An answer that is none: the version of the server is asked for, which may be the reason.
pub(crate) async fn misread(folder: &Path, server: &str, why: &str) -> Silence {
    let theirs = exchange(folder, server, &Ask::Version.into()).await.ok();
    let theirs = theirs.and_then(|answer| match serde_json::from_slice(&answer) {
        Ok(Answer::Ok(told)) => serde_json::from_value::<Protocol>(told).ok(),
        _ => None,
    });
    Silence::Misread { why: why.escape_debug().to_string(), theirs: theirs.map(|theirs| theirs.version) }
}

async fn exchange(folder: &Path, server: &str, request: &Request) -> Result<Vec<u8>, Silence> {
    let asked = async {
        let mut stream =
            UnixStream::connect(socket(folder, server)).await.map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => Silence::Gone,
                ErrorKind::PermissionDenied => Silence::Closed,
                _ => Silence::Silent,
            })?;
        let mut line = serde_json::to_vec(request).map_err(|_| Silence::Cut)?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(|_| Silence::Cut)?;
        let mut answer = Vec::new();
        let mut bounded = stream.take(MAX_ANSWER);
        let mut bytes = [0; 16 << 10];
        // One line answers; what follows it is for those who wait for an end.
        while !answer.ends_with(b"\n") {
            match bounded.read(&mut bytes).await {
                Ok(0) | Err(_) => break,
                Ok(got) => answer.extend_from_slice(&bytes[..got]),
            }
        }
        if answer.is_empty() { Err(Silence::Cut) } else { Ok(answer) }
    };
    timeout(PATIENCE + request.patience(), asked).await.unwrap_or(Err(Silence::Silent))
}

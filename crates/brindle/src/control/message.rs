//! What is said on the control socket: pure, so that whatever a peer says can be tried.

use serde::{Deserialize, Serialize};

/// What can be asked of a running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// How is the array?
    Status,
    /// Take a member out of service.
    Fail {
        /// Path as given to `serve`, or role number.
        member: String,
    },
    /// Drain, flush, mark clean, end.
    Stop,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The server's report, as `brindle status --json` prints it.
    Ok(serde_json::Value),
    /// Why not.
    Error(String),
}

/// The line that answers a line: what `handle` makes of a request, or that it is none.
pub(crate) fn reply(line: &[u8], handle: impl FnOnce(Request) -> Answer) -> serde_json::Result<Vec<u8>> {
    let answer = match serde_json::from_slice(line) {
        Ok(request) => handle(request),
        Err(error) => Answer::Error(format!("not a request: {error}")),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    Ok(line)
}

//! How a console is to run: `brindle console` reads it from its flags, and `brindle-console` gets it as data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Listen;

/// The settings of a console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConsoleOptions {
    /// Its address: of this machine alone.
    pub listen: Listen,
    /// The folder with control sockets of servers.
    pub runtime_dir: PathBuf,
    /// The file that has the token by which one signs in.
    pub token_file: PathBuf,
    /// Names by which browsers reach it, besides those of this machine: of a proxy.
    pub hosts: Vec<String>,
    /// The program that starts it, and that makes plans for it.
    pub program: PathBuf,
    /// Commands are refused.
    pub read_only: bool,
}

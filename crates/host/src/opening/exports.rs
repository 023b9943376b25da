//! The exports of a host's volumes, as data.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{RateLimits, WrittenLimits, written_limits};
use crate::written::{self, WrittenMode};

/// How clients come to the volumes of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exports {
    /// Where NBD clients come; without one by a Unix socket that the program chooses.
    pub nbd: Vec<Listen>,
    /// Rights of the Unix sockets among these.
    pub unix_rights: UnixRights,
    /// Files of certificates: NBD clients that come over TCP then have to speak TLS.
    pub tls: Option<TlsFiles>,
    /// Arrays are iSCSI targets, too.
    pub iscsi: Option<Iscsi>,
    /// A file that says who may use which volume.
    pub access: Option<PathBuf>,
    /// Addresses that other machines can reach are listened on, too, where clients prove nothing.
    pub insecure: bool,
    /// Limits of the clients of each volume.
    #[serde(with = "written_limits")]
    #[schemars(with = "Option<WrittenLimits>")]
    pub limits: Option<RateLimits>,
    /// The most connections at a time.
    #[serde(deserialize_with = "written::connections")]
    #[schemars(range(min = 1, max = 4096))]
    pub max_connections: u32,
}

impl Default for Exports {
    fn default() -> Self {
        Self {
            nbd: Vec::new(),
            unix_rights: UnixRights::default(),
            tls: None,
            iscsi: None,
            access: None,
            insecure: false,
            limits: None,
            max_connections: 64,
        }
    }
}

/// Rights of a Unix socket's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnixRights {
    /// Its mode, whatever the umask: octal text such as "0660", or a number such as 0o660.
    #[serde(with = "written::file_mode")]
    #[schemars(with = "WrittenMode")]
    pub mode: u32,
    /// Its owner, if that is not the process's user.
    pub owner: Option<Principal>,
    /// Its group, if that is not the process's.
    pub group: Option<Principal>,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Principal {
    /// By its number.
    Number(u32),
    /// By its name, as the machine knows it.
    Name(String),
}

impl From<u32> for Principal {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl Default for UnixRights {
    fn default() -> Self {
        Self { mode: 0o600, owner: None, group: None }
    }
}

/// Files in PEM's form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of clients, if these have to have a certificate.
    pub clients: Option<PathBuf>,
    /// Lists of certificates that were taken back.
    pub revoked: Option<PathBuf>,
}

/// Arrays as iSCSI targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Iscsi {
    /// HOST:PORT of each portal.
    pub portals: Vec<String>,
    /// A file of CHAP's names and secrets.
    pub secrets: Option<PathBuf>,
    /// The folder of persistent reservations.
    pub state: Option<PathBuf>,
    /// NBD clients may write to an array that an initiator has reserved.
    pub shared_writers: bool,
}

/// Where an NBD server listens. As text it is `unix:PATH` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(text) => f.write_str(text),
        }
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl TryFrom<String> for Listen {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the address is empty: give unix:PATH or HOST:PORT, or leave --nbd out".into());
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("unix: wants a path behind it".into())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Tcp(text.into()))
            }
            _ => Err("give unix:PATH or HOST:PORT, for example unix:/run/a.sock or 127.0.0.1:10809".into()),
        }
    }
}

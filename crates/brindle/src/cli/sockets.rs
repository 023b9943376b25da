//! Sockets as the command line names them.

use std::path::PathBuf;
use std::str::FromStr;

/// Permissions of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketMode(pub(crate) u32);

impl FromStr for SocketMode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o777 && mode & 0o600 == 0o600 => Ok(Self(mode)),
            _ => Err("say 600 (its owner), 660 (its group too), 666 (everybody) or what chmod takes between"
                .into()),
        }
    }
}

/// Where an NBD server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl FromStr for Listen {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the address is empty: say unix:PATH or HOST:PORT, or leave --nbd out".into());
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
            _ => Err("say unix:PATH or HOST:PORT, for example unix:/run/a.sock or 127.0.0.1:10809".into()),
        }
    }
}

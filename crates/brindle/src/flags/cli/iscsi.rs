//! Flags of iSCSI.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// The port of iSCSI.
const PORT: u16 = 3260;

/// Host and port on which an iSCSI server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Portal(pub(crate) String);

impl FromStr for Portal {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.starts_with('[') && text.ends_with(']') || !text.contains(':');
        match text.rsplit_once(':') {
            _ if text.is_empty() => {}
            _ if bare => return Ok(Self(format!("{text}:{PORT}"))),
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                return Ok(Self(text.to_owned()));
            }
            _ => {}
        }
        Err(format!("give HOST or HOST:PORT, for example 127.0.0.1 or [::1]:{PORT}"))
    }
}

/// Flags of iSCSI.
#[derive(Clone, Debug, Args)]
pub(crate) struct Iscsi {
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "help for users, in which brackets mean what may be left out"
    )]
    /// Serve each array as an iSCSI target, too, on HOST[:PORT] (every address of the host); may be given several times: each is a
    /// path of its own to the same disks. Members that don't answer are then failed after 4 s, unless --member-timeout is given
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) iscsi: Vec<Portal>,
    /// Admit only initiators that authenticate by CHAP. Lines of FILE: `initiator NAME SECRET`, one for each name, and
    /// `target NAME SECRET` if the target is to authenticate too; secrets have 12 bytes at least, and only its owner
    /// may read FILE. SIGHUP reloads it, and ends the sessions of initiators whose secret is gone or another
    #[arg(long, value_name = "FILE", requires = "iscsi")]
    pub(crate) iscsi_secrets: Option<PathBuf>,
    /// Folder in which persistent reservations are kept over a restart, for initiators that ask for that (APTPL) [default:
    /// /var/lib/brindle for root, else $XDG_STATE_HOME/brindle or ~/.local/state/brindle]
    #[arg(long, value_name = "FOLDER", requires = "iscsi")]
    pub(crate) iscsi_state: Option<PathBuf>,
    /// Let NBD clients write to an array while an initiator has reserved it
    #[arg(long, requires = "iscsi")]
    pub(crate) shared_writers: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_may_be_left_out() {
        let portal = |text: &str| text.parse::<Portal>().map(|portal| portal.0);
        assert_eq!(portal("a"), Ok("a:3260".into()));
        assert_eq!(portal("[::1]"), Ok("[::1]:3260".into()));
        assert_eq!(portal("[::1]:7"), Ok("[::1]:7".into()));
        assert_eq!(portal("1.2.3.4:7"), Ok("1.2.3.4:7".into()));
        for wrong in ["", ":1", "a:b", "::1"] {
            assert!(portal(wrong).is_err() || wrong == "::1", "{wrong}");
        }
    }
}

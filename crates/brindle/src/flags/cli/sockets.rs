//! Sockets as the command line names them.

use std::path::PathBuf;
use std::str::FromStr;

use brindle_host::opening::{Listen, Principal, UnixRights, mode};
use clap::Args;

/// Flags of sockets, and of who may come by them.
#[derive(Clone, Debug, Args)]
pub(crate) struct Sockets {
    /// Where to listen: unix:PATH or HOST:PORT (every address of the host); may be given several times
    /// [default: a Unix socket in the runtime folder]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) nbd: Vec<Listen>,
    /// Listen without authentication on addresses that other machines can reach
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Admit only clients that FILE names. Its lines: ARRAY CLIENTS RIGHT. ARRAY is a name, or * for all. CLIENTS is anyone, local (by
    /// a Unix socket), an address or a network (10.0.0.0/8), cert:NAME (of a TLS certificate) or chap:NAME (of an iSCSI secret). RIGHT is
    /// read, write or none. The first line that fits decides; a client that no line fits does not see the array at all.
    /// SIGHUP reloads it, and ends the connections of clients whose right has changed
    #[arg(long, value_name = "FILE")]
    pub(crate) access: Option<PathBuf>,
    /// Mode of the Unix sockets of --nbd, as chmod writes it, whatever the umask: 600 lets its owner connect, 660 the
    /// group too
    #[arg(long, value_name = "MODE", default_value = "600")]
    pub(crate) socket_mode: SocketMode,
    /// Owner of these sockets: a name, or a number [default: the user who serves]
    #[arg(long, value_name = "USER")]
    pub(crate) socket_owner: Option<User>,
    /// Group of these sockets: a name, or a number
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<Group>,
}

impl Sockets {
    /// The owner and mode of Unix sockets.
    pub(crate) fn rights(&self) -> UnixRights {
        UnixRights {
            mode: self.socket_mode.0,
            owner: self.socket_owner.map(|user| user.0.into()),
            group: self.socket_group.map(|group| group.0.into()),
        }
    }
}

/// The number of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User(pub(crate) u32);

/// The number of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(pub(crate) u32);

impl FromStr for User {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        number(text, "/etc/passwd").map(Self)
    }
}

impl FromStr for Group {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        number(text, "/etc/group").map(Self)
    }
}

/// The numbers of a user and a group of settings.
///
/// # Errors
/// The name that this machine does not know.
pub(crate) fn owners(rights: &UnixRights) -> Result<(Option<u32>, Option<u32>), String> {
    let find = |of: &Option<Principal>, what: &str, file: &str| {
        let found = match of {
            None => return Ok(None),
            Some(Principal::Number(given)) => number(&given.to_string(), file),
            Some(Principal::Name(name)) => number(name, file),
        };
        found.map(Some).map_err(|why| format!("the {what} of Unix sockets: {why}"))
    };
    Ok((find(&rights.owner, "owner", "/etc/passwd")?, find(&rights.group, "group", "/etc/group")?))
}

/// The third field of the line of that name.
fn number(text: &str, file: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse::<u32>() {
        // The last number stands for none.
        return if number < u32::MAX {
            Ok(number)
        } else {
            Err(format!("{number} stands for no user or group: use a smaller number or a name"))
        };
    }
    let all = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}: give the number"))?;
    let found = all.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let is_it = fields.next() == Some(text) && !text.is_empty();
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    });
    found.ok_or_else(|| format!("{file} has no {text:?}: give another name, or the number"))
}

/// Permissions of a socket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketMode(pub(crate) u32);

impl FromStr for SocketMode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        mode(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_or_numbered() {
        assert_eq!("root".parse(), Ok(User(0)));
        assert_eq!("root".parse(), Ok(Group(0)));
        assert_eq!("65534".parse(), Ok(User(65534)));
        for wrong in ["", "no-such-user", "-1", "4294967295", "root:x"] {
            assert!(wrong.parse::<User>().is_err(), "{wrong}");
        }
    }
}

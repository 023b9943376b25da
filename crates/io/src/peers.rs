//! The user at the other end of a Unix socket, as the kernel noted it when that end connected, and descriptors that it hands over.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, sockopt};

/// The most groups that are asked for: more than this a process hardly has, and one that has is known by its first ones.
const MOST_GROUPS: usize = 1024;

/// A user, with the groups of the process that has connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUser {
    /// The number of the user.
    pub user: u32,
    /// Numbers of its groups.
    pub groups: Vec<u32>,
}

/// The user at the other end of a Unix socket (`SO_PEERCRED`, `SO_PEERGROUPS`: unix(7)).
///
/// # Errors
/// The kernel does not tell.
pub fn peer_user(socket: impl AsFd) -> io::Result<PeerUser> {
    let credentials = sockopt::socket_peercred(&socket)?;
    let mut groups = vec![0_u32; MOST_GROUPS];
    let mut bytes = (MOST_GROUPS * size_of::<u32>()) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to the place, which is that long and holds whole numbers, for which all bits are
    // values; and it sets `bytes` to how many there are.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(bytes as usize / size_of::<u32>());
    groups.push(credentials.gid.as_raw());
    Ok(PeerUser { user: credentials.uid.as_raw(), groups })
}

/// Receives what has come on a Unix socket, and the descriptor that came with it (`SCM_RIGHTS`). Of several one is kept, and the rest are
/// closed; one that was kept before is closed for a new one.
///
/// # Errors
/// As of recvmsg(2).
pub fn receive_with(
    socket: impl AsFd,
    into: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(into)];
    let received = rustix::net::recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            *descriptor = descriptors.last().or(descriptor.take());
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_is_known_by_its_user_and_groups() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = peer_user(&one).expect("a Unix socket");
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        assert!(peer.groups.contains(&rustix::process::getegid().as_raw()));
        let file = std::fs::File::open("/dev/null").expect("there is one");
        assert!(peer_user(&file).is_err());
    }
}

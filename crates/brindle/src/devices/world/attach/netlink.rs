//! The way to the kernel's NBD driver. Each question waits for its answer: none is asked on a reactor's thread.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::message::{self, Heard, Wanted};

/// Time that the kernel has for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer.
const ANSWER: usize = 16 << 10;

/// A socket to the driver.
pub(super) struct Driver {
    socket: OwnedFd,
    family: u16,
}

impl Driver {
    /// Finds the driver.
    pub(super) fn find() -> Result<Self, String> {
        let system = |errno: Errno| format!("the kernel's NBD driver can't be asked: {errno}");
        let socket = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )
        .map_err(system)?;
        net::bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(system)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).map_err(system)?;
        let mut driver = Self { socket, family: 0 };
        match driver.ask(&message::family(), true) {
            Ok(Heard { family: Some(family), .. }) => driver.family = family,
            Ok(_) | Err(Errno::NOENT) => {
                return Err("the kernel has no NBD driver here: `modprobe nbd` loads it".to_owned());
            }
            Err(errno) => return Err(system(errno)),
        }
        Ok(driver)
    }

    /// Makes a device, and gives its number.
    pub(super) fn connect(&self, wanted: &Wanted) -> Result<u32, String> {
        let heard = self.ask(&message::connect(self.family, wanted), false).map_err(|errno| match errno {
            Errno::BUSY => match wanted.index {
                Some(index) => {
                    format!("/dev/nbd{index} is in use: leave the device out, and a free one is taken")
                }
                None => "no NBD device is free".to_owned(),
            },
            Errno::PERM | Errno::ACCESS => "only root may make devices (CAP_SYS_ADMIN)".to_owned(),
            errno => format!("the kernel's NBD driver refuses: {errno}"),
        })?;
        heard
            .index
            .or(wanted.index)
            .ok_or_else(|| "the kernel's NBD driver does not say which device it made".to_owned())
    }

    /// Gives a device new sockets.
    pub(super) fn reconfigure(&self, index: u32, wanted: &Wanted) -> Result<(), String> {
        let asked = self.ask(&message::reconfigure(self.family, index, wanted), false);
        asked.map(drop).map_err(|errno| format!("/dev/nbd{index} does not take new connections: {errno}"))
    }

    /// Gives a device another size.
    pub(super) fn resize(&self, index: u32, size: u64, identifier: &str) -> Result<(), String> {
        let asked = self.ask(&message::resize(self.family, index, size, identifier), false);
        asked.map(drop).map_err(|errno| format!("/dev/nbd{index} does not take another size: {errno}"))
    }

    /// Ends a device.
    pub(super) fn disconnect(&self, index: u32) -> Result<(), String> {
        let asked = self.ask(&message::disconnect(self.family, index), false);
        asked.map(drop).map_err(|errno| format!("/dev/nbd{index} can't be detached: {errno}"))
    }

    fn ask(&self, question: &[u8], controller: bool) -> Result<Heard, Errno> {
        net::sendto(&self.socket, question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut whole = Heard::default();
        loop {
            let mut bytes = vec![0; ANSWER];
            let (length, _) = net::recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
            let heard = message::hear(&bytes[..length], controller);
            whole.family = whole.family.or(heard.family);
            whole.index = whole.index.or(heard.index);
            match heard.ended {
                Some(0) => return Ok(whole),
                Some(code) => return Err(Errno::from_raw_os_error(code)),
                None => {}
            }
        }
    }
}

/// Connected pairs: the server's ends, and the kernel's.
pub(super) fn pairs(count: u8) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), String> {
    let pair = |_| net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let pairs = (0..count).map(pair).collect::<Result<Vec<_>, _>>();
    Ok(pairs.map_err(|errno| format!("no sockets are to be had: {errno}"))?.into_iter().unzip())
}

/// Numbers of these in this process.
pub(super) fn numbers(sockets: &[OwnedFd]) -> Vec<u32> {
    sockets.iter().map(|socket| socket.as_raw_fd().cast_unsigned()).collect()
}

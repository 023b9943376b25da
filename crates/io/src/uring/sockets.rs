//! The sockets of a ring: which are open, what is under way on them, and when their descriptors may be closed.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{Shutdown, sockopt};

use super::engine::Engine;
use super::handed;
use super::listen::SocketFile;

use crate::op::{OpError, OpKind, SocketId};

/// An id is a place in the table and, above, how many sockets had the place before: an id that is used after its
/// socket was closed means no other.
const PLACE_BITS: u32 = 20;

#[derive(Default)]
struct SocketSlot {
    times: u32,
    socket: Option<Socket>,
}

struct Socket {
    fd: OwnedFd,
    /// The file of a Unix listener; removed when that is closed.
    file: Option<SocketFile>,
    /// A listener whose connections are TCP.
    tcp: bool,
    /// A descriptor that is no socket, or is used as none: each receive is a read, each send a write.
    port: bool,
    /// Operations under way.
    operations: u32,
    /// A cancellation is under way.
    cancelling: bool,
    /// Operations under way are to end.
    stopped: bool,
    /// To be closed when nothing under way names the descriptor any more.
    closing: bool,
}

#[derive(Default)]
pub(super) struct Sockets {
    places: Vec<SocketSlot>,
    free: Vec<u32>,
}

impl Sockets {
    /// A Unix listener has a file; any other is TCP.
    pub(super) fn add_listener(&mut self, fd: OwnedFd, file: Option<SocketFile>) -> SocketId {
        let tcp = file.is_none();
        self.add(fd, file, tcp, false)
    }

    pub(super) fn add_stream(&mut self, fd: OwnedFd) -> SocketId {
        // Refused by sockets that are not TCP, whose other end can't vanish unseen.
        let _ = prepare_tcp(&fd);
        self.add(fd, None, false, false)
    }

    pub(super) fn add_port(&mut self, fd: OwnedFd) -> SocketId {
        self.add(fd, None, false, true)
    }

    /// Whether what is sent and received there are whole messages.
    pub(super) fn is_port(&self, id: SocketId) -> bool {
        self.get(id).is_some_and(|socket| socket.port)
    }

    /// A connection that another reactor has let go of.
    pub(super) fn adopt(&mut self, fd: OwnedFd) -> SocketId {
        self.add(fd, None, false, false)
    }

    /// Lets a connection go on which nothing is under way.
    pub(super) fn release(&mut self, id: SocketId) -> Option<OwnedFd> {
        let socket = self.get(id)?;
        let is_other = socket.file.is_some() || socket.tcp || socket.port;
        if socket.operations > 0 || socket.cancelling || socket.closing || is_other {
            return None;
        }
        self.vacate(id).map(|socket| socket.fd)
    }

    fn add(&mut self, fd: OwnedFd, file: Option<SocketFile>, tcp: bool, port: bool) -> SocketId {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(SocketSlot::default());
            (self.places.len() - 1) as u32
        });
        assert!(at < 1 << PLACE_BITS, "more sockets than a process can have descriptors");
        let place = &mut self.places[at as usize];
        place.socket = Some(Socket {
            fd,
            file,
            tcp,
            port,
            operations: 0,
            cancelling: false,
            stopped: false,
            closing: false,
        });
        SocketId(place.times << PLACE_BITS | at)
    }

    fn get(&self, id: SocketId) -> Option<&Socket> {
        let place = self.places.get((id.0 & ((1 << PLACE_BITS) - 1)) as usize)?;
        place.socket.as_ref().filter(|_| place.times == id.0 >> PLACE_BITS)
    }

    fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let place = self.places.get_mut((id.0 & ((1 << PLACE_BITS) - 1)) as usize)?;
        place.socket.as_mut().filter(|_| place.times == id.0 >> PLACE_BITS)
    }

    fn ids(&self) -> Vec<SocketId> {
        let open = self.places.iter().enumerate().filter(|(_, place)| place.socket.is_some());
        open.map(|(at, place)| SocketId(place.times << PLACE_BITS | at as u32)).collect()
    }

    pub(super) fn local_addr(&self, id: SocketId) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.get(id)?.fd).ok()?.try_into().ok()
    }

    /// An IPv4 address that comes as an IPv6 one is reported as the IPv4 address.
    pub(super) fn peer(&self, id: SocketId) -> Option<IpAddr> {
        let address = rustix::net::getpeername(&self.get(id)?.fd).ok()??;
        SocketAddr::try_from(address).ok().map(|address| address.ip().to_canonical())
    }

    /// Bytes that the kernel holds for the other end of a connection.
    pub(super) fn untaken(&self, id: SocketId) -> Option<u64> {
        let socket = self.get(id).filter(|socket| !socket.closing)?;
        // SAFETY: TIOCOUTQ, which sockets call SIOCOUTQ, fills an int.
        let count = unsafe { ioctl(&socket.fd, Getter::<{ libc::TIOCOUTQ as Opcode }, libc::c_int>::new()) };
        u64::try_from(count.ok()?).ok()
    }

    /// The descriptor of a socket with operations under way.
    pub(super) fn raw_fd(&self, id: SocketId) -> RawFd {
        self.get(id).map_or(-1, |socket| socket.fd.as_raw_fd())
    }

    /// Counts an operation, or says why it can't be.
    pub(super) fn begin(&mut self, id: SocketId) -> Result<(), OpError> {
        let socket = self.get_mut(id).filter(|socket| !socket.closing).ok_or(OpError::Cancelled)?;
        socket.operations += 1;
        socket.stopped = false;
        Ok(())
    }

    /// Whether the operations under way on its socket are to end.
    pub(super) fn is_stopped(&self, kind: OpKind) -> bool {
        socket_of(kind).and_then(|id| self.get(id)).is_none_or(|socket| socket.stopped)
    }

    /// Ends an operation; returns its result.
    pub(super) fn end(&mut self, kind: OpKind, result: Result<u32, OpError>) -> Result<u64, OpError> {
        let id = socket_of(kind).ok_or(OpError::Unsupported)?;
        let socket = self.get_mut(id).ok_or(OpError::Cancelled)?;
        socket.operations -= 1;
        let (stopped, tcp) = (socket.stopped, socket.tcp);
        self.close_if_idle(id);
        let accepted = match (kind, result) {
            // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
            (OpKind::Accept { .. }, Ok(fd)) => Some(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }),
            _ => None,
        };
        match result {
            Err(_) | Ok(0) if stopped => Err(OpError::Cancelled),
            Err(error) => Err(error),
            Ok(_) if accepted.is_some() && stopped => Err(OpError::Cancelled),
            Ok(value) => match accepted {
                None => Ok(u64::from(value)),
                Some(fd) => {
                    if tcp {
                        // Refused only if the other end has gone already, which the first receive will tell.
                        let _ = prepare_tcp(&fd);
                    }
                    Ok(u64::from(self.add(fd, None, false, false).0))
                }
            },
        }
    }

    pub(super) fn close(&mut self, engine: &mut Engine, id: SocketId) {
        let Some(socket) = self.get_mut(id).filter(|socket| !socket.closing) else { return };
        (socket.closing, socket.stopped) = (true, true);
        let listens = socket.tcp || socket.file.is_some();
        // The next server goes on with a listener that is kept: only this process's descriptor of it is closed.
        if !(listens && handed::keeps_listeners()) {
            if socket.tcp
                && let Some(place) = handed::place_of(&socket.fd)
            {
                handed::forget(&place);
            }
            // Ends what is under way even where the cancellation comes at a bad moment. It fails on what is not connected.
            let _ = rustix::net::shutdown(&socket.fd, Shutdown::Both);
        }
        socket.file = None;
        self.cancel(engine, id);
        engine.forget(id);
        self.close_if_idle(id);
    }

    pub(super) fn close_all(&mut self, engine: &mut Engine) {
        for id in self.ids() {
            self.close(engine, id);
        }
    }

    pub(super) fn cancel_all(&mut self, engine: &mut Engine) {
        for id in self.ids() {
            if let Some(socket) = self.get_mut(id) {
                socket.stopped = true;
            }
            self.cancel(engine, id);
        }
    }

    /// Operations on sockets, or their cancellations, are under way.
    pub(super) fn is_busy(&self) -> bool {
        let busy = |socket: &Socket| socket.cancelling || socket.operations > 0;
        self.places.iter().any(|place| place.socket.as_ref().is_some_and(busy))
    }

    fn cancel(&mut self, engine: &mut Engine, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        if socket.operations == 0 || socket.cancelling {
            return;
        }
        socket.cancelling = true;
        engine.cancel(id, socket.fd.as_raw_fd());
    }

    /// A cancellation is over. An operation that was just being tried again has escaped it, and is cancelled again.
    pub(super) fn cancelled(&mut self, engine: &mut Engine, id: SocketId) {
        let Some(socket) = self.get_mut(id) else { return };
        socket.cancelling = false;
        if socket.stopped {
            self.cancel(engine, id);
        }
        self.close_if_idle(id);
    }

    fn close_if_idle(&mut self, id: SocketId) {
        let idle = |socket: &&mut Socket| socket.closing && socket.operations == 0 && !socket.cancelling;
        if self.get_mut(id).as_ref().is_some_and(idle) {
            self.vacate(id);
        }
    }

    /// Takes a socket from its place, which is free for another then.
    fn vacate(&mut self, id: SocketId) -> Option<Socket> {
        let at = id.0 & ((1 << PLACE_BITS) - 1);
        let place = &mut self.places[at as usize];
        place.times = (place.times + 1) % (1 << (32 - PLACE_BITS));
        self.free.push(at);
        place.socket.take()
    }
}

/// When a connection has been silent for so long, the kernel asks whether the other end is still there, ...
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// ... at this interval, ...
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// ... this many times, and then gives the connection up.
const KEEPALIVE_PROBES: u32 = 4;
/// Milliseconds after which a connection is given up if its other end does not acknowledge, or take, sent bytes.
const USER_TIMEOUT: u32 = 120_000;

/// Small replies must not wait for more, and a machine that has gone without a word must be noticed.
fn prepare_tcp(fd: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(fd, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(fd, USER_TIMEOUT)
}

fn socket_of(kind: OpKind) -> Option<SocketId> {
    match kind {
        OpKind::Accept { socket } | OpKind::Recv { socket } | OpKind::Send { socket } => Some(socket),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn the_kernel_watches_over_accepted_tcp_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("somebody listens");
        let accepted = listener.accept().expect("somebody has connected").0;
        let mut sockets = Sockets::default();
        let id = sockets.add_listener(listener.into(), None);
        sockets.begin(id).expect("open");
        // As the kernel answers the ring's accept.
        let fd = accepted.into_raw_fd() as u32;
        let socket = sockets.end(OpKind::Accept { socket: id }, Ok(fd)).expect("a connection");
        let fd = &sockets.get(SocketId(socket as u32)).expect("open").fd;
        assert!(sockopt::tcp_nodelay(fd).expect("TCP"));
        assert!(sockopt::socket_keepalive(fd).expect("TCP"));
        let (idle, interval) = (sockopt::tcp_keepidle(fd), sockopt::tcp_keepintvl(fd));
        let silence = idle.expect("TCP") + interval.expect("TCP") * sockopt::tcp_keepcnt(fd).expect("TCP");
        assert_eq!(silence, Duration::from_secs(120));
        assert_eq!(sockopt::tcp_user_timeout(fd).expect("TCP"), 120_000);
        drop(client);
    }
}

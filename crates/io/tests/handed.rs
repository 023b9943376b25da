//! Listeners that go from one server to the next, in a process of its own: which they are is known to the whole process.

use std::io::Read;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

use brindle_io::uring::{self, ListenerPlace, OWNER_ONLY, Uring};
use brindle_io::{Duration, Io};
use brindle_testkit::skip::{Missing, or_skip};

/// A server that accepts one client of each listener, and says which it is.
fn serve(io: &Io, sockets: [brindle_io::SocketId; 2]) {
    for socket in sockets {
        let accepted = io.block_on(io.accept(socket)).unwrap();
        io.close(accepted);
    }
}

/// The end of the connection, which is there only once it was accepted.
fn is_answered(mut stream: impl Read) -> bool {
    matches!(stream.read(&mut [0]), Ok(0))
}

fn goes_on_with_the_listeners_of_another(make: impl Fn() -> Option<Uring>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let Some(first) = make() else { return };
    let unix = first.listen_unix(&path).unwrap();
    let tcp = first.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first.local_addr(tcp).unwrap();
    let io = Io::new(Box::new(first.clone()));
    // Both wait for clients when they are closed.
    let waits = [unix, tcp].map(|socket| {
        let within = io.clone();
        io.spawn(async move { within.accept(socket).await.is_err() })
    });
    io.block_on(io.sleep(Duration::from_millis(1)));
    uring::keep_listeners(true);
    [unix, tcp].into_iter().for_each(|socket| io.close(socket));
    for wait in waits {
        assert!(io.block_on(wait), "closed");
    }
    drop((io, first));

    // Clients that come meanwhile wait.
    let clients = (UnixStream::connect(&path).unwrap(), TcpStream::connect(address).unwrap());
    let handed = uring::listeners().unwrap();
    uring::keep_listeners(false);
    let places: Vec<_> = handed.iter().map(|one| one.place.clone()).collect();
    let canonical = folder.path().canonicalize().unwrap().join("socket");
    assert_eq!(places, [ListenerPlace::Unix(canonical), ListenerPlace::Tcp(address)]);
    uring::take_inherited(handed);
    assert!(uring::is_unclaimed(&path));

    let Some(second) = make() else { return };
    let unix = second.listen_unix(&path).unwrap();
    let tcp = second.listen_tcp(([127, 0, 0, 1], 0).into()).unwrap();
    assert_eq!(second.local_addr(tcp), Some(address), "port 0 means the one that there is");
    assert!(!uring::is_unclaimed(&path) && uring::close_unclaimed().is_empty());
    let io = Io::new(Box::new(second));
    serve(&io, [unix, tcp]);
    assert!(is_answered(clients.0) && is_answered(clients.1));
    uring::let_listeners_go();
    drop(io);
    assert!(!path.exists() && UnixStream::connect(&path).is_err() && TcpStream::connect(address).is_err());
}

/// One test: all of them would change the same state.
#[test]
fn listeners_outlive_the_server_that_made_them() {
    uring::track_listeners();
    let skipping = |made: Result<Uring, uring::UringError>| {
        or_skip(made.map_err(|error| Missing::new(error.to_string())))
    };
    goes_on_with_the_listeners_of_another(|| skipping(Uring::new()));
    goes_on_with_the_listeners_of_another(|| skipping(Uring::on_threads()));

    // Those that nobody asks for go with their files.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("socket");
    let (listener, file) = uring::listen_unix(&path, OWNER_ONLY).unwrap();
    uring::keep_listeners(true);
    let handed = uring::listeners().unwrap();
    drop((listener, file));
    uring::let_listeners_go();
    std::fs::write(&path, "").unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_file(&path).unwrap();
    uring::take_inherited(handed);
    assert_eq!(uring::close_unclaimed(), [ListenerPlace::Unix(path.clone())]);
    assert!(UnixStream::connect(&path).is_err());

    // A descriptor that this process opened is not taken from it.
    let own = UnixListener::bind(&path).unwrap();
    assert!(uring::adopt([own.as_raw_fd(), 0, 1, 2, -1, 1 << 20]).is_empty());
    rustix::io::fcntl_setfd(&own, rustix::io::FdFlags::empty()).unwrap();
    let number = std::os::fd::IntoRawFd::into_raw_fd(own);
    let adopted = uring::adopt([number, number]);
    assert_eq!(adopted.len(), 1, "once");
    assert_eq!(uring::place_of(&adopted[0]), Some(ListenerPlace::Unix(path)));
}

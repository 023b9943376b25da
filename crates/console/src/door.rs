//! The way in: a socket of this machine, so many connections at once, each with deadlines.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use brindle_host::opening::Listen;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::api;
use crate::console::Console;
use crate::peer::Peer;

/// Connections at once.
const MOST: usize = 128;

/// Time in which the head of a request has to come.
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that the head of a request may have.
const LONGEST_HEAD: usize = 16 << 10;

/// Headers of a request.
const MOST_HEADERS: usize = 64;

/// Time after which a connection is closed, whatever it does: pages make another.
const LONGEST: Duration = Duration::from_secs(600);

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketName),
}

/// The name of a socket in the file system, which ends with it.
struct SocketName(PathBuf);

impl Drop for SocketName {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    async fn at(listen: &Listen) -> Result<Self, String> {
        let failed = |error: io::Error| format!("{listen} can't be listened at: {error}");
        match listen {
            Listen::Unix(path) => {
                clear(path).map_err(failed)?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                Ok(Self::Unix(listener, SocketName(path.clone())))
            }
            Listen::Tcp(text) => {
                let mut addresses: Vec<SocketAddr> =
                    tokio::net::lookup_host(text).await.map_err(failed)?.collect();
                addresses.sort_by_key(SocketAddr::is_ipv6);
                if addresses.iter().any(|address| !address.ip().is_loopback()) {
                    return Err(format!(
                        "{text} is not of this machine alone: listen at 127.0.0.1:PORT, and let a proxy with TLS and a login go in front of it"
                    ));
                }
                let address = addresses.first().ok_or_else(|| format!("{text} is no address"))?;
                TcpListener::bind(address).await.map(Self::Tcp).map_err(failed)
            }
        }
    }

    fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "-".to_owned(), |address| format!("http://{address}/"))
            }
            Self::Unix(_, name) => format!("unix:{}", name.0.display()),
        }
    }

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Peer::Address(address)))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|peer| peer.uid());
                Ok((Box::new(stream), Peer::User(user)))
            }
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Removes the name of a socket at which nobody listens any more.
fn clear(path: &Path) -> io::Result<()> {
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Answers until the process is told to end.
///
/// # Errors
/// It can't listen, or hear signals.
pub(crate) async fn answer(console: Arc<Console>) -> Result<(), String> {
    let listener = Listener::at(&console.options.listen).await?;
    println!("brindle-console: {}", listener.address());
    tokio::spawn(console.board.clone().look());
    let router = api::router(console);
    let heard = |kind| signal(kind).map_err(|error| format!("signals can't be heard: {error}"));
    let (mut ended, mut interrupted) = (heard(SignalKind::terminate())?, heard(SignalKind::interrupt())?);
    let accepting = accept(&listener, router);
    let mut accepting = std::pin::pin!(accepting);
    std::future::poll_fn(|context| {
        use std::task::Poll::{Pending, Ready};
        let told = ended.poll_recv(context).is_ready() || interrupted.poll_recv(context).is_ready();
        if told || accepting.as_mut().poll(context).is_ready() { Ready(()) } else { Pending }
    })
    .await;
    Ok(())
}

async fn accept(listener: &Listener, router: Router) {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // There are too few descriptors: some may be free again soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let router = router.clone().layer(Extension(peer));
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(place);
                });
            }
            Err(_) => drop(tokio::spawn(turn_away(stream))),
        }
    }
}

async fn serve(stream: Box<dyn Stream>, router: Router) {
    let mut how = http1::Builder::new();
    how.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    how.max_headers(MOST_HEADERS).max_buf_size(LONGEST_HEAD);
    let connection = how.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that has left, or said what can't be read, is no concern of others.
    let _ = tokio::time::timeout(LONGEST, connection).await;
}

/// There are too many at once.
async fn turn_away(mut stream: Box<dyn Stream>) {
    const WORDS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(WORDS)).await;
}

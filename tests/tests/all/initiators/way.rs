//! A way to a port that can be closed and opened again: while it is closed connections are refused, and those that stood are gone.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) struct Way {
    /// Where it leads to, and where it begins.
    to: u16,
    at: u16,
    open: Option<Open>,
}

/// An open way.
struct Open {
    closes: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    accepts: JoinHandle<()>,
}

impl Way {
    /// An open one.
    pub(super) fn to(port: u16) -> Self {
        let mut way = Self { to: port, at: 0, open: None };
        way.open();
        way
    }

    /// Where it begins.
    pub(super) fn port(&self) -> u16 {
        self.at
    }

    pub(super) fn open(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.at)).expect("the port is still free");
        listener.set_nonblocking(true).expect("a socket");
        self.at = listener.local_addr().expect("an address").port();
        let (closes, streams) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let accepts = {
            let (closes, streams, to) = (Arc::clone(&closes), Arc::clone(&streams), self.to);
            std::thread::spawn(move || {
                while !closes.load(Ordering::SeqCst) {
                    match listener.accept() {
                        // The server may be away at the moment: the connection ends at once.
                        Ok((stream, _)) => drop(joined(&stream, to, &streams)),
                        Err(_) => std::thread::sleep(Duration::from_millis(2)),
                    }
                }
            })
        };
        self.open = Some(Open { closes, streams, accepts });
    }

    pub(super) fn close(&mut self) {
        let Some(Open { closes, streams, accepts }) = self.open.take() else { return };
        closes.store(true, Ordering::SeqCst);
        accepts.join().expect("it ends");
        for stream in streams.lock().expect("nobody has panicked").iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.close();
    }
}

/// Carries bytes both ways between a connection and a new one to the port.
fn joined(stream: &TcpStream, to: u16, streams: &Mutex<Vec<TcpStream>>) -> io::Result<()> {
    let other = TcpStream::connect(("127.0.0.1", to))?;
    for (from, to) in [(stream, &other), (&other, stream)] {
        from.set_nonblocking(false)?;
        from.set_nodelay(true)?;
        streams.lock().expect("nobody has panicked").push(from.try_clone()?);
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    Ok(())
}

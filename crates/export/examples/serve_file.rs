//! Serves a file or block device, as it is, on a Unix socket until its standard input ends: what `scripts/bench-nbd`
//! measures, and the smallest complete server.
//!
//!     serve_file FILE SOCKET

#[path = "common/plain.rs"]
mod plain;
#[path = "common/until.rs"]
mod until;

use std::error::Error;
use std::rc::Rc;

use brindle_export::nbd::{Config, Server};
use brindle_io::Io;
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use plain::Plain;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [file, socket] = args.as_slice() else { return Err("usage: serve_file FILE SOCKET".into()) };
    let uring = Uring::new()?;
    let io = Io::new(Box::new(uring.clone()));
    let device = OpenDevice::open(file, DeviceAccess::Write)?;
    let info = device.info();
    let volume = Rc::new(Plain { io: io.clone(), member: uring.add_member(device), info });
    let server = Server::new(&io, Config::default());
    server.add_export("", file, volume)?;
    server.serve(uring.listen_unix(socket)?);
    io.block_on(async {
        until::input_ends(&io).await;
        server.stop().await;
    });
    Ok(())
}

//! Serves a file or block device, as it is, or a disk that keeps nothing, over TCP on this machine until its standard input ends: by iSCSI on
//! one port and by NBD on another. It is what `scripts/bench-iscsi` measures.
//!
//!     serve_iscsi FILE|null ISCSI-PORT NBD-PORT

#[path = "common/plain.rs"]
mod plain;
#[path = "common/until.rs"]
mod until;

use std::error::Error;
use std::rc::Rc;

use brindle_export::iscsi::{IscsiConfig, Server, TargetSpec};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, nbd};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Io, Slice};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions};
use plain::Plain;

/// A disk that keeps nothing and has done all at once.
struct Null;

impl Volume for Null {
    fn limits(&self) -> Limits {
        Limits { size: 1 << 30, block: 512, preferred: 4096, optimal: 0, read_only: false, discard: false }
    }

    async fn read(&self, _: u64, _: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn write(&self, _: u64, _: impl AsRef<[Slice]>, _: bool) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn discard(&self, _: u64, _: u64) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn write_zeroes(&self, _: u64, _: u64, _: ZeroOptions) -> Result<(), VolumeError> {
        Ok(())
    }
}

fn serve<V: Volume + 'static>(
    io: &Io,
    uring: &Uring,
    volume: V,
    ports: [u16; 2],
) -> Result<(), Box<dyn Error>> {
    let volume = Rc::new(volume);
    let config =
        IscsiConfig { session: Config::default(), chap: None, random: Box::new(|bytes| bytes.fill(7)) };
    let (iscsi, nbd) = (Server::new(io, config), nbd::Server::new(io, Config::default()));
    nbd.add_export("", "", Rc::clone(&volume))?;
    let identity =
        Identity { uuid: [1; 16], product: "bench".into(), target: "iqn.2026-11.dev.brindle:bench".into() };
    let (reservations, gate) = (Reservations::default(), Rc::default());
    iscsi.add_target(TargetSpec { identity, volume, reservations, keep: None, gate });
    let [first, second] = ports.map(|port| uring.listen_tcp(([127, 0, 0, 1], port).into()));
    iscsi.serve(first?, None);
    nbd.serve(second?);
    io.block_on(async {
        until::input_ends(io).await;
        iscsi.stop().await;
        nbd.stop().await;
    });
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [file, iscsi, nbd] = args.as_slice() else {
        return Err("usage: serve_iscsi FILE|null ISCSI-PORT NBD-PORT".into());
    };
    let ports = [iscsi.parse()?, nbd.parse()?];
    let uring = Uring::new()?;
    let io = Io::new(Box::new(uring.clone()));
    if file == "null" {
        return serve(&io, &uring, Null, ports);
    }
    let device = OpenDevice::open(file, DeviceAccess::Write)?;
    let info = device.info();
    let volume = Plain { io: io.clone(), member: uring.add_member(device), info };
    serve(&io, &uring, volume, ports)
}

//! Serves a file or block device, as it is, on a Unix socket until its standard input ends: what `scripts/bench-nbd`
//! measures, and the smallest complete server.
//!
//!     serve_file FILE SOCKET

use core::future::poll_fn;
use core::task::Poll;
use std::error::Error;
use std::io::Read;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_export::nbd::{Config, Server};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Group, Io, MemberId, MemberInfo, Slice};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions, stretches};

/// One member, byte for byte.
struct Plain {
    io: Io,
    member: MemberId,
    info: MemberInfo,
}

impl Plain {
    async fn one(&self, add: impl FnOnce(&mut Group)) -> Result<(), VolumeError> {
        let mut group = self.io.group();
        add(&mut group);
        group.submit().await.ok().map_err(VolumeError::of_some_member)
    }
}

impl Volume for Plain {
    fn limits(&self) -> Limits {
        Limits {
            size: self.info.size,
            block: self.info.logical_block,
            preferred: self.info.physical_block,
            optimal: 0,
            read_only: false,
            discard: self.info.discard,
        }
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = stretches(offset, into.as_ref());
        self.one(|group| into.for_each(|(at, slice)| _ = group.read(self.member, at, slice))).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = stretches(offset, from.as_ref());
        self.one(|group| from.for_each(|(at, slice)| _ = group.write(self.member, at, slice, fua))).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.one(|group| _ = group.flush(self.member)).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.one(|group| _ = group.discard(self.member, offset, len)).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        if options.fast_only && !self.info.write_zeroes {
            return Err(VolumeError::Unsupported);
        }
        self.one(|group| _ = group.write_zeroes(self.member, offset, len, !options.keep_allocated)).await?;
        if options.fua { self.flush().await } else { Ok(()) }
    }
}

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

    let (remote, over) = (io.remote(), Arc::new(AtomicBool::new(false)));
    io.block_on(async {
        let (task, ended) = (io.current_task(), Arc::clone(&over));
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            ended.store(true, Ordering::Release);
            remote.run(move |io| io.wake(task));
        });
        poll_fn(|_| if over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }).await;
        server.stop().await;
    });
    Ok(())
}

//! The other side of a mount: it asks as the kernel's FUSE driver does, by a port, and is a volume.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_export::fuse::proto::{ANSWER_HEADER, WRITTEN_AT, error, mode};
use brindle_io::sync::Notify;
use brindle_io::{Io, OpError, Pool, Slice, SocketId};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions, stretches};

/// The node of the file that is the volume.
const FILE: u64 = 2;
/// Bytes of a read or write at most: what a server with little memory agrees on.
const LARGEST: usize = 64 << 10;
/// Bytes of a header.
const HEADER: usize = 40;
/// `O_DSYNC`.
const DSYNC: u64 = 0o10000;

/// Codes of calls.
mod code {
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const SYNC: u32 = 20;
    pub(super) const ALLOCATE: u32 = 43;
}

/// A client of a mount. It goes when it is dropped.
pub struct MountClient(Rc<Asking>);

struct Asking {
    io: Io,
    port: SocketId,
    pool: Pool,
    limits: Limits,
    /// Answers that nobody has taken yet, by the numbers of their calls: the error, and the bytes behind it.
    answers: RefCell<BTreeMap<u64, (i32, Vec<u8>)>>,
    next: Cell<u64>,
    closed: Cell<bool>,
    changed: Notify,
}

impl Drop for MountClient {
    fn drop(&mut self) {
        self.0.io.close(self.0.port);
    }
}

impl MountClient {
    /// A client of a volume with these limits, by its end of a pair of ports.
    pub async fn new(io: &Io, port: SocketId, pool: &Pool, limits: Limits) -> Self {
        let asking = Rc::new(Asking {
            io: io.clone(),
            port,
            pool: pool.clone(),
            limits,
            answers: RefCell::default(),
            next: Cell::new(2),
            closed: Cell::new(false),
            changed: Notify::new(io),
        });
        let inbox = pool.alloc(2 * LARGEST).await;
        let hears = Rc::clone(&asking);
        drop(io.spawn(async move {
            while let Ok(count @ 1..) = hears.io.recv(port, &inbox.all()).await {
                hears.hear(&inbox.bytes()[..count]);
            }
            hears.closed.set(true);
            hears.changed.notify();
        }));
        Self(asking)
    }

    /// The mount has ended: nothing is answered any more.
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }
}

impl Asking {
    fn hear(&self, message: &[u8]) {
        let (number, unique) = (message[4..8].try_into(), message[8..16].try_into());
        let number = i32::from_ne_bytes(number.expect("four bytes"));
        let unique = u64::from_ne_bytes(unique.expect("eight bytes"));
        let again = self.answers.borrow_mut().insert(unique, (-number, message[ANSWER_HEADER..].to_vec()));
        assert!(again.is_none(), "call {unique} has two answers");
        self.changed.notify();
    }

    /// Sends a call, and waits for its answer.
    async fn ask(&self, code: u32, words: [u64; 5], data: &[Slice]) -> Result<Vec<u8>, VolumeError> {
        let unique = self.next.replace(self.next.get() + 2);
        let len = WRITTEN_AT + data.iter().map(Slice::len).sum::<usize>();
        let message = self.pool.alloc(len).await;
        {
            let mut bytes = message.bytes_mut();
            bytes[..HEADER].fill(0);
            bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
            bytes[4..8].copy_from_slice(&code.to_ne_bytes());
            bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
            bytes[16..24].copy_from_slice(&FILE.to_ne_bytes());
            for (to, word) in bytes[HEADER..WRITTEN_AT].chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            for (at, slice) in stretches(WRITTEN_AT as u64, data) {
                slice.copy_to(&mut bytes[at as usize..at as usize + slice.len()]);
            }
        }
        if self.io.send(self.port, &[message.slice(0..len)]).await.is_err() {
            return Err(VolumeError::Stopping);
        }
        let answered = || {
            let answer = self.answers.borrow_mut().remove(&unique);
            answer.map(Some).or_else(|| self.closed.get().then_some(None))
        };
        match self.changed.until(answered).await {
            Some((0, bytes)) => Ok(bytes),
            Some((number, _)) => Err(refused(number)),
            None => Err(VolumeError::Stopping),
        }
    }

    fn checked(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.limits.check_change()?;
        self.limits.check(offset, len)
    }

    async fn allocate(&self, offset: u64, len: u64, how: u32) -> Result<(), VolumeError> {
        self.checked(offset, len)?;
        self.ask(code::ALLOCATE, [0, offset, len, u64::from(how), 0], &[]).await.map(drop)
    }
}

/// The error of a volume that an error number stands for.
fn refused(number: i32) -> VolumeError {
    match number {
        error::NO_SPACE => VolumeError::of_some_member(OpError::NoSpace),
        error::READ_ONLY | error::PERMISSION => VolumeError::ReadOnly,
        error::INVALID => VolumeError::Unaligned,
        error::UNSUPPORTED => VolumeError::Unsupported,
        error::NOT_CONNECTED => VolumeError::Stopping,
        other => VolumeError::of_some_member(OpError::Medium(other)),
    }
}

impl Volume for MountClient {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        self.limits().check_list(offset, into.as_ref())?;
        for (at, to) in stretches(offset, into.as_ref()) {
            for start in (0..to.len()).step_by(LARGEST) {
                let len = LARGEST.min(to.len() - start);
                let words = [0, at + start as u64, len as u64, 0, 0];
                let bytes = self.0.ask(code::READ, words, &[]).await?;
                assert_eq!(bytes.len(), len, "a read within the file is whole");
                to.put(start, &bytes);
            }
        }
        Ok(())
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        self.limits().check_change()?;
        self.limits().check_list(offset, from.as_ref())?;
        let flags = if fua { DSYNC } else { 0 };
        for (at, from) in stretches(offset, from.as_ref()) {
            for start in (0..from.len()).step_by(LARGEST) {
                let part = from.slice(start..from.len().min(start + LARGEST));
                let words = [0, at + start as u64, part.len() as u64, 0, flags];
                self.0.ask(code::WRITE, words, core::slice::from_ref(&part)).await?;
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.0.ask(code::SYNC, [0; 5], &[]).await.map(drop)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.0.allocate(offset, len, mode::PUNCH_HOLE | mode::KEEP_SIZE).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, how: ZeroOptions) -> Result<(), VolumeError> {
        let made = if how.keep_allocated { mode::ZERO_RANGE } else { mode::PUNCH_HOLE };
        self.0.allocate(offset, len, made | mode::KEEP_SIZE).await?;
        if how.fua { self.flush().await } else { Ok(()) }
    }
}

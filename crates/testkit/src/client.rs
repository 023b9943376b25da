//! A client of a volume that knows what it must be answered.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_io::sync::join_all;
use brindle_io::{Io, Pool};
use brindle_volume::{Volume, VolumeError, ZeroOptions, read_again};

use crate::load::{Load, Mix, Request};
use crate::oracle::{Change, Oracle, Wrong};
use crate::random::Random;
use crate::stamp;
use crate::world::unread;

/// Why a request was not served as it should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The volume answered with an error.
    Refused(Request, VolumeError),
    /// The volume gave bytes that nothing explains.
    Wrong(Request, Wrong),
}

impl core::fmt::Display for Trouble {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Refused(request, error) => write!(f, "{request:?}: {error}"),
            Self::Wrong(request, wrong) => write!(f, "{request:?}: {wrong}"),
        }
    }
}

/// Asks a volume and holds the answers against an oracle, which several clients share.
#[derive(Clone)]
pub struct Client<V> {
    volume: V,
    pool: Pool,
    oracle: Rc<RefCell<Oracle>>,
}

impl<V: Volume> Client<V> {
    /// A client that takes its buffers from `pool`.
    pub fn new(volume: V, pool: Pool, oracle: Rc<RefCell<Oracle>>) -> Self {
        Self { volume, pool, oracle }
    }

    /// The same client by way of another volume, which stands for this one.
    pub fn by_way_of<W: Volume>(&self, volume: W) -> Client<W> {
        Client { volume, pool: self.pool.clone(), oracle: Rc::clone(&self.oracle) }
    }

    /// The oracle.
    pub fn oracle(&self) -> &RefCell<Oracle> {
        &self.oracle
    }

    /// Bytes of the volume whose content is known: one that grows has more.
    fn known_size(&self) -> u64 {
        self.volume.limits().size.min(self.oracle.borrow().size())
    }

    /// The volume.
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// Asks, and judges the answer.
    ///
    /// # Errors
    /// The fault of the answer.
    pub async fn ask(&self, request: Request) -> Result<(), Trouble> {
        let answer = match request {
            Request::Read { offset, len } => return self.read(request, offset, len).await,
            Request::Write { offset, len, fua } => self.write(offset, len, fua).await,
            Request::Zeroes { offset, len, fua, keep } => {
                let number = self.begins(Change::Zeroes, offset, len);
                let options = ZeroOptions { fua, keep_allocated: keep, fast_only: false };
                let answer = self.volume.write_zeroes(offset, len, options).await;
                self.ended(number, answer, fua)
            }
            Request::Discard { offset, len } => {
                let number = self.begins(Change::Discard, offset, len);
                let answer = self.volume.discard(offset, len).await;
                self.ended(number, answer, false)
            }
            Request::Flush => {
                let began = self.oracle.borrow_mut().flush_begins();
                let answer = self.volume.flush().await;
                if answer.is_ok() {
                    self.oracle.borrow_mut().flush_ended(began);
                }
                answer
            }
        };
        answer.map_err(|error| Trouble::Refused(request, error))
    }

    fn begins(&self, change: Change, offset: u64, len: u64) -> u64 {
        self.oracle.borrow_mut().change_begins(change, offset, len)
    }

    fn ended(&self, number: u64, answer: Result<(), VolumeError>, fua: bool) -> Result<(), VolumeError> {
        self.oracle.borrow_mut().change_ended(number, answer.is_ok(), fua);
        answer
    }

    async fn read(&self, request: Request, offset: u64, len: u64) -> Result<(), Trouble> {
        let began = self.oracle.borrow_mut().read_begins();
        let memory = async || unread(&self.pool, len as usize).await;
        let answer = read_again(&self.volume, offset, memory).await;
        let memory = answer.map_err(|error| Trouble::Refused(request, error))?;
        let judged = self.oracle.borrow_mut().judge(began, offset, &memory.bytes());
        judged.map_err(|wrong| Trouble::Wrong(request, wrong))
    }

    async fn write(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        let buf = self.pool.alloc(len as usize).await;
        let number = self.begins(Change::Write, offset, len);
        stamp::stamp(&mut buf.bytes_mut()[..len as usize], offset / stamp::SECTOR as u64, number);
        let answer = self.volume.write(offset, buf.slice(0..len as usize), fua).await;
        self.ended(number, answer, fua)
    }

    /// Reads all of the volume.
    ///
    /// # Errors
    /// The fault of an answer.
    pub async fn read_all(&self) -> Result<(), Trouble> {
        for (offset, len) in steps(self.known_size()) {
            self.ask(Request::Read { offset, len }).await?;
        }
        Ok(())
    }

    /// Writes all of the volume, and flushes it.
    ///
    /// # Errors
    /// The fault of an answer.
    pub async fn write_all(&self) -> Result<(), Trouble> {
        for (offset, len) in steps(self.known_size()) {
            self.ask(Request::Write { offset, len, fua: false }).await?;
        }
        self.ask(Request::Flush).await
    }

    /// Several clients send `requests` each, side by side; gives the wrong answers.
    pub async fn side_by_side(&self, io: &Io, lanes: u64, requests: u64, mix: Mix, seed: u64) -> Vec<Trouble>
    where
        V: Clone + 'static,
    {
        let lanes = (0..lanes).map(|lane| {
            let client = self.clone();
            io.spawn(async move {
                let random = Random::stream(seed, lane + 1);
                let mut load = Load::new(random, client.known_size(), mix);
                let mut troubles = Vec::new();
                for _ in 0..requests {
                    troubles.extend(client.ask(load.next_request()).await.err());
                }
                troubles
            })
        });
        let lanes: Vec<_> = lanes.collect();
        join_all(lanes).await.concat()
    }
}

/// Bytes in which a whole array is read, written or gone over.
pub(crate) const STEP: u64 = 256 << 10;

/// Offset and length of each step through `len` bytes.
pub(crate) fn steps(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len).step_by(STEP as usize).map(move |at| (at, STEP.min(len - at)))
}

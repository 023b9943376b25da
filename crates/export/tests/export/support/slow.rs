//! A large volume on members that take their time, which keeps nothing; and an iSCSI and an NBD door to it, in virtual time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_export::iscsi::{IscsiConfig, Server, TargetSpec};
use brindle_export::nbd::client::Remote;
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, Gate, nbd};
use brindle_io::sim::Sim;
use brindle_io::sync::Notify;
use brindle_io::{Duration, Io, Pool, Slice, SocketId};
use brindle_volume::{Limits, Volume, VolumeError, Wanted, ZeroOptions, bytes};

use crate::support::initiator::{Client, TARGET};

/// Time of an operation on a member.
const OPERATION: Duration = Duration::from_millis(5);
/// Bytes that a member takes in such a time.
const AT_ONCE: u64 = 1 << 20;
/// Bytes that a member zeroes or discards in such a time.
const MADE_AT_ONCE: u64 = 256 << 20;

/// The volume.
pub(crate) struct SlowVolume {
    io: Io,
    size: u64,
    /// Members make zeroes by themselves.
    pub(crate) makes_zeroes: Cell<bool>,
    /// Requests wait for nothing at all.
    pub(crate) instant: Cell<bool>,
    /// Flushes wait until they are released.
    pub(crate) hangs: Cell<bool>,
    released: Notify,
    /// Bytes read and written so far.
    pub(crate) moved: Cell<u64>,
    /// Changes that a compare and write has made.
    pub(crate) exchanged: Cell<u32>,
    /// The longest stretch that one request has changed or read.
    pub(crate) longest: Cell<u64>,
    pub(crate) made: RefCell<Vec<(u64, u64)>>,
}

impl SlowVolume {
    /// Flushes go on.
    pub(crate) fn release(&self) {
        self.hangs.set(false);
        self.released.notify();
    }

    async fn takes(&self, len: u64, at_once: u64) {
        self.longest.set(self.longest.get().max(len));
        if !self.instant.get() {
            self.io.sleep(OPERATION * u32::try_from(len.div_ceil(at_once)).unwrap().max(1)).await;
        }
    }

    async fn moves(&self, len: u64) {
        self.takes(len, AT_ONCE).await;
        self.moved.set(self.moved.get() + len);
    }
}

impl Volume for SlowVolume {
    fn limits(&self) -> Limits {
        Limits {
            size: self.size,
            block: 512,
            preferred: 65536,
            optimal: 3 * 65536,
            read_only: false,
            discard: true,
        }
    }

    async fn read(&self, _: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        self.moves(bytes(into.as_ref())).await;
        into.as_ref().iter().for_each(|slice| slice.bytes_mut().fill(0));
        Ok(())
    }

    async fn write(&self, _: u64, from: impl AsRef<[Slice]>, _: bool) -> Result<(), VolumeError> {
        self.moves(bytes(from.as_ref())).await;
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.released.until(|| (!self.hangs.get()).then_some(())).await;
        self.takes(0, AT_ONCE).await;
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.takes(len, MADE_AT_ONCE).await;
        self.made.borrow_mut().push((offset, len));
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        let whole = [offset, len].iter().all(|of| of.is_multiple_of(self.limits().optimal));
        if self.makes_zeroes.get() && whole {
            self.takes(len, MADE_AT_ONCE).await;
            self.made.borrow_mut().push((offset, len));
            return Ok(());
        }
        if options.fast_only {
            return Err(VolumeError::Unsupported);
        }
        self.moves(len).await;
        Ok(())
    }

    async fn compare_and_write(
        &self,
        _: u64,
        _: &Slice,
        new: &Slice,
        _: &Slice,
        _: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        self.moves(new.len() as u64).await;
        wanted.check()?;
        self.moves(new.len() as u64).await;
        self.exchanged.set(self.exchanged.get() + 1);
        Ok(None)
    }
}

/// The doors to it.
pub(crate) struct Doors {
    pub(crate) io: Io,
    pub(crate) sim: Sim,
    pub(crate) iscsi: Server<SlowVolume>,
    pub(crate) nbd: nbd::Server<SlowVolume>,
    pub(crate) volume: Rc<SlowVolume>,
    pub(crate) gate: Rc<Gate>,
    pub(crate) at: [SocketId; 2],
    pub(crate) pool: Pool,
}

impl Doors {
    pub(crate) fn new() -> Self {
        Self::with(Config { memory: 32 << 20, connections: 8, requests: 16, ..Config::default() })
    }

    pub(crate) fn with(session: Config) -> Self {
        let sim = Sim::new(1);
        let io = Io::new(Box::new(sim.clone()));
        let volume = Rc::new(SlowVolume {
            io: io.clone(),
            size: 4 << 40,
            makes_zeroes: Cell::new(false),
            instant: Cell::new(false),
            hangs: Cell::new(false),
            released: Notify::new(&io),
            moved: Cell::new(0),
            exchanged: Cell::new(0),
            longest: Cell::new(0),
            made: RefCell::default(),
        });
        let random = Box::new(|bytes: &mut [u8]| bytes.fill(7));
        let iscsi = Server::new(&io, IscsiConfig { session, chap: None, random });
        let gate = Rc::<Gate>::default();
        iscsi.add_target(TargetSpec {
            identity: Identity { uuid: [1; 16], product: "t".into(), target: TARGET.into() },
            volume: Rc::clone(&volume),
            reservations: Reservations::default(),
            keep: None,
            gate: Rc::clone(&gate),
        });
        let nbd = nbd::Server::new(&io, session);
        nbd.add_guarded("disk", "", Rc::clone(&volume), Rc::clone(&gate)).expect("a fresh name");
        let at = [sim.listen(), sim.listen()];
        nbd.serve(at[0]);
        iscsi.serve(at[1], None);
        let pool = io.pool(256 << 20);
        Self { io, sim, iscsi, nbd, volume, gate, at, pool }
    }

    pub(crate) async fn remote(&self) -> Remote {
        let socket = self.sim.connect(self.at[0]);
        Remote::connect(&self.io, socket, "disk", &self.pool).await.expect("a server")
    }

    pub(crate) async fn stranger(&self, name: u8) -> Client {
        let socket = self.sim.connect(self.at[1]);
        let buf = self.pool.alloc(2 << 20).await;
        Client {
            io: self.io.clone(),
            socket,
            buf,
            inbox: Vec::new(),
            name,
            next: 1,
            status: 0,
            digests: false,
        }
    }

    pub(crate) async fn initiator(&self, name: u8) -> Client {
        let mut client = self.stranger(name).await;
        assert_eq!(client.login(&[]).await.0[36], 0, "login");
        assert_eq!(client.command(&[0; 16], &[], 0).await.status, 2, "POWER ON, or another attention");
        client
    }

    pub(crate) async fn rest(&self, millis: u64) {
        self.io.sleep(Duration::from_millis(millis)).await;
    }

    /// Seconds that something takes.
    pub(crate) async fn seconds<T>(&self, work: impl Future<Output = T>) -> (f64, T) {
        let begun = self.io.now();
        let done = work.await;
        (self.io.now().since(begun).as_secs_f64(), done)
    }

    /// Stops the servers; nothing of them is left.
    pub(crate) fn end(&self) {
        self.io.block_on(async {
            self.iscsi.stop().await;
            self.nbd.stop().await;
            self.rest(10).await;
        });
        assert_eq!(self.iscsi.memory_in_use() + self.nbd.memory_in_use(), 0, "buffers are left");
        assert_eq!(self.io.tasks_alive(), 0, "tasks are left");
        self.io.shutdown();
    }
}

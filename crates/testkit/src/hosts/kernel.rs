//! The kernel's NBD driver in memory: devices on connections to a host's NBD server, whose requests wait when these are gone. It answers
//! late, refuses devices, and gives up those that nobody holds, as a storm has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_export::nbd::client::{Agreed, Remote};
use brindle_host::{Attacher, Naming, Pending, Refused, Serving, WantedDevice};
use brindle_io::sim::Sim;
use brindle_io::sync::{Either, Notify, race};
use brindle_io::{Duration, Io, OpError, Pool, Slice, SocketId};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions};

/// Bytes of memory for all connections, those that are about to go among them.
const POOL: usize = 16 << 20;
/// The largest request of the kernel.
const LARGEST: u32 = 128 << 10;
/// Devices that the driver has at most.
const MOST: u32 = 16;

/// The driver. A handle: cloning gives the same.
#[derive(Clone)]
pub(super) struct Kernel(Rc<Driver>);

struct Driver {
    sim: Sim,
    io: Io,
    pool: Pool,
    devices: RefCell<BTreeMap<u32, NbdDevice>>,
    mood: Cell<Mood>,
    changed: Notify,
}

/// How the driver answers for now.
#[derive(Clone, Copy, Default)]
pub(super) struct Mood {
    /// The time that each answer takes.
    pub(super) delay: Duration,
    /// No device is free.
    pub(super) is_full: bool,
}

struct NbdDevice {
    wanted: WantedDevice,
    connections: Vec<Remote>,
    /// How often it is open exclusively: mounts.
    held: usize,
}

impl NbdDevice {
    fn live(&self) -> impl Iterator<Item = &Remote> {
        self.connections.iter().filter(|connection| !connection.is_closed())
    }

    fn is_of(&self, key: &str) -> bool {
        self.wanted.identifier.split(' ').next() == Some(key)
    }
}

impl Kernel {
    /// A driver without devices.
    pub(super) fn new(sim: &Sim, io: &Io) -> Self {
        let (devices, mood) = (RefCell::default(), Cell::default());
        let (pool, changed) = (io.pool(POOL), Notify::new(io));
        Self(Rc::new(Driver { sim: sim.clone(), io: io.clone(), pool, devices, mood, changed }))
    }

    /// Answers otherwise from now on.
    pub(super) fn set_mood(&self, mood: Mood) {
        self.0.mood.set(mood);
    }

    /// Numbers of the devices that have this first word in their identifiers.
    pub(super) fn numbers(&self, key: &str) -> Vec<u32> {
        let devices = self.0.devices.borrow();
        devices.iter().filter(|(_, device)| device.is_of(key)).map(|(index, _)| *index).collect()
    }

    /// Whether it has any device.
    pub(super) fn has_devices(&self) -> bool {
        !self.0.devices.borrow().is_empty()
    }

    /// Whether a device has a connection that works.
    pub(super) fn is_connected(&self, index: u32) -> bool {
        self.0.devices.borrow().get(&index).is_some_and(|device| device.live().next().is_some())
    }

    /// Whether a device is open exclusively.
    pub(super) fn is_held(&self, index: u32) -> bool {
        self.0.devices.borrow().get(&index).is_some_and(|device| device.held > 0)
    }

    /// Opens a device exclusively, as a mount does.
    pub(super) fn open(&self, index: u32) -> Option<OpenDevice> {
        let mut devices = self.0.devices.borrow_mut();
        let device = devices.get_mut(&index)?;
        device.held += 1;
        Some(OpenDevice { kernel: self.clone(), index, limits: limits(&device.wanted) })
    }

    /// Another program ends a device.
    pub(super) fn dies(&self, index: u32) {
        let Some(device) = self.0.devices.borrow_mut().remove(&index) else { return };
        device.connections.iter().for_each(Remote::close);
        self.0.changed.notify();
    }

    /// Makes connections, and has the server's end of each served.
    async fn connect(&self, wanted: &WantedDevice, serve: &Serving) -> Result<Vec<Remote>, OpError> {
        let Driver { sim, io, pool, .. } = &*self.0;
        // One of its own: connections of two devices do not mix.
        let listener = sim.listen();
        let mut connections = Vec::new();
        for _ in 0..wanted.connections {
            let own: SocketId = sim.connect(listener);
            serve(io.accept(listener).await?);
            connections.push(Remote::chosen(io, own, agreed(wanted), pool).await);
        }
        io.close(listener);
        Ok(connections)
    }

    async fn answers(&self) {
        self.0.io.sleep(self.0.mood.get().delay).await;
    }

    async fn made(&self, index: Option<u32>, wanted: WantedDevice, serve: Serving) -> Result<u32, String> {
        let connections = self.connect(&wanted, &serve).await.map_err(|why| why.to_string())?;
        self.answers().await;
        let mut devices = self.0.devices.borrow_mut();
        let free = (0..MOST).find(|index| !devices.contains_key(index));
        let index = index.or(free).filter(|index| !self.0.mood.get().is_full && !devices.contains_key(index));
        let Some(index) = index else {
            connections.iter().for_each(Remote::close);
            return Err("no NBD device is free".to_owned());
        };
        let _none = devices.insert(index, NbdDevice { wanted, connections, held: 0 });
        Ok(index)
    }

    /// Gives a device connections in the place of those that are dead; others are closed.
    async fn connected(&self, index: u32, wanted: WantedDevice, serve: Serving) -> Result<(), String> {
        let connections = self.connect(&wanted, &serve).await.map_err(|why| why.to_string())?;
        self.answers().await;
        let mut devices = self.0.devices.borrow_mut();
        let device = devices.get_mut(&index).filter(|device| device.wanted.identifier == wanted.identifier);
        let is_there = device.is_some();
        let mut dead: Vec<&mut Remote> = device
            .into_iter()
            .flat_map(|device| &mut device.connections)
            .filter(|old| old.is_closed())
            .collect();
        for connection in connections {
            match dead.pop() {
                Some(old) => *old = connection,
                None => connection.close(),
            }
        }
        self.0.changed.notify();
        if is_there { Ok(()) } else { Err(format!("/dev/nbd{index} does not take new connections")) }
    }

    async fn ended(&self, index: u32) -> Result<(), String> {
        self.answers().await;
        if self.is_held(index) {
            return Err(format!("/dev/nbd{index} is in use"));
        }
        let ended = self.0.devices.borrow_mut().remove(&index);
        for connection in ended.map(|device| device.connections).unwrap_or_default() {
            drop(self.0.io.spawn(async move { connection.leave().await }));
        }
        self.0.changed.notify();
        Ok(())
    }
}

impl Attacher for Kernel {
    fn prepare(&self) -> Result<(), Refused> {
        Ok(())
    }

    fn make(
        &self,
        index: Option<u32>,
        wanted: WantedDevice,
        serve: Serving,
    ) -> Pending<Result<u32, Refused>> {
        let this = self.clone();
        Box::pin(async move { this.made(index, wanted, serve).await.map_err(Refused::new) })
    }

    fn connect_again(
        &self,
        index: u32,
        wanted: WantedDevice,
        serve: Serving,
    ) -> Pending<Result<(), Refused>> {
        let this = self.clone();
        Box::pin(async move { this.connected(index, wanted, serve).await.map_err(Refused::new) })
    }

    fn end(&self, index: u32) -> Pending<Result<(), Refused>> {
        let this = self.clone();
        Box::pin(async move { this.ended(index).await.map_err(Refused::new) })
    }

    fn is_there(&self, index: u32) -> Pending<bool> {
        let is_there = self.0.devices.borrow().contains_key(&index);
        Box::pin(async move { is_there })
    }

    fn devices_of(&self, key: String) -> Pending<Vec<(u32, String)>> {
        let devices = self.0.devices.borrow();
        let own = devices.iter().filter(|(_, device)| device.is_of(&key));
        let found = own.map(|(index, device)| (*index, device.wanted.identifier.clone())).collect();
        Box::pin(async { found })
    }

    fn name(&self, devices: Vec<(u32, String)>) -> Pending<Vec<Naming>> {
        Box::pin(async move { devices.iter().map(|_| Naming::NoUdev).collect() })
    }

    fn unname(&self, _: u32, _: String) -> Pending<()> {
        Box::pin(async {})
    }
}

fn agreed(wanted: &WantedDevice) -> Agreed {
    Agreed {
        size: wanted.size,
        flags: wanted.flags,
        block: wanted.block as u32,
        preferred: 4096,
        max_payload: LARGEST,
        structured: false,
        status: false,
    }
}

fn limits(wanted: &WantedDevice) -> Limits {
    Limits {
        size: wanted.size,
        block: wanted.block as u32,
        preferred: 4096,
        optimal: 0,
        read_only: false,
        discard: false,
    }
}

/// A device that is open exclusively: it is in use until this is dropped. Requests whose connection dies are sent again.
pub(super) struct OpenDevice {
    kernel: Kernel,
    index: u32,
    limits: Limits,
}

impl OpenDevice {
    /// A connection that works, waited for as long as the device allows.
    async fn connection(&self) -> Result<Remote, VolumeError> {
        let Driver { io, devices, changed, .. } = &*self.kernel.0;
        let found = || match devices.borrow().get(&self.index) {
            Some(device) => device.live().next().cloned().map(Some),
            None => Some(None),
        };
        let patience = devices.borrow().get(&self.index).map_or(0, |device| device.wanted.dead_timeout);
        let gone = VolumeError::of_some_member(OpError::Gone);
        match race(changed.until(found), io.sleep(Duration::from_secs(patience))).await {
            Either::First(Some(connection)) => Ok(connection),
            Either::First(None) | Either::Second(()) => Err(gone),
        }
    }

    async fn ask(
        &self,
        request: impl AsyncFn(&Remote) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        loop {
            let connection = self.connection().await?;
            match request(&connection).await {
                Err(VolumeError::Member { error: OpError::Disconnected, .. }) if connection.is_closed() => {}
                answered => return answered,
            }
        }
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        if let Some(device) = self.kernel.0.devices.borrow_mut().get_mut(&self.index) {
            device.held -= 1;
        }
    }
}

impl Volume for OpenDevice {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = into.as_ref();
        self.ask(async |connection| connection.read(offset, into).await).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = from.as_ref();
        self.ask(async |connection| connection.write(offset, from, fua).await).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.ask(async |connection| connection.flush().await).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.ask(async |connection| connection.discard(offset, len).await).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.ask(async |connection| connection.write_zeroes(offset, len, options).await).await
    }
}

//! A second ledger: a container, as Intel's format is one. A small record at the end of each device describes all arrays
//! that share the devices, and says which devices are lost: a device is lost for all of them, at once.
//!
//! Each device has two places for the record, written by turns, so that a torn one leaves the one before. The newest whole
//! record of all devices holds. Beside what holds of every [`Ledger`]:
//!
//! 1. A record has a generation, one higher than any before; two records of one generation are the same.
//! 2. What an array has not put on record by a recording that came to its end is in no later record of another array.
//! 3. A device's place that holds its newest whole record is never written to.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::ledger::{
    Bears, Description, Failed, KnownDevice, Ledger, OnLoss, Recording, Refusals, State,
};
use brindle_array::{Array, Device, OpenConfig};
use brindle_io::sync::Notify;
use brindle_io::{Buf, Duration, Io, MemberId, OpError, Pool};
use brindle_layout::Geometry;
use brindle_md::assembly::{DeviceUse, LeftOut};

use crate::world::Bench;

/// Bytes of a place. It takes eight sectors, of which the first and the last say something: a torn write shows.
const PLACE: usize = 4096;
/// Bytes at the end of each device that are the container's.
pub const CONTAINER_BYTES: u64 = 2 * PLACE as u64;
const MAGIC: u64 = 0x6272_696e_636f_6e74;
/// Time after which a device is given up that does not take a record.
const PATIENCE: Duration = Duration::from_secs(40);

/// The content of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Counts the records.
    pub generation: u64,
    /// Indexed by array.
    pub states: Vec<State>,
    /// Indexed by device, whether it is lost.
    pub lost: Vec<bool>,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut words = vec![MAGIC, self.generation, self.states.len() as u64, self.lost.len() as u64];
        words.extend(self.lost.iter().map(|&lost| u64::from(lost)));
        let state = |state: &State| [u64::from(state.dirty), state.resync_offset.unwrap_or(u64::MAX)];
        words.extend(self.states.iter().flat_map(state));
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.resize(PLACE - 8, 0);
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// The record in a place, if a whole one is there.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(PLACE - 8)?;
        let mut words = body.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or(0));
        if sum != checksum(body).to_le_bytes() || words.next() != Some(MAGIC) {
            return None;
        }
        let (generation, arrays, devices) = (words.next()?, words.next()?, words.next()?);
        let lost = words.by_ref().take(devices as usize).map(|word| word != 0).collect();
        let state = |dirty: u64, offset: u64| State {
            dirty: dirty != 0,
            resync_offset: (offset != u64::MAX).then_some(offset),
        };
        let states = (0..arrays).map_while(|_| Some(state(words.next()?, words.next()?))).collect();
        Some(Self { generation, states, lost })
    }

    /// The newest whole record in a device's places, and the number of its place.
    fn newest(places: &[u8]) -> Option<(Self, u64)> {
        let found = (0..).zip(places.chunks(PLACE)).filter_map(|(n, bytes)| Some((Self::parse(bytes)?, n)));
        found.max_by_key(|(record, _)| record.generation)
    }

    /// The record on a device of `size` bytes, read without the engine.
    pub fn look(bench: &impl Bench, device: MemberId, size: u64) -> Option<Self> {
        let mut places = vec![0; CONTAINER_BYTES as usize];
        bench.peek(device, size - CONTAINER_BYTES, &mut places);
        Self::newest(&places).map(|(record, _)| record)
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Puts the first record on new devices of `size` bytes; the arrays are in these states.
pub fn create(bench: &impl Bench, devices: &[MemberId], size: u64, states: &[State]) {
    let record = Record { generation: 1, states: states.to_vec(), lost: vec![false; devices.len()] };
    devices.iter().for_each(|&device| bench.poke(device, size - CONTAINER_BYTES, &record.encode()));
}

/// A device of the container.
struct ContainerDisk {
    id: MemberId,
    /// Its number in the container.
    number: usize,
    /// First byte of its places.
    places: u64,
    /// The generation of its newest whole record, and the place where that is.
    generation: u64,
    place: u64,
    buf: Buf,
    alive: bool,
    failure: Option<Failed>,
}

/// A container that is open. A handle: cloning gives the same.
#[derive(Clone)]
pub struct Container(Rc<Shared>);

struct Shared {
    io: Io,
    disks: RefCell<Vec<ContainerDisk>>,
    /// The newest record.
    newest: RefCell<Record>,
    /// Indexed by array, what it has put on record.
    states: RefCell<Vec<State>>,
    /// Every living device has the newest record.
    whole: Cell<bool>,
    /// Indexed by array, whom to tell of devices that others have lost.
    on_loss: RefCell<Vec<Option<OnLoss>>>,
    busy: Cell<bool>,
    freed: Notify,
}

impl Container {
    /// Reads the records on the devices; `None` stands for a missing device. Nothing if no device has a record.
    ///
    /// # Errors
    /// The number of a device that can't be read, and why.
    pub async fn open(
        io: &Io,
        pool: &Pool,
        devices: &[Option<MemberId>],
    ) -> Result<Option<Self>, (usize, OpError)> {
        let own = io.pool(devices.len() * PLACE);
        let (mut disks, mut newest) = (Vec::new(), Record::default());
        for (number, id) in devices.iter().enumerate().filter_map(|(number, id)| Some((number, (*id)?))) {
            let buf = pool.alloc(CONTAINER_BYTES as usize).await;
            let places = io.member_info(id).map_or(0, |info| info.size) - CONTAINER_BYTES;
            let mut group = io.group();
            group.read(id, places, &buf.all());
            let read = group.submit_by(io.now().after(PATIENCE)).await;
            read.ok().map_err(|error| (number, error))?;
            let Some((record, place)) = Record::newest(&buf.bytes()) else { continue };
            let (generation, alive, failure) = (record.generation, true, None);
            if generation > newest.generation {
                newest = record;
            }
            let buf = own.alloc(PLACE).await;
            disks.push(ContainerDisk { id, number, places, generation, place, buf, alive, failure });
        }
        if disks.is_empty() {
            return Ok(None);
        }
        disks.iter_mut().for_each(|disk| disk.alive = !newest.lost[disk.number]);
        Ok(Some(Self(Rc::new(Shared {
            io: io.clone(),
            whole: Cell::new(disks.iter().all(|disk| !disk.alive || disk.generation == newest.generation)),
            disks: RefCell::new(disks),
            states: RefCell::new(newest.states.clone()),
            on_loss: RefCell::new(newest.states.iter().map(|_| None).collect()),
            newest: RefCell::new(newest),
            busy: Cell::new(false),
            freed: Notify::new(io),
        }))))
    }

    /// The newest record that was found, or written since.
    pub fn record(&self) -> Record {
        self.0.newest.borrow().clone()
    }

    /// Devices that are lost, or not here, by their numbers.
    pub fn lost(&self) -> Vec<u16> {
        (0..).zip(self.0.lost()).filter_map(|(number, lost)| lost.then_some(number)).collect()
    }

    /// Takes an array for clean, whatever is on record: by force.
    pub fn force(&self, array: usize) {
        self.0.states.borrow_mut()[array] = State::default();
    }

    /// The ledger of an array, by its number.
    pub fn ledger(&self, array: usize) -> Box<dyn Ledger> {
        Box::new(Share { container: Rc::clone(&self.0), array })
    }

    /// Opens an array over all devices, whose data begin at a byte of each.
    pub fn array(&self, array: usize, geometry: Geometry, data_offset: u64, config: &OpenConfig) -> Array {
        let mut devices = vec![None; self.0.newest.borrow().lost.len()];
        for disk in self.0.disks.borrow().iter().filter(|disk| disk.alive) {
            devices[disk.number] = Some(Device { id: disk.id, data_offset });
        }
        Array::kept(&self.0.io, geometry, devices, self.ledger(array), config)
    }
}

impl Shared {
    /// Indexed by device, whether it is lost, or not here.
    fn lost(&self) -> Vec<bool> {
        let mut lost = vec![true; self.newest.borrow().lost.len()];
        self.disks.borrow().iter().filter(|disk| disk.alive).for_each(|disk| lost[disk.number] = false);
        lost
    }

    /// Waits for the right to write records.
    async fn turn(&self) -> Turn<'_> {
        self.freed.until(|| (!self.busy.replace(true)).then_some(())).await;
        Turn(self)
    }

    /// A device in use on which a record that was given up may still land.
    fn first_pinned(&self) -> Option<MemberId> {
        self.disks.borrow().iter().find(|disk| disk.alive && disk.buf.is_pinned()).map(|disk| disk.id)
    }

    /// Puts an array's state on record, beside the others'.
    async fn record(&self, array: usize, state: State) -> Refusals {
        let _turn = self.turn().await;
        let mut next = Record {
            states: self.states.borrow().clone(),
            lost: self.lost(),
            ..self.newest.borrow().clone()
        };
        next.states[array] = state;
        if self.whole.get() && next == *self.newest.borrow() {
            self.states.borrow_mut()[array] = state;
            return Refusals::new();
        }
        if let Some(id) = self.first_pinned() {
            return vec![(id, OpError::TimedOut)];
        }
        next.generation += 1;
        self.newest.replace(next);
        self.whole.set(false);
        let refused = self.put(|disk| disk.alive).await;
        if refused.is_empty() {
            self.whole.set(true);
            self.states.borrow_mut()[array] = state;
        }
        refused
    }

    /// Gives devices that lack the newest record that.
    async fn bring_up(&self) -> Refusals {
        let _turn = self.turn().await;
        let newest = self.newest.borrow().generation;
        let refused = self.put(|disk| disk.alive && disk.generation < newest).await;
        self.whole.set(self.outdated().is_empty());
        refused
    }

    fn outdated(&self) -> Vec<MemberId> {
        let newest = self.newest.borrow().generation;
        let lags = |disk: &&ContainerDisk| disk.alive && disk.generation < newest;
        self.disks.borrow().iter().filter(lags).map(|disk| disk.id).collect()
    }

    /// Writes the newest record to some devices, each in the place that does not hold its newest whole one.
    async fn put(&self, which: impl Fn(&ContainerDisk) -> bool) -> Refusals {
        let record = self.newest.borrow().clone();
        debug_assert!(self.disks.borrow().iter().all(|disk| disk.generation <= record.generation));
        let (mut group, mut sent) = (self.io.group(), Vec::new());
        for (at, disk) in self.disks.borrow().iter().enumerate().filter(|(_, disk)| which(disk)) {
            disk.buf.bytes_mut().copy_from_slice(&record.encode());
            group.write(disk.id, disk.places + (1 - disk.place) * PLACE as u64, &disk.buf.all(), true);
            sent.push(at);
        }
        let outcome = group.submit_by(self.io.now().after(PATIENCE)).await;
        let failures = outcome.failures().iter();
        let refused: Refusals =
            failures.filter_map(|failure| Some((failure.kind.member()?, failure.error))).collect();
        let mut disks = self.disks.borrow_mut();
        for at in sent {
            let disk = &mut disks[at];
            if refused.iter().all(|(id, _)| *id != disk.id) {
                (disk.generation, disk.place) = (record.generation, 1 - disk.place);
            }
        }
        refused
    }

    /// A device is lost to an array: the others that share it get notice.
    fn lose(&self, array: usize, id: MemberId, failed: Failed) {
        let known = self.disks.borrow_mut().iter_mut().find(|disk| disk.alive && disk.id == id).map(|disk| {
            disk.alive = false;
            disk.failure = Some(failed);
        });
        if known.is_none() {
            return;
        }
        let others = self
            .on_loss
            .borrow()
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != array)
            .filter_map(|(_, on_loss)| on_loss.clone())
            .collect::<Vec<_>>();
        others.iter().for_each(|on_loss| on_loss(id, failed.cause));
    }
}

/// The right to write records; one at a time.
struct Turn<'a>(&'a Shared);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.freed.notify();
    }
}

/// The view that one array has of the container.
struct Share {
    container: Rc<Shared>,
    array: usize,
}

impl Ledger for Share {
    fn in_doubt(&self) -> Option<u64> {
        self.container.states.borrow()[self.array].in_doubt()
    }

    fn record<'a>(&'a self, state: State, _: Bears<'a>) -> Recording<'a> {
        Box::pin(self.container.record(self.array, state))
    }

    fn is_settled(&self) -> bool {
        self.container.whole.get() && self.container.newest.borrow().lost == self.container.lost()
    }

    fn lose(&self, device: MemberId, failed: Failed) {
        self.container.lose(self.array, device, failed);
    }

    fn when_lost(&self, on_loss: OnLoss) {
        self.container.on_loss.borrow_mut()[self.array] = Some(on_loss);
    }

    fn outdated(&self) -> Vec<MemberId> {
        self.container.outdated()
    }

    fn bring_up<'a>(&'a self, _: Bears<'a>) -> Recording<'a> {
        Box::pin(self.container.bring_up())
    }

    fn is_pinned(&self) -> bool {
        self.container.first_pinned().is_some()
    }

    fn describe(&self) -> Description {
        let device = |disk: &ContainerDisk| {
            let role = disk.number as u16;
            let usage = if disk.alive || disk.failure.is_some() {
                DeviceUse::Active { role }
            } else {
                DeviceUse::LeftOut { role: Some(role), why: LeftOut::Faulty }
            };
            let (label, id, failure) = (disk.id.to_string(), disk.id, disk.failure);
            KnownDevice { label, id, usage, failure, flags: Default::default() }
        };
        let devices = self.container.disks.borrow().iter().map(device).collect();
        let events = self.container.newest.borrow().generation;
        Description { name: "container".to_owned(), events, devices, ..Description::default() }
    }
}

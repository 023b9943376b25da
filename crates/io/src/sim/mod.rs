//! Modelled drives in virtual time: the same seed gives the same run, to the byte.
//!
//! Nothing here reads a clock or chance from outside. Time moves only when every task waits: to the next completion
//! or timer. The drives keep what they are given in RAM, lose their volatile caches at a power cut, and fail on
//! request.

mod disk;
mod model;
mod rng;

use core::ptr::NonNull;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::memory::Pipes;
use crate::op::{Completion, MemberId, MemberInfo, OpError, OpKey, OpKind, OpView, Segment, SocketId};
use crate::reactor::{Reactor, Unpark};
use crate::time::Instant;
use disk::Disk;
pub use model::Model;
use model::Timing;
use rng::Rng;

/// The sim reactor. A handle: cloning gives the same world, so that a test keeps one while [`crate::Io`] owns another.
#[derive(Clone)]
pub struct Sim(Rc<RefCell<World>>);

struct World {
    now: u64,
    rng: Rng,
    drives: Vec<Drive>,
    /// By moment; operations of one moment complete in an order that the seed shuffles.
    agenda: BTreeMap<(u64, u64, u32), Pending>,
    pipes: Pipes,
    piped: Vec<Completion>,
    trace: Trace,
    attached: bool,
}

struct Drive {
    model: Model,
    info: MemberInfo,
    timing: Timing,
    disk: Disk,
}

/// An operation on its way.
struct Pending {
    kind: OpKind,
    segments: Vec<Segment>,
    len: u64,
    /// For a flush: the newest write that had completed when it came.
    covers: u64,
}

/// A running digest of everything that happened, and when (FNV-1a).
struct Trace {
    digest: u64,
    events: u64,
}

impl Trace {
    fn note(&mut self, words: &[u64]) {
        self.events += 1;
        for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Sim {
    /// A world without drives, at moment 0.
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(World {
            now: 0,
            rng: Rng::new(seed),
            drives: Vec::new(),
            agenda: BTreeMap::new(),
            pipes: Pipes::default(),
            piped: Vec::new(),
            trace: Trace { digest: 0xcbf2_9ce4_8422_2325, events: 0 },
            attached: false,
        })))
    }

    /// A drive of `bytes` bytes that keeps what is written to it.
    pub fn add_drive(&self, model: Model, bytes: u64) -> MemberId {
        self.add(model, bytes, true)
    }

    /// A drive that only takes its time: reads give whatever the buffer held.
    pub fn add_hollow_drive(&self, model: Model, bytes: u64) -> MemberId {
        self.add(model, bytes, false)
    }

    fn add(&self, model: Model, bytes: u64, keeps: bool) -> MemberId {
        let drives = &mut self.0.borrow_mut().drives;
        let (info, timing) = (model.info(bytes), Timing::new(model, bytes));
        drives.push(Drive { model, info, timing, disk: Disk::new(keeps) });
        MemberId((drives.len() - 1) as u32)
    }

    fn with<T>(&self, member: MemberId, f: impl FnOnce(&mut Disk) -> T) -> T {
        f(&mut self.0.borrow_mut().drives[member.0 as usize].disk)
    }

    /// Copies what a reader of the drive would see, beside the engine's back.
    pub fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        self.with(member, |disk| disk.peek(offset, into));
    }

    /// From now on every operation on the drive fails with [`OpError::Gone`].
    pub fn kill(&self, member: MemberId) {
        self.with(member, |disk| disk.gone = true);
    }

    /// Reads that touch the range fail with [`OpError::Medium`] until it has been written to.
    pub fn spoil(&self, member: MemberId, offset: u64, len: u64) {
        self.with(member, |disk| disk.spoilt.push(offset..offset + len));
    }

    /// From now on every write to the drive fails with [`OpError::Medium`].
    pub fn refuse_writes(&self, member: MemberId) {
        self.with(member, |disk| disk.refuses_writes = true);
    }

    /// The power goes, now: operations under way are cancelled, with their writes torn at sectors as the seed has it,
    /// and volatile caches lose what the seed has them lose. The drives are as a new start would find them.
    pub fn cut_power(&self) {
        let world = &mut *self.0.borrow_mut();
        for drive in &mut world.drives {
            drive.disk.cut_power(&mut world.rng);
            drive.timing = Timing::new(drive.model, drive.info.size);
        }
        for ((_, _, key), pending) in core::mem::take(&mut world.agenda) {
            if let OpKind::Write { member, offset, .. } = pending.kind {
                let disk = &mut world.drives[member.0 as usize].disk;
                disk.tear(offset, &pending.segments, &mut world.rng);
            }
            world.piped.push(Completion { key: OpKey(key), result: Err(OpError::Cancelled) });
        }
        world.trace.note(&[world.now, u64::MAX]);
    }

    /// A digest of every submission and completion so far, with its moment: equal for equal runs.
    pub fn trace(&self) -> (u64, u64) {
        let trace = &self.0.borrow().trace;
        (trace.digest, trace.events)
    }

    /// A listening socket within the world.
    pub fn listen(&self) -> SocketId {
        self.0.borrow_mut().pipes.listen()
    }

    /// The client's end of a new connection to `listener`.
    pub fn connect(&self, listener: SocketId) -> SocketId {
        let world = &mut *self.0.borrow_mut();
        world.pipes.connect(listener, &mut world.piped)
    }
}

/// An operation as numbers, for the trace.
fn words(kind: OpKind) -> [u64; 4] {
    match kind {
        OpKind::Read { member, offset } => [1, u64::from(member.0), offset, 0],
        OpKind::Write { member, offset, fua } => [2, u64::from(member.0), offset, u64::from(fua)],
        OpKind::Flush { member } => [3, u64::from(member.0), 0, 0],
        OpKind::Discard { member, offset, len } => [4, u64::from(member.0), offset, len],
        OpKind::WriteZeroes { member, offset, len, .. } => [5, u64::from(member.0), offset, len],
        OpKind::Accept { socket } => [6, u64::from(socket.0), 0, 0],
        OpKind::Recv { socket } => [7, u64::from(socket.0), 0, 0],
        OpKind::Send { socket } => [8, u64::from(socket.0), 0, 0],
    }
}

impl World {
    fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let [a, b, c, d] = words(op.kind);
        self.trace.note(&[self.now, u64::from(key.0), a, b, c, d, op.len]);
        let Some(member) = op.kind.member() else {
            self.pipes.submit(key, op, &mut self.piped);
            return;
        };
        let Some(drive) = self.drives.get_mut(member.0 as usize) else {
            self.piped.push(Completion { key, result: Err(OpError::Gone) });
            return;
        };
        let at = drive.timing.finish(self.now, op.kind, op.len, &mut self.rng);
        let pending = Pending {
            kind: op.kind,
            segments: op.segments.to_vec(),
            len: op.len,
            covers: drive.disk.newest_write(),
        };
        self.agenda.insert((at, self.rng.next(), key.0), pending);
    }

    /// The operation takes its effect, at the moment of its completion.
    fn perform(&mut self, pending: &Pending) -> Result<u64, OpError> {
        let member = pending.kind.member().ok_or(OpError::Unsupported)?;
        let drive = &mut self.drives[member.0 as usize];
        let (disk, size) = (&mut drive.disk, drive.info.size);
        if disk.gone {
            return Err(OpError::Gone);
        }
        let within = |offset: u64, len: u64| match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(OpError::OutOfRange),
        };
        const EIO: i32 = 5;
        match pending.kind {
            OpKind::Read { offset, .. } => {
                within(offset, pending.len)?;
                if disk.is_spoilt(offset, pending.len) {
                    return Err(OpError::Medium(EIO));
                }
                disk.read(offset, &pending.segments)?;
            }
            _ if disk.refuses_writes => return Err(OpError::Medium(EIO)),
            OpKind::Write { offset, fua, .. } => {
                within(offset, pending.len)?;
                disk.write(offset, &pending.segments, fua || !drive.model.volatile_cache)?;
            }
            OpKind::Discard { offset, len, .. } | OpKind::WriteZeroes { offset, len, .. } => {
                within(offset, len)?;
                disk.zero(offset, len, !drive.model.volatile_cache);
                return Ok(len);
            }
            OpKind::Flush { .. } => disk.flush(pending.covers),
            _ => return Err(OpError::Unsupported),
        }
        Ok(pending.len)
    }
}

// SAFETY: an operation leaves the agenda, with the segments, when its one completion is noted; a pipe takes the segments
// it keeps out of its state when it notes their operation's completion.
unsafe impl Reactor for Sim {
    fn attach(&mut self) {
        let attached = &mut self.0.borrow_mut().attached;
        assert!(!*attached, "the reactor has an executor: shut that down first");
        *attached = true;
    }

    fn detach(&mut self) {
        self.0.borrow_mut().attached = false;
    }

    fn register_arena(&mut self, _: NonNull<[u8]>) {}

    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        self.0.borrow_mut().submit(key, op);
    }

    /// # Panics
    /// If every task waits and nothing is to come: in the real world the program would hang.
    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let world = &mut *self.0.borrow_mut();
        if !world.piped.is_empty() {
            done.append(&mut world.piped);
            return;
        }
        let until = until.map(Instant::as_nanos);
        match world.agenda.first_key_value() {
            Some((&(at, ..), _)) if until.is_none_or(|until| at <= until.max(world.now)) => {}
            _ => {
                let until = until.expect("every task waits, for nothing that could come");
                world.now = world.now.max(until);
                return;
            }
        }
        let Some(((at, _, key), pending)) = world.agenda.pop_first() else { return };
        world.now = world.now.max(at);
        let result = world.perform(&pending);
        let (kind, value) = match result {
            Ok(value) => (0, value),
            Err(_) => (1, 0),
        };
        world.trace.note(&[world.now, u64::from(key), kind, value]);
        done.push(Completion { key: OpKey(key), result });
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.borrow().now)
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        self.0.borrow().drives.get(member.0 as usize).map(|drive| drive.info)
    }

    fn close_socket(&mut self, socket: SocketId) {
        let world = &mut *self.0.borrow_mut();
        world.pipes.close(socket, &mut world.piped);
    }

    fn cancel_all(&mut self) {
        let world = &mut *self.0.borrow_mut();
        world.pipes.cancel_all(&mut world.piped);
    }

    /// Nothing outside the world can wake it: there is no outside.
    fn unpark(&self) -> Unpark {
        Arc::new(|| {})
    }
}

//! The members of a ring: open devices, as registered files where the kernel's table has room.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::squeue;

use super::closer;
use super::engine::Engine;
use super::probe::{self, Origin};

use crate::device::OpenDevice;
use crate::op::{MemberId, MemberInfo, OpError, OpKind};
use crate::shortfall;
use crate::time::{Duration, Instant};

/// The file of a member.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Open(RawFd),
    Registered(u32),
}

/// How a member is asked.
#[derive(Clone, Copy)]
pub(super) struct AskedFile {
    pub(super) target: Target,
    /// The flags of the entries that ask it.
    pub(super) flags: squeue::Flags,
    /// The byte of the device at which the member begins.
    pub(super) start: u64,
}

/// How long the end of a ring waits for members to be closed.
const CLOSING: Duration = Duration::from_millis(500);

/// Places in the table of registered files: as many as the largest md array has members. It counts against the limit of
/// open files.
const PLACES: u32 = 384;

/// Kernel workers that a member may hold: of a regular file every read and write passes through one; of a block device
/// only flushes, discards, and what its queue has no room for.
const WORKERS_FILE: u32 = 32;
const WORKERS_BLOCK: u32 = 16;
const WORKERS_SPARE: u32 = 16;

/// Time between two looks at how long a member's file is. Each is a system call: before and after each request they were a
/// third of all.
const EVERY: Duration = Duration::from_millis(1);

struct UringMember {
    /// `None` once closed.
    device: Option<OpenDevice>,
    origin: Origin,
    info: MemberInfo,
    /// Bytes of the member that exist. A member may be declared longer than its device.
    there: u64,
    file: AskedFile,
    in_flight: u32,
    closing: bool,
    /// The member's file was shorter than it should be when it was last looked at, or it is `lost`.
    shorter: bool,
    /// The error of a block device that had fewer bytes than it should have, once: what it had there is gone, whatever it has later.
    lost: Option<OpError>,
    /// [`Members::look`] when it was looked at.
    looked_in: u64,
    /// It is a member of another ring, too.
    is_port: bool,
}

pub(super) struct Members {
    members: Vec<UringMember>,
    /// The number of the look at files: what was seen in an earlier one is out of date.
    look: u64,
    /// When the next look is due.
    look_at: Instant,
    has_table: bool,
    /// The limit on the kernel's worker threads for this thread.
    workers: u32,
}

impl Members {
    pub(super) fn new(engine: &Engine) -> Self {
        Self {
            workers: WORKERS_SPARE,
            members: Vec::new(),
            look: 1,
            look_at: Instant::default(),
            has_table: engine.submitter().is_some_and(|ring| ring.register_files_sparse(PLACES).is_ok()),
        }
    }

    pub(super) fn add(&mut self, engine: &Engine, device: OpenDevice) -> MemberId {
        let id = self.members.len() as u32;
        self.give_workers(engine, device.may_wait());
        let member = self.opened(engine, id, device);
        self.members.push(member);
        MemberId::device(id)
    }

    /// Another way to the device of a member, for another ring. `None` of one that is closed.
    pub(super) fn port(&self, member: MemberId) -> Option<OpenDevice> {
        self.get(member)?.device.as_ref()?.port()
    }

    /// Adds a port, in the place of one that is closed if there is one.
    pub(super) fn open_port(&mut self, engine: &Engine, device: OpenDevice) -> MemberId {
        let is_free =
            |member: &UringMember| member.is_port && member.device.is_none() && member.in_flight == 0;
        let Some(at) = self.members.iter().position(is_free) else {
            let id = self.add(engine, device);
            self.members[id.place()].is_port = true;
            return id;
        };
        let member = self.opened(engine, at as u32, device);
        self.members[at] = UringMember { is_port: true, ..member };
        MemberId::device(at as u32)
    }

    /// A member with an open device, at its place in the kernel's table.
    fn opened(&self, engine: &Engine, id: u32, device: OpenDevice) -> UringMember {
        let fd = device.as_fd().as_raw_fd();
        let registered = self.has_table
            && id < PLACES
            && engine
                .submitter()
                .is_some_and(|ring| ring.register_files_update(id, &[fd]).is_ok_and(|count| count == 1));
        let target = if registered { Target::Registered(id) } else { Target::Open(fd) };
        let (info, there) = (device.info(), device.there());
        let mut flags = squeue::Flags::empty();
        flags.set(squeue::Flags::FIXED_FILE, registered);
        flags.set(squeue::Flags::ASYNC, device.may_wait());
        let origin = Origin::of(&device);
        UringMember {
            origin,
            file: AskedFile { target, flags, start: device.start() },
            device: Some(device),
            info,
            there,
            in_flight: 0,
            closing: false,
            shorter: false,
            lost: None,
            looked_in: 0,
            is_port: false,
        }
    }

    /// Lets the kernel have more workers for one more member: one that hangs must not hold those of the others. A worker
    /// is made when it is needed, and ends when it has been idle for seconds.
    fn give_workers(&mut self, engine: &Engine, may_wait: bool) {
        self.workers += if may_wait { WORKERS_FILE } else { WORKERS_BLOCK };
        let mut most = [self.workers, 0]; // bounded: reads, writes and flushes; unbounded: as it is
        // Without it the kernel's own limit stays: 4 for each processor.
        let _ = engine.submitter().map(|ring| ring.register_iowq_max_workers(&mut most));
    }

    fn get(&self, member: MemberId) -> Option<&UringMember> {
        self.members.get(member.place()).filter(|member| !member.closing)
    }

    pub(super) fn info(&self, member: MemberId) -> Option<MemberInfo> {
        Some(self.get(member)?.info)
    }

    pub(super) fn is_in_memory(&self, member: MemberId) -> bool {
        self.get(member).and_then(|member| member.device.as_ref()).is_some_and(OpenDevice::is_in_memory)
    }

    /// The file of a member with operations in flight.
    #[inline]
    pub(super) fn file(&self, member: MemberId) -> &AskedFile {
        &self.members[member.place()].file
    }

    /// The device as which a member was opened.
    pub(super) fn origin(&self, member: MemberId) -> &Origin {
        &self.members[member.place()].origin
    }

    /// The device of a member with operations in flight.
    pub(super) fn device(&self, member: MemberId) -> &OpenDevice {
        self.members[member.place()].device.as_ref().expect("it is open while operations are in flight")
    }

    /// The unit of offsets and lengths on the member, in bytes.
    #[inline]
    pub(super) fn block(&self, member: MemberId) -> u32 {
        self.members[member.place()].info.logical_block
    }

    /// Counts an operation, or says why it can't be.
    #[inline]
    pub(super) fn begin(&mut self, kind: OpKind, bytes: u64) -> Result<(), OpError> {
        let at = kind.member().map_or(usize::MAX, MemberId::place);
        let member = self.members.get_mut(at).filter(|member| !member.closing).ok_or(OpError::Gone)?;
        let (offset, len) = match kind {
            OpKind::Read { offset, .. } | OpKind::Write { offset, .. } => (offset, bytes),
            OpKind::Discard { offset, len, .. }
            | OpKind::WriteZeroes { offset, len, .. }
            | OpKind::Map { offset, len, .. } => (offset, len),
            _ => (0, 0),
        };
        let looks = matches!(kind, OpKind::Probe { .. });
        // A file would grow instead.
        let end =
            offset.checked_add(len).filter(|&end| end <= member.info.size).ok_or(OpError::OutOfRange)?;
        if end > member.there && !looks {
            return Err(OpError::Medium(libc::EIO));
        }
        if !looks && member.is_shorter(self.look) {
            return Err(member.lost.unwrap_or(OpError::Truncated));
        }
        member.in_flight += 1;
        Ok(())
    }

    /// A turn of the ring at `now`: all that was known of files is out of date after a while.
    #[inline]
    pub(super) fn turn(&mut self, now: Instant) {
        if now >= self.look_at {
            self.look_again();
            self.look_at = now.after(EVERY);
        }
    }

    /// All that was known of files is out of date.
    pub(super) fn look_again(&mut self) {
        self.look += 1;
    }

    /// Whether a member's file has become shorter. A write under way may have made it longer again, with zeroes that
    /// were never written: so this is asked after a transfer, too.
    #[inline]
    pub(super) fn is_shorter(&mut self, member: MemberId) -> bool {
        self.members[member.place()].is_shorter(self.look)
    }

    /// The error that answers whatever a member with operations in flight was asked, since its device, of which the
    /// kernel says that it has `size` bytes now, or its file is shorter than it was.
    #[cold]
    pub(super) fn lost(&mut self, member: MemberId, size: Option<u64>) -> Option<OpError> {
        let look = self.look;
        let member = &mut self.members[member.place()];
        let device = member.device.as_ref()?;
        let is_block = device.identity().is_block();
        let error = size.and_then(|size| shortfall::of(device.end(), size, is_block));
        if error.is_some() && is_block {
            (member.lost, member.shorter) = (member.lost.or(error), true);
        }
        let shorter = error.is_some() || member.is_shorter(look);
        shorter.then(|| member.lost.or(error).unwrap_or(OpError::Truncated))
    }

    #[inline]
    pub(super) fn end(&mut self, engine: &Engine, member: MemberId) {
        let at = member.place();
        self.members[at].in_flight -= 1;
        if self.members[at].closing {
            self.close(engine, member);
        }
    }

    /// The end: lets go of all members, but waits for no device. One with operations in flight is left to the kernel:
    /// closing it could wait for them. Where threads ask, it is closed, and no longer locked, when the last has returned.
    pub(super) fn close_all(&mut self, engine: &Engine) {
        let mut closing = Vec::new();
        for id in 0..self.members.len() {
            self.members[id].closing = true;
            if self.members[id].in_flight > 0 {
                closer::leave(self.members[id].device.take(), engine.is_threads());
            } else {
                closing.extend(self.take(engine, id));
            }
        }
        closer::close(closing, CLOSING);
    }

    /// Takes a member out of the kernel's table: that would keep the file open, and locked.
    fn take(&mut self, engine: &Engine, id: usize) -> Option<OpenDevice> {
        let member = &mut self.members[id];
        if let Target::Registered(place) = member.file.target
            && member.device.is_some()
        {
            let _ = engine.submitter().map(|ring| ring.register_files_update(place, &[-1]));
        }
        member.device.take()
    }

    #[cold]
    pub(super) fn close(&mut self, engine: &Engine, id: MemberId) {
        let Some(member) = self.members.get_mut(id.place()) else { return };
        member.closing = true;
        if member.in_flight == 0 {
            closer::close(self.take(engine, id.place()), Duration::ZERO);
        }
    }
}

impl UringMember {
    #[inline]
    fn is_shorter(&mut self, look: u64) -> bool {
        if let Some(device) = &self.device
            && self.looked_in != look
        {
            self.looked_in = look;
            self.shorter = self.lost.is_some() || probe::lacks(device) > 0;
        }
        self.shorter
    }
}

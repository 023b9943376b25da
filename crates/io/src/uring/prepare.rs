//! Operations as the kernel's submission entries.

use core::ptr;
use std::os::fd::RawFd;

use io_uring::{opcode, squeue, types};
use libc::{
    FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE, MSG_NOSIGNAL, MSG_WAITALL, RWF_DSYNC,
    SOCK_CLOEXEC,
};

use super::errno;
use super::members::{Members, Target};
use super::probe::{Look, Origin};
use super::ring::Ring;
use super::sockets::Sockets;
use crate::device::OpenDevice;
use crate::op::{OpClass, OpError, OpKey, OpKind, OpView, Probe, Segment, SocketId};
use crate::threads::{Errand, Transfer, Way, Work};

// The op table's array of stretches is handed to the kernel as it is.
const _: () = {
    assert!(size_of::<Segment>() == size_of::<libc::iovec>());
    assert!(core::mem::offset_of!(Segment, base) == core::mem::offset_of!(libc::iovec, iov_base));
    assert!(core::mem::offset_of!(Segment, len) == core::mem::offset_of!(libc::iovec, iov_len));
};

/// The kernel's class of best effort with its lowest level: `IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7)` of `linux/ioprio.h`.
const LAST_OF_BEST_EFFORT: u16 = 2 << 13 | 7;

/// Modes of fallocate.
const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
const ZERO: i32 = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;

/// The priority of a transfer: background work is behind clients where the device's scheduler knows levels. Not in the
/// class of idle: it would starve beside a client that never rests.
#[inline]
fn ioprio(class: OpClass) -> u16 {
    if class == OpClass::Repair { LAST_OF_BEST_EFFORT } else { 0 }
}

/// The kernel's operation under one key.
pub(super) struct Running {
    kind: OpKind,
    /// The op table's array of stretches: stays in place until the completion.
    segments: *const Segment,
    count: u32,
    /// Bytes of all stretches.
    len: u64,
    fixed: Option<u16>,
    /// Unmapping was refused: zeroes are to be written.
    keep_mapped: bool,
    /// The operation was given up: it is not retried.
    given_up: bool,
    /// The I/O priority of the operation's class.
    ioprio: u16,
    /// The kernel's answer, which is not believed before the size of the member's file is known: that is asked for now.
    answer: Option<Result<u32, i32>>,
    /// The state of a look at the member; kept for the next.
    look: Option<Box<Look>>,
    /// The header of a send of several stretches; kept for the next.
    message: Option<Box<libc::msghdr>>,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            kind: OpKind::Accept { socket: SocketId(u32::MAX) },
            segments: ptr::null(),
            count: 0,
            len: 0,
            fixed: None,
            keep_mapped: false,
            given_up: false,
            ioprio: 0,
            answer: None,
            look: None,
            message: None,
        }
    }
}

impl Running {
    #[inline]
    pub(super) fn begin(&mut self, op: OpView<'_>, fixed: Option<u16>, members: &Members) {
        self.kind = op.kind;
        self.segments = op.segments.as_ptr();
        self.count = op.segments.len() as u32;
        self.len = op.len;
        self.fixed = fixed;
        self.given_up = false;
        self.answer = None;
        self.ioprio = ioprio(op.class);
        self.keep_mapped = !matches!(op.kind, OpKind::WriteZeroes { may_unmap: true, .. });
        if let OpKind::Probe { member } = op.kind {
            self.set_look(Look::new(members.origin(member)));
        }
    }

    fn set_look(&mut self, look: Look) {
        match &mut self.look {
            Some(kept) => **kept = look,
            None => self.look = Some(Box::new(look)),
        }
    }

    /// Whether the answer, or its lack of bytes, may come of a device that has become smaller. Of zeroes and discards
    /// the kernel leaves out what is beyond the end, and says that all is done.
    #[inline]
    pub(super) fn is_doubtful(&self, result: Result<u32, i32>) -> bool {
        match (result, self.kind) {
            _ if self.answer.is_some() => true,
            (Err(_), _) | (_, OpKind::Discard { .. } | OpKind::WriteZeroes { .. }) => true,
            (Ok(moved), OpKind::Read { .. } | OpKind::Write { .. }) => u64::from(moved) < self.len,
            _ => false,
        }
    }

    /// Puts an answer aside until the size of the member's file is known, which the next entry or job asks for. False if that is of no
    /// use: nothing has failed, or nobody waits any more.
    pub(super) fn ask_size(&mut self, origin: &Origin, answer: Result<u32, i32>) -> bool {
        let cancelled = self.given_up || answer == Err(libc::ECANCELED);
        let done = answer.is_ok() && matches!(self.kind, OpKind::Discard { .. } | OpKind::WriteZeroes { .. });
        if cancelled || done {
            return false;
        }
        self.set_look(Look::at_size(origin));
        self.answer = Some(answer);
        true
    }

    /// The answer that was put aside, and the length of the file, if `asked` says that the kernel has told it.
    pub(super) fn take_answer(&mut self, asked: Result<u32, i32>) -> Option<(Result<u32, i32>, Option<u64>)> {
        let answer = self.answer.take()?;
        Some((answer, self.look.as_ref().filter(|_| asked.is_ok()).map(|look| look.size())))
    }

    pub(super) fn give_up(&mut self) {
        self.given_up = true;
    }

    pub(super) fn kind(&self) -> OpKind {
        self.kind
    }

    /// Whether to ask again after this error, perhaps in another way.
    pub(super) fn again(&mut self, error: i32) -> bool {
        if self.given_up {
            return false;
        }
        let refused = matches!(error, libc::EOPNOTSUPP | libc::EINVAL);
        if refused && !self.keep_mapped {
            self.keep_mapped = true;
            return true;
        }
        errno::is_transient(self.kind, error)
    }

    /// The bytes that a successful operation on a member with blocks of `block` bytes moved.
    #[inline]
    pub(super) fn moved(&self, value: u32, block: u32) -> Result<u64, OpError> {
        match self.kind {
            // fallocate answers 0.
            OpKind::Discard { len, .. } | OpKind::WriteZeroes { len, .. } => Ok(len),
            // In the middle of a block only the member ends, and the rest could not be asked for: it is not aligned.
            OpKind::Read { .. } if !value.is_multiple_of(block) && u64::from(value) < self.len => {
                Err(OpError::Truncated)
            }
            _ => Ok(u64::from(value)),
        }
    }

    /// The result of a probe from the kernel's answer; `None` if there is more to ask.
    pub(super) fn looked(
        &mut self,
        device: &OpenDevice,
        result: Result<u32, i32>,
    ) -> Option<Result<Probe, OpError>> {
        self.look.as_mut()?.answered(device, result)
    }

    /// The first stretch, or an empty one.
    fn first(&self) -> Segment {
        if self.count == 0 {
            return Segment { base: ptr::null_mut(), len: 0 };
        }
        // SAFETY: the array has `count` elements and is in place until the completion.
        unsafe { *self.segments }
    }

    /// All stretches.
    fn vector(&self) -> *const libc::iovec {
        self.segments.cast()
    }

    /// The submission entry for the kernel.
    #[inline]
    pub(super) fn entry(&mut self, members: &Members, sockets: &Sockets, ring: &Ring) -> squeue::Entry {
        match self.kind {
            OpKind::Accept { socket } | OpKind::Recv { socket } | OpKind::Send { socket } => {
                let fd = types::Fd(sockets.raw_fd(socket));
                if sockets.is_port(socket) { self.port_entry(fd) } else { self.socket_entry(fd) }
            }
            // No entry of the ring can ask that: a thread does.
            OpKind::Map { .. } | OpKind::Ask { .. } => opcode::Nop::new().build(),
            OpKind::Probe { member } => self.look_entry(members.origin(member)),
            kind if self.answer.is_some()
                && let Some(member) = kind.member() =>
            {
                self.look_entry(members.origin(member))
            }
            OpKind::Read { member, .. }
            | OpKind::Write { member, .. }
            | OpKind::Flush { member }
            | OpKind::Discard { member, .. }
            | OpKind::WriteZeroes { member, .. } => {
                let file = members.file(member);
                let fd = match file.target {
                    Target::Open(fd) => fd,
                    Target::Registered(place) => place as RawFd,
                };
                self.member_entry(types::Fd(fd), file.start, ring).flags(file.flags)
            }
        }
    }

    #[cold]
    fn look_entry(&mut self, origin: &Origin) -> squeue::Entry {
        match &mut self.look {
            Some(look) => look.entry(origin),
            None => opcode::Nop::new().build(),
        }
    }

    /// The job of a thread; `None` for sockets.
    pub(super) fn job(&mut self, key: OpKey, members: &Members) -> Option<Errand> {
        let member = self.kind.member()?;
        let work = match self.kind {
            _ if self.answer.is_some() => self.look.as_mut()?.work(members.origin(member)),
            OpKind::Read { offset, .. } => Work::Read { offset: members.file(member).start + offset },
            OpKind::Write { offset, fua, .. } => Work::Write { offset, stable: fua },
            OpKind::Discard { offset, len, .. } => Work::Allocate { mode: PUNCH, offset, len },
            OpKind::WriteZeroes { offset, len, .. } => {
                Work::Allocate { mode: if self.keep_mapped { ZERO } else { PUNCH }, offset, len }
            }
            OpKind::Probe { member } => self.look.as_mut()?.work(members.origin(member)),
            _ => Work::Flush,
        };
        let (segments, count) = (self.segments, self.count);
        Some(Errand { key, member, file: members.device(member).shared(), work, segments, count })
    }

    /// The operation on a socket; `None` for members.
    pub(super) fn transfer(&self, key: OpKey, sockets: &Sockets) -> Option<(SocketId, Transfer)> {
        let (socket, way) = match self.kind {
            OpKind::Accept { socket } => (socket, Way::Accept),
            OpKind::Recv { socket } if sockets.is_port(socket) => (socket, Way::Read),
            OpKind::Send { socket } if sockets.is_port(socket) => (socket, Way::Write),
            OpKind::Recv { socket } => (socket, Way::Receive),
            OpKind::Send { socket } => (socket, Way::Send),
            _ => return None,
        };
        Some((socket, Transfer { key, way, segments: self.segments, count: self.count, done: 0 }))
    }

    /// `start` is where the member begins on its device: only what is read may begin elsewhere than at 0.
    #[inline]
    fn member_entry(&self, fd: types::Fd, start: u64, ring: &Ring) -> squeue::Entry {
        match self.kind {
            OpKind::Read { offset, .. } => self.read(fd, start + offset, ring),
            OpKind::Write { offset, fua, .. } => {
                self.write(fd, offset, if fua { RWF_DSYNC } else { 0 }, ring)
            }
            OpKind::Discard { offset, len, .. } => {
                opcode::Fallocate::new(fd, len).offset(offset).mode(PUNCH).build()
            }
            OpKind::WriteZeroes { offset, len, .. } => {
                let mode = if self.keep_mapped { ZERO } else { PUNCH };
                opcode::Fallocate::new(fd, len).offset(offset).mode(mode).build()
            }
            _ => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        }
    }

    #[inline]
    fn read(&self, fd: types::Fd, offset: u64, ring: &Ring) -> squeue::Entry {
        let (one, first) = (self.count <= 1, self.first());
        match self.fixed {
            Some(place) if one => opcode::ReadFixed::new(fd, first.base, first.len as u32, place)
                .offset(offset)
                .ioprio(self.ioprio)
                .build(),
            None if one => {
                opcode::Read::new(fd, first.base, first.len as u32).offset(offset).ioprio(self.ioprio).build()
            }
            Some(place) if ring.vectors_in_arenas => {
                opcode::ReadvFixed::new(fd, self.vector(), self.count, place)
                    .offset(offset)
                    .ioprio(self.ioprio)
                    .build()
            }
            _ => opcode::Readv::new(fd, self.vector(), self.count).offset(offset).ioprio(self.ioprio).build(),
        }
    }

    #[inline]
    fn write(&self, fd: types::Fd, offset: u64, rw: i32, ring: &Ring) -> squeue::Entry {
        let (one, first) = (self.count <= 1, self.first());
        let len = first.len as u32;
        match self.fixed {
            Some(place) if one => opcode::WriteFixed::new(fd, first.base, len, place)
                .offset(offset)
                .ioprio(self.ioprio)
                .rw_flags(rw)
                .build(),
            None if one => opcode::Write::new(fd, first.base, len)
                .offset(offset)
                .ioprio(self.ioprio)
                .rw_flags(rw)
                .build(),
            Some(place) if ring.vectors_in_arenas => {
                let entry = opcode::WritevFixed::new(fd, self.vector(), self.count, place);
                entry.offset(offset).ioprio(self.ioprio).rw_flags(rw).build()
            }
            _ => opcode::Writev::new(fd, self.vector(), self.count)
                .offset(offset)
                .ioprio(self.ioprio)
                .rw_flags(rw)
                .build(),
        }
    }

    /// A message is one call, from or to all of its memory. Such descriptors have no place in a file.
    fn port_entry(&self, fd: types::Fd) -> squeue::Entry {
        match self.kind {
            OpKind::Send { .. } => opcode::Writev::new(fd, self.vector(), self.count).build(),
            _ => opcode::Readv::new(fd, self.vector(), self.count).build(),
        }
    }

    fn socket_entry(&mut self, fd: types::Fd) -> squeue::Entry {
        let first = self.first();
        match self.kind {
            OpKind::Accept { .. } => {
                opcode::Accept::new(fd, ptr::null_mut(), ptr::null_mut()).flags(SOCK_CLOEXEC).build()
            }
            // More than one stretch can wait: a receive gives what has come, not all that was asked.
            OpKind::Recv { .. } => opcode::Recv::new(fd, first.base, first.len as u32).build(),
            _ if self.count <= 1 => {
                opcode::Send::new(fd, first.base, first.len as u32).flags(MSG_NOSIGNAL | MSG_WAITALL).build()
            }
            _ => {
                let (vector, count) = (self.vector(), self.count);
                let message = self.message.get_or_insert_with(|| {
                    // SAFETY: zeroes are a header without address, stretches and control data.
                    Box::new(unsafe { core::mem::zeroed() })
                });
                message.msg_iov = vector.cast_mut();
                message.msg_iovlen = count as _;
                opcode::SendMsg::new(fd, &raw const **message)
                    .flags((MSG_NOSIGNAL | MSG_WAITALL) as u32)
                    .build()
            }
        }
    }
}

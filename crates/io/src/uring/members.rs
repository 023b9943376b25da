//! The members of a ring: open devices, as registered files where the kernel's table has room.

use std::os::fd::{AsFd, AsRawFd};

use super::prepare::Target;
use super::ring::Ring;
use crate::device::Device;
use crate::op::{MemberId, MemberInfo, OpError, OpKind};

/// Places in the table of registered files: as many as the largest md array has members. It counts against the limit of
/// open files.
const PLACES: u32 = 384;

struct Member {
    /// `None` once closed.
    device: Option<Device>,
    info: MemberInfo,
    target: Target,
    in_flight: u32,
    closing: bool,
}

pub(super) struct Members {
    members: Vec<Member>,
    has_table: bool,
}

impl Members {
    pub(super) fn new(ring: &Ring) -> Self {
        Self { members: Vec::new(), has_table: ring.submitter().register_files_sparse(PLACES).is_ok() }
    }

    pub(super) fn add(&mut self, ring: &Ring, device: Device) -> MemberId {
        let id = self.members.len() as u32;
        let fd = device.as_fd().as_raw_fd();
        let registered = self.has_table
            && id < PLACES
            && ring.submitter().register_files_update(id, &[fd]).is_ok_and(|count| count == 1);
        let target = if registered { Target::Registered(id) } else { Target::Open(fd) };
        let info = device.info();
        self.members.push(Member { device: Some(device), info, target, in_flight: 0, closing: false });
        MemberId(id)
    }

    fn get(&self, member: MemberId) -> Option<&Member> {
        self.members.get(member.0 as usize).filter(|member| !member.closing)
    }

    pub(super) fn info(&self, member: MemberId) -> Option<MemberInfo> {
        Some(self.get(member)?.info)
    }

    /// The file of a member with operations in flight.
    #[inline]
    pub(super) fn target(&self, member: MemberId) -> Target {
        self.members[member.0 as usize].target
    }

    /// Counts an operation, or says why it can't be.
    #[inline]
    pub(super) fn begin(&mut self, kind: OpKind, bytes: u64) -> Result<(), OpError> {
        let at = kind.member().map_or(usize::MAX, |member| member.0 as usize);
        let member = self.members.get_mut(at).filter(|member| !member.closing).ok_or(OpError::Gone)?;
        let (offset, len) = match kind {
            OpKind::Read { offset, .. } | OpKind::Write { offset, .. } => (offset, bytes),
            OpKind::Discard { offset, len, .. } | OpKind::WriteZeroes { offset, len, .. } => (offset, len),
            _ => (0, 0),
        };
        // A file would grow instead.
        if offset.checked_add(len).is_none_or(|end| end > member.info.size) {
            return Err(OpError::OutOfRange);
        }
        member.in_flight += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn end(&mut self, ring: &Ring, member: MemberId) {
        let at = member.0 as usize;
        self.members[at].in_flight -= 1;
        if self.members[at].closing {
            self.close(ring, member);
        }
    }

    pub(super) fn close_all(&mut self, ring: &Ring) {
        for id in 0..self.members.len() {
            self.close(ring, MemberId(id as u32));
        }
    }

    #[cold]
    pub(super) fn close(&mut self, ring: &Ring, id: MemberId) {
        let Some(member) = self.members.get_mut(id.0 as usize) else { return };
        member.closing = true;
        if member.in_flight > 0 {
            return;
        }
        if let Target::Registered(place) = member.target {
            // Else the table would keep the file open, and locked.
            let _ = ring.submitter().register_files_update(place, &[-1]);
        }
        member.device = None;
    }
}

//! One member in RAM.

use core::ops::Range;

use crate::arena::PAGE;
use crate::op::{Mapped, MemberInfo, OpError, OpKind, OpView, PathTarget, Probe, Segment};
use crate::shortfall;

/// The error of an operation that does not cover whole logical blocks: EINVAL.
pub(super) const MISALIGNED: OpError = OpError::Medium(22);

pub(super) struct RamDevice {
    pub(super) info: MemberInfo,
    /// Empty for a null member.
    pub(super) bytes: Vec<u8>,
    null: bool,
    /// Reads count as copies that processors make.
    pub(super) in_memory: bool,
    /// Something of what follows is not as with a healthy device.
    pub(super) faulty: bool,
    pub(super) gone: bool,
    /// How a device that is gone answers: as the kernel answers for a disk that was pulled.
    pub(super) pulled: bool,
    pub(super) hangs: bool,
    /// Bytes that it holds now.
    holds: u64,
    pub(super) place: PathTarget,
    pub(super) refuses_writes: bool,
    /// Number of transfers that are still to come back short.
    pub(super) short: u64,
    pub(super) spoilt: Vec<Range<u64>>,
    /// Ranges that no write mends.
    pub(super) unwritable: Vec<Range<u64>>,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl RamDevice {
    pub(super) fn ram(size: u64) -> Self {
        Self { bytes: vec![0; size as usize], null: false, ..Self::null(size) }
    }

    pub(super) fn null(size: u64) -> Self {
        Self {
            info: MemberInfo {
                size,
                logical_block: 512,
                physical_block: 512,
                rotational: false,
                discard: true,
                write_zeroes: true,
            },
            bytes: Vec::new(),
            null: true,
            in_memory: false,
            faulty: false,
            gone: false,
            pulled: false,
            hangs: false,
            holds: size,
            place: PathTarget::There,
            refuses_writes: false,
            short: 0,
            spoilt: Vec::new(),
            unwritable: Vec::new(),
            reads: 0,
            writes: 0,
        }
    }

    /// Whether it keeps nothing.
    pub(super) fn is_null(&self) -> bool {
        self.null
    }

    #[inline]
    pub(super) fn run(&mut self, op: &OpView<'_>) -> Result<u64, OpError> {
        if self.faulty && self.gone {
            return self.run_gone(op.kind);
        }
        match op.kind {
            OpKind::Read { offset, .. } => self.read(offset, op),
            OpKind::Write { offset, .. } => self.write(offset, op),
            OpKind::WriteZeroes { offset, len, .. } => self.zero(offset, len),
            OpKind::Discard { offset, len, .. } => self.zero(offset, len),
            OpKind::Probe { .. } => Ok(Probe { size: self.holds, place: self.place }.to_bits()),
            OpKind::Map { offset, len, .. } => self.map(offset, len).map(Mapped::to_bits),
            _ => Ok(0),
        }
    }

    #[cold]
    fn run_gone(&self, kind: OpKind) -> Result<u64, OpError> {
        let answer = match kind {
            _ if !self.pulled => return Err(OpError::Gone),
            // Nothing is in doubt.
            OpKind::Probe { .. } => return Ok(Probe { size: 0, place: self.place }.to_bits()),
            OpKind::Map { len, .. } => return Ok(Mapped::stored(len).to_bits()),
            OpKind::Flush { .. } => return Ok(0),
            OpKind::Read { .. } => Ok(0),
            OpKind::Write { .. } => Err(OpError::NoSpace),
            _ => Err(OpError::Unsupported),
        };
        shortfall::of(self.info.size, 0, true).map_or(answer, Err)
    }

    /// Pages of zeroes are holes.
    fn map(&self, offset: u64, len: u64) -> Result<Mapped, OpError> {
        self.check(offset, len, &[])?;
        if self.null {
            return Ok(Mapped::stored(len));
        }
        let is_hole = |page: &[u8]| page.iter().all(|&byte| byte == 0);
        let mut pages = self.bytes[offset as usize..(offset + len) as usize].chunks(PAGE).map(is_hole);
        let hole = pages.next().unwrap_or(false);
        let same = 1 + pages.take_while(|&next| next == hole).count() as u64;
        Ok(Mapped { len: len.min(same * PAGE as u64), hole })
    }

    pub(super) fn truncate(&mut self, size: u64) {
        assert!(size <= self.info.size, "a member does not grow");
        self.holds = size;
        if !self.null {
            self.bytes[size as usize..].fill(0);
        }
    }

    #[inline]
    fn check(&self, offset: u64, len: u64, segments: &[Segment]) -> Result<(), OpError> {
        let rest = u64::from(self.info.logical_block) - 1;
        let memory = segments.iter().fold(0, |all, segment| all | segment.len as u64);
        if (offset | len | memory) & rest != 0 {
            return Err(MISALIGNED);
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(OpError::OutOfRange),
        }
    }

    #[inline]
    fn read(&mut self, offset: u64, op: &OpView<'_>) -> Result<u64, OpError> {
        self.check(offset, op.len, op.segments)?;
        self.reads += 1;
        let held = if self.faulty { self.readable(offset, op.len)? } else { op.len };
        if !self.null {
            let (mut at, mut left) = (offset as usize, held as usize);
            for &Segment { base, len } in op.segments {
                let len = len.min(left);
                let from = &self.bytes[at..at + len];
                // SAFETY: the op table keeps the segment valid and unborrowed until the completion; it can't overlap
                // `bytes`, which is this device's own.
                unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), base, len) };
                (at, left) = (at + len, left - len);
            }
        }
        Ok(held)
    }

    /// Bytes of a read that the device can give.
    #[cold]
    fn readable(&self, offset: u64, len: u64) -> Result<u64, OpError> {
        let touched = |bad: &Range<u64>| bad.start < offset + len && offset < bad.end;
        if self.spoilt.iter().any(touched) || self.unwritable.iter().any(touched) {
            return Err(OpError::Medium(5));
        }
        let held = len.min(self.holds.saturating_sub(offset));
        // A transfer can't be continued from within a block.
        let goes_on = held == len || held.is_multiple_of(u64::from(self.info.logical_block));
        if goes_on { Ok(held) } else { Err(OpError::Truncated) }
    }

    #[inline]
    fn write(&mut self, offset: u64, op: &OpView<'_>) -> Result<u64, OpError> {
        self.check(offset, op.len, op.segments)?;
        self.writes += 1;
        if self.faulty {
            self.take(offset, op.len)?;
            self.holds = self.holds.max(offset + op.len);
        }
        if !self.null {
            let mut at = offset as usize;
            for &Segment { base, len } in op.segments {
                let into = &mut self.bytes[at..at + len];
                // SAFETY: the op table keeps the segment valid and unchanged until the completion; it can't overlap
                // `bytes`, which is this device's own.
                unsafe { core::ptr::copy_nonoverlapping(base, into.as_mut_ptr(), len) };
                at += len;
            }
        }
        Ok(op.len)
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<u64, OpError> {
        self.check(offset, len, &[])?;
        if self.faulty {
            self.take(offset, len)?;
        }
        if !self.null {
            self.bytes[offset as usize..(offset + len) as usize].fill(0);
        }
        Ok(len)
    }

    /// Applies the device's faults to a write.
    #[cold]
    fn take(&mut self, offset: u64, len: u64) -> Result<(), OpError> {
        if self.refuses_writes {
            return Err(OpError::Medium(5));
        }
        self.mend(offset, len);
        Ok(())
    }

    /// A written range can be read again.
    fn mend(&mut self, offset: u64, len: u64) {
        if self.spoilt.is_empty() {
            return;
        }
        let end = offset + len;
        let mut left = Vec::new();
        for bad in self.spoilt.drain(..) {
            let before = bad.start..bad.end.min(offset);
            let after = bad.start.max(end)..bad.end;
            left.extend([before, after].into_iter().filter(|range| !range.is_empty()));
        }
        self.spoilt = left;
    }
}

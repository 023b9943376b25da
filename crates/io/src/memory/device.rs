//! One member in RAM.

use core::ops::Range;

use crate::op::{MemberInfo, OpError, OpKind, OpView, Segment};

pub(super) struct Device {
    pub(super) info: MemberInfo,
    /// Empty for a null member.
    pub(super) bytes: Vec<u8>,
    null: bool,
    pub(super) gone: bool,
    pub(super) refuses_writes: bool,
    pub(super) spoilt: Vec<Range<u64>>,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl Device {
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
            gone: false,
            refuses_writes: false,
            spoilt: Vec::new(),
            reads: 0,
            writes: 0,
        }
    }

    #[inline]
    pub(super) fn run(&mut self, op: OpView<'_>) -> Result<u64, OpError> {
        if self.gone {
            return Err(OpError::Gone);
        }
        match op.kind {
            OpKind::Read { offset, .. } => self.read(offset, op),
            OpKind::Write { offset, .. } => self.write(offset, op),
            OpKind::WriteZeroes { offset, len, .. } => self.zero(offset, len),
            OpKind::Discard { offset, len, .. } => self.zero(offset, len),
            _ => Ok(0),
        }
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), OpError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size => Ok(()),
            _ => Err(OpError::OutOfRange),
        }
    }

    fn read(&mut self, offset: u64, op: OpView<'_>) -> Result<u64, OpError> {
        self.check(offset, op.len)?;
        self.reads += 1;
        if !self.spoilt.is_empty()
            && self.spoilt.iter().any(|bad| bad.start < offset + op.len && offset < bad.end)
        {
            return Err(OpError::Medium(5));
        }
        if !self.null {
            let mut at = offset as usize;
            for &Segment { base, len } in op.segments {
                let from = &self.bytes[at..at + len];
                // SAFETY: the op table keeps the segment valid and unborrowed until the completion; it can't overlap
                // `bytes`, which is this device's own.
                unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), base, len) };
                at += len;
            }
        }
        Ok(op.len)
    }

    fn write(&mut self, offset: u64, op: OpView<'_>) -> Result<u64, OpError> {
        self.check(offset, op.len)?;
        self.writes += 1;
        if self.refuses_writes {
            return Err(OpError::Medium(5));
        }
        self.mend(offset, op.len);
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
        self.check(offset, len)?;
        if self.refuses_writes {
            return Err(OpError::Medium(5));
        }
        self.mend(offset, len);
        if !self.null {
            self.bytes[offset as usize..(offset + len) as usize].fill(0);
        }
        Ok(len)
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

//! Shared memory in worlds of this process: their devices are this thread, which must not look at bytes that others change.

use core::ops::Range;
use core::ptr::NonNull;

use crate::op::Segment;
use crate::racing;

/// The stretches of memory that others change.
#[derive(Default)]
pub(crate) struct SharedMemory(Vec<Range<usize>>);

impl SharedMemory {
    pub(crate) fn add(&mut self, memory: NonNull<[u8]>) {
        self.0.push(addresses(memory));
    }

    pub(crate) fn remove(&mut self, memory: NonNull<[u8]>) {
        self.0.retain(|range| *range != addresses(memory));
    }

    /// Memory to use in place of an operation's, if others may change some of it.
    #[inline]
    pub(crate) fn bounce(&self, segments: &[Segment]) -> Option<Bounce> {
        if self.0.is_empty() { None } else { self.bounce_some(segments) }
    }

    #[cold]
    fn bounce_some(&self, segments: &[Segment]) -> Option<Bounce> {
        let is_shared = |segment: &Segment| self.0.iter().any(|range| range.contains(&segment.base.addr()));
        segments.iter().any(is_shared).then(|| Bounce::of(segments))
    }
}

fn addresses(memory: NonNull<[u8]>) -> Range<usize> {
    let start = memory.cast::<u8>().addr().get();
    start..start + memory.len()
}

/// Memory of this thread's own in place of an operation's.
pub(crate) struct Bounce {
    /// The operation's: valid until its completion.
    real: Vec<Segment>,
    /// The segments of `bytes`, one after the other.
    segments: Vec<Segment>,
    _bytes: Vec<u8>,
}

impl Bounce {
    /// The bounce buffer of an operation that is being sent, with the bytes as they are now.
    fn of(real: &[Segment]) -> Self {
        let len = real.iter().map(|segment| segment.len).sum();
        let (mut bytes, mut at) = (vec![0; len], 0);
        let base: *mut u8 = bytes.as_mut_ptr();
        let place = |segment: &Segment| {
            let own = Segment { base: base.wrapping_add(at), len: segment.len };
            at += segment.len;
            own
        };
        let segments = real.iter().map(place).collect();
        let mut bounce = Self { real: real.to_vec(), segments, _bytes: bytes };
        bounce.load();
        bounce
    }

    /// The segments that the operation is to use.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The bytes as they are now.
    pub(crate) fn load(&mut self) {
        for (real, own) in self.real.iter().zip(&self.segments) {
            // SAFETY: the op table keeps the operation's memory valid until its completion; memory that is not shared
            // does not change, and shared memory has no reference. `own` is as long, and of bytes that last as long
            // as this.
            unsafe { racing::load(real.base, core::slice::from_raw_parts_mut(own.base, own.len)) };
        }
    }

    /// The first `len` bytes are what the operation has read.
    pub(crate) fn store(&self, len: u64) {
        let mut left = len as usize;
        for (real, own) in self.real.iter().zip(&self.segments) {
            let count = own.len.min(left);
            // SAFETY: as of `load`; and of memory that an operation fills, no guard lives.
            unsafe { racing::store(core::slice::from_raw_parts(own.base, count), real.base) };
            left -= count;
        }
    }
}

//! Arenas as registered buffers: the kernel pins and maps their pages once instead of for each operation.

use core::ptr::NonNull;

use super::ring::Ring;
use crate::op::Segment;

/// The kernel's limit for one registered buffer. Blocks of a pool are powers of two and never cross a multiple of it.
const PIECE: usize = 1 << 30;
/// Places in the table of registered buffers.
const PLACES: u16 = 256;

pub(super) struct Arenas {
    /// By arena: where it starts, and the place of its first piece if it is registered.
    arenas: Vec<(usize, Option<u16>)>,
    /// Places taken; all of them if the kernel has no such table.
    taken: u16,
}

impl Arenas {
    pub(super) fn new(ring: &Ring) -> Self {
        let has_table = ring.submitter().register_buffers_sparse(u32::from(PLACES)).is_ok();
        Self { arenas: Vec::new(), taken: if has_table { 0 } else { PLACES } }
    }

    /// Registers an arena if the kernel and the limit on locked memory let it; without that, operations cost more.
    pub(super) fn register(&mut self, ring: &Ring, memory: NonNull<[u8]>) {
        let base = memory.as_ptr().cast::<u8>();
        let pieces: Vec<_> = (0..memory.len())
            .step_by(PIECE)
            .map(|at| libc::iovec {
                iov_base: base.wrapping_add(at).cast(),
                iov_len: (memory.len() - at).min(PIECE),
            })
            .collect();
        let fits = pieces.len() <= usize::from(PLACES - self.taken);
        // SAFETY: the arena outlives the executor, whose end takes the registration back (`clear`).
        let registered = fits
            && unsafe { ring.submitter().register_buffers_update(self.taken.into(), &pieces, None) }.is_ok();
        self.arenas.push((base as usize, registered.then_some(self.taken)));
        if registered {
            self.taken += pieces.len() as u16;
        }
    }

    /// The place of the registered buffer that holds all the segments.
    #[inline]
    pub(super) fn index(&self, arena: Option<u32>, segments: &[Segment]) -> Option<u16> {
        let &(base, first) = self.arenas.get(arena? as usize)?;
        let first = first?;
        let piece = |segment: &Segment| (segment.base as usize - base) / PIECE;
        let index = piece(segments.first()?);
        segments.iter().all(|segment| piece(segment) == index).then(|| first + index as u16)
    }

    /// Takes all registrations back; the next arena is number 0 again.
    pub(super) fn clear(&mut self, ring: &Ring) {
        self.arenas.clear();
        if ring.submitter().unregister_buffers().is_ok() {
            *self = Self::new(ring);
        }
    }
}

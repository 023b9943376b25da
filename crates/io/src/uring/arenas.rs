//! Arenas as registered buffers: the kernel pins and maps their pages once instead of for each operation.

use core::ptr::{NonNull, null_mut};
use std::io;
use std::sync::{Once, OnceLock};

use super::engine::Engine;

/// Places in the kernel's table of registered buffers, by number of the arena: 16 GiB of arenas, in 32 KiB of the
/// kernel's memory.
const PLACES: u16 = 4096;

pub(super) struct Arenas {
    /// Indexed by arena: it is registered.
    registered: Vec<bool>,
    /// Whether the kernel has a table of registered buffers.
    table: bool,
}

impl Arenas {
    pub(super) fn new(engine: &Engine) -> Self {
        let submitter = engine.submitter();
        let table = submitter.is_some_and(|ring| ring.register_buffers_sparse(PLACES.into()).is_ok());
        Self { registered: Vec::new(), table }
    }

    /// Registers an arena if the kernel and the limit on locked memory let it; without that, operations cost more.
    pub(super) fn register(&mut self, engine: &Engine, arena: u32, memory: NonNull<[u8]>) {
        if self.table && arena < PLACES.into() {
            let buffer = libc::iovec { iov_base: memory.as_ptr().cast(), iov_len: memory.len() };
            let at = arena as usize;
            self.registered.resize(self.registered.len().max(at + 1), false);
            let answer = update(engine, arena, buffer);
            self.registered[at] = answer.is_ok();
            if answer.is_err_and(|why| why.raw_os_error() == Some(libc::ENOMEM))
                && let Some(say) = LACKING.get()
            {
                SAID.call_once(say);
            }
        }
    }

    /// Lets go of an arena's pages: now, or when the operations that use them have ended; later operations don't use
    /// them.
    pub(super) fn unregister(&mut self, engine: &Engine, arena: u32) {
        let registered = self.registered.get_mut(arena as usize).map(core::mem::take);
        if registered == Some(true) {
            let emptied = update(engine, arena, libc::iovec { iov_base: null_mut(), iov_len: 0 });
            debug_assert!(emptied.is_ok(), "arena {arena} stays pinned");
        }
    }

    /// The place of an arena in the table, if it has one.
    #[inline]
    pub(super) fn index(&self, arena: Option<u32>) -> Option<u16> {
        let arena = arena?;
        self.registered.get(arena as usize).is_some_and(|&registered| registered).then_some(arena as u16)
    }

    /// Takes all registrations back.
    pub(super) fn clear(&mut self, engine: &Engine) {
        let any = self.registered.drain(..).any(|registered| registered);
        if any && engine.submitter().is_some_and(|ring| ring.unregister_buffers().is_ok()) {
            *self = Self::new(engine);
        }
    }
}

/// Puts a buffer, or none, at a place of the table.
fn update(engine: &Engine, place: u32, buffer: libc::iovec) -> io::Result<()> {
    let ring = engine.submitter().ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: an arena stays mapped until it is unregistered, or the executor's end takes all registrations back.
    unsafe { ring.register_buffers_update(place, &[buffer], None) }
}

/// Told once that locked memory does not suffice.
static LACKING: OnceLock<fn()> = OnceLock::new();
static SAID: Once = Once::new();

/// Has the limit on locked memory said when buffers are refused for it: once for all rings of the process. Operations go on without, and cost
/// more. Set once, before there is a second ring.
pub fn say_if_locked_memory_lacks(say: fn()) {
    let _ = LACKING.set(say);
}

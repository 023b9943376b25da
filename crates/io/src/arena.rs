//! Memory that devices read and write: pages of the kernel's own giving.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use std::alloc::{Layout, handle_alloc_error};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Buffers start at multiples of this, and their capacity is a power-of-two multiple of it. Bytes.
pub const PAGE: usize = 4096;

/// Whole pages of zeroes, of which only those cost memory that were touched. The allocator would fill them all with
/// zeroes by hand, for the sake of their alignment: 64 MiB of that take longer than all else that opening an array does.
pub(crate) struct Arena {
    base: NonNull<u8>,
    bytes: usize,
}

impl Arena {
    /// `pages` pages, at least one.
    pub(crate) fn new(pages: usize) -> Self {
        let layout = Layout::from_size_align(pages.max(1).saturating_mul(PAGE), PAGE);
        let layout = layout.expect("an arena is smaller than the address space");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping, at a place of the kernel's choice, changes no memory that is in use.
        let mapped = unsafe { mmap_anonymous(null_mut(), layout.size(), access, MapFlags::PRIVATE) };
        let base = mapped.ok().and_then(|base: *mut c_void| NonNull::new(base.cast()));
        let Some(base) = base else { handle_alloc_error(layout) };
        Self { base, bytes: layout.size() }
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; whoever cut something from the arena holds the pool that owns it.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

//! Memory that others give, and change at any time: a guest's.

use core::fmt;
use std::rc::Rc;

use crate::arena::{Arenas, NotGiven, PAGE, Region};
use crate::blocks::MAX_BUF;
use crate::buf::{Buf, Slice};
use crate::store::Store;
use crate::task::Scheduler;

/// The owner's promise about the pages of the memory while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The pages stay: no holes are punched into the file. Used parts of the memory are registered with the reactor,
    /// in arenas of 4 MiB, which pins them. If a page is replaced all the same (a guest's balloon), the old page is
    /// read and written, unnoticed.
    Stay,
    /// The pages may go: the memory is registered nowhere, and its pages are looked up for each operation.
    MayGo,
}

/// Memory that others give, and change at any time (see [`crate::Io::given`]). Cloning gives another handle to the same
/// memory: it is unmapped when the last handle, slice and operation that holds some of it is gone.
///
/// The owner of the memory chooses the ranges that are read and written: slices may overlap, and no task waits for
/// one. Their bytes may change at any time: see [`Slice::is_shared`]. After a request that failed a device may still
/// fill them, as long as [`Slice::is_pinned`]; the owner should be answered after that.
#[derive(Clone)]
pub struct Given {
    store: Rc<Store>,
    pages: Pages,
}

impl Given {
    pub(crate) fn new(
        memory: Region,
        pages: Pages,
        scheduler: Rc<Scheduler>,
        arenas: Rc<Arenas>,
    ) -> Result<Self, NotGiven> {
        Ok(Self { store: Rc::new(Store::of_shared(memory, scheduler, arenas)?), pages })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.store.bytes()
    }

    /// Never: memory of no bytes is not taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `len` bytes at `offset` of the memory, at most [`MAX_BUF`], for a request to a volume of blocks of `block`
    /// bytes (512 to 4096): members take memory only that begins and ends at multiples of that. Callers copy other
    /// ranges by way of a buffer of a pool ([`Slice::copy_to`], [`Slice::put`]).
    ///
    /// # Errors
    /// [`NotGiven::OutOfRange`], [`NotGiven::Unaligned`].
    pub fn slice(&self, offset: u64, len: usize, block: u32) -> Result<Slice, NotGiven> {
        let holds = self.len();
        let outside = NotGiven::OutOfRange(holds as u64);
        let at = usize::try_from(offset).map_err(|_| outside)?;
        if at > holds || len > MAX_BUF.min(holds - at) {
            return Err(outside);
        }
        if !(offset | len as u64).is_multiple_of(u64::from(block)) {
            return Err(NotGiven::Unaligned(block.into()));
        }
        // An empty slice at the end of the memory has no page of its own to begin at.
        let page = (at / PAGE).min(holds / PAGE - 1);
        if self.pages == Pages::Stay && len > 0 {
            self.store.register(at, len);
        }
        let buf = Buf::of_shared(&self.store, page as u32);
        Ok(Slice::from_parts(buf, at - page * PAGE, len))
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("len", &self.len()).field("pages", &self.pages).finish()
    }
}

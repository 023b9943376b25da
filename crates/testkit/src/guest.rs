//! A guest: memory that it gives, and changes whenever it likes.

use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use brindle_io::{Duration, Given, Io, Pages, Slice};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::random::Random;

/// Bytes that a guest changes at once: all of them bear the number of the change.
const WORD: usize = 8;

/// Memory of a number of blocks, as its owner has it, and what each block has held since [`Guest::forget`].
pub struct Guest {
    file: File,
    given: Given,
    block: u32,
    held: RefCell<Vec<Vec<u64>>>,
    random: RefCell<Random>,
}

impl Guest {
    /// `blocks` blocks, which are whole pages together, given to `io`.
    ///
    /// # Panics
    /// If there is no such memory.
    pub fn new(io: &Io, block: u32, blocks: usize) -> Self {
        let bytes = blocks as u64 * u64::from(block);
        let file = memory(bytes);
        let given = io.given(&file, 0, bytes, Pages::Stay).expect("memory of a sealed file");
        let held = RefCell::new(vec![vec![0]; blocks]);
        Self { file, given, block, held, random: Random::new(bytes).into() }
    }

    /// The memory of some of the blocks.
    ///
    /// # Panics
    /// If there are no such blocks.
    pub fn slice(&self, blocks: Range<usize>) -> Slice {
        let block = self.block as usize;
        let slice = self.given.slice((blocks.start * block) as u64, blocks.len() * block, self.block);
        slice.expect("blocks that there are")
    }

    /// The present content of blocks.
    ///
    /// # Panics
    /// If there are no such blocks.
    pub fn content(&self, blocks: Range<usize>) -> Vec<u8> {
        let mut content = vec![0; blocks.len() * self.block as usize];
        let offset = blocks.start as u64 * u64::from(self.block);
        self.file.read_exact_at(&mut content, offset).expect("memory");
        content
    }

    /// Forgets the earlier contents of blocks: only the present ones count from here on.
    pub fn forget(&self) {
        self.held.borrow_mut().iter_mut().for_each(|held| drop(held.drain(..held.len() - 1)));
    }

    /// Changes a block.
    fn change(&self, block: usize) {
        let number = self.random.borrow_mut().next();
        let bytes = number.to_le_bytes().repeat(self.block as usize / WORD);
        let offset = block as u64 * u64::from(self.block);
        self.file.write_all_at(&bytes, offset).expect("memory");
        self.held.borrow_mut()[block].push(number);
    }

    /// Changes all of these blocks, each to something of its own.
    pub fn fill(&self, blocks: Range<usize>) {
        blocks.for_each(|block| self.change(block));
    }

    /// Changes some of these blocks at every turn, without end, in a race with the requests that use them.
    pub async fn restless(&self, io: &Io, blocks: Range<usize>) -> ! {
        loop {
            for _ in 0..4 {
                let n = self.random.borrow_mut().below(blocks.len() as u64) as usize;
                self.change(blocks.start + n);
            }
            // Virtual time goes on only when no task is ready.
            let turn = self.random.borrow_mut().below(3);
            match turn {
                0 => io.sleep(Duration::from_micros(1)).await,
                _ => io.yield_now().await,
            }
        }
    }

    /// Whether these bytes are a mix of what a block has held since [`Guest::forget`].
    pub fn has_held(&self, block: usize, found: &[u8]) -> bool {
        let held = &self.held.borrow()[block];
        found.chunks_exact(WORD).all(|word| held.iter().any(|number| *word == number.to_le_bytes()))
    }
}

/// Zeroes that another process could have mapped, as memory that may be [given](Io::given).
///
/// # Panics
/// If the machine has no such memory.
pub fn memory(bytes: u64) -> File {
    let file = File::from(memfd_create("guest", MemfdFlags::ALLOW_SEALING).expect("a memfd"));
    file.set_len(bytes).expect("room");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("a seal");
    file
}

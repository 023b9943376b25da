//! A client that reads and writes while members die.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Trouble, connect};

/// Bytes of each read and write of the load.
const BLOCK: usize = 16 * 1024;

/// Counts of the load's requests.
#[derive(Debug, Default)]
pub(super) struct LoadCounts {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) seconds: f64,
    /// The newest number written to each block behind the content; 0: none yet.
    marks: Vec<u64>,
    from: u64,
}

/// A running load.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<LoadCounts, Trouble>>,
}

/// Begins to read the content (each block compared) and to write behind it, over a connection of its own.
pub(super) fn start(socket: PathBuf, content: Arc<Vec<u8>>, from: u64) -> Load {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    Load { stop, thread: std::thread::spawn(move || run(&socket, &content, from, &flag)) }
}

impl Load {
    /// Ends the load; any wrong byte or refused request on the way is an error.
    pub(super) fn finish(self) -> Result<LoadCounts, Trouble> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(Trouble::new("the load's thread panicked")))
    }
}

fn run(socket: &Path, content: &[u8], from: u64, stop: &AtomicBool) -> Result<LoadCounts, Trouble> {
    let mut client = connect(socket)?;
    let blocks = ((client.size() - from) / BLOCK as u64).min(512);
    let mut tally = LoadCounts { marks: vec![0; blocks as usize], from, ..LoadCounts::default() };
    let began = Instant::now();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut block = vec![0; BLOCK];
    while !stop.load(Ordering::Relaxed) {
        // xorshift64: any sequence that jumps about will do
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random & 1 == 0 {
            let at = (random >> 8) as usize % (content.len() / BLOCK) * BLOCK;
            client.read(at as u64, &mut block).map_err(Trouble::when("reading under load"))?;
            if block != content[at..at + BLOCK] {
                return Err(Trouble::new(format!("wrong bytes at {at} while members failed")));
            }
            tally.reads += 1;
        } else {
            let at = (random >> 8) % blocks;
            let mark = tally.writes + 1;
            block.fill(mark as u8);
            block[..8].copy_from_slice(&mark.to_le_bytes());
            client.write(from + at * BLOCK as u64, &block).map_err(Trouble::when("writing under load"))?;
            tally.marks[at as usize] = mark;
            tally.writes += 1;
        }
    }
    client.flush().map_err(Trouble::when("flushing the load"))?;
    tally.seconds = began.elapsed().as_secs_f64();
    client.close().map_err(Trouble::when("closing the load"))?;
    Ok(tally)
}

impl LoadCounts {
    /// Compares every block that the load wrote with `read`'s answer; tells how many there were.
    pub(super) fn verify(
        &self,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Trouble>,
    ) -> Result<usize, Trouble> {
        let mut block = vec![0; BLOCK];
        let mut seen = 0;
        for (at, &mark) in self.marks.iter().enumerate().filter(|&(_, &mark)| mark > 0) {
            read(self.from + (at * BLOCK) as u64, &mut block)?;
            if block[..8] != mark.to_le_bytes() || block[8..].iter().any(|&byte| byte != mark as u8) {
                return Err(Trouble::new(format!("block {at} lost its last acknowledged write ({mark})")));
            }
            seen += 1;
        }
        Ok(seen)
    }
}

//! Options in fio's words.

use crate::job::{Blocks, Direction, IoPattern, Job, Kinds};

/// `rw`, as a job has it.
pub(super) fn rw(access: IoPattern) -> String {
    let word = match access.kinds {
        Kinds::One(Direction::Read) => "read",
        Kinds::One(Direction::Write) => "write",
        Kinds::One(Direction::Trim) => "trim",
        Kinds::Mixed => "rw",
        Kinds::TrimThenWrite => "trimwrite",
    };
    if access.random { format!("rand{word}") } else { word.to_owned() }
}

/// `bs`: the one size, or the least and the most.
pub(super) fn bs(job: &Job) -> String {
    match &job.blocks[0] {
        Blocks::One(size) => short(*size),
        blocks => format!("{}-{}", short(blocks.least()), short(blocks.most())),
    }
}

/// Bytes in the largest unit that has no remainder.
fn short(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        _ => bytes.to_string(),
    }
}

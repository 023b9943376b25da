//! A volume whose requests another executor carries out, with memory that is lent: what a reactor has of a volume of another's.
//!
//! A question is the number of the volume, the request and its range; an answer is one word. Both are made and read here.

use brindle_io::{Io, Loan, OpError, Question, Slice};

use crate::{Allocation, Limits, Volume, VolumeError, Wanted, ZeroOptions};

/// Stretches that are asked for, one by one, until a look at allocation ends.
const MOST_STRETCHES: usize = 32;

/// A volume that another executor of the crew has.
#[derive(Clone)]
pub struct Forwarded {
    io: Io,
    /// The other executor.
    to: usize,
    /// The number by which it knows the volume.
    number: u32,
    limits: Limits,
}

/// A request of another executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The number of the volume.
    pub volume: u32,
    kind: ForwardKind,
    flags: u8,
    offset: u64,
    len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForwardKind {
    Read,
    Write,
    Flush,
    Discard,
    Zeroes,
    Compare,
    Allocation,
}

const KINDS: [ForwardKind; 7] = [
    ForwardKind::Read,
    ForwardKind::Write,
    ForwardKind::Flush,
    ForwardKind::Discard,
    ForwardKind::Zeroes,
    ForwardKind::Compare,
    ForwardKind::Allocation,
];

/// Flags of a request.
const FUA: u8 = 1;
const KEEP: u8 = 2;
const FAST: u8 = 4;

impl Forward {
    /// The request of a question; `None` if it is none.
    pub fn of(question: Question) -> Option<Self> {
        let [head, offset, len, _] = question;
        let kind = *KINDS.get((head & 0xff) as usize)?;
        Some(Self { volume: (head >> 32) as u32, kind, flags: (head >> 8) as u8, offset, len })
    }

    fn question(self) -> Question {
        let head = self.kind as u64 | u64::from(self.flags) << 8 | u64::from(self.volume) << 32;
        [head, self.offset, self.len, 0]
    }

    /// Whether it changes the volume.
    pub fn changes(&self) -> bool {
        use ForwardKind::{Compare, Discard, Write, Zeroes};
        matches!(self.kind, Write | Discard | Zeroes | Compare)
    }

    /// Bytes that it reads or writes; 0 where there is no memory for them.
    pub fn moves(&self) -> u64 {
        if matches!(self.kind, ForwardKind::Read | ForwardKind::Write) { self.len } else { 0 }
    }

    /// Carries it out; gives the word of the answer.
    pub async fn carry_out(&self, volume: &impl Volume, loan: &Loan) -> u64 {
        let &Self { kind, flags, offset, len, .. } = self;
        let (memory, fua) = (loan.memory(), flags & FUA != 0);
        let done = match kind {
            ForwardKind::Read => volume.read(offset, memory).await,
            ForwardKind::Write => volume.write(offset, memory, fua).await,
            ForwardKind::Flush => volume.flush().await,
            ForwardKind::Discard => volume.discard(offset, len).await,
            ForwardKind::Zeroes => {
                let (keep_allocated, fast_only) = (flags & KEEP != 0, flags & FAST != 0);
                volume.write_zeroes(offset, len, ZeroOptions { fua, keep_allocated, fast_only }).await
            }
            ForwardKind::Compare => return compare(volume, offset, memory, fua).await,
            ForwardKind::Allocation => return first_stretch(volume, offset, len).await,
        };
        word(done)
    }
}

/// Compares and writes; the memory is what is expected, what is written, and scratch, each of a third of the bytes.
async fn compare(volume: &impl Volume, offset: u64, memory: &[Slice], fua: bool) -> u64 {
    let len = crate::bytes(memory) as usize / 3;
    let third = |number: usize| {
        let mut at = number * len;
        for slice in memory {
            if at < slice.len() && len <= slice.len() - at {
                return Some(slice.slice(at..at + len));
            }
            at = at.saturating_sub(slice.len());
        }
        memory.first().filter(|_| len == 0).cloned()
    };
    let (Some(expected), Some(new), Some(scratch)) = (third(0), third(1), third(2)) else {
        return word(Err(VolumeError::Unaligned));
    };
    let wanted = Wanted::default();
    match volume.compare_and_write(offset, &expected, &new, &scratch, fua, &wanted).await {
        Ok(None) => word(Ok(())),
        Ok(Some(differs)) => DIFFERS | differs << 8,
        Err(error) => word(Err(error)),
    }
}

async fn first_stretch(volume: &impl Volume, offset: u64, len: u64) -> u64 {
    let mut found = Vec::new();
    match (volume.allocation(offset, len, &mut found).await, found.first()) {
        (Ok(()), Some(first)) => {
            STRETCH | u64::from(first.hole) << 8 | u64::from(first.zero) << 9 | first.len << 10
        }
        (done, _) => word(done),
    }
}

/// The first byte of an answer: what it is. Below these are errors, and success.
const DIFFERS: u64 = 0x80;
const STRETCH: u64 = 0x81;
const MEMBER: u64 = 0x40;
const OK: u64 = 0;

/// Errors without more to say, by the first byte of their answers.
const PLAIN: [VolumeError; 9] = [
    VolumeError::OutOfRange,
    VolumeError::Unaligned,
    VolumeError::ReadOnly,
    VolumeError::TooManyLost,
    VolumeError::Again,
    VolumeError::Unsupported,
    VolumeError::Reshaping,
    VolumeError::NoSpace,
    VolumeError::Stopping,
];

/// The word of an answer.
pub fn word(done: Result<(), VolumeError>) -> u64 {
    match done {
        Ok(()) => OK,
        Err(VolumeError::Member { role, error }) => {
            MEMBER | u64::from(error.code()) << 8 | role.map_or(0, |role| u64::from(role) << 40 | 1 << 56)
        }
        Err(plain) => 1 + PLAIN.iter().position(|other| *other == plain).unwrap_or_default() as u64,
    }
}

/// The meaning of an answer that is none of a compare and write, or of a look at allocation.
fn read_word(word: u64) -> Result<(), VolumeError> {
    if word == OK {
        return Ok(());
    }
    if word & 0xff == MEMBER {
        let role = (word >> 56 & 1 == 1).then_some((word >> 40) as u16);
        return Err(VolumeError::Member { role, error: OpError::of_code((word >> 8) as u32) });
    }
    Err(*PLAIN.get((word & 0xff) as usize - 1).unwrap_or(&VolumeError::Stopping))
}

impl Forwarded {
    /// The volume that executor `to` knows by a number, with the limits that it has.
    pub fn new(io: &Io, to: usize, number: u32, limits: Limits) -> Self {
        Self { io: io.clone(), to, number, limits }
    }

    async fn ask(
        &self,
        kind: ForwardKind,
        flags: u8,
        (offset, len): (u64, u64),
        memory: &[Slice],
    ) -> Result<u64, VolumeError> {
        let fills = matches!(kind, ForwardKind::Read | ForwardKind::Compare);
        let forward = Forward { volume: self.number, kind, flags, offset, len };
        let answer = self.io.ask(self.to, forward.question(), fills, memory).await;
        // The other one ends.
        answer.map_err(|_| VolumeError::Stopping)
    }

    async fn done(
        &self,
        kind: ForwardKind,
        flags: u8,
        range: (u64, u64),
        memory: &[Slice],
    ) -> Result<(), VolumeError> {
        read_word(self.ask(kind, flags, range, memory).await?)
    }
}

fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

impl Volume for Forwarded {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = into.as_ref();
        // Slices that continue each other go as one, so that each is looked at here.
        let len = self.limits.check_list(offset, into)?;
        self.done(ForwardKind::Read, 0, (offset, len), into).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = from.as_ref();
        self.limits.check_change()?;
        let len = self.limits.check_list(offset, from)?;
        self.done(ForwardKind::Write, flag(fua, FUA), (offset, len), from).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.done(ForwardKind::Flush, 0, (0, 0), &[]).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.done(ForwardKind::Discard, 0, (offset, len), &[]).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        let ZeroOptions { fua, keep_allocated, fast_only } = options;
        let flags = flag(fua, FUA) | flag(keep_allocated, KEEP) | flag(fast_only, FAST);
        self.done(ForwardKind::Zeroes, flags, (offset, len), &[]).await
    }

    /// Whether the write is wanted is asked before the look: it is carried out on another thread.
    async fn compare_and_write(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        self.limits.check_change()?;
        if new.len() != expected.len() || scratch.len() != expected.len() {
            return Err(VolumeError::Unaligned);
        }
        self.limits.check(offset, expected.len() as u64)?;
        wanted.check()?;
        let memory = [expected.clone(), new.clone(), scratch.clone()];
        let range = (offset, expected.len() as u64);
        let answer = self.ask(ForwardKind::Compare, flag(fua, FUA), range, &memory).await?;
        if answer & 0xff == DIFFERS { Ok(Some(answer >> 8)) } else { read_word(answer).map(|()| None) }
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.limits.check(offset, len)?;
        let (mut at, end) = (offset, offset + len);
        for _ in 0..MOST_STRETCHES {
            if at >= end {
                break;
            }
            let answer = self.ask(ForwardKind::Allocation, 0, (at, end - at), &[]).await?;
            if answer & 0xff != STRETCH {
                return read_word(answer);
            }
            let len = (answer >> 10).clamp(1, end - at);
            found.push(Allocation { len, hole: answer >> 8 & 1 == 1, zero: answer >> 9 & 1 == 1 });
            at += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_was_answered() {
        assert_eq!(read_word(word(Ok(()))), Ok(()));
        for error in PLAIN {
            assert_eq!(read_word(word(Err(error))), Err(error));
        }
        for error in OpError::PLAIN.into_iter().chain([OpError::Medium(5), OpError::Medium(121)]) {
            for role in [None, Some(0), Some(u16::MAX)] {
                let error = VolumeError::Member { role, error };
                assert_eq!(read_word(word(Err(error))), Err(error));
            }
        }
    }

    #[test]
    fn questions_say_what_was_asked() {
        for kind in KINDS {
            let asked = Forward { volume: 7, kind, flags: FUA | FAST, offset: 1 << 60, len: u64::MAX };
            assert_eq!(Forward::of(asked.question()), Some(asked));
        }
        assert_eq!(Forward::of([0xff, 0, 0, 0]), None);
    }
}

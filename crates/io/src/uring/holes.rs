//! Where the holes of a file are: what no ring can ask.
//!
//! A file system may take its time to answer, or never do. So a thread asks, one for each member that is asked at the
//! moment: one that hangs holds up none of the others, nor the thread of the ring. It ends when it has been idle for a
//! while. Block devices are not asked.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::device::OpenDevice;
use crate::op::{Mapped, MemberId, OpError, OpKey};
use crate::reactor::Unpark;

/// Smaller holes are not reported, so that callers need not go on for each.
const LEAST: u64 = 64 << 10;
/// How often the file system is asked for one answer at most.
const SEEKS: usize = 64;
/// How long a thread waits for something to ask.
const IDLE: Duration = Duration::from_secs(2);

/// The answer to a question.
pub(super) struct Answer {
    pub(super) key: OpKey,
    pub(super) member: MemberId,
    pub(super) result: Result<Mapped, OpError>,
}

#[derive(Clone)]
struct Question {
    key: OpKey,
    member: MemberId,
    fd: RawFd,
    range: Range<u64>,
}

impl Question {
    /// The answer that the range counts as stored.
    fn stored(self) -> Answer {
        let Self { key, member, range, .. } = self;
        Answer { key, member, result: Ok(Mapped::stored(range.end - range.start)) }
    }
}

/// Questions that wait for the thread of a member.
#[derive(Default)]
struct MemberQueue {
    state: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Question>,
    /// A thread is there, and looks once more before it ends.
    attended: bool,
}

pub(super) struct Holes {
    queues: HashMap<MemberId, Arc<MemberQueue>>,
    answers: Arc<Mutex<Vec<Answer>>>,
    unpark: Unpark,
    /// Questions that were not taken back as answers.
    asked: BTreeSet<u32>,
}

impl Holes {
    /// `unpark` ends a park of the ring, which is to take answers.
    pub(super) fn new(unpark: Unpark) -> Self {
        Self { queues: HashMap::new(), answers: Arc::default(), unpark, asked: BTreeSet::new() }
    }

    /// No question is under way.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// The operation is a question under way.
    pub(super) fn has(&self, key: OpKey) -> bool {
        self.asked.contains(&key.0)
    }

    /// Asks about a range of a device, which stays open until the answer is taken. Does not wait: false if no thread
    /// is free, so that all of it may be stored.
    pub(super) fn ask(
        &mut self,
        key: OpKey,
        member: MemberId,
        device: &OpenDevice,
        range: Range<u64>,
    ) -> bool {
        let question = Question { key, member, fd: device.as_fd().as_raw_fd(), range };
        let asked = device.may_wait() && self.hand_over(question);
        if asked {
            self.asked.insert(key.0);
        }
        asked
    }

    /// Leaves a question to the member's thread; false if there can be none.
    fn hand_over(&mut self, question: Question) -> bool {
        let queue = Arc::clone(self.queues.entry(question.member).or_default());
        let mut waiting = lock(&queue.state);
        if !waiting.attended {
            let (there, answers, unpark) =
                (Arc::clone(&queue), Arc::clone(&self.answers), Arc::clone(&self.unpark));
            let answer = move || there.answer_all(&answers, &unpark);
            if Builder::new().name("holes".into()).spawn(answer).is_err() {
                return false;
            }
            waiting.attended = true;
        }
        waiting.questions.push_back(question);
        queue.more.notify_one();
        true
    }

    /// The answers that have come.
    pub(super) fn take(&mut self) -> Vec<Answer> {
        let answers = core::mem::take(&mut *lock(&self.answers));
        for answer in &answers {
            self.asked.remove(&answer.key.0);
        }
        answers
    }
}

impl MemberQueue {
    fn answer_all(&self, answers: &Mutex<Vec<Answer>>, unpark: &Unpark) {
        while let Some(question) = self.next() {
            // SAFETY: the device stays open until the answer is taken, and where the ring ends before, for ever.
            let file = unsafe { BorrowedFd::borrow_raw(question.fd) };
            let answer = match look(file, question.range.clone()) {
                Ok(mapped) => Answer { result: Ok(mapped), ..question.stored() },
                // The file system knows no holes.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => question.stored(),
                Err(errno) => {
                    Answer { result: Err(OpError::Medium(errno.raw_os_error())), ..question.stored() }
                }
            };
            lock(answers).push(answer);
            unpark();
        }
    }

    fn next(&self) -> Option<Question> {
        let idle = |waiting: &mut Waiting| waiting.questions.is_empty();
        let waited = self.more.wait_timeout_while(lock(&self.state), IDLE, idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        let question = waiting.questions.pop_front();
        waiting.attended = question.is_some();
        question
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at the beginning of a range of a file, and how far that goes. Moves the descriptor's position, which nobody uses.
fn look(file: BorrowedFd<'_>, range: Range<u64>) -> Result<Mapped, Errno> {
    let stored = |end: u64| Mapped::stored(end - range.start);
    let mut data = data_from(file, range.start)?.min(range.end);
    if is_worth(range.start..data, range.end) {
        return Ok(Mapped { len: data - range.start, hole: true });
    }
    for _ in 0..SEEKS / 2 {
        let hole = seek(file, SeekFrom::Hole(data))?.min(range.end);
        if hole == range.end {
            return Ok(stored(range.end));
        }
        data = data_from(file, hole)?.min(range.end);
        if is_worth(hole..data, range.end) {
            return Ok(stored(hole));
        }
    }
    // Data are stored here; the rest has not been looked at.
    Ok(stored(data))
}

/// The next byte that is stored; the end of everything if there is none.
fn data_from(file: BorrowedFd<'_>, at: u64) -> Result<u64, Errno> {
    match seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => Ok(u64::MAX),
        found => found,
    }
}

/// A hole is reported if it is large, or reaches to the end of the range.
fn is_worth(hole: Range<u64>, end: u64) -> bool {
    !hole.is_empty() && (hole.end - hole.start >= LEAST || hole.end == end)
}

//! Notices a task that computes without end: its executor does not come to a turn, and nothing else goes on.
//!
//! A thread of its own compares how far the executor has come with the processor time that the executor's thread has used. Time by the
//! clock says nothing: the process may be stopped, starved of processors, or emulated. One that is under a debugger is left alone.

use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::cpu::ThreadClock;
use crate::exec::Io;
use crate::pulse::Pulse;
use crate::task::Scheduler;
use crate::time::Duration;

/// How often it is looked, in the time that a turn may take.
const LOOKS: u32 = 8;

/// A task that has used up its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The function whose future the task is.
    pub task: String,
    /// Processor time since a turn of the executor began, at least.
    pub used: Duration,
}

/// A watch over an executor, which ends when this is dropped.
pub struct Watch {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    /// The thread looks at it.
    _watched: Rc<Scheduler>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for `span`; true if the watch is to end.
    fn wait(&self, span: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(asked, span, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A pulse that outlives the thread that looks at it.
struct Watched(*const Pulse);

// SAFETY: a pulse consists of atomics and of a mutex, and so may be looked at by any thread. `Watch` keeps it until its thread has ended.
unsafe impl Send for Watched {}

impl Io {
    /// Has a thread look at this executor, which is this thread's: `stuck` is called, once and in that thread, when tasks are being driven
    /// and no turn has come for `most` of this thread's processor time.
    ///
    /// # Errors
    /// There can be no thread, or no clock of this one.
    pub fn watch(
        &self,
        most: Duration,
        stuck: impl FnOnce(Stuck) + Send + 'static,
    ) -> std::io::Result<Watch> {
        let (clock, stop) = (ThreadClock::own()?, Arc::<Stop>::default());
        let scheduler = Rc::clone(&self.0.core.scheduler);
        let (watched, theirs) = (Watched(&raw const scheduler.pulse), Arc::clone(&stop));
        let thread = Builder::new().name("watch".into()).spawn(move || {
            let watched = watched;
            // SAFETY: `Watch` lets go of the scheduler, of which this is a part, only after it has waited for this thread.
            let pulse = unsafe { &*watched.0 };
            if let Some(found) = look(pulse, &theirs, clock, most) {
                stuck(found);
            }
        })?;
        Ok(Watch { stop, thread: Some(thread), _watched: scheduler })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.stop.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        // A panic of what was called is its own affair.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Looks until the watch ends, or a task has used up its time.
fn look(pulse: &Pulse, stop: &Stop, clock: ThreadClock, most: Duration) -> Option<Stuck> {
    let mut seen = None;
    while !stop.wait(most / LOOKS) {
        let (turns, now) = (pulse.turns(), clock.used());
        match seen {
            Some((since, before)) if turns == Some(since) => {
                let used = now.saturating_sub(before);
                if used < most {
                    continue;
                }
                if !is_traced() {
                    return Some(Stuck { task: plain(pulse.name()), used });
                }
                seen = Some((since, now));
            }
            // Later than the turn began: so what is found has been used at least.
            _ => seen = turns.map(|turns| (turns, now)),
        }
    }
    None
}

/// A debugger has this process.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// The path of a function, out of the name of its future's type: without type parameters and closures.
fn plain(name: &str) -> String {
    let (mut path, mut depth) = (String::new(), 0_u32);
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => path.push(letter),
            _ => {}
        }
    }
    let parts = path.split("::").filter(|part| !part.is_empty() && *part != "{{closure}}");
    parts.collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_named_by_their_functions() {
        let name = "a::manage::<impl a::Connection<V>>::manage<b::Any, c::D<E>>::{{closure}}::{{closure}}";
        assert_eq!(plain(name), "a::manage::manage");
        assert_eq!(plain("a::send::run<b::Any>::{{closure}}"), "a::send::run");
    }
}

//! Ends a server, whatever hangs. The array's thread gets an order to stop. When its time is over it is told to give
//! up its waits; if it does not even do that, a thread of this module frees the members, removes the sockets, and
//! ends the process.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use brindle_host::control::{Control, Ended};
use brindle_host::{Order, Snapshot, not_stopped};
use brindle_io::uring;

use crate::base::failure::Failure;
use crate::base::locks::Locks;
use crate::base::log;

/// Time that the array's thread may take to close members and sockets when the array has stopped, or was given up.
const CLOSING: Duration = Duration::from_secs(10);

/// The phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The array drains and flushes.
    Stopping {
        until: Instant,
    },
    /// It has stopped, or was given up; members and sockets are being closed.
    Closing {
        until: Instant,
    },
    /// All is closed, and another process goes on.
    Over,
}

/// The state of the shutdown, shared by the array's thread, the control thread and the signal handler.
pub(crate) struct Shutdown {
    phase: Mutex<Phase>,
    changed: Condvar,
    /// Time that stopping may take.
    patience: Duration,
    /// A signal has ordered the end.
    signalled: AtomicBool,
    /// Reaches the array's thread, without waiting for it.
    tell: Box<dyn Fn(Order) + Send + Sync>,
}

impl Shutdown {
    pub(crate) fn new(patience: Duration, tell: impl Fn(Order) + Send + Sync + 'static) -> Arc<Self> {
        let (phase, changed) = (Mutex::new(Phase::Serving), Condvar::new());
        Arc::new(Self { phase, changed, patience, signalled: AtomicBool::new(false), tell: Box::new(tell) })
    }

    /// Stops the array. A second call changes nothing.
    pub(crate) fn begin(&self) {
        self.advance(|phase| match phase {
            Phase::Serving => Phase::Stopping { until: Instant::now() + self.patience },
            other => other,
        });
        (self.tell)(Order::Stop);
    }

    /// Stops the array for another process that goes on in this one's place, after `first`; `false` if it stops already.
    pub(crate) fn begin_hand_over(&self, first: impl FnOnce()) -> bool {
        let mut begins = false;
        self.advance(|phase| {
            begins = phase == Phase::Serving;
            if begins { Phase::Stopping { until: Instant::now() + self.patience } } else { phase }
        });
        if begins {
            first();
            (self.tell)(Order::HandOver);
        }
        begins
    }

    /// Members are closed: the steps that are left change no member.
    pub(crate) fn over(&self) {
        self.advance(|_| Phase::Over);
    }

    /// A signal has ordered the end, whatever ordered it first.
    pub(crate) fn was_signalled(&self) -> bool {
        self.signalled.load(Ordering::Acquire)
    }

    /// Waits no longer for the array.
    fn hurry(&self) {
        self.advance(|phase| match phase {
            Phase::Serving | Phase::Stopping { .. } => Phase::Stopping { until: Instant::now() },
            other => other,
        });
    }

    /// The array's thread lets its members go.
    pub(crate) fn closing(&self) {
        self.advance(|_| Phase::Closing { until: Instant::now() + CLOSING });
    }

    fn advance(&self, next: impl FnOnce(Phase) -> Phase) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        *phase = next(*phase);
        self.changed.notify_all();
    }

    /// Returns when the array's thread should have given up, and has not closed its members in time.
    fn overdue(&self) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            match *phase {
                Phase::Closing { until } if until <= now => return,
                Phase::Stopping { until } if until <= now => {
                    *phase = Phase::Closing { until: now + CLOSING };
                    (self.tell)(Order::GiveUp);
                }
                Phase::Stopping { until } | Phase::Closing { until } => {
                    let waited = self.changed.wait_timeout(phase, until - now);
                    phase = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Phase::Serving | Phase::Over => {
                    phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// The steps of a shutdown that are left if the array's thread hangs.
pub(crate) struct LastResort {
    pub(crate) name: String,
    pub(crate) locks: Arc<Locks>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) control: Arc<Control>,
    pub(crate) snapshot: Snapshot,
}

impl LastResort {
    /// Frees the resources that others wait for, and ends the process.
    fn end(self) -> ! {
        let stuck = self.locks.unlock();
        if !uring::keeps_listeners() {
            self.sockets.iter().for_each(Socket::remove);
        }
        let mut why = not_stopped(&self.name);
        if !stuck.is_empty() {
            why.push_str(&format!(
                "; {} can't even be unlocked: a thread that the kernel holds there may outlive the process",
                stuck.join(", ")
            ));
        }
        let unanswered = self.snapshot.unanswered();
        if !unanswered.is_empty() {
            // The array's thread can't be asked for more than it said last.
            why.push_str(&format!(
                "; operations that had not been answered, by member: {}",
                unanswered.join(", ")
            ));
        }
        tracing::error!("{why}");
        log::flush();
        self.control.end(Ended::Badly { why });
        std::process::exit(1)
    }
}

/// Ends the process if the array's thread does not.
pub(crate) fn watch(shutdown: Arc<Shutdown>, last: LastResort) -> Result<(), Failure> {
    thread("ending", move || {
        shutdown.overdue();
        last.end()
    })
}

/// SIGTERM and SIGINT stop the array, after `first`. The second does not wait for it.
pub(crate) fn watch_signals(
    shutdown: Arc<Shutdown>,
    first: impl Fn() + Send + 'static,
) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|source| Failure::system("signals can't be watched", source))?;
    thread("signals", move || {
        for (count, _) in signals.forever().enumerate() {
            shutdown.signalled.store(true, Ordering::Release);
            if count == 0 {
                first();
                shutdown.begin();
            } else {
                shutdown.hurry();
            }
        }
    })
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = std::thread::Builder::new().name(name.into()).spawn(work);
    started.map(drop).map_err(|source| Failure::system(format!("the {name} thread can't start"), source))
}

/// A Unix socket of this server, known by more than its name: another server may have the name by now.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Socket {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: identity(path) }
    }

    pub(crate) fn remove(&self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // A socket that can't be removed does no harm: the next server finds that no process listens on it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_time_to_stop_begins_with_the_first_word_and_ends_with_a_second_signal() {
        let (tell, reported) = channel();
        let shutdown = Shutdown::new(Duration::from_secs(3600), move |order| tell.send(order).unwrap());
        shutdown.begin();
        let Phase::Stopping { until } = *shutdown.phase.lock().unwrap() else { panic!("it stops") };
        shutdown.begin();
        assert_eq!(*shutdown.phase.lock().unwrap(), Phase::Stopping { until });
        shutdown.hurry();
        let watch = std::thread::spawn({
            let shutdown = Arc::clone(&shutdown);
            move || shutdown.overdue()
        });
        let reported: Vec<Order> = reported.iter().take(3).collect();
        assert_eq!(reported, [Order::Stop, Order::Stop, Order::GiveUp]);
        assert!(!shutdown.begin_hand_over(|| panic!("it ends already")));
        // Another signal does not begin all over again, and the time to close is kept.
        shutdown.hurry();
        shutdown.advance(|phase| match phase {
            Phase::Closing { .. } => Phase::Closing { until: Instant::now() },
            other => panic!("{other:?}"),
        });
        watch.join().unwrap();
    }

    #[test]
    fn a_socket_that_another_server_has_made_is_left() {
        let path = std::env::temp_dir().join(format!("brindle-socket-test-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let ours = Socket::new(&path);
        let (other, _) = (path.with_extension("other"), fs::write(path.with_extension("other"), "").unwrap());
        fs::rename(&other, &path).unwrap();
        ours.remove();
        assert!(path.exists());
        Socket::new(&path).remove();
        assert!(!path.exists());
    }
}

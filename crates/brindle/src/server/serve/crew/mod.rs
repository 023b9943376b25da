//! The reactors of a server beside the first: threads that have sessions of clients, carry out what they can, and hand the rest to the first.

mod load;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use brindle_array::{ChannelTable, Channeled};
use brindle_export::nbd::{Away, HOME, Outpost, Post, Posting};
use brindle_export::{Config, MemoryShare};
use brindle_host::opening::Cores;
use brindle_host::status::ReactorStatus;
use brindle_host::{Any, Reactors, mailbox};
use brindle_io::{Berth, Io, MemberId, ThreadClock, pin_to};
use brindle_volume::Distant;

use crate::base::cores;
use crate::base::failure::Failure;
use crate::base::reactor;
use crate::base::stuck;
use load::Loads;

/// Time that threads have to end once they have nothing to do any more.
const END: Duration = Duration::from_secs(2);

/// The reactors of a server that has several.
pub(super) struct Crew {
    pub(super) away: Rc<Away<Any>>,
    pub(super) reactors: Reactors,
    /// Threads that have begun, and the word of each that it has ended, with the devices that have not answered all it asked.
    begun: usize,
    ended: Receiver<Unanswered>,
}

/// Devices that have not answered so many operations of a thread that has ended.
type Unanswered = Vec<(MemberId, usize)>;

/// A thread that has begun.
struct Begun {
    post: mailbox::Sender<Posting>,
    clock: ThreadClock,
    /// Requests that it has carried out itself.
    own: Arc<AtomicU64>,
}

impl Crew {
    /// Begins the threads that the cores ask for, beside this one; `None` if there is no other. What can't be had is done without.
    /// Each has one of the `shares` of the memory for requests.
    pub(super) fn begin(
        io: &Io,
        cores: &Cores,
        config: Config,
        shares: impl Iterator<Item = MemoryShare>,
    ) -> Result<Option<Self>, Failure> {
        if let Some(core) = cores.pinned(HOME) {
            pin(core);
        }
        if cores.count() == 1 {
            return Ok(None);
        }
        reactor::say_if_locked_memory_lacks();
        let mut berths = Berth::crew(cores.count()).into_iter();
        berths.next().into_iter().for_each(|berth| io.join(berth));
        let (end, ended) = mpsc::channel();
        let begin = |(berth, share): (Berth, MemoryShare)| {
            let core = cores.pinned(berth.number());
            begin(berth, core, (config, share), end.clone())
        };
        let others: Vec<Result<Begun, Failure>> = berths.zip(shares).map(begin).collect();
        let missing = others.iter().find_map(|other| other.as_ref().err());
        let others: Vec<Option<Begun>> = {
            if let Some(why) = missing {
                let begun = 1 + others.iter().filter(|other| other.is_ok()).count();
                tracing::warn!("{begun} of {} reactors serve: {why}", cores.count());
            }
            others.into_iter().map(Result::ok).collect()
        };
        let own = ThreadClock::own()
            .map_err(|source| Failure::system("this thread's processor time is not to be had", source))?;
        let clocks = others.iter().map(|other| other.as_ref().map(|begun| begun.clock));
        let loads = Loads::new(io, std::iter::once(Some(own)).chain(clocks).collect());
        let begun = others.iter().flatten().count();
        let own = others.iter().map(|other| other.as_ref().map(|begun| Arc::clone(&begun.own))).collect();
        let chosen = Rc::clone(&loads);
        let away = Away::new(
            io,
            others.into_iter().map(post).collect(),
            Box::new(move |session| chosen.place(session)),
        );
        let reactors = reactors(io, &away, (loads, own), cores.clone());
        Ok(Some(Self { away, reactors, begun, ended }))
    }

    /// Has the threads end, once the sessions that they have are over.
    pub(super) fn end(&self) {
        self.away.end();
    }

    /// Waits until they have ended, though not for ever: one of them may wait for what this thread does no more. Gives the devices that
    /// have not answered all that they were asked.
    pub(super) fn join(&self) -> Unanswered {
        let (until, mut unanswered) = (Instant::now() + END, Vec::new());
        for _ in 0..self.begun {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(devices) = self.ended.recv_timeout(left) else {
                tracing::warn!("a reactor has not ended in time");
                break;
            };
            unanswered.extend(devices);
        }
        unanswered
    }
}

fn post(to: Option<Begun>) -> Post {
    match to {
        Some(begun) => Box::new(move |posting| begun.post.send(posting)),
        // No session is sent there.
        None => Box::new(drop),
    }
}

/// The reactors as status shows them.
fn reactors(
    io: &Io,
    away: &Rc<Away<Any>>,
    (loads, own): (Rc<Loads>, Vec<Option<Arc<AtomicU64>>>),
    cores: Cores,
) -> Reactors {
    let (io, away) = (io.clone(), Rc::clone(away));
    Rc::new(move || {
        loads.look();
        let uses = away.uses();
        let status = |(number, turns): (usize, u64)| {
            let at = number.checked_sub(1);
            let uses = at.and_then(|at| uses.get(at)).copied().unwrap_or_default();
            let own = at.and_then(|at| own.get(at)?.as_ref());
            let carried_out = own.map_or(0, |own| own.load(Ordering::Relaxed));
            let (core, busy) = (cores.pinned(number), loads.busy(number)?);
            let (sessions, forwarded, held_for) = (uses.sessions, uses.requests, loads.held_for(number));
            Some(ReactorStatus { core, busy, turns, sessions, forwarded, carried_out, held_for })
        };
        io.crew_turns().into_iter().enumerate().filter_map(status).collect()
    })
}

/// Begins a thread with a reactor.
fn begin(
    berth: Berth,
    core: Option<u16>,
    memory: (Config, MemoryShare),
    end: Sender<Unanswered>,
) -> Result<Begun, Failure> {
    let number = berth.number();
    let (tell, told) = mpsc::channel();
    let run = move || {
        let _aborts = Aborts;
        if let Some(core) = core {
            pin(core);
        }
        let mut unanswered = Vec::new();
        match start(berth) {
            Ok((io, begun, (next, channels), watch)) => {
                let _ = tell.send(Ok(begun));
                unanswered = serve(&io, memory, &next, channels);
                io.shutdown();
                drop(watch);
            }
            Err(why) => drop(tell.send(Err(why))),
        }
        let _ = end.send(unanswered);
    };
    let thread = Builder::new().name(format!("reactor-{number}")).spawn(run);
    thread.map_err(|source| Failure::system(format!("reactor {number} has no thread"), source))?;
    told.recv().unwrap_or_else(|_| Err(Failure::Refused(format!("reactor {number} has ended at its start"))))
}

type Started = (Io, Begun, (mailbox::Receiver<Posting>, Rc<ChannelTable>), brindle_io::Watch);

fn start(berth: Berth) -> Result<Started, Failure> {
    let clock = ThreadClock::own()
        .map_err(|source| Failure::system("a thread's processor time is not to be had", source))?;
    let io = Io::new(Box::new(reactor::new()?));
    let watch = stuck::end_if_stuck(&io, stuck::MOST)?;
    io.join(berth);
    let (post, next) = mailbox::mailbox(&io);
    let channels = ChannelTable::new(&io);
    let own = channels.requests();
    Ok((io, Begun { post, clock, own }, (next, channels), watch))
}

/// Serves the sessions that are posted here, until all are to end. Gives the devices that have not answered all that they were asked.
fn serve(
    io: &Io,
    (config, share): (Config, MemoryShare),
    next: &mailbox::Receiver<Posting>,
    channels: Rc<ChannelTable>,
) -> Unanswered {
    let (of, all) = (io.clone(), Rc::clone(&channels));
    let volume = Box::new(move |distant: Distant| Any::Away(Channeled::new(&of, distant, &channels)));
    let outpost = Outpost::new(io, config, share, volume);
    io.block_on(async {
        while outpost.take(next.next().await) {}
        outpost.stop().await;
    });
    all.unanswered()
}

fn pin(core: u16) {
    if let Err(why) = pin_to(core) {
        tracing::warn!("a reactor can't be pinned to core {core}, and runs anywhere: {why}");
    }
}

/// Ends the process if its thread panics: clients would wait for ever.
struct Aborts;

impl Drop for Aborts {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// Refuses cores that are not there or not this process's, before anything is opened.
pub(super) fn check(wanted: &Cores) -> Result<(), Failure> {
    let may = cores::allowed();
    match wanted {
        Cores::Count(1) => Ok(()),
        Cores::Count(count) if usize::from(*count) > may.len() && !may.is_empty() => {
            Err(Failure::Usage(format!(
                "--cores {count}: this process may use {} cores ({}): give as many at most",
                may.len(),
                cores::text(&may)
            )))
        }
        Cores::Count(count) => {
            let quota = thread::available_parallelism().map_or(usize::MAX, usize::from);
            if usize::from(*count) > quota {
                eprintln!(
                    "brindle: --cores {count}: a quota lets this process have the time of {quota}, and its reactors share that"
                );
            }
            Ok(())
        }
        Cores::These(these) => match these.iter().find(|core| !may.contains(core)) {
            Some(core) if !may.is_empty() => Err(Failure::Usage(format!(
                "--cores {wanted}: core {core} {}; this process may use {}",
                if cores::online().contains(core) {
                    "is not for this process"
                } else {
                    "is not there, or offline"
                },
                cores::text(&may)
            ))),
            _ => Ok(()),
        },
    }
}

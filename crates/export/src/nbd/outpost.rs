//! A reactor that has sessions of another's server: it receives, sends, and has the other one carry requests out.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::Io;
use brindle_volume::{Distant, Limits, Volume};

use super::away::{Departing, LEFT, Posting};
use super::connection::Transmission;
use crate::session::{Config, ConnectionResources, Export, Link, MemoryShare, Offered, Protocol, Sessions};

/// Makes a volume of what the first reactor of the crew hands over.
pub type MakeVolume<V> = Box<dyn Fn(Distant) -> V>;

/// A size that no request goes beyond.
const NO_END: u64 = 1 << 63;

/// The sessions that a reactor has taken over.
pub struct Outpost<V> {
    io: Io,
    config: Config,
    sessions: Rc<Sessions>,
    volume: MakeVolume<V>,
    here: RefCell<BTreeMap<u32, Here>>,
}

/// A session that was taken over.
enum Here {
    /// It has no memory yet, and is to be stopped or closed when it does.
    Coming(Ending),
    Serving(Rc<Link>),
}

/// How a session is to end, if it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    None,
    Stopped,
    Closed,
}

impl Ending {
    fn happens_to(self, link: &Link) {
        match self {
            Self::None => {}
            Self::Stopped => link.account.stop(),
            Self::Closed => link.account.close(),
        }
    }
}

impl<V: Volume + 'static> Outpost<V> {
    /// A reactor without sessions, which has the memory for requests together with others.
    pub fn new(io: &Io, config: Config, share: MemoryShare, volume: MakeVolume<V>) -> Rc<Self> {
        let (sessions, here) = (Sessions::sharing(io, config, share), RefCell::default());
        Rc::new(Self { io: io.clone(), config, sessions, volume, here })
    }

    /// Does as it is told; false once all sessions are to end.
    pub fn take(self: &Rc<Self>, posting: Posting) -> bool {
        match posting {
            Posting::Take(departing) => self.begin(*departing),
            Posting::Stop(number) => self.end(number, Ending::Stopped),
            Posting::Close(number) => self.end(number, Ending::Closed),
            Posting::End => return false,
        }
        true
    }

    /// Ends all sessions in order, and waits until they are gone.
    pub async fn stop(&self) {
        self.sessions.stop().await;
    }

    /// Sessions that are here.
    pub fn count(&self) -> usize {
        self.here.borrow().len()
    }

    fn begin(self: &Rc<Self>, departing: Departing) {
        let Departing { number, socket, export, terms, ticket, paced, closed, waiting, told } = departing;
        self.here.borrow_mut().insert(number, Here::Coming(Ending::None));
        // An export that has grown has more bytes than were agreed upon: the first reactor knows how many.
        let limits = Limits { size: NO_END, ..terms.limits };
        let volume = Rc::new((self.volume)(Distant { number, limits, ticket, paced, closed }));
        let export = Export::new(Offered::new(0, &export, Rc::default()), "", volume);
        export.show(&told);
        let export = Rc::new(export);
        let arrived = Arrived { outpost: Rc::clone(self), number, export, terms, waiting };
        if let Some(socket) = self.io.adopt(socket) {
            self.sessions.take(socket, &Rc::new(arrived));
        }
    }

    fn end(&self, number: u32, ending: Ending) {
        match self.here.borrow_mut().get_mut(&number) {
            None => {}
            Some(Here::Coming(to_come)) => *to_come = ending,
            Some(Here::Serving(link)) => ending.happens_to(link),
        }
    }
}

/// A session that has come. When it is dropped the session is over.
struct Arrived<V: Volume + 'static> {
    outpost: Rc<Outpost<V>>,
    number: u32,
    export: Rc<Export<V>>,
    terms: super::proto::Terms,
    waiting: Vec<u8>,
}

impl<V: Volume + 'static> Protocol for Arrived<V> {
    async fn converse(self: Rc<Self>, resources: ConnectionResources) {
        let ConnectionResources { link, memory, mut inbox, outbox, .. } = resources;
        let Self { outpost, number, export, terms, .. } = &*self;
        link.settle(&export.name);
        inbox.put(&self.waiting);
        let before = outpost.here.borrow_mut().insert(*number, Here::Serving(Rc::clone(&link)));
        if let Some(Here::Coming(ending)) = before {
            ending.happens_to(&link);
        }
        let transmission = Transmission::new(link, memory, Rc::clone(export), *terms, outpost.config.grace);
        transmission.run(inbox, outbox).await;
    }
}

impl<V: Volume + 'static> Drop for Arrived<V> {
    fn drop(&mut self) {
        self.outpost.here.borrow_mut().remove(&self.number);
        let (io, number) = (self.outpost.io.clone(), u64::from(self.number));
        drop(self.outpost.io.spawn(async move {
            // If the other one ends, nobody is to be told.
            let _ = io.ask(HOME, [LEFT | number << 32, 0, 0, 0], false, &[]).await;
        }));
    }
}

/// The reactor that has the server and its volumes.
pub const HOME: usize = 0;

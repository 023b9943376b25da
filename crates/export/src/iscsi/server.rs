//! The server: its targets and portals, and what it does with each connection.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Histogram, Io, Slice, SocketId};
use brindle_volume::Volume;

use super::connection::Connection;
use super::login::{Chap, Door, LoggedIn, Login, LoginStep, MOST_RECEIVED, Refusal};
use super::nexuses::{Nexuses, SessionEntry};
use super::pdu::{BHS, Header};
use super::shared::{IscsiConfig, PortalAddress, Shared};
use super::target::{Target, TargetSpec};
use crate::access::{Client, Proof, Right};
use crate::scsi::reservation::Nexus;
use crate::session::{
    ConnectionResources, ConnectionStats, Counters, End, Exports, Inbox, Link, Protocol, Refusals, Sessions,
};

/// An iSCSI server on an executor. A handle: cloning gives the same server.
pub struct Server<V> {
    sessions: Rc<Sessions>,
    shared: Rc<Shared<V>>,
}

impl<V> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self { sessions: Rc::clone(&self.sessions), shared: Rc::clone(&self.shared) }
    }
}

/// The use of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStats {
    /// The target's IQN.
    pub name: String,
    /// Sessions with it now: the numbers of their connections, and the names of their initiators' ports.
    pub initiators: Vec<(u64, String)>,
    /// Nexuses that have registered.
    pub registrants: usize,
    /// A reservation is held.
    pub reserved: bool,
    /// Counters since the target was added.
    pub total: Counters,
    /// Latencies of some of its commands: reads, and others.
    pub latency: [Histogram; 2],
}

/// Time that a login has to hear that it is refused, or to say the rest that it is refused for.
const LAST_WORD: Duration = Duration::from_secs(1);
/// The most that a command transfers. Bytes.
const MOST_TRANSFERRED: usize = 8 << 20;

impl<V: Volume + 'static> Server<V> {
    /// A server without targets.
    pub fn new(io: &Io, mut config: IscsiConfig) -> Self {
        let sessions = Sessions::new(io, config.session);
        let shared = Shared {
            io: io.clone(),
            chap: RefCell::new(config.chap.take().map(Rc::new)),
            nexuses: Nexuses::new(io),
            config,
            targets: Exports::default(),
            portals: RefCell::default(),
            next_session: Cell::new(0),
        };
        Self { sessions, shared: Rc::new(shared) }
    }

    /// Serves a disk.
    pub fn add_target(&self, spec: TargetSpec<V>) {
        let most = self.most();
        let (name, gate) = (spec.identity.target.clone(), Rc::clone(&spec.gate));
        let make = |offered| Target::new(&self.shared.io, spec, offered, most);
        self.shared.targets.add(&name, gate, make);
    }

    /// Bytes that a command may move: a quarter of the memory, so that it finds room beside others.
    fn most(&self) -> usize {
        MOST_TRANSFERRED.min(self.shared.config.session.largest_request() / 4)
    }

    /// The volume of a target has another size by now: its initiators are told.
    pub fn resized(&self, name: &str) {
        if let Some(target) = self.shared.targets.named(name) {
            target.resized(self.most());
        }
    }

    /// Serves a disk no longer, and ends its sessions. When it returns the volume has been let go.
    pub async fn remove_target(&self, name: &str) {
        self.shared.targets.remove(name, &self.sessions).await;
    }

    /// Ends at once the sessions with a target that `which` selects by number and client; returns how many.
    pub fn disconnect(&self, target: &str, which: impl Fn(u64, &Client) -> bool) -> usize {
        self.sessions.disconnect(target, which)
    }

    /// Replaces the secrets by which initiators prove themselves, and ends at once the connections of those whose secret is gone or
    /// another; returns how many.
    pub fn set_chap(&self, chap: Chap) -> usize {
        let new = Rc::new(chap);
        let old = self.shared.chap.replace(Some(Rc::clone(&new)));
        self.sessions.end_those(|client| match (&client.proved, &old) {
            (Some(Proof::Chap(name)), Some(old)) => !new.agrees(old, name),
            _ => false,
        })
    }

    /// Ends all sessions with a target as [`Server::stop`] does, and serves it on. When it returns they are gone.
    pub async fn dismiss(&self, name: &str) {
        self.shared.targets.dismiss(name, &self.sessions).await;
    }

    /// Accepts connections on a listening socket until the server stops. `address` is the one that initiators are
    /// given; `None`: the address to which they connected. Each is a portal group and a target port of its own.
    pub fn serve(&self, listener: SocketId, address: Option<String>) {
        let group = self.shared.portals.borrow().len() as u16 + 1;
        let listens = self.shared.io.local(listener);
        self.shared.portals.borrow_mut().push(PortalAddress { given: address, listens, group });
        self.sessions.listen(listener, Rc::new(Portal { shared: Rc::clone(&self.shared), group }));
    }

    /// Stops as an NBD server does: no further command is taken, those under way are answered.
    pub async fn stop(&self) {
        self.shared.targets.stop(&self.sessions).await;
    }

    /// Every target, in the order in which they were added.
    pub fn target_stats(&self) -> Vec<TargetStats> {
        let stats = |target: &Rc<Target<V>>| {
            let unit = target.unit.borrow();
            let initiators = self.shared.nexuses.of(target);
            TargetStats {
                name: target.name.clone(),
                initiators: initiators
                    .iter()
                    .map(|entry| (entry.id, entry.nexus.initiator.clone()))
                    .collect(),
                registrants: unit.reservations().registrants(),
                reserved: unit.is_reserved(),
                total: target.tally.get(),
                latency: target.latencies.get(),
            }
        };
        self.shared.targets.all().iter().map(stats).collect()
    }

    /// Every connection, oldest first.
    pub fn connection_stats(&self) -> Vec<ConnectionStats> {
        self.sessions.stats()
    }

    /// Clients that were refused so far.
    pub fn refused(&self) -> u64 {
        self.sessions.refused()
    }

    /// Bytes of memory that commands hold: 0 when none is under way.
    pub fn memory_in_use(&self) -> usize {
        self.sessions.memory_in_use()
    }
}

/// The name under which the statistics of connections have sessions that only ask which targets there are.
pub const DISCOVERY: &str = "discovery";

/// A listener and its portal group.
struct Portal<V> {
    shared: Rc<Shared<V>>,
    group: u16,
}

/// A portal, as a connection through it needs it.
struct Entrance<'a, V> {
    portal: &'a Portal<V>,
    client: Client,
    /// The secrets that hold at this step.
    chap: Option<Rc<Chap>>,
}

impl<V: Volume + 'static> Door for Entrance<'_, V> {
    fn target(&self, name: &str, initiator: &str, proved: Option<&str>) -> Result<usize, Refusal> {
        let proof = proved.map(|name| Proof::Chap(name.to_owned()));
        let client = Client { proved: proof, ..self.client };
        let shared = &self.portal.shared;
        let target = shared.targets.named(name).filter(|target| target.gate.right(&client).is_some());
        let target = target.ok_or(Refusal::NotFound)?;
        let may = shared.may_be_called(&target, initiator, proved);
        if may { Ok(target.number) } else { Err(Refusal::Forbidden) }
    }

    fn chap(&self) -> Option<&Chap> {
        self.chap.as_deref()
    }

    fn random(&self, bytes: &mut [u8]) {
        (self.portal.shared.config.random)(bytes);
    }

    fn group(&self) -> u16 {
        self.portal.group
    }
}

impl<V: Volume + 'static> Protocol for Portal<V> {
    const EXPLAINS: bool = true;

    async fn converse(self: Rc<Self>, resources: ConnectionResources) {
        let ConnectionResources { id, link, memory, mut inbox, outbox, refusals, visits, .. } = resources;
        let room = outbox.slice(0..outbox.len());
        let (mut reply, text, logged_in) = match self.login(&link, &mut inbox, &room, &refusals).await {
            Ok(concluded) => concluded,
            Err(why) => {
                tracing::info!(connection = id, why, "no session");
                return;
            }
        };
        link.proved(logged_in.proved.clone().map(Proof::Chap));
        let waiting = Waiting::default();
        let mut listening = Box::pin(waiting.listen(&link, &mut inbox));
        let gone = race(&mut listening, link.interruption());
        let entered = match race(self.enter(id, &link, &logged_in), gone).await {
            Either::First(entered) => entered,
            Either::Second(Either::Second(End::Orderly)) => Err(Refusal::Unavailable),
            Either::Second(_) => return,
        };
        let entry = match entered {
            Ok(entry) => entry,
            Err(refusal) => {
                refuse(&link, &room, &reply, refusal, &refusals).await;
                return;
            }
        };
        waiting.over.set(true);
        reply.0[14..16].copy_from_slice(&self.handle().to_be_bytes());
        let sent = send(&link, &room, &reply, &text).await;
        drop(room);
        let target = entry.target.clone();
        link.settle(target.as_ref().map_or(DISCOVERY, |target| &target.name));
        if target.is_none() {
            visits.enter(&link);
        }
        let client = link.client();
        // It may have ended meanwhile, or the right may be another.
        let stands =
            |target: &Rc<Target<V>>| !target.has_ended() && target.gate.right(&client) == Some(entry.right);
        let is_there = sent.is_ok()
            && (!waiting.begun.get()
                || matches!(race(&mut listening, link.interruption()).await, Either::First(Ok(()))));
        drop(listening);
        if is_there && target.as_ref().is_none_or(stands) {
            let connection = Connection::new(&self.shared, &entry, memory, &logged_in);
            let end = connection.run(inbox, outbox).await;
            tracing::debug!(connection = id, ?end, "closed");
        }
        link.close();
        self.leave(&entry);
    }

    async fn decline(self: Rc<Self>, link: &Link, inbox: &mut Inbox, out: &Slice) {
        let Ok((header, _)) = receive(link, inbox).await else { return };
        if let Some(reply) = Login::default().refuse(&header, Refusal::Full) {
            // One that is gone need not be told.
            let _ = send(link, out, &reply, &[]).await;
        }
    }
}

/// A client whose login waits for an earlier session to end: it has nothing to say before it is answered, but may leave.
#[derive(Default)]
struct Waiting {
    begun: Cell<bool>,
    over: Cell<bool>,
}

impl Waiting {
    /// Receives what the client says once it has been answered; an error if it leaves, or does not wait.
    async fn listen(&self, link: &Link, inbox: &mut Inbox) -> Result<(), ()> {
        self.begun.set(true);
        if inbox.len() > 0 {
            return Err(());
        }
        match inbox.receive(link).await {
            Ok(1..) if self.over.get() => Ok(()),
            _ => Err(()),
        }
    }
}

/// A login's last reply, which is sent once the session is there.
type Concluded = (Header, Vec<u8>, Box<LoggedIn>);

impl<V: Volume + 'static> Portal<V> {
    /// Logs in; `Err` says why not.
    async fn login(
        &self,
        link: &Link,
        inbox: &mut Inbox,
        out: &Slice,
        refusals: &Refusals,
    ) -> Result<Concluded, String> {
        let mut login = Login::default();
        // The secrets by which it has proved itself.
        let mut proved_by: Option<Rc<Chap>> = None;
        loop {
            let (header, came) = self.next(link, inbox, login.has_begun()).await?;
            link.heard();
            let chap = self.shared.chap.borrow().clone();
            let entrance = Entrance { portal: self, client: link.client(), chap: chap.clone() };
            let step = match came {
                Ok(data) => login.step(&header, &data, &entrance),
                Err(refusal) => {
                    let reply = login.refuse(&header, refusal).ok_or_else(|| refusal.to_string())?;
                    LoginStep::Refused(reply, refusal)
                }
            };
            if proved_by.is_none() && login.proved().is_some() {
                proved_by.clone_from(&chap);
            }
            let (reply, refusal) = match step {
                LoginStep::More(reply, text) if fits(out, &text) => {
                    match race(send(link, out, &reply, &text), link.interruption()).await {
                        Either::First(sent) => sent?,
                        Either::Second(_) => return Err(Refusal::Unavailable.to_string()),
                    }
                    continue;
                }
                LoginStep::Done(reply, text, logged_in) if fits(out, &text) => {
                    let stands = match (&proved_by, &chap, &logged_in.proved) {
                        (Some(then), Some(now), Some(name)) => now.agrees(then, name),
                        _ => true,
                    };
                    if stands {
                        return Ok((reply, text, logged_in));
                    }
                    (reply, Refusal::Authentication)
                }
                LoginStep::More(reply, _) | LoginStep::Done(reply, ..) => (reply, Refusal::Protocol),
                LoginStep::Refused(reply, refusal) => (reply, refusal),
            };
            refuse(link, out, &reply, refusal, refusals).await;
            return Err(refusal.to_string());
        }
    }

    /// The next PDU of a login, and its data, or why it is refused. One that has begun when the server ends is told so.
    async fn next(
        &self,
        link: &Link,
        inbox: &mut Inbox,
        has_begun: bool,
    ) -> Result<(Header, Result<Vec<u8>, Refusal>), String> {
        let mut receiving = core::pin::pin!(receive(link, inbox));
        match race(receiving.as_mut(), link.interruption()).await {
            Either::First(received) => return received,
            Either::Second(End::Orderly) if has_begun => {}
            Either::Second(_) => return Err(Refusal::Unavailable.to_string()),
        }
        match race(receiving, race(link.is_gone(), link.io.sleep(LAST_WORD))).await {
            Either::First(received) => received.map(|(header, _)| (header, Err(Refusal::Unavailable))),
            Either::Second(_) => Err(Refusal::Unavailable.to_string()),
        }
    }

    /// Makes a session of a login. One of the same initiator port ends first.
    ///
    /// # Errors
    /// The target is gone, or the initiator's name is another's.
    async fn enter(
        &self,
        id: u64,
        link: &Rc<Link>,
        logged_in: &LoggedIn,
    ) -> Result<Rc<SessionEntry<V>>, Refusal> {
        let target = match logged_in.target {
            Some(number) => Some(self.shared.targets.numbered(number).ok_or(Refusal::NotFound)?),
            None => None,
        };
        let isid: String = logged_in.isid.iter().map(|byte| format!("{byte:02x}")).collect();
        let (initiator, proved) = (&logged_in.initiator, logged_in.proved.as_deref());
        let nexus = Nexus {
            initiator: format!("{initiator},i,0x{isid}"),
            port: self.group,
            owner: logged_in.proved.clone(),
        };
        let mut right = Right::Read;
        if let Some(target) = &target {
            let may = || {
                let may = self.shared.may_be_called(target, initiator, proved);
                if may { Ok(()) } else { Err(Refusal::Forbidden) }
            };
            may()?;
            if let Some(proved) = proved {
                target.adopt(initiator, proved).await;
            }
            while let Some(old) = self.shared.nexuses.find(&nexus, target) {
                tracing::info!(connection = old.id, initiator = nexus.initiator, "its session begins anew");
                self.shared.nexuses.end(&old).await;
            }
            // All that may be another since it has logged in.
            may()?;
            right = target.gate.right(&link.client()).ok_or(Refusal::NotFound)?;
            if target.has_ended() {
                return Err(Refusal::Unavailable);
            }
            target.unit.borrow_mut().arrived(&nexus);
            target.enters();
        }
        let entry = Rc::new(SessionEntry {
            id,
            nexus,
            right,
            target,
            link: Rc::clone(link),
            commands: RefCell::default(),
        });
        self.shared.nexuses.add(&entry);
        Ok(entry)
    }

    fn leave(&self, entry: &Rc<SessionEntry<V>>) {
        if let Some(target) = &entry.target {
            target.unit.borrow_mut().left(&entry.nexus);
            target.look_at_gate();
            target.leaves();
        }
        self.shared.nexuses.remove(entry);
    }

    /// The session's handle, which a login's last reply tells.
    fn handle(&self) -> u16 {
        let next = self.shared.next_session.get().wrapping_add(1).max(1);
        self.shared.next_session.set(next);
        next
    }
}

/// A PDU of a login with its data, or why it is refused.
async fn receive(link: &Link, inbox: &mut Inbox) -> Result<(Header, Result<Vec<u8>, Refusal>), String> {
    let mut need = BHS;
    loop {
        if inbox.len() >= BHS {
            let header = Header(inbox.peek().ok_or("the inbox is too small")?);
            if header.additional() > 0 || header.data() > 8192.min(MOST_RECEIVED) {
                return Ok((header, Err(Refusal::Protocol)));
            }
            need = BHS + header.padded();
            if inbox.len() >= need {
                let data = inbox.bytes()[BHS..BHS + header.data()].to_vec();
                inbox.consume(need);
                return Ok((header, Ok(data)));
            }
        }
        debug_assert!(inbox.len() < need);
        match inbox.receive(link).await {
            Ok(0) => return Err("it has closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Refuses a login in place of a reply to it.
async fn refuse(link: &Link, out: &Slice, reply: &Header, refusal: Refusal, refusals: &Refusals) {
    if matches!(refusal, Refusal::Authentication | Refusal::Forbidden | Refusal::NotFound) {
        refusals.refused(&link.client(), &refusal.to_string());
    }
    let reply = refusal.in_place_of(*reply);
    let told = send(link, out, &reply, &[]);
    race(told, race(link.is_gone(), link.io.sleep(LAST_WORD))).await;
}

/// Whether the text of a login's reply has room.
fn fits(out: &Slice, text: &[u8]) -> bool {
    BHS + text.len().next_multiple_of(4) <= out.len()
}

/// Sends a PDU of a login.
async fn send(link: &Link, out: &Slice, header: &Header, text: &[u8]) -> Result<(), String> {
    let len = BHS + text.len().next_multiple_of(4);
    out.put(0, &header.0);
    out.put(BHS, text);
    out.put(BHS + text.len(), &[0; 3][..len - BHS - text.len()]);
    link.send(&[out.slice(0..len)]).await.map_err(|error| error.to_string())
}

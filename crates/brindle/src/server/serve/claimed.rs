//! A server has its members and its name, listens, and takes the place of its predecessor. No member is written to.

use std::os::unix::net::UnixListener;

use brindle_host::control::ControlRights;
use brindle_io::uring::{self, ListenError, SocketFile, SocketRights};

use super::checked;
use super::doors::Entrances;
use super::kinds::{AtStart, ClaimedContents};
use super::looked::{Known, LookedAt, Meant, Seen, ServerPlace};
use super::metrics::Listening as Scraped;
use super::places::ListenPlace;
use super::planned::Ways;
use super::takeover::Predecessor;
use super::tls::Certificates;
use crate::base::failure::Failure;
use crate::base::runtime;
use crate::client::ask;
use crate::devices::world::World;
use crate::server::shutdown::Socket;

/// A server whose members are open and locked, and whose name no other has.
pub(super) struct Claimed<'a> {
    claim: Claim<'a>,
    ways: Ways,
}

/// A server on whose sockets clients wait.
pub(super) struct Listening<'a> {
    claim: Claim<'a>,
    entrance: Entrance,
}

/// All that is claimed until a predecessor has heard of it.
struct Claim<'a> {
    /// Let go before the world in which they are.
    contents: Vec<Box<dyn ClaimedContents>>,
    world: World,
    predecessor: Option<Predecessor<'a>>,
    held: Held,
    known: Known<'a>,
}

/// A server that may write to members: it goes on in the place of no other, or that one has heard that it goes on.
pub(super) struct Alone<'a> {
    pub(super) contents: Vec<Box<dyn ClaimedContents>>,
    pub(super) world: World,
    pub(super) entrance: Entrance,
    pub(super) left: Left,
    pub(super) held: Held,
    pub(super) known: Known<'a>,
}

/// Devices of the kernel that the exports were before this server started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// A daemon that has ended just now has left them.
    Devices,
    Nothing,
}

/// Sockets of exports.
pub(super) struct Entrance {
    pub(super) entrances: Entrances,
    /// Names of those that are in the file system.
    pub(super) sockets: Vec<Socket>,
    pub(super) certificates: Option<Certificates>,
}

/// Sockets that are kept until the end.
pub(super) struct Held {
    pub(super) scraped: Scraped,
    pub(super) listener: UnixListener,
    /// Rights to it.
    pub(super) rights: ControlRights,
    /// The name of the control socket in the file system.
    pub(super) control: SocketFile,
}

impl<'a> LookedAt<'a> {
    /// Opens and locks members, and makes the control socket: another server of that name ends here.
    pub(super) fn claim(self) -> Result<Claimed<'a>, Failure> {
        let Self { seen, predecessor, ways, known } = self;
        let Seen { how, contents: found, .. } = seen;
        let (unserved, expected) = (&known.meant.unserved, known.meant.configured.len() as u64);
        let mut world = World::new(how)?;
        let shares: u64 = found.iter().map(|contents| contents.shares()).sum();
        // Memory is shared with contents that are expected to come.
        world.share_memory(shares.max(expected).max(1), known.task.job.opening.cores.count());
        let claimed = found.into_iter().map(|contents| contents.claim(&mut world, unserved));
        let mut contents = claimed.collect::<Result<Vec<_>, _>>()?;
        let others = ask::status_of_all(&known.place.folder);
        let at = AtStart { opening: &known.task.job.opening, world: &world, unserved };
        contents.iter_mut().try_for_each(|contents| contents.refuse_copies(&others, &at))?;
        let rights = checked::control_rights(&known.task.job.opening.control)?;
        let (listener, control) = listen(&known.place, rights)?;
        let scraped = known.task.metrics.listen()?;
        let held = Held { scraped, listener, rights, control };
        Ok(Claimed { claim: Claim { contents, world, predecessor, held, known }, ways })
    }
}

/// The control socket, and its name in the file system.
fn listen(
    ServerPlace { name, folder, .. }: &ServerPlace,
    rights: ControlRights,
) -> Result<(UnixListener, SocketFile), Failure> {
    let _held = runtime::hold(folder);
    let rights = match rights.group() {
        Some(group) => {
            runtime::share(folder, group)?;
            SocketRights { mode: 0o660, owner: None, group: Some(group) }
        }
        None => uring::OWNER_ONLY,
    };
    uring::listen_unix(&runtime::control_socket(folder, name), rights).map_err(|error| match error {
        ListenError::InUse(path) => Failure::Refused(format!(
            "a server named '{name}' runs already ({}): stop it, or choose another --name",
            path.display()
        )),
        other => other.into(),
    })
}

impl<'a> Claimed<'a> {
    /// Listens at all addresses: one that is in use is found before a pool is opened, which writes to it.
    pub(super) fn listen(self) -> Result<Listening<'a>, Failure> {
        let Self { ways, claim } = self;
        let Ways { mut places, rights, plan, certificates } = ways;
        if places.is_empty() {
            let ServerPlace { name, folder, .. } = &claim.known.place;
            places.push(ListenPlace::Unix(runtime::nbd_socket(folder, name)));
        }
        let uring = &claim.world.uring;
        let entrances = Entrances::begin(uring, &places, (rights, certificates.is_some()), plan)?;
        let unix = places.iter().filter_map(|place| match place {
            ListenPlace::Unix(path) => Some(Socket::new(path)),
            ListenPlace::Tcp(_) => None,
        });
        let entrance = Entrance { entrances, sockets: unix.collect(), certificates };
        Ok(Listening { claim, entrance })
    }
}

impl<'a> Listening<'a> {
    /// Has the predecessor hear that all is ready. It serves on, if this one lacks something that it served.
    pub(super) fn go_on(self) -> Result<Alone<'a>, Failure> {
        let Self { claim: Claim { known, held, predecessor, world, mut contents }, entrance } = self;
        let left = match predecessor {
            Some(predecessor) => {
                succeed(predecessor, &world, &mut contents, &known)?;
                Left::Devices
            }
            None => Left::Nothing,
        };
        Ok(Alone { contents, world, entrance, left, held, known })
    }
}

/// Goes on in the place of a predecessor, with the contents that can be opened.
fn succeed(
    predecessor: Predecessor<'_>,
    world: &World,
    contents: &mut [Box<dyn ClaimedContents>],
    known: &Known<'_>,
) -> Result<(), Failure> {
    let Meant { configured, unserved } = &known.meant;
    let at = AtStart { opening: &known.task.job.opening, world, unserved };
    contents.iter_mut().try_for_each(|contents| contents.try_open(&at))?;
    let taken: Vec<String> = contents.iter().flat_map(|contents| contents.uuids()).collect();
    let is_taken = |uuid: &str| taken.iter().any(|own| own == uuid);
    predecessor.leaves_nothing(is_taken, (configured, unserved))?;
    predecessor.ready()
}

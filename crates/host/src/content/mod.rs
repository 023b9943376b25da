//! Kinds of content that a host serves, each in a folder of its own: arrays, pools. The host knows them by [`Content`] alone.

pub(crate) mod array;
pub(crate) mod container;
mod host;
pub(crate) mod pool;
mod spares;
mod stop;

use std::any::Any;
use std::path::PathBuf;
use std::rc::Rc;

use brindle_export::Gate;
use brindle_io::MemberId;

use crate::answers::RequestOutcome;
use crate::attach::Attached;
use crate::control::{Ask, Author};
use crate::doors::{DoorStats, Doors, ExportPlace};
use crate::error::HostError;
use crate::names::Names;
use crate::offered::Offered;
use crate::status::{ClientStatus, DoorStatus, Report};
use crate::world::Pending;

pub use host::{Host, all_of};
pub use spares::{Given, SharesSpares, Work, share_spares};

/// Where a content stands in its host.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// The name of its server, if reports and addresses name the content.
    pub server: Option<String>,
    /// The folder of the process.
    pub folder: Option<PathBuf>,
    /// The way in for clients of all its exports.
    pub gate: Rc<Gate>,
}

/// The state of a host that a content's report shows.
pub struct Seen<'a> {
    pub(crate) doors: &'a Doors,
    pub(crate) stats: DoorStats,
    pub(crate) attached: &'a [Attached],
}

impl Seen<'_> {
    /// The use of a content by way of each door.
    pub fn uses(&self, content: &dyn Content) -> Vec<DoorStatus> {
        self.stats.uses(&content.places(self.doors))
    }

    /// Clients that use a content now, and those that ask for exports.
    pub(crate) fn clients(&self, content: &dyn Content) -> Vec<ClientStatus> {
        self.stats.clients(&content.export_names())
    }

    /// The device of the kernel that an export is.
    pub fn device(&self, export: &str) -> Option<String> {
        self.attached.iter().find(|one| one.export == export).map(Attached::device)
    }
}

/// Something that is served, of any kind. It lives on the reactor's thread.
///
/// An order is carried out, and a stop comes to its end, also if the client that asked has left.
pub trait Content: Any {
    /// The word for its kind: `array`.
    fn kind(&self) -> &'static str;

    /// Its name.
    fn name(&self) -> &str;

    /// Whether no other content may have that name: it has it, or is about to.
    fn claims(&self, name: &str) -> bool {
        self.name() == name
    }

    /// Its UUID, as reports write it.
    fn uuid(&self) -> String;

    /// All names by which a request can mean it.
    fn names(&self) -> Names;

    /// Whether it has a member of this name.
    fn has_member(&self, name: &str) -> bool;

    /// Its exports at this moment, none of which is offered by another content.
    fn exports(&self) -> Vec<Offered>;

    /// The names of its exports.
    fn export_names(&self) -> Vec<String> {
        self.exports().into_iter().map(|offered| offered.name).collect()
    }

    /// Whether it is one export, which has its name. A server that has only such a content reports it by itself; others report a list.
    fn is_one_export(&self) -> bool;

    /// Where it stands in its host.
    fn placed(&self) -> &Placed;

    /// It is for reading alone until members are here that were in use.
    fn waits(&self) -> bool {
        false
    }

    /// The use that it has for the device of that name, in words: `a device of 'data' already`.
    fn use_of(&self, _device: &str) -> Option<String> {
        None
    }

    /// All devices that were opened for it and are not another's now.
    fn devices(&self, host: &dyn Host) -> Vec<MemberId>;

    /// Whether a device is one of its own now.
    fn holds(&self, _device: MemberId) -> bool {
        false
    }

    /// Its part in sharing spares, if it is of a kind that has any.
    fn shares_spares(&self) -> Option<&dyn SharesSpares> {
        None
    }

    /// Its full status at this moment.
    fn report(&self, seen: &Seen<'_>) -> Report;

    /// Begins the work that it does by itself, once clients are answered.
    fn begin(&self) {}

    /// Its exports that have got another size by such work since this was asked last.
    fn resized(&self) -> Vec<String> {
        Vec::new()
    }

    /// A content has come or gone: it takes its part anew of what it shares with others.
    fn share(&self, _host: &dyn Host) {}

    /// Carries out an order, or answers [`HostError::NotForThis`] by [`not_for`]. A change has the command that it is of: some keep a history
    /// of these.
    fn carry_out(
        self: Rc<Self>,
        ask: Ask,
        by: Option<Author>,
        host: Rc<dyn Host>,
    ) -> Pending<Result<RequestOutcome, HostError>>;

    /// Stops it, once `clients` are gone. A second call waits for the same end.
    fn stop(self: Rc<Self>, clients: Pending<()>) -> Pending<Result<(), HostError>>;

    /// Whether it has stopped well; `None` while it runs.
    fn has_stopped_well(&self) -> Option<bool>;

    /// Its end, for people.
    fn last_words(&self) -> &'static str;

    /// Reports the events for which no task had a turn.
    fn tell_the_last_events(&self);

    /// Reports its remaining events, and no more from then on.
    fn tell_no_more(&self) {
        self.tell_the_last_events();
    }
}

impl dyn Content {
    /// The addresses by which clients find its exports.
    pub fn places(&self, doors: &Doors) -> Vec<ExportPlace> {
        // The only export of a server is found without its name.
        let is_named = !self.is_one_export() || self.placed().server.is_some();
        self.export_names().into_iter().map(|export| doors.place(export, is_named)).collect()
    }
}

/// The answer to an order that a kind of content does not know.
pub fn not_for(content: &dyn Content, ask: &Ask) -> HostError {
    HostError::NotForThis { name: content.name().to_owned(), kind: content.kind(), order: ask.name() }
}

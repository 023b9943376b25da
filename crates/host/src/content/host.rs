//! The host of a content, as the content knows it.

use std::any::Any;
use std::path::Path;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::device::Identity;

use super::Content;
use crate::answers::{Effects, RequestOutcome};
use crate::error::HostError;
use crate::names::Renamed;
use crate::offered::Offered;
use crate::world::{Devices, Pending};

/// The host of a content.
pub trait Host {
    /// The reactor that all of it runs on.
    fn io(&self) -> &Io;

    /// Devices that are opened and closed.
    fn devices(&self) -> &dyn Devices;

    /// All contents that have not been stopped.
    fn contents(&self) -> Vec<Rc<dyn Content>>;

    /// Gives those who watch the status that of now.
    fn publish(&self);

    /// The answer that a content has carried out an order.
    fn done(&self, content: &dyn Content, effects: Effects) -> RequestOutcome;

    /// Offers an export of a content to clients.
    ///
    /// # Errors
    /// Its name is none, or another has it.
    fn offer(&self, content: &dyn Content, offered: Offered) -> Result<(), HostError>;

    /// Ends the connections to an export, and offers it no more.
    fn withdraw(&self, export: &str) -> Pending<()>;

    /// Tells clients of an export that it has another size, as far as their protocol has words for that.
    fn resized(&self, export: &str);

    /// Tells that a content is called otherwise from now on. Gives sentences about all that calls it by the name that it had.
    fn renamed(&self, renamed: &Renamed<'_>) -> Vec<String>;

    /// The device of the kernel that an export is, or is about to be.
    fn device_of(&self, export: &str) -> Option<String>;

    /// Clients that have an export open: connections, or the kernel's device where its connection is gone for now.
    fn users_of(&self, export: &str) -> usize;
}

impl dyn Host + '_ {
    /// Whether a content is served still.
    pub fn has(&self, content: &dyn Content) -> bool {
        self.contents().iter().any(|other| std::ptr::addr_eq(Rc::as_ptr(other), content))
    }

    /// The open devices, and the use of each.
    pub fn known(&self) -> Vec<(Identity, String)> {
        let contents = self.contents();
        let used = |path: &Path| {
            let label = path.display().to_string();
            let used = contents.iter().find_map(|content| content.use_of(&label));
            used.unwrap_or_else(|| "in use by this server already".to_owned())
        };
        self.devices().known().into_iter().map(|(identity, path)| (identity, used(&path))).collect()
    }
}

/// All contents of one kind that a host has.
pub fn all_of<T: Content>(host: &dyn Host) -> Vec<Rc<T>> {
    let as_kind = |content: Rc<dyn Content>| (content as Rc<dyn Any>).downcast::<T>().ok();
    host.contents().into_iter().filter_map(as_kind).collect()
}

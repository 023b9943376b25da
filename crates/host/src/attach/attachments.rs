//! Devices that a server has, and those that it is making or ending: at most one of an export, and one change of it at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;

use super::Attached;

/// The exports whose devices are meant.
#[derive(Debug)]
pub(crate) enum Scope {
    /// The exports of the content of this name: one that is called so, or NAME/VOLUME each.
    Of(String),
    /// All of them.
    All,
}

impl Scope {
    fn has(&self, export: &str) -> bool {
        match self {
            Self::Of(name) => export
                .strip_prefix(&**name)
                .is_some_and(|volume| volume.is_empty() || volume.starts_with('/')),
            Self::All => true,
        }
    }
}

/// How far the device of an export is.
#[derive(Clone, Copy)]
enum Progress {
    Making,
    There(u32),
    Ending(u32),
}

struct Attachment {
    export: String,
    progress: Progress,
}

/// The devices of the kernel of a server.
pub(crate) struct Attachments {
    all: RefCell<Vec<Attachment>>,
    /// Exports that get no device for now.
    barred: RefCell<Vec<Rc<Scope>>>,
    /// The thread is prepared for clients of its own host.
    prepared: Cell<bool>,
    changed: Notify,
}

impl Attachments {
    /// None.
    pub(crate) fn new(io: &Io) -> Self {
        Self {
            all: RefCell::default(),
            barred: RefCell::default(),
            prepared: Cell::new(false),
            changed: Notify::new(io),
        }
    }

    /// The device of an export.
    pub(crate) fn of(&self, export: &str) -> Option<Attached> {
        self.there().into_iter().find(|one| one.export == export)
    }

    /// The device that an export is, or is about to be, in words.
    pub(crate) fn device_of(&self, export: &str) -> Option<String> {
        let all = self.all.borrow();
        let progress = all.iter().find(|one| one.export == export)?.progress;
        Some(match progress {
            Progress::Making => "a device that is being made".to_owned(),
            Progress::There(index) | Progress::Ending(index) => {
                Attached { export: export.to_owned(), index }.device()
            }
        })
    }

    /// The devices that there are.
    pub(crate) fn there(&self) -> Vec<Attached> {
        let there = |one: &Attachment| match one.progress {
            Progress::Making => None,
            Progress::There(index) | Progress::Ending(index) => {
                Some(Attached { export: one.export.clone(), index })
            }
        };
        self.all.borrow().iter().filter_map(there).collect()
    }

    /// One of the devices that are meant, if there are any.
    pub(crate) fn one_of(&self, scope: &Scope) -> Option<Attached> {
        self.there().into_iter().find(|one| scope.has(&one.export))
    }

    /// Begins to make the device of an export, or to take over one of an earlier server.
    ///
    /// # Errors
    /// It has one, one is being made, or its volume is being stopped.
    pub(crate) fn make(&self, export: &str) -> Result<Making<'_>, String> {
        if self.barred.borrow().iter().any(|scope| scope.has(export)) {
            return Err("it is being stopped".to_owned());
        }
        let mut all = self.all.borrow_mut();
        match all.iter().find(|one| one.export == export).map(|one| one.progress) {
            Some(Progress::Making) => return Err("a device of it is being made".to_owned()),
            Some(Progress::There(index) | Progress::Ending(index)) => {
                let attached = Attached { export: export.to_owned(), index };
                return Err(format!("it is attached already, as {}", attached.device()));
            }
            None => {}
        }
        all.push(Attachment { export: export.to_owned(), progress: Progress::Making });
        Ok(Making { of: self, export: export.to_owned() })
    }

    /// Whether a device is there, and is neither being ended nor about to be.
    pub(crate) fn stays(&self, export: &str, index: u32) -> bool {
        let is_barred = self.barred.borrow().iter().any(|scope| scope.has(export));
        let is_it = |one: &Attachment| {
            one.export == export && matches!(one.progress, Progress::There(own) if own == index)
        };
        !is_barred && self.all.borrow().iter().any(is_it)
    }

    /// Begins to end a device.
    ///
    /// # Errors
    /// It is not there any more, or another ends it.
    pub(crate) fn end(&self, attached: &Attached) -> Result<Ending<'_>, String> {
        let mut all = self.all.borrow_mut();
        match all.iter_mut().find(|one| one.export == attached.export) {
            Some(Attachment { progress, .. }) => match *progress {
                Progress::There(index) if index == attached.index => {
                    *progress = Progress::Ending(index);
                    Ok(Ending { of: self, attached: attached.clone() })
                }
                _ => Err(format!("{} is being detached", attached.device())),
            },
            None => Err("no device of the kernel has it".to_owned()),
        }
    }

    /// Notes that a device was ended by others.
    pub(crate) fn forget(&self, attached: &Attached) {
        let is_it = |one: &Attachment| {
            one.export == attached.export
                && matches!(one.progress, Progress::There(index) if index == attached.index)
        };
        self.all.borrow_mut().retain(|one| !is_it(one));
    }

    /// Has none of these get a device, until the bar is dropped.
    pub(crate) fn bar(&self, scope: Scope) -> Bar<'_> {
        let scope = Rc::new(scope);
        self.barred.borrow_mut().push(Rc::clone(&scope));
        Bar { of: self, scope }
    }

    /// Has no export get a device any more.
    pub(crate) fn bar_all(&self) {
        self.barred.borrow_mut().push(Rc::new(Scope::All));
    }

    /// Waits until no device that is meant is being made or ended.
    pub(crate) async fn settled(&self, scope: &Scope) {
        let is_busy = |one: &Attachment| {
            scope.has(&one.export) && matches!(one.progress, Progress::Making | Progress::Ending(_))
        };
        self.changed.until(|| (!self.all.borrow().iter().any(is_busy)).then_some(())).await;
    }

    /// Whether the thread is still to be prepared for clients of its own host; once only.
    pub(crate) fn prepares(&self) -> bool {
        !self.prepared.replace(true)
    }
}

/// A device that is being made. Dropped, there is none.
pub(crate) struct Making<'a> {
    of: &'a Attachments,
    export: String,
}

impl Making<'_> {
    /// It is there.
    pub(crate) fn done(self, index: u32) -> Attached {
        let mut all = self.of.all.borrow_mut();
        if let Some(own) = all.iter_mut().find(|one| one.export == self.export) {
            own.progress = Progress::There(index);
        }
        Attached { export: self.export.clone(), index }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let is_it = |one: &Attachment| one.export == self.export && matches!(one.progress, Progress::Making);
        self.of.all.borrow_mut().retain(|one| !is_it(one));
        self.of.changed.notify();
    }
}

/// A device that is being ended. Dropped, it is there as before.
pub(crate) struct Ending<'a> {
    of: &'a Attachments,
    attached: Attached,
}

impl Ending<'_> {
    /// It has ended.
    pub(crate) fn has_ended(self) {
        self.of.all.borrow_mut().retain(|one| one.export != self.attached.export);
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.of.all.borrow_mut().iter_mut().find(|one| one.export == self.attached.export)
        {
            own.progress = Progress::There(self.attached.index);
        }
        self.of.changed.notify();
    }
}

/// Exports that get no device as long as it is there.
pub(crate) struct Bar<'a> {
    of: &'a Attachments,
    scope: Rc<Scope>,
}

impl Bar<'_> {
    /// The exports.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.of.barred.borrow_mut().retain(|scope| !Rc::ptr_eq(scope, &self.scope));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;

    #[test]
    fn an_export_has_one_device_and_one_change_of_it_at_a_time() {
        let io = Io::new(Box::new(Memory::new()));
        let attachments = Attachments::new(&io);
        assert_eq!(attachments.device_of("a"), None);
        let making = attachments.make("a").unwrap();
        assert_eq!(attachments.device_of("a").unwrap(), "a device that is being made");
        assert_eq!(attachments.make("a").err().unwrap(), "a device of it is being made");
        drop(making);
        let one = attachments.make("a").unwrap().done(3);
        assert_eq!(attachments.make("a").err().unwrap(), "it is attached already, as /dev/nbd3");
        assert_eq!(attachments.device_of("a").unwrap(), "/dev/nbd3");
        assert!(attachments.stays("a", 3) && !attachments.stays("a", 4));
        let ending = attachments.end(&one).unwrap();
        assert!(!attachments.stays("a", 3));
        assert_eq!(attachments.end(&one).err().unwrap(), "/dev/nbd3 is being detached");
        drop(ending);
        assert_eq!(attachments.of("a"), Some(one.clone()));
        attachments.end(&one).unwrap().has_ended();
        assert_eq!(attachments.of("a"), None);
        assert_eq!(attachments.end(&one).err().unwrap(), "no device of the kernel has it");
        io.shutdown();
    }

    #[test]
    fn a_volume_that_is_being_stopped_gets_no_device() {
        let io = Io::new(Box::new(Memory::new()));
        let attachments = Attachments::new(&io);
        let bar = attachments.bar(Scope::Of("tank".to_owned()));
        for own in ["tank", "tank/one"] {
            assert_eq!(attachments.make(own).err().unwrap(), "it is being stopped");
        }
        for other in ["tanks", "tanks/one", "a"] {
            drop(attachments.make(other).unwrap());
        }
        drop(bar);
        drop(attachments.make("tank/one").unwrap());
        attachments.bar_all();
        assert!(attachments.make("a").is_err());
        io.shutdown();
    }
}

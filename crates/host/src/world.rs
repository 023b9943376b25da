//! The world in which a host runs, as far as the host knows it: devices are found by name, claimed by identity, given to the
//! reactor, and closed.

mod attacher;

use core::fmt;
use core::pin::Pin;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_format::md::Uuid;
use brindle_io::device::Identity;
use brindle_io::{MemberId, SocketId};

use brindle_array::BitmapFile;

pub use attacher::{Attacher, Naming, Serving, WantedDevice};

/// An answer that may take its time, as a device that hangs does. Dropped, what it waits for goes on.
pub type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Why the world gives nothing: a message that names the thing, the cause and the way out.
#[derive(Debug)]
pub struct Refused(Box<dyn std::error::Error + Send + Sync>);

impl Refused {
    /// A refusal for this reason.
    pub fn new(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// How devices are to come to an array.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coming {
    /// Content of theirs may be lost.
    pub force: bool,
    /// Take them only as the members that they were.
    pub re_add: bool,
}

/// A device that is to be opened.
#[derive(Debug)]
pub enum Source {
    /// It is found by this name.
    Named(PathBuf),
    /// The caller has opened it: a descriptor, and the name by which orders and reports know it.
    Given(PathBuf, OwnedFd),
}

impl Source {
    /// The name by which orders and reports know it.
    pub fn name(&self) -> &Path {
        match self {
            Self::Named(name) | Self::Given(name, _) => name,
        }
    }
}

impl From<PathBuf> for Source {
    fn from(name: PathBuf) -> Self {
        Self::Named(name)
    }
}

/// Rules by which devices are opened that are to come to an array.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Devices that the host has, and the use of each.
    pub known: Vec<(Identity, String)>,
    /// The part that the devices are to have.
    pub coming: Coming,
}

/// Former members of an array that are looked for.
#[derive(Clone, Debug)]
pub struct Search {
    /// Under these names.
    pub names: Vec<PathBuf>,
    /// Whether to search all disks of the machine, too.
    pub everywhere: bool,
    /// The array of which they were members.
    pub array: Uuid,
    /// Open devices, and those that are left as they are.
    pub but: Vec<Identity>,
}

/// A device that was opened, and belongs to no array yet. Its owner closes it or gives it to an array.
#[derive(Clone, Debug)]
pub struct Newcomer {
    /// The name that was given.
    pub label: String,
    /// Its file when all links are followed.
    pub file: Option<PathBuf>,
    /// Its number on the reactor.
    pub id: MemberId,
    /// The identity by which the device is known under another name.
    pub identity: Identity,
}

/// Former members that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// The former members come first, in the order in which they left.
    pub newcomers: Vec<Newcomer>,
    /// Devices that are there and can't be used, by name.
    pub refused: Vec<(String, Refused)>,
}

/// A file that is to be made for a write-intent bitmap.
#[derive(Clone, Debug)]
pub struct NewBitmapFile {
    /// Its name.
    pub path: PathBuf,
    /// The size that the file is to have, in bytes.
    pub bytes: u64,
    /// Content that is there may be lost, and where it lies does not matter.
    pub force: bool,
    /// Devices that are in use, and the use of each.
    pub known: Vec<(Identity, String)>,
}

/// A file that was made for a bitmap and is open.
#[derive(Clone, Debug)]
pub struct Made {
    /// For the array.
    pub file: BitmapFile,
    /// The file did not exist before.
    pub is_new: bool,
}

/// Devices of one world. All of it is asked on the reactor's thread, and none of it waits there.
pub trait Devices {
    /// Opens all of these, or none. Each is claimed by its identity: a device that is in use is refused, whatever its name or
    /// descriptor.
    fn open(&self, sources: Vec<Source>, terms: Terms) -> Pending<Result<Vec<Newcomer>, Refused>>;

    /// Looks for former members, and opens them.
    fn find(&self, search: Search) -> Pending<Found>;

    /// Makes a file for a bitmap, and opens it.
    fn make_bitmap(&self, new: NewBitmapFile) -> Pending<Result<Made, Refused>>;

    /// Closes a file that was made for a bitmap in vain, and removes it if it is new.
    fn unmake_bitmap(&self, made: Made) -> Pending<()>;

    /// Identity and name of each device that is open, or that was closed and has not answered yet.
    fn known(&self) -> Vec<(Identity, PathBuf)>;

    /// The identity of the device that this name leads to now; nothing if none is there, or in a world where names lead always to the
    /// same.
    fn identity(&self, name: PathBuf) -> Pending<Option<Identity>> {
        drop(name);
        Box::pin(async { None })
    }

    /// Closes devices at once. When it is done, others can use them.
    fn close(&self, devices: &[MemberId]) -> Pending<()>;

    /// The kernel, as far as it makes devices of volumes; none in a world without devices of the kernel.
    fn attacher(&self) -> Option<Rc<dyn Attacher>> {
        None
    }

    /// Takes a descriptor from which whole messages are read and to which whole messages are written.
    ///
    /// # Errors
    /// There is none in a world without a kernel, or the kernel refuses.
    fn port(&self, descriptor: OwnedFd) -> Result<SocketId, Refused> {
        drop(descriptor);
        Err(Refused::new("its world has no descriptors of the kernel"))
    }

    /// An identity for a device that is to be a member.
    ///
    /// # Errors
    /// There is no chance to be had.
    fn new_uuid(&self) -> Result<Uuid, Refused>;
}

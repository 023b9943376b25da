//! Targets of jobs.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use brindle_array::Array;
use brindle_export::nbd::client::Remote;
use brindle_host::opening::{Listen, Tuning};
use brindle_io::device::DeviceAccess;
use brindle_io::{Io, Slice};
use brindle_volume::{Limits, LoneMember, Volume, VolumeError, ZeroOptions};

use crate::base::failure::Failure;
use crate::devices::containers;
use crate::devices::host::Host;
use crate::devices::world::{World, WorldOptions};
use crate::flags::cli::NbdUri;

/// One volume of any kind. A handle.
#[derive(Clone)]
pub(crate) enum Target {
    /// An array.
    Array(Array),
    /// A device or file by itself.
    Device(LoneMember),
    /// An export of a server.
    Remote(Remote),
}

/// Bytes of the pool of a connection.
const CONNECTION: usize = 1 << 20;

/// The target that was asked for: one of these.
pub(crate) struct On<'a> {
    /// Members of an array.
    pub(crate) array: &'a [PathBuf],
    /// Devices by themselves.
    pub(crate) device: &'a [PathBuf],
    /// An export.
    pub(crate) nbd: Option<&'a NbdUri>,
    pub(crate) tuning: Tuning,
}

impl On<'_> {
    pub(crate) fn nothing(tuning: Tuning) -> Self {
        Self { array: &[], device: &[], nbd: None, tuning }
    }
}

/// The open targets, and their owner, which closes them.
pub(crate) struct Opened {
    pub(super) targets: Vec<Target>,
    owner: Owner,
}

enum Owner {
    Host(Box<Host>),
    World(Box<World>),
}

impl Opened {
    pub(crate) fn open(on: &On<'_>, changes: bool) -> Result<Self, Failure> {
        let access = if changes { DeviceAccess::Write } else { DeviceAccess::Read };
        let opening = WorldOptions { access, force: false, tuning: on.tuning, ..WorldOptions::LOOK };
        if !on.array.is_empty() {
            containers::refuse(
                on.array,
                "serve its volume read-only (brindle serve --read-only --volume), and measure that with --nbd",
            )?;
            let host = Host::open(on.array, &[], opening)?;
            let hosted = &host.array;
            for limit in hosted.found.limits() {
                eprintln!("brindle: {limit}");
            }
            let targets = vec![Target::Array(hosted.array.clone())];
            return Ok(Self { targets, owner: Owner::Host(Box::new(host)) });
        }
        let mut world = World::new(opening)?;
        let targets = match on.nbd {
            Some(uri) => vec![Target::Remote(connect(&world, uri)?)],
            None => devices(&mut world, on.device, !changes)?,
        };
        Ok(Self { targets, owner: Owner::World(Box::new(world)) })
    }

    pub(super) fn io(&self) -> &Io {
        match &self.owner {
            Owner::Host(host) => &host.world.io,
            Owner::World(world) => &world.io,
        }
    }

    /// One entry for each target.
    pub(crate) fn limits(&self) -> Vec<Limits> {
        self.targets.iter().map(Volume::limits).collect()
    }

    /// An array marks itself clean.
    pub(crate) fn close(self) -> Result<(), Failure> {
        match &self.owner {
            Owner::Host(host) => host.world.io.block_on(host.array.stop()),
            Owner::World(world) => {
                world.end();
                Ok(())
            }
        }
    }
}

fn devices(world: &mut World, names: &[PathBuf], read_only: bool) -> Result<Vec<Target>, Failure> {
    let set = world.open_each(names)?;
    if let Some(left_out) = set.left_out.first() {
        return Err(Failure::Refused(left_out.why.clone()));
    }
    let device = |id| LoneMember::new(&world.io, id, read_only).map(Target::Device);
    Ok(set.members.iter().filter_map(|named| device(named.id)).collect())
}

fn connect(world: &World, uri: &NbdUri) -> Result<Remote, Failure> {
    let failed = |source| Failure::system(format!("{uri}: can't be connected to"), source);
    let socket = match &uri.place {
        Listen::Unix(path) => world.uring.add_stream(UnixStream::connect(path).map_err(failed)?),
        Listen::Tcp(address) => {
            let stream = TcpStream::connect(address).map_err(failed)?;
            stream.set_nodelay(true).map_err(failed)?;
            world.uring.add_stream(stream)
        }
    };
    let pool = world.io.pool(CONNECTION);
    let connecting = world.io.block_on(Remote::connect(&world.io, socket, &uri.export, &pool));
    connecting.map_err(|error| Failure::Refused(format!("{uri}: {error}")))
}

impl Volume for Target {
    fn limits(&self) -> Limits {
        match self {
            Self::Array(array) => array.limits(),
            Self::Device(device) => device.limits(),
            Self::Remote(remote) => remote.limits(),
        }
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.read(offset, into).await,
            Self::Device(device) => device.read(offset, into).await,
            Self::Remote(remote) => remote.read(offset, into).await,
        }
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.write(offset, from, fua).await,
            Self::Device(device) => device.write(offset, from, fua).await,
            Self::Remote(remote) => remote.write(offset, from, fua).await,
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.flush().await,
            Self::Device(device) => device.flush().await,
            Self::Remote(remote) => remote.flush().await,
        }
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.discard(offset, len).await,
            Self::Device(device) => device.discard(offset, len).await,
            Self::Remote(remote) => remote.discard(offset, len).await,
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.write_zeroes(offset, len, options).await,
            Self::Device(device) => device.write_zeroes(offset, len, options).await,
            Self::Remote(remote) => remote.write_zeroes(offset, len, options).await,
        }
    }
}

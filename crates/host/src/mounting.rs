//! Volumes as files: a client has mounted a file system, and hands its descriptor over.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use brindle_export::fuse::Mounting;
use brindle_format::signature::Sample;
use brindle_format::signature::partitions::{Listing, Partition, list};
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Io};
use brindle_volume::{Volume, read_again};

use crate::answers::RequestOutcome;
use crate::any::Any;
use crate::content::Host;
use crate::control::{Ask, Request};
use crate::error::HostError;
use crate::mount::Mount;
use crate::service::Service;

/// Partitions that have files.
const PARTITIONS: usize = 128;
/// Time that looking for partitions may take: a volume that does not answer has none.
const PATIENCE: Duration = Duration::from_millis(5_000);
/// Bytes of a sector, of any disk.
const SECTORS: [u64; 2] = [512, 4096];
/// Bytes of a look, at most.
const LOOK: usize = 4096;

impl Service {
    /// As [`Service::ask`], of a request with which a descriptor came.
    pub(crate) async fn ask_with(
        self: &Rc<Self>,
        request: Request,
        descriptor: Option<OwnedFd>,
    ) -> Result<RequestOutcome, HostError> {
        match (&request.ask, descriptor) {
            (Ask::Mount { folder, write, user, group }, Some(descriptor)) => {
                let name = self.meant_to_attach(request.array.as_deref())?;
                let how = Mount { folder: folder.clone(), write: *write, owner: (*user, *group) };
                let (outcome, mounted) = self.mount(&name, how, descriptor).await?;
                drop(mounted);
                Ok(outcome)
            }
            _ => self.ask(request).await,
        }
    }

    /// Serves a mount of a volume by its descriptor. Gives the answer, and a future that ends with the mount; dropped, the mount goes on.
    ///
    /// # Errors
    /// There is no such volume, it may not be used so, or the descriptor is of no use.
    pub async fn mount(
        self: &Rc<Self>,
        name: &str,
        how: Mount,
        descriptor: OwnedFd,
    ) -> Result<(RequestOutcome, impl Future<Output = ()> + use<>), HostError> {
        let (export, _) = self.attachable(name)?;
        let refused = |why: String| HostError::Refused { name: export.clone(), why };
        let Some(server) = self.doors.for_mounts().cloned() else {
            return Err(refused("it has no door for mounts".to_owned()));
        };
        let volume = self.volume_of(&export).ok_or_else(|| refused("it is being stopped".to_owned()))?;
        let looking = partitions(&self.io, &volume);
        let found = match race(looking, self.io.sleep(PATIENCE)).await {
            Either::First(found) => found,
            Either::Second(()) => Vec::new(),
        };
        let port = self.devices.port(descriptor).map_err(|why| refused(why.to_string()))?;
        let partitions = found.into_iter().map(|one| (one.number, one.start..one.end)).collect();
        let mounting = Mounting { owner: how.owner, writable: how.write, partitions };
        let mounted = server.mount(&export, port, mounting).await.map_err(HostError::Mount)?;
        if how.write
            && let Some(attacher) = self.devices.attacher()
        {
            self.prepare_for_own_host(&*attacher);
        }
        self.publish();
        let (folder, writable) = (how.folder, how.write);
        Ok((RequestOutcome::Mounted { name: export, mounted: folder, writable }, mounted))
    }

    /// The volume of an export.
    fn volume_of(&self, export: &str) -> Option<Rc<Any>> {
        let contents = self.contents();
        let mut all = contents.iter().flat_map(|content| content.exports());
        all.find(|offered| offered.name == export).map(|offered| offered.volume)
    }
}

/// The partitions of a volume that are whole, as far as it can be read: by a table that counts sectors of either size.
async fn partitions(io: &Io, volume: &Any) -> Vec<Partition> {
    let mut found = Vec::new();
    for sector in SECTORS {
        if found.is_empty() {
            found = counted_in(sector, io, volume).await;
        }
    }
    found
}

async fn counted_in(sector: u64, io: &Io, volume: &Any) -> Vec<Partition> {
    let (limits, memory) = (volume.limits(), io.pool(LOOK));
    let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
    loop {
        let known: Vec<Sample<'_>> =
            pages.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        let (offset, len) = match list(limits.size, sector, &known) {
            Listing::Unread { offset, len } => (offset, len),
            Listing::Partitions(mut all) => {
                all.retain(|one| one.lacks == 0);
                all.truncate(PARTITIONS);
                return all;
            }
        };
        // The last page of a volume may be a short one.
        let whole = len.next_multiple_of(limits.block as usize);
        let read = read_again(volume, offset, async || memory.alloc(whole).await.all()).await;
        // A place that can't be read shows no partition.
        pages.push((offset, read.map_or_else(|_| vec![0; len], |slice| slice.bytes()[..len].to_vec())));
    }
}

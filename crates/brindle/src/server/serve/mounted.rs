//! A server that is there for a mount: it mounts its volume, and ends with that.

use std::rc::Rc;

use brindle_host::{Host as _, Mount, Order, Service, mailbox};
use brindle_io::Io;
use rustix::process::{getegid, geteuid};
use serde_json::json;

use super::job::MountJob;
use crate::base::failure::Failure;
use crate::base::log;
use crate::devices::mounts::{self, Fresh, Mounted};

/// A mount that nobody serves yet.
pub(super) struct Awaiting {
    fresh: Fresh,
    volume: String,
    write: bool,
    json: bool,
}

impl Awaiting {
    /// Mounts the volume that is meant.
    pub(super) fn begin(job: &MountJob, service: &Service, json: bool) -> Result<Self, Failure> {
        let contents = service.contents();
        let all: Vec<String> = contents.iter().flat_map(|content| content.export_names()).collect();
        let is_it = |name: &&String| match &job.volume {
            None => true,
            Some(volume) => *name == volume || name.rsplit('/').next() == Some(volume),
        };
        let mut meant = all.iter().filter(is_it);
        let volume = match (meant.next(), meant.next()) {
            (Some(volume), None) => volume.clone(),
            (None, _) if job.volume.is_some() || !all.is_empty() => {
                return Err(Failure::Refused(format!(
                    "there is no volume of that name: there are {}",
                    all.join(", ")
                )));
            }
            (None, _) => return Err(Failure::Refused("these members have no volume to mount".to_owned())),
            (Some(_), Some(_)) => {
                return Err(Failure::Refused(format!(
                    "these members have several volumes: name one before the folder: {}",
                    all.join(", ")
                )));
            }
        };
        mounts::mark(&job.place);
        let fresh = mounts::mount(&job.place, &volume, job.write)?;
        Ok(Self { fresh, volume, write: job.write, json })
    }

    /// The mount, which goes with the server.
    pub(super) fn mounted(&self) -> Mounted {
        self.fresh.mounted()
    }

    /// Has the service serve it, and end with it.
    pub(super) async fn serve(self, service: &Rc<Service>, io: &Io) -> Result<(), Failure> {
        let Self { fresh, volume, write, json } = self;
        let owner = (geteuid().as_raw(), getegid().as_raw());
        let how = Mount { folder: fresh.folder.clone(), write, owner };
        let folder = fresh.folder.clone();
        let Some(descriptor) = fresh.hand_over() else { return Ok(()) };
        let mounted = service.mount(&volume, how, descriptor).await;
        let (_, ended) = mounted.map_err(|why| Failure::Refused(why.to_string()))?;
        log::print(if json {
            let event = "mounted";
            let told = json!({"event": event, "name": volume, "mounted": folder, "writable": write});
            format!("{told}\n")
        } else {
            let state = if write { "" } else { ", read-only" };
            format!(
                "{volume} is mounted at {}{state}; it is served until that is unmounted\n",
                folder.display()
            )
        });
        let service = Rc::clone(service);
        drop(io.spawn(async move {
            ended.await;
            service.take(Order::Stop);
        }));
        Ok(())
    }
}

/// Takes a mount out of sight as its server ends. What is open of it ends with the server.
pub(super) async fn end(io: &Io, mounted: Mounted) {
    let ended = mailbox::on_thread(io, "umount", move || mounted.end());
    if let Err(why) = ended.await {
        tracing::warn!("{why}");
    }
}

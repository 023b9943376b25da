//! Re-adds, on one request, all former members of an array that can be found.

use std::path::PathBuf;

use brindle_array::Joined;
use brindle_io::device::Identity;

use super::readd::{Again, forget_old, take_each_again, those_there};
use crate::answers::Served;
use crate::exported::Exported;
use crate::service::Service;
use crate::status::{JoinedStatus, RefusedStatus};
use crate::world::{Newcomer, Search};

/// Stands for all former members that can be found, as with mdadm's `--re-add`.
pub const MISSING: &str = "missing";

/// Whether these names stand for all former members.
pub fn are_meant(names: &[PathBuf]) -> bool {
    matches!(names, [name] if name.as_os_str() == MISSING)
}

/// Former members that were looked for.
#[derive(Debug, Default)]
pub(crate) struct Back {
    /// Devices that are members again.
    pub(crate) joined: Vec<JoinedStatus>,
    /// Devices that can't be members again.
    pub(crate) refused: Vec<RefusedStatus>,
    /// The devices among these that the array itself refused.
    pub(crate) strangers: Vec<Identity>,
}

impl Service {
    /// Takes all former members of an array again that can be found: among devices that it has and does not use, devices that it had or was to
    /// have, and all other disks and partitions of this machine.
    pub(crate) async fn add_missing(&self, array: &Exported) -> Served {
        let mut back = Back::default();
        let (there, mut names) = those_there(array.array()).await;
        names.extend(array.former_names());
        let search = self.search(array, names, true, &[]);
        self.add_found(array, there, search, &mut back).await;
        self.publish();
        Served {
            added: Some(JoinedStatus::paths(&back.joined)),
            joined: Some(back.joined),
            refused: Some(back.refused),
            ..self.status_of(array).into()
        }
    }

    /// For former members of an array, under these names, or anywhere. Some devices are left as they are.
    pub(crate) fn search(
        &self,
        array: &Exported,
        names: Vec<PathBuf>,
        everywhere: bool,
        but: &[Identity],
    ) -> Search {
        Search { names, everywhere, array: array.array().detail().uuid, but: but.to_vec() }
    }

    /// Re-adds former members of an array: found ones, and its own that are `there`.
    pub(crate) async fn add_found(
        &self,
        array: &Exported,
        there: Vec<Again>,
        search: Search,
        back: &mut Back,
    ) {
        let found = self.devices.find(search).await;
        let refused = found.refused.into_iter();
        back.refused.extend(refused.map(|(path, why)| RefusedStatus { path, why: why.to_string() }));
        self.take_back(array, there, found.newcomers, back).await;
    }

    /// Takes devices that are back as the members that they were. A device that the array still has by the name of a newcomer is
    /// gone for good then.
    async fn take_back(&self, array: &Exported, there: Vec<Again>, found: Vec<Newcomer>, back: &mut Back) {
        let engine = array.array();
        let away = engine.detached().await;
        let mut devices = there;
        let own = devices.len();
        devices.extend(found.iter().map(|newcomer| (newcomer.id, newcomer.label.clone())));
        let done = take_each_again(engine, &devices).await;
        let came = std::iter::repeat_n(None, own).chain(found.into_iter().map(Some));
        let mut gone = Vec::new();
        for (((id, path), came), done) in devices.into_iter().zip(came).zip(done) {
            match done {
                Ok(role) => {
                    back.joined.push(JoinedStatus::of(&path, &Joined::Member { role }));
                    let Some(Newcomer { file, .. }) = came else { continue };
                    array.came(&path, file);
                    gone.extend(forget_old(engine, &path, Some(role), &away).await);
                }
                Err(why) => {
                    back.refused.push(RefusedStatus { path, why: why.to_string() });
                    let Some(Newcomer { identity, .. }) = came else { continue };
                    back.strangers.push(identity);
                    gone.push(id);
                }
            }
        }
        self.devices.close(&gone).await;
    }
}

//! Shares spares within a group of arrays: an array that lacks a member gets another's spare.

use std::rc::Rc;

use brindle_io::{Duration, MemberId};

use crate::exported::Exported;
use crate::service::Service;

/// Time between two looks for arrays that lack a spare.
const EVERY: Duration = Duration::from_secs(1);

impl Service {
    /// Looks after groups of arrays that share spares, if there are any, as long as they are served.
    pub fn share_spares(self: &Rc<Self>) {
        if self.arrays().iter().all(|array| array.group().is_none()) {
            return;
        }
        let service = Rc::clone(self);
        self.io.spawn(async move {
            // A refusal is reported once.
            let mut refused = Vec::new();
            loop {
                service.io.sleep(EVERY).await;
                service.share_once(&mut refused).await;
            }
        });
    }

    async fn share_once(&self, refused: &mut Vec<(String, MemberId)>) {
        for needy in self.arrays() {
            if !needy.array().lacks_a_spare() {
                continue;
            }
            let Some((giver, spare)) = self.spare_for(&needy, refused) else { continue };
            let known = giver.array().detail().devices;
            let label = known.into_iter().find(|device| device.id == spare).map(|device| device.label);
            let label = label.unwrap_or_default();
            let Ok(uuid) = self.devices.new_uuid() else { continue };
            match giver.array().hand_over(spare, needy.array(), uuid).await {
                Ok(()) => {
                    needy.came(&label, giver.file(&label));
                    tracing::info!("{label} is a spare of {} no more, but of {}", giver.name(), needy.name());
                }
                Err(why) => {
                    let (from, to) = (giver.name(), needy.name());
                    tracing::warn!(
                        "{label}, a spare of {from}, can't take a place in {to}, which lacks one: {why}"
                    );
                    refused.push((to.to_owned(), spare));
                }
            }
            self.publish();
        }
    }

    /// The smallest spare of another array of its group that is large enough, and whose it is.
    fn spare_for(
        &self,
        needy: &Exported,
        refused: &[(String, MemberId)],
    ) -> Option<(Rc<Exported>, MemberId)> {
        let group = needy.group()?;
        let others = self.arrays().into_iter();
        let others = others.filter(|other| other.group() == Some(group) && other.name() != needy.name());
        let is_new =
            |id: MemberId| !refused.iter().any(|(to, refused)| (&**to, *refused) == (needy.name(), id));
        let fits = |&id: &MemberId| is_new(id) && needy.array().has_use_for(id);
        let spares = others.flat_map(|other| {
            let spares = other.array().spares_to_give();
            spares.into_iter().filter(fits).map(move |id| (Rc::clone(&other), id)).collect::<Vec<_>>()
        });
        spares.min_by_key(|(_, id)| self.io.member_info(*id).map(|info| info.size))
    }
}

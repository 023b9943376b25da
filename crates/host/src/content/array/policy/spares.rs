//! Shares spares within a group of arrays: an array that lacks a member gets another's spare.

use std::rc::Rc;

use brindle_io::{Duration, MemberId};

use super::super::ServedArray;
use crate::content::{Host, all_of};

/// Time between two looks for arrays that lack a spare.
const EVERY: Duration = Duration::from_secs(1);

/// Looks after groups of arrays that share spares, if there are any, as long as they are served.
pub fn share_spares(host: Rc<dyn Host>) {
    if all_of::<ServedArray>(&*host).iter().all(|array| array.group().is_none()) {
        return;
    }
    host.io().clone().spawn(async move {
        // A refusal is reported once.
        let mut refused = Vec::new();
        loop {
            host.io().sleep(EVERY).await;
            share_once(&*host, &mut refused).await;
        }
    });
}

async fn share_once(host: &dyn Host, refused: &mut Vec<(String, MemberId)>) {
    for needy in all_of::<ServedArray>(host) {
        if !needy.array().lacks_a_spare() {
            continue;
        }
        let Some((giver, spare)) = needy.spare_for(host, refused) else { continue };
        let known = giver.array().detail().devices;
        let label = known.into_iter().find(|device| device.id == spare).map(|device| device.label);
        let label = label.unwrap_or_default();
        let Ok(uuid) = host.devices().new_uuid() else { continue };
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
        host.publish();
    }
}

impl ServedArray {
    /// The smallest spare of another array of its group that is large enough, and whose it is.
    fn spare_for(&self, host: &dyn Host, refused: &[(String, MemberId)]) -> Option<(Rc<Self>, MemberId)> {
        let group = self.group()?;
        let others = all_of::<Self>(host).into_iter();
        let others = others.filter(|other| other.group() == Some(group) && other.name() != self.name());
        let is_new =
            |id: MemberId| !refused.iter().any(|(to, refused)| (&**to, *refused) == (self.name(), id));
        let fits = |&id: &MemberId| is_new(id) && self.array().has_use_for(id);
        let spares = others.flat_map(|other| {
            let spares = other.array().spares_to_give();
            spares.into_iter().filter(fits).map(move |id| (Rc::clone(&other), id)).collect::<Vec<_>>()
        });
        spares.min_by_key(|(_, id)| host.io().member_info(*id).map(|info| info.size))
    }
}

//! Shares spares within a group of arrays and pools: one that lacks a member gets another's spare.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;

use brindle_format::md::Uuid;
use brindle_io::{Duration, MemberId};

use super::{Content, Host};
use crate::error::HostError;

/// Time between two looks for contents that lack a spare.
const EVERY: Duration = Duration::from_secs(1);

/// Work of a content that is borrowed meanwhile.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A device that was a spare of one content, and is to be one of another.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its number on the reactor,
    pub id: MemberId,
    /// the name that it has,
    pub label: String,
    /// and its file, if that is known.
    pub file: Option<PathBuf>,
}

/// A content with members, which may share spares.
pub trait SharesSpares {
    /// The group with which it shares spares, if it is in one.
    fn group(&self) -> Option<&str>;

    /// It lacks a member, and has no spare for it.
    fn lacks_a_spare(&self) -> bool;

    /// Spares that it does not need now.
    fn spares_to_give(&self) -> Vec<MemberId>;

    /// Whether a device of the same reactor fits where a member is lacking.
    fn has_use_for(&self, device: MemberId) -> bool;

    /// Gives a spare up: that is on record when it returns. After an error it has the spare still.
    fn give(&self, spare: MemberId) -> Work<'_, Result<Given, HostError>>;

    /// Takes a spare that another gave up. `uuid` is to be its identity, random. After an error the device is nobody's.
    fn take<'a>(&'a self, spare: &'a Given, uuid: Uuid) -> Work<'a, Result<(), HostError>>;
}

/// Looks after groups that share spares, if there are any, as long as they are served.
pub fn share_spares(host: Rc<dyn Host>) {
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
    for needy in host.contents() {
        let Some(to) = needy.shares_spares().filter(|to| to.group().is_some() && to.lacks_a_spare()) else {
            continue;
        };
        let Some((giver, spare)) = spare_for(&*needy, to, host, refused) else { continue };
        let Some(from) = giver.shares_spares() else { continue };
        let (Ok(uuid), Ok(again)) = (host.devices().new_uuid(), host.devices().new_uuid()) else { continue };
        let given = match from.give(spare).await {
            Ok(given) => given,
            Err(why) => {
                tracing::warn!("{} gives {} no spare: {why}", giver.name(), needy.name());
                refused.push((needy.name().to_owned(), spare));
                continue;
            }
        };
        let label = &given.label;
        match to.take(&given, uuid).await {
            Ok(()) => {
                tracing::info!("{label} is a spare of {} no more, but of {}", giver.name(), needy.name());
            }
            Err(why) => {
                let (owner, lacks) = (giver.name(), needy.name());
                tracing::warn!(
                    "{label}, a spare of {owner}, can't take a place in {lacks}, which lacks one: {why}"
                );
                refused.push((lacks.to_owned(), spare));
                if let Err(why) = from.take(&given, again).await {
                    tracing::warn!("{label} is a spare of {} no more: {why}", giver.name());
                    drop(host.io().spawn(host.devices().close(&[spare])));
                }
            }
        }
        host.publish();
    }
}

/// The smallest spare of another content of the group that is large enough, and whose it is.
fn spare_for(
    needy: &dyn Content,
    to: &dyn SharesSpares,
    host: &dyn Host,
    refused: &[(String, MemberId)],
) -> Option<(Rc<dyn Content>, MemberId)> {
    let is_new =
        |id: MemberId| !refused.iter().any(|(name, refused)| (&**name, *refused) == (needy.name(), id));
    let fits = |id: &MemberId| is_new(*id) && to.has_use_for(*id);
    let spares_of = |other: Rc<dyn Content>| {
        let of = other.shares_spares().filter(|of| of.group() == to.group() && other.name() != needy.name());
        let spares = of.map(|of| of.spares_to_give()).unwrap_or_default();
        spares.into_iter().filter(fits).map(|id| (Rc::clone(&other), id)).collect::<Vec<_>>()
    };
    let spares = host.contents().into_iter().flat_map(spares_of);
    spares.min_by_key(|(_, id)| host.io().member_info(*id).map(|info| info.size))
}

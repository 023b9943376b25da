//! The host that a pool belongs to, in words.

use brindle_format::pool::Host;
use brindle_pool::{Belonging, Holder};

use crate::base::text::shell;
use crate::base::units::Moment;

/// The risk of a pool that is taken from another host.
pub(crate) const RISK: &str =
    "if that host still has the pool open, both write to it, and all that is in it is lost";

/// A host by its name, else by its identity.
pub(crate) fn host_text(host: &Host) -> String {
    match (host.name(), host.id) {
        (name, id) if name.is_empty() && id.is_nil() => "unknown".to_owned(),
        (name, id) if name.is_empty() => id.to_string(),
        (name, _) => name,
    }
}

/// The reason why a pool of another host is not written to, and the ways out.
pub(crate) fn refused(name: &str, holder: &Holder) -> String {
    let (host, at, pool) = (host_text(&holder.host), Moment(holder.at), shell(name));
    format!(
        "pool {}: host {} has not exported it, and wrote to it last at {at}: `brindle pool export {pool}` there; or, if that host is gone for \
         good, `brindle pool import --force {pool}` here",
        name.escape_debug(),
        host.escape_debug()
    )
}

/// A sentence about a pool that is opened though it is not this host's for certain.
pub(crate) fn told(name: &str, whose: Belonging, is_read_only: bool) -> Option<String> {
    let name = name.escape_debug();
    let of =
        |holder: &Holder| (host_text(&holder.host).escape_debug().to_string(), Moment(holder.at).to_string());
    match whose {
        Belonging::Nobodys | Belonging::Own => None,
        Belonging::Unsure(_) if is_read_only => None,
        Belonging::Unsure(holder) => {
            let (host, at) = of(&holder);
            Some(format!(
                "{name}: host {host} had it last, until {at}, and one of both hosts has no identity that lasts, as in a container: it is this \
                 host's from now on"
            ))
        }
        Belonging::Anothers(holder) if is_read_only => {
            let (host, at) = of(&holder);
            Some(format!(
                "{name}: host {host} has not exported it, and wrote to it last at {at}: if it still does, what is read here may be wrong"
            ))
        }
        Belonging::Anothers(holder) => {
            let (host, at) = of(&holder);
            Some(format!("{name} is taken from host {host}, which wrote to it last at {at}: {RISK}"))
        }
    }
}

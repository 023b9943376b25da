//! The host that a pool belongs to: by its uberblock, and by the host that looks at it.
//!
//! Nothing tells whether another host has a pool open at this moment. So one that another host had last, and has not given away, is opened for
//! writing only by order. A host whose identity does not last, as that of a container, is another one each time: it is told, and not refused.

use brindle_format::pool::{Host, Uberblock};

/// The host that had a pool last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The host.
    pub host: Host,
    /// Seconds since 1970 when the pool was written last.
    pub at: u64,
}

/// The relation of a pool to the host that looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// No host has it: it was given away, or never opened.
    Nobodys,
    /// It is this host's.
    Own,
    /// It is that of a host of another name, and one of both has an identity that does not last.
    Unsure(Holder),
    /// It is another host's.
    Anothers(Holder),
}

impl Belonging {
    /// The relation of a pool with this uberblock to a host.
    pub fn of(head: &Uberblock, own: Host) -> Self {
        let (theirs, holder) = (head.host, Holder { host: head.host, at: head.time });
        let may_be_one = !theirs.is_lasting() && !own.is_lasting();
        if head.exported {
            Self::Nobodys
        } else if theirs.id == own.id && !own.id.is_nil() || may_be_one && theirs.name() == own.name() {
            Self::Own
        } else if may_be_one || theirs.id.is_nil() {
            Self::Unsure(holder)
        } else {
            Self::Anothers(holder)
        }
    }

    /// Refuses a pool to be written to that another host has: two that write to one pool destroy it.
    pub(crate) fn check(head: &Uberblock, own: Host, takes_over: bool) -> Result<(), Holder> {
        match Self::of(head, own) {
            Self::Anothers(holder) if !takes_over => Err(holder),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::VdevKind;
    use uuid::Uuid;

    use super::*;
    use crate::opening::create::{PoolSpec, VdevSpec, first_uberblock, plan};

    fn head(host: Host, exported: bool) -> Uberblock {
        let vdevs = vec![VdevSpec { kind: VdevKind::Plain, parity: 0, sizes: vec![1 << 30] }];
        let (name, members, unit) = ("p".to_owned(), vec![Uuid::nil()], None);
        let spec = PoolSpec { name, id: Uuid::nil(), members, opening: 1, created: 7, vdevs, unit };
        Uberblock { exported, ..first_uberblock(&plan(&spec).expect("a pool"), 1, host) }
    }

    #[test]
    fn lasting_identities_decide_and_others_are_told() {
        let lasting = |id: u128, name| Host::new(Uuid::from_u128(id), name);
        let made = |id: u128, name| Host::made(Uuid::from_u128(id), name);
        let (nas, box_) = (lasting(1, "nas"), lasting(2, "box"));
        let of = |theirs: Host, own: Host| Belonging::of(&head(theirs, false), own);
        let holder = |host| Holder { host, at: 7 };
        assert_eq!(Belonging::of(&head(nas, true), box_), Belonging::Nobodys);
        assert_eq!(of(nas, lasting(1, "renamed")), Belonging::Own);
        assert_eq!(of(nas, box_), Belonging::Anothers(holder(nas)));
        assert_eq!(of(nas, lasting(2, "nas")), Belonging::Anothers(holder(nas)), "names decide nothing");
        // A container that was started anew has another identity, and mostly another name.
        assert_eq!(of(made(1, "a"), made(2, "a")), Belonging::Own);
        assert_eq!(of(made(1, "a"), made(1, "b")), Belonging::Own);
        assert_eq!(of(made(1, "a"), made(2, "b")), Belonging::Unsure(holder(made(1, "a"))));
        assert_eq!(of(made(1, "a"), nas), Belonging::Anothers(holder(made(1, "a"))));
        assert_eq!(of(nas, made(1, "nas")), Belonging::Anothers(holder(nas)));
        assert_eq!(of(nas, Host::NONE), Belonging::Anothers(holder(nas)));
        assert_eq!(of(Host::NONE, Host::NONE), Belonging::Own);
        assert_eq!(of(Host::NONE, nas), Belonging::Unsure(holder(Host::NONE)));
    }
}

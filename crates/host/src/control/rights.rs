//! Rights to ask and to command, by the user and the groups of a peer. Pure.

use brindle_io::PeerUser;

use super::message::Ask;

/// Groups that may use a control socket besides its server's user and root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlRights {
    /// The server's user.
    pub owner: u32,
    /// Members of this group may ask.
    pub readers: Option<u32>,
    /// Members of this group may ask and command.
    pub operators: Option<u32>,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The peer is in none of the groups.
    Stranger,
    /// A reader does not command.
    Reader,
    /// Only the server's user has a server taken over.
    Owner,
}

impl Refusal {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Stranger => {
                "this user may not ask: be in the group of 'readers' or of 'operators', below [control] in the settings"
            }
            Self::Reader => {
                "this user may ask and not command: be in the group of 'operators', below [control] in the settings"
            }
            Self::Owner => "only the user of the server takes it over: be that user, or root",
        }
    }
}

impl ControlRights {
    /// Whether there are any groups: without them whoever can connect is the server's user, or root.
    pub fn are_shared(&self) -> bool {
        self.readers.is_some() || self.operators.is_some()
    }

    /// The group of the folder and the socket: who commands has to be able to get there, too, and there is one group.
    pub fn group(&self) -> Option<u32> {
        self.readers.or(self.operators)
    }

    pub(super) fn check(&self, peer: Option<&PeerUser>, ask: &Ask) -> Result<(), Refusal> {
        if !self.are_shared() {
            return Ok(());
        }
        let Some(peer) = peer else { return Err(Refusal::Stranger) };
        if peer.user == 0 || peer.user == self.owner {
            return Ok(());
        }
        let is_in = |group: Option<u32>| group.is_some_and(|group| peer.groups.contains(&group));
        let is_question = ask.is_question();
        match (is_in(self.operators), is_in(self.readers)) {
            (true, _) if matches!(ask, Ask::Takeover { .. }) => Err(Refusal::Owner),
            (true, _) => Ok(()),
            (false, true) if is_question => Ok(()),
            (false, true) => Err(Refusal::Reader),
            (false, false) => Err(Refusal::Stranger),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks() -> [(Ask, bool); 6] {
        [
            (Ask::Status, true),
            (Ask::Disks, true),
            (Ask::Metrics { full: true }, true),
            (Ask::Stop, false),
            (Ask::Unexport, false),
            (Ask::Fail { member: "0".into() }, false),
        ]
    }

    #[test]
    fn a_reader_asks_and_an_operator_commands() {
        let rights = ControlRights { owner: 7, readers: Some(100), operators: Some(200) };
        let of = |user: u32, groups: &[u32], ask: &Ask| {
            rights.check(Some(&PeerUser { user, groups: groups.to_vec() }), ask)
        };
        for (ask, is_question) in asks() {
            for owner in [0, 7] {
                assert_eq!(of(owner, &[], &ask), Ok(()));
            }
            assert_eq!(of(1000, &[1000, 200], &ask), Ok(()));
            assert_eq!(of(1000, &[100, 1000], &ask).is_ok(), is_question, "{ask:?}");
            assert_eq!(of(1000, &[1000], &ask), Err(Refusal::Stranger));
            assert_eq!(rights.check(None, &ask), Err(Refusal::Stranger));
            assert_eq!(ControlRights::default().check(None, &ask), Ok(()));
        }
        let takeover = Ask::Takeover { socket: "/x".into() };
        assert_eq!(of(1000, &[200], &takeover), Err(Refusal::Owner));
        assert_eq!(of(7, &[], &takeover), Ok(()));
    }

    #[test]
    fn folder_and_socket_have_one_group() {
        let of = |readers, operators| ControlRights { owner: 0, readers, operators }.group();
        assert_eq!([of(None, None), of(Some(1), Some(2)), of(None, Some(2))], [None, Some(1), Some(2)]);
    }
}

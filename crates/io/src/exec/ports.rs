//! Ports: the ways by which this executor asks members of another one's reactor.

use crate::exec::Io;
use crate::op::MemberId;
use crate::reactor::HandedMember;

impl Io {
    /// A member for other executors, which ask its device by ports of their own; `None` of one that can't be asked so, as one that is served.
    pub fn hand_member(&self, member: MemberId) -> Option<HandedMember> {
        if member.is_served() {
            return None;
        }
        self.0.core.reactor.borrow().hand_member(member)
    }

    /// Opens a port of a member of another executor; gives its number here. `None` if it can't.
    pub fn open_port(&self, handed: &HandedMember) -> Option<MemberId> {
        self.0.core.reactor.borrow_mut().open_port(handed)
    }

    /// Closes a port once what it was asked has completed; whatever it is asked from now on fails with [`crate::OpError::Gone`].
    pub fn close_port(&self, port: MemberId) {
        self.0.core.reactor.borrow_mut().close_port(port);
    }
}

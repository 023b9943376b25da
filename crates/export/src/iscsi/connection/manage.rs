//! PDUs that are no commands: task management, text, pings, the end of a session.

use std::rc::Rc;

use brindle_volume::Volume;

use super::Connection;
use super::send::{Answer, Body, SMALL};
use super::task::{Abort, Command, Open};
use crate::access::Right;
use crate::iscsi::login::{Keys, put};
use crate::iscsi::pdu::{FINAL, Header, NO_TAG, lun_index, reject, response};
use crate::scsi::reservation::Nexus;
use crate::session::End;

mod function {
    pub(super) const ABORT_TASK: u8 = 1;
    pub(super) const ABORT_TASK_SET: u8 = 2;
    pub(super) const CLEAR_TASK_SET: u8 = 4;
    pub(super) const RESET_UNIT: u8 = 5;
    pub(super) const RESET_WARM: u8 = 6;
    pub(super) const RESET_COLD: u8 = 7;
    pub(super) const REASSIGN: u8 = 8;
}

mod answer {
    pub(super) const DONE: u8 = 0;
    pub(super) const NO_TASK: u8 = 1;
    pub(super) const NO_UNIT: u8 = 2;
    pub(super) const NO_REASSIGN: u8 = 4;
    pub(super) const NOT_SUPPORTED: u8 = 5;
    pub(super) const NOT_AUTHORIZED: u8 = 6;
}

/// A text request that is not the continuation of another.
const FRESH: u32 = NO_TAG;
/// The tag under which the rest of a text is asked for.
const REST: u32 = 1;

impl<V: Volume + 'static> Connection<V> {
    /// Answers a ping with what it brought.
    pub(super) fn nop(&self, header: &Header, data: &[u8]) {
        if header.task() == NO_TAG {
            return; // an answer, or a sign of life
        }
        let mut answer = Header::new(response::NOP, header.task()).with(20, NO_TAG);
        answer.0[8..16].copy_from_slice(&header.0[8..16]);
        self.say(header, answer, &data[..data.len().min(self.agreed.most_sent)]);
    }

    /// Sends a PDU with data of any length.
    fn say(&self, request: &Header, header: Header, data: &[u8]) {
        if data.len() <= SMALL {
            return self.replies.push_pdu(header, data.to_vec(), true);
        }
        let Some(ticket) = self.memory.try_admit(&self.link.account, data.len()) else {
            return self.reject(request, reject::RESOURCES);
        };
        ticket.memory().put(0, data);
        let body = Body::Long { header, len: data.len() };
        self.replies.push(Answer { body, ticket: Some(ticket), open: None });
    }

    /// Answers text keys: which targets there are.
    pub(super) fn text(&self, header: &Header, data: &[u8]) {
        let tag = header.word(20);
        if tag == FRESH {
            let Ok(keys) = Keys::parse(data) else { return self.reject(header, reject::PROTOCOL) };
            *self.rest.borrow_mut() = self.answers(&keys);
        } else if tag != REST || self.rest.borrow().is_empty() {
            return self.reject(header, reject::INVALID);
        }
        let mut rest = self.rest.borrow_mut();
        let cut = rest.len().min(self.agreed.most_sent);
        let part: Vec<u8> = rest.drain(..cut).collect();
        let (flags, tag) = if rest.is_empty() { (FINAL, NO_TAG) } else { (0x40, REST) };
        let answer = Header::new(response::TEXT, header.task()).byte(1, flags).with(20, tag);
        self.say(header, answer, &part);
    }

    fn answers(&self, keys: &Keys) -> Vec<u8> {
        let mut text = Vec::new();
        for (key, value) in keys.iter() {
            match key {
                // All of them only where nothing else can be done.
                "SendTargets" if value == "All" && self.target().is_some() => put(&mut text, key, "Reject"),
                "SendTargets" => {
                    let own = self.target().map(|target| &*target.name);
                    let wanted =
                        if value.is_empty() { own } else { Some(value).filter(|&name| name != "All") };
                    self.shared.tell_targets(&self.link, self.entry.nexus.port, wanted, &mut text);
                }
                _ => put(&mut text, key, "NotUnderstood"),
            }
        }
        text
    }

    /// Ends the session once it has been answered.
    pub(super) fn logout(&self, header: &Header) -> End {
        // There is no recovery of connections.
        let result = if header.flags() & 0x7f == 2 { 2 } else { 0 };
        self.replies.push_pdu(Header::new(response::LOGOUT, header.task()).byte(2, result), Vec::new(), true);
        End::Orderly
    }

    /// Task management.
    pub(super) fn manage(self: &Rc<Self>, header: &Header) {
        let function = header.flags() & 0x7f;
        let Some(target) = self.target().cloned() else { return self.reject(header, reject::PROTOCOL) };
        let own = |command: &Rc<Command>| Rc::clone(command);
        let nexus = &self.entry.nexus;
        let is_of_own_tasks = matches!(function, function::ABORT_TASK | function::ABORT_TASK_SET);
        if self.entry.right == Right::Read && !is_of_own_tasks {
            // It would end what others do.
            return self.managed(header, answer::NOT_AUTHORIZED);
        }
        if self.managing.get() >= self.window {
            return self.reject(header, reject::RESOURCES);
        }
        if matches!(function, 1..=5) && lun_index(header.lun()) != Some(0) {
            return self.managed(header, answer::NO_UNIT);
        }
        let aborted: Vec<Rc<Command>> = match function {
            function::ABORT_TASK => {
                let commands = self.entry.commands.borrow();
                let Some(found) = commands.iter().find(|one| one.tag_of_task() == header.word(20)) else {
                    return self.managed(header, answer::NO_TASK);
                };
                found.abort(Abort::Silently);
                vec![Rc::clone(found)]
            }
            function::ABORT_TASK_SET => {
                let commands: Vec<_> = self.entry.commands.borrow().iter().map(own).collect();
                commands.iter().for_each(|command| command.abort(Abort::Silently));
                commands
            }
            function::CLEAR_TASK_SET => self.shared.nexuses.abort(&target, nexus, |_| true),
            function::RESET_UNIT | function::RESET_WARM | function::RESET_COLD => {
                let aborted = self.shared.nexuses.abort(&target, nexus, |_| true);
                target.unit.borrow_mut().reset();
                target.look_at_gate();
                aborted
            }
            function::REASSIGN => return self.managed(header, answer::NO_REASSIGN),
            _ => return self.managed(header, answer::NOT_SUPPORTED),
        };
        let (this, header) = (Rc::clone(self), *header);
        let under_way = Open::new(&self.managing);
        // It keeps nothing once it has ended; the connection waits for it by its count.
        drop(self.link.io.spawn(async move {
            for command in aborted {
                command.has_ended().await;
            }
            this.managed(&header, answer::DONE);
            if function == function::RESET_COLD {
                for entry in this.shared.nexuses.of(&target) {
                    if !Rc::ptr_eq(&entry, &this.entry) {
                        entry.link.close();
                    }
                }
                this.replies.push(Answer { body: Body::Close, ticket: None, open: None });
            }
            drop(under_way);
            this.replies.queue.changed.notify();
        }));
    }

    fn managed(&self, header: &Header, answer: u8) {
        self.replies.push_pdu(Header::new(response::TASK, header.task()).byte(2, answer), Vec::new(), true);
    }

    /// Aborts the commands of nexuses that were preempted, and waits for their end.
    pub(super) async fn abort_nexuses(&self, nexuses: &[Nexus]) {
        let Some(target) = self.target().filter(|_| !nexuses.is_empty()) else { return };
        let own = &self.entry.nexus;
        let aborted = self
            .shared
            .nexuses
            .abort(target, own, |entry| entry.nexus != *own && nexuses.contains(&entry.nexus));
        for command in aborted {
            command.has_ended().await;
        }
    }
}

//! A command is carried out, in a slot of the connection.

use std::rc::Rc;

use brindle_volume::{Volume, Wanted};

use super::Connection;
use super::send::{Answer, Body};
use super::task::{Abort, Command, Open, Work};
use crate::iscsi::pdu::{FINAL, Header, response};
use crate::pieces::Ended;
use crate::scsi::perform::{Done, Undone, charge, copy, memory, perform};
use crate::scsi::{Action, Sense, Status};
use crate::session::{self, Account, Moves, Slots, Ticket};

/// How a command has ended.
pub(in crate::iscsi) enum Outcome {
    /// The command has ended with a status.
    Ended(Status),
    /// The command has ended with this many bytes in the ticket's memory.
    Data(Ticket, usize),
    /// The command is not answered: the connection ends.
    Dropped,
}

impl From<Undone> for Outcome {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Ended(status) => Self::Ended(status),
            Undone::Again => Self::Ended(Status::Busy),
        }
    }
}

impl<V: Volume + 'static> session::Worker for Connection<V> {
    type Assigned = Work;
    type Carried = Outcome;
    type Scratch = ();

    fn account(&self) -> &Account {
        &self.link
    }

    fn slots(&self) -> &Slots<Work> {
        &self.slots
    }

    async fn carry_out(&self, job: &mut Work, (): &mut ()) -> Outcome {
        let begun = self.target().and_then(|target| target.begins(&self.link.io));
        let outcome = self.outcome(&job.command).await;
        if let Some(target) = self.target() {
            target.ends(&self.link.io, begun, !matches!(outcome, Outcome::Data(..)));
        }
        outcome
    }

    fn reply(&self, Work { command, open }: Work, outcome: Outcome) {
        self.entry.commands.borrow_mut().retain(|one| !Rc::ptr_eq(one, &command));
        command.end();
        let outcome = match command.aborted() {
            Some(Abort::Silently) => Outcome::Dropped,
            Some(Abort::WithStatus) => Outcome::Ended(Status::Aborted),
            None => outcome,
        };
        self.count(&command, &outcome);
        match outcome {
            Outcome::Dropped => drop(open),
            Outcome::Ended(status) => return self.answer(&command, status, open),
            Outcome::Data(ticket, len) => {
                let (task, sent) = (command.tag_of_task(), len.min(command.expected()));
                if sent == 0 {
                    return self.answer(&command, Status::Good, open);
                }
                let body = Body::Data { task, len: sent, residual: residual(command.expected(), len) };
                self.replies.push(Answer { body, ticket: Some(ticket), open: Some(open) });
            }
        }
        self.replies.queue.changed.notify();
    }
}

impl<V: Volume + 'static> Connection<V> {
    fn count(&self, command: &Command, outcome: &Outcome) {
        let (read, failed) = match outcome {
            Outcome::Data(_, len) => (*len as u64, false),
            Outcome::Ended(status) => (0, *status != Status::Good),
            Outcome::Dropped => return,
        };
        let written = match &*command.action.borrow() {
            Action::Write { len, .. } if !failed => *len,
            _ => 0,
        };
        if let Some(target) = self.target() {
            let moves = Moves { read, written, changes: written > 0 };
            target.count(&self.link, moves, failed);
        }
    }

    /// Sends a status, with sense where it has some.
    fn answer(&self, command: &Command, status: Status, open: Open) {
        let mut data = Vec::new();
        if let Status::Check(sense) = status {
            let describes = self.target().is_some_and(|target| target.unit.borrow().describes());
            let sense = sense.encode(describes);
            data.extend((sense.len() as u16).to_be_bytes());
            data.extend(sense);
        }
        let expected = command.expected();
        let (flags, count) = match status {
            _ if command.residual.get().is_some() => command.residual.get().unwrap_or_default(),
            Status::Good => residual(expected, command.asked()),
            // Nothing was read.
            _ if !command.writes() => residual(expected, 0),
            _ => (0, 0),
        };
        let header = Header::new(response::COMMAND, command.tag_of_task()).byte(1, FINAL | flags);
        let header = header.byte(3, status.code()).with(44, count);
        let body = Body::Pdu { header, data, counts: true };
        self.replies.push(Answer { body, ticket: None, open: Some(open) });
    }

    async fn outcome(&self, command: &Rc<Command>) -> Outcome {
        loop {
            let action = command.fitted();
            if command.aborted().is_some() {
                return Outcome::Dropped;
            }
            match action {
                Action::End(status) => return Outcome::Ended(status),
                Action::Answer(bytes) => return self.bytes(command, &bytes).await,
                _ => {}
            }
            if let Err(ended) = self.is_due(command, &action).await {
                return Undone::from(ended).into();
            }
            let mut ticket = command.ticket.take();
            let need = memory(&action);
            if ticket.is_none() && need > 0 {
                let Some(admitted) = self.admit(command, need).await else { return Outcome::Dropped };
                ticket = Some(admitted);
            }
            let wanted = command.wants(&action);
            if let Some(ticket) = ticket.as_ref().filter(|_| wanted > 0)
                && !self.gather(command, &action, ticket.memory(), wanted).await
            {
                let spoiled = command.spoiled.get().map(Status::Check);
                return spoiled.map_or(Outcome::Dropped, Outcome::Ended);
            }
            if let Action::Parameters { len, command: asked } = action {
                let list = ticket.as_ref().map(|ticket| ticket.memory().bytes()[..len].to_vec());
                let Some(target) = self.target() else { return Outcome::Dropped };
                let (nexus, list) = (&self.entry.nexus, list.unwrap_or_default());
                let next = target.unit.borrow_mut().parameters(nexus, &asked, &list, &self.seen());
                *command.action.borrow_mut() = next;
                continue;
            }
            return self.done(command, &action, ticket).await;
        }
    }

    /// Waits until a command may be carried out by the limits of its disk; an error if it ends before.
    async fn is_due(&self, command: &Command, action: &Action) -> Result<(), Ended> {
        let Some(target) = self.target().filter(|target| target.gate.is_paced()) else { return Ok(()) };
        // The result of parameters is looked at once they are here; copies are charged where they are written.
        if matches!(action, Action::Parameters { .. } | Action::Copy(_)) {
            return Ok(());
        }
        self.unless_ended(command, target.gate.pace(charge(action))).await
    }

    /// Memory for a command; `None` if it ends before there is some.
    async fn admit(&self, command: &Command, len: usize) -> Option<Ticket> {
        match self.memory.try_admit(&self.link.account, len) {
            None => self.unless_ended(command, self.memory.admit(&self.link.account, len)).await.ok()?.ok(),
            ticket => ticket,
        }
    }

    async fn done(&self, command: &Rc<Command>, action: &Action, mut ticket: Option<Ticket>) -> Outcome {
        let Some(target) = self.target() else { return Outcome::Dropped };
        let memory = |ticket: &Option<Ticket>| ticket.as_ref().map(|ticket| ticket.memory().clone());
        match action {
            Action::Reserve { .. } => {
                return match target.reserve(&self.entry.nexus, action).await {
                    Ok(aborts) => {
                        self.abort_nexuses(&aborts).await;
                        Outcome::Ended(Status::Good)
                    }
                    Err(status) => Outcome::Ended(status),
                };
            }
            Action::Copy(job) => {
                let course = |at| Some(self.course(command, &self.shared.targets.numbered(at)?.gate));
                let volume = |at, writes| self.seen().volume(at, writes);
                let (result, done) = copy(job, volume, memory(&ticket).as_ref(), course).await;
                if job.remembered {
                    target.unit.borrow_mut().copied(&self.entry.nexus, result);
                }
                return done.map_or_else(Outcome::from, |_| Outcome::Ended(Status::Good));
            }
            _ => {}
        }
        // A member may still fill a part of the memory. Then none of it can be read.
        let exchange = ticket.as_ref().filter(|_| matches!(action, Action::CompareAndWrite { .. }));
        let sent = exchange.map(|ticket| ticket.memory().bytes()[..action.data_out() as usize].to_vec());
        let course = self.course(command, &target.gate);
        let wanted = if sent.is_some() { self.wanted(command) } else { Wanted::default() };
        let mut done = perform(&*target.volume, action, memory(&ticket).as_ref(), &course, &wanted).await;
        while done == Err(Undone::Again) {
            if self.has_ended(command) {
                return Undone::from(Ended).into();
            }
            let Some(held) = &mut ticket else { return Outcome::Dropped };
            if !matches!(self.unless_ended(command, held.renew()).await, Ok(Ok(()))) {
                return Outcome::Dropped;
            }
            if let Some(sent) = &sent {
                held.memory().put(0, sent);
            }
            done = perform(&*target.volume, action, memory(&ticket).as_ref(), &course, &wanted).await;
        }
        target.look_at_gate();
        match (done, ticket) {
            (Ok(Done::Data), Some(ticket)) => {
                let Action::Read { len, .. } = action else { return Outcome::Ended(Status::Good) };
                Outcome::Data(ticket, *len as usize)
            }
            (Ok(Done::Bytes(bytes)), _) => self.send_data(command, &bytes).await,
            (Ok(_), _) => Outcome::Ended(Status::Good),
            (Err(undone), _) => undone.into(),
        }
    }

    /// Bytes that a command is answered with.
    async fn bytes(&self, command: &Command, bytes: &[u8]) -> Outcome {
        // RESERVE and RELEASE may have come before.
        self.target().into_iter().for_each(|target| target.look_at_gate());
        if command.expected() == 0 || command.writes() && command.header.flags() & 0x40 == 0 {
            return Outcome::Ended(Status::Good);
        }
        self.send_data(command, bytes).await
    }

    async fn send_data(&self, command: &Command, bytes: &[u8]) -> Outcome {
        if bytes.is_empty() {
            return Outcome::Ended(Status::Good);
        }
        let Some(ticket) = self.admit(command, bytes.len()).await else { return Outcome::Dropped };
        ticket.memory().put(0, bytes);
        Outcome::Data(ticket, bytes.len())
    }
}

impl Command {
    /// Bytes that the CDB asks to be transferred.
    fn asked(&self) -> usize {
        match &*self.action.borrow() {
            Action::Answer(bytes) => bytes.len(),
            Action::Read { len, .. } => *len as usize,
            Action::Discard(_) | Action::Reserve { .. } | Action::Copy(_) | Action::End(_) => self.expected(),
            other => other.data_out() as usize,
        }
    }

    /// The action where the initiator sends less than the CDB asks for, or where it matters more: a write writes what comes, if the
    /// initiator means to write; anything else is not done.
    pub(super) fn fitted(&self) -> Action {
        let action = self.action.borrow().clone();
        let (asked, sent) = (action.data_out() as usize, self.wants(&action));
        let exact = matches!(action, Action::CompareAndWrite { .. } | Action::WriteSame { .. });
        if asked == sent && !(exact && asked != self.expected()) {
            return action;
        }
        if let Action::Write { offset, fua, verify, .. } = action
            && self.writes()
        {
            return Action::Write { offset, len: sent as u64, fua, verify };
        }
        let expected = if self.writes() { self.expected() } else { 0 };
        self.residual.set(Some(residual(expected, asked)));
        // The block count of COMPARE AND WRITE is half of the blocks that are sent.
        let compares = matches!(action, Action::CompareAndWrite { .. });
        Action::End(Status::Check(if compares { Sense::cdb(13) } else { Sense::AMOUNT }))
    }
}

/// Flags and count of what was asked for and can't be sent, or was expected and is not there.
fn residual(expected: usize, there: usize) -> (u8, u32) {
    if there > expected {
        (0x04, (there - expected) as u32)
    } else if there < expected {
        (0x02, (expected - there) as u32)
    } else {
        (0, 0)
    }
}

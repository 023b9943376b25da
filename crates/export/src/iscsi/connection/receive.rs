//! The receiver: bytes to PDUs, and each PDU to whom it concerns.

use core::convert::Infallible;
use std::rc::Rc;

use brindle_io::Slice;
use brindle_volume::Volume;

use super::Connection;
use super::send::MOST_WAITING;
use super::task::{Command, Open, Work};
use crate::iscsi::login::MOST_RECEIVED;
use crate::iscsi::pdu::{BHS, Header, digest, lun_index, reject, request, response};
use crate::scsi::perform::memory;
use crate::scsi::{Action, Sense, Status, absent};
use crate::session::{End, Inbox, dispatch};

/// The most data of PDUs that are no commands. Bytes.
const MOST_TEXT: usize = 16 << 10;

impl<V: Volume + 'static> Connection<V> {
    /// Takes PDUs until there is a reason not to.
    pub(super) async fn receive(self: &Rc<Self>, mut inbox: Inbox) -> End {
        match self.pdus(&mut inbox).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn pdus(self: &Rc<Self>, inbox: &mut Inbox) -> Result<Infallible, End> {
        loop {
            let header = self.header(inbox).await?;
            if header.data() > MOST_RECEIVED {
                return Err(End::Garbage);
            }
            self.replies.queue.has_fewer(MOST_WAITING, &self.link).await?;
            match header.opcode() {
                request::COMMAND => self.command(header, inbox).await?,
                request::DATA => self.data_out(&header, inbox).await?,
                request::NOP | request::TASK | request::TEXT | request::LOGOUT => {
                    let data = self.collect(&header, inbox).await?;
                    self.link.heard();
                    if self.is_next(&header) {
                        self.other(&header, &data)?;
                    }
                }
                _ => {
                    self.link.skip(header.padded() + self.data_sum(header.data()), inbox).await?;
                    self.link.heard();
                    self.reject(&header, reject::NOT_SUPPORTED);
                }
            }
        }
    }

    fn other(self: &Rc<Self>, header: &Header, data: &[u8]) -> Result<(), End> {
        match header.opcode() {
            request::NOP => self.nop(header, data),
            request::TASK => self.manage(header),
            request::TEXT => self.text(header, data),
            _ => return Err(self.logout(header)),
        }
        Ok(())
    }

    /// Bytes of a digest behind so much data.
    fn data_sum(&self, len: usize) -> usize {
        if self.agreed.data_digest && len > 0 { 4 } else { 0 }
    }

    /// A whole header; its additional segments are of no use.
    async fn header(&self, inbox: &mut Inbox) -> Result<Header, End> {
        self.at_least(BHS, inbox).await?;
        let header = Header(inbox.peek().ok_or(End::Garbage)?);
        let len = BHS + header.additional();
        let sum = if self.agreed.header_digest { 4 } else { 0 };
        if len + sum > BHS {
            self.at_least(len + sum, inbox).await?;
            let bytes = inbox.bytes();
            if sum > 0 && digest([&bytes[..len]]) != bytes[len..len + 4] {
                tracing::warn!("a header came damaged: the connection is closed");
                return Err(End::Garbage);
            }
        }
        inbox.consume(len + sum);
        Ok(header)
    }

    async fn at_least(&self, len: usize, inbox: &mut Inbox) -> Result<(), End> {
        while inbox.len() < len {
            self.link.more(inbox).await?;
        }
        Ok(())
    }

    /// Whether a PDU has the number of the next command, or none. Others are ignored: they are outside of what may come, or
    /// something before them is missing, and on one connection that never comes.
    fn is_next(&self, header: &Header) -> bool {
        if header.is_immediate() {
            return true;
        }
        if header.word(24) != self.next_command.get() || self.open.get() >= self.window {
            return false;
        }
        self.next_command.set(self.next_command.get().wrapping_add(1));
        true
    }

    /// Takes a command, with the data that come with it.
    async fn command(self: &Rc<Self>, header: Header, inbox: &mut Inbox) -> Result<(), End> {
        let all = header.padded() + self.data_sum(header.data());
        if !self.is_next(&header) {
            return self.link.skip(all, inbox).await;
        }
        // An immediate command has no place in the window: one is taken beside a full one.
        if header.is_immediate() && self.open.get() > self.window {
            self.link.skip(all, inbox).await?;
            self.reject(&header, reject::RESOURCES);
            return Ok(());
        }
        if self.target().is_none() {
            self.link.skip(all, inbox).await?;
            self.link.heard();
            self.reject(&header, reject::PROTOCOL);
            return Ok(());
        }
        let action = self.plan(&header);
        let command = Rc::new(Command::new(&self.link.io, header, action, self.next_tag()));
        let open = Open::new(&self.open);
        let refused = match header.data() {
            0 => None,
            len if self.agreed.immediate && len <= self.agreed.first_burst => {
                self.immediate(&command, inbox).await?
            }
            _ => {
                self.link.skip(all, inbox).await?;
                Some(Status::Check(Sense::UNSOLICITED))
            }
        };
        if let Some(status) = refused {
            *command.action.borrow_mut() = Action::End(status);
        }
        self.entry.commands.borrow_mut().push(Rc::clone(&command));
        dispatch(self, Work { command, open });
        Ok(())
    }

    /// The action for a command.
    fn plan(&self, header: &Header) -> Action {
        let Some(target) = self.target() else { return Action::End(Status::Check(Sense::NO_SUCH_UNIT)) };
        let mut cdb = [0; 16];
        cdb.copy_from_slice(&header.0[32..48]);
        if lun_index(header.lun()) == Some(0) {
            target.unit.borrow_mut().plan(&self.entry.nexus, &cdb, &self.seen())
        } else {
            absent(&cdb, &self.seen())
        }
    }

    fn next_tag(&self) -> u32 {
        let tag = self.next_tag.get();
        self.next_tag.set(if tag + 1 == u32::MAX { 0 } else { tag + 1 });
        tag
    }

    /// Receives the data that come with a command; gives what it ends with if they can't be kept.
    async fn immediate(&self, command: &Command, inbox: &mut Inbox) -> Result<Option<Status>, End> {
        let (len, trailing) = (command.header.data(), command.header.padded() - command.header.data());
        let trailing = trailing + self.data_sum(len);
        let (wanted, need) = {
            let action = command.fitted();
            (command.wants(&action), memory(&action))
        };
        if wanted == 0 {
            self.link.skip(len + trailing, inbox).await?;
            return Ok(None);
        }
        let ticket = match self.memory.try_admit(&self.link.account, need) {
            Some(ticket) => ticket,
            // Commands of its own may wait for data that only this task can receive.
            None if self.awaiting.get() > 0 => {
                self.link.skip(len + trailing, inbox).await?;
                return Ok(Some(Status::Full));
            }
            None => self.memory.admit(&self.link.account, need).await?,
        };
        let taken = len.min(wanted);
        let part = ticket.memory().slice(0..taken);
        self.fill(&part, inbox).await?;
        if taken < len {
            self.link.skip(len - taken + trailing, inbox).await?;
        } else if !self.check_data(&part, trailing, inbox).await? {
            return Ok(Some(Status::Check(Sense::DAMAGED)));
        }
        command.came(taken);
        command.ticket.set(Some(ticket));
        Ok(None)
    }

    /// Receives what stands behind data, and holds the digest against them.
    pub(super) async fn check_data(
        &self,
        data: &Slice,
        trailing: usize,
        inbox: &mut Inbox,
    ) -> Result<bool, End> {
        if trailing == 0 {
            return Ok(true);
        }
        self.at_least(trailing, inbox).await?;
        let sum = self.data_sum(data.len());
        let well = {
            let bytes = inbox.bytes();
            let (padding, theirs) = bytes[..trailing].split_at(trailing - sum);
            sum == 0 || digest([&*data.bytes(), padding]) == *theirs
        };
        inbox.consume(trailing);
        if !well {
            tracing::warn!("data came damaged: the command fails");
        }
        Ok(well)
    }

    /// The data of a PDU that is no command.
    async fn collect(&self, header: &Header, inbox: &mut Inbox) -> Result<Vec<u8>, End> {
        let (len, sum) = (header.padded(), self.data_sum(header.data()));
        if len > MOST_TEXT {
            return Err(End::Garbage);
        }
        self.at_least(len + sum, inbox).await?;
        let (mut data, well) = {
            let bytes = inbox.bytes();
            (bytes[..len].to_vec(), sum == 0 || digest([&bytes[..len]]) == bytes[len..len + 4])
        };
        inbox.consume(len + sum);
        data.truncate(header.data());
        if well { Ok(data) } else { Err(End::Garbage) }
    }

    /// Answers that a PDU is not taken.
    pub(super) fn reject(&self, header: &Header, reason: u8) {
        let answer = Header::new(response::REJECT, u32::MAX).byte(2, reason);
        self.replies.push_pdu(answer, header.0.to_vec(), true);
    }

    /// Fills memory from the inbox and then from the socket. The client is waited for already where commands wait for data.
    pub(super) async fn fill(&self, into: &Slice, inbox: &mut Inbox) -> Result<(), End> {
        self.link.fill(into, inbox, self.awaiting.get() == 0).await
    }
}

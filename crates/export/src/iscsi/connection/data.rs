//! Data that are asked for: R2T, and the Data-Out PDUs that answer it.

use std::rc::Rc;

use brindle_io::Slice;
use brindle_volume::Volume;

use super::Connection;
use super::task::{Burst, Command};
use crate::iscsi::pdu::{FINAL, Header, response};
use crate::scsi::{Action, Sense};
use crate::session::{Coming, End, Inbox};

impl Command {
    /// Bytes that the initiator still has to send for a command.
    pub(super) fn wants(&self, action: &Action) -> usize {
        if self.writes() { action.data_out().min(self.expected() as u64) as usize } else { 0 }
    }

    /// Whether nothing has happened that ends the burst.
    fn is_sound(&self) -> bool {
        self.aborted().is_none() && self.spoiled.get().is_none()
    }

    /// Data of this command are dropped until the last of the burst has come.
    fn stop_waiting(&self, last: bool) {
        if last {
            let burst = self.burst.get();
            self.burst.set(Burst { next: burst.end, ..burst });
            self.changed.notify();
        }
    }

    /// Notes the bytes that came with the command.
    pub(super) fn came(&self, len: usize) {
        self.burst.set(Burst { next: len, end: len, number: 0 });
    }
}

impl<V: Volume + 'static> Connection<V> {
    /// Asks for what is missing of a command's data, and waits for it. `false` if it was aborted meanwhile.
    pub(super) async fn gather(
        &self,
        command: &Rc<Command>,
        action: &Action,
        into: &Slice,
        wanted: usize,
    ) -> bool {
        let (mut number, mut coming) = (0, None);
        *command.memory.borrow_mut() = Some(into.clone());
        while command.burst.get().next < wanted && command.is_sound() {
            coming = coming.or_else(|| self.coming(action));
            let next = command.burst.get().next;
            let end = wanted.min(next + self.agreed.burst);
            command.burst.set(Burst { next, end, number: 0 });
            self.ask(command, number, next, end - next);
            number += 1;
            if self.awaiting.replace(self.awaiting.get() + 1) == 0 {
                self.link.giving.begins();
            }
            let come = || command.aborted().is_some() || !command.awaits_data();
            command.changed.until(|| come().then_some(())).await;
            self.awaiting.set(self.awaiting.get() - 1);
            if self.awaiting.get() == 0 {
                self.link.giving.ends();
            } else {
                self.link.giving.moved();
            }
        }
        *command.memory.borrow_mut() = None;
        command.is_sound()
    }

    /// Tells the volume of a write that data come for it.
    fn coming(&self, action: &Action) -> Option<Coming<'_, V>> {
        let (Action::Write { offset, len, .. }, Some(target)) = (action, self.target()) else { return None };
        Some(Coming::new(&*target.volume, *offset, *len))
    }

    fn ask(&self, command: &Command, number: u32, offset: usize, len: usize) {
        let mut header = Header::new(response::R2T, command.tag_of_task());
        header.0[8..16].copy_from_slice(&command.header.0[8..16]);
        let header =
            header.with(20, command.tag).with(36, number).with(40, offset as u32).with(44, len as u32);
        self.replies.push_pdu(header, Vec::new(), false);
    }

    /// Receives data that were asked for. Data for an ended command are dropped. Data that do not match the request
    /// fail the command at the end of the burst.
    pub(super) async fn data_out(&self, header: &Header, inbox: &mut Inbox) -> Result<(), End> {
        let (len, trailing) = (header.data(), header.padded() - header.data());
        let trailing = trailing + if self.agreed.data_digest && len > 0 { 4 } else { 0 };
        let found = {
            let commands = self.entry.commands.borrow();
            commands.iter().find(|one| one.tag_of_task() == header.task()).cloned()
        };
        if let Some(command) = found.as_ref().filter(|command| command.tag != header.word(20)) {
            // These data were not asked for, and those that were may never come.
            command.spoiled.set(Some(Sense::UNSOLICITED));
            command.stop_waiting(true);
            return self.link.skip(len + trailing, inbox).await;
        }
        let awaits = |command: &Rc<Command>| command.aborted().is_none() && command.awaits_data();
        let Some(command) = found.filter(awaits) else {
            return self.link.skip(len + trailing, inbox).await;
        };
        let burst = command.burst.get();
        let ends = header.flags() & FINAL != 0;
        let fits = header.word(40) as usize == burst.next && len <= burst.end - burst.next;
        let whole = ends == (burst.next + len == burst.end);
        let memory = command.memory.borrow().clone();
        let (true, true, Some(memory)) = (fits && whole, header.word(36) == burst.number, memory) else {
            command.spoiled.set(Some(Sense::DATA_PHASE));
            self.link.skip(len + trailing, inbox).await?;
            command.stop_waiting(ends);
            return Ok(());
        };
        if command.spoiled.get().is_some() {
            self.link.skip(len + trailing, inbox).await?;
            command.stop_waiting(ends);
            return Ok(());
        }
        let part = memory.slice(burst.next..burst.next + len);
        self.fill(&part, inbox).await?;
        if !self.check_data(&part, trailing, inbox).await? {
            command.spoiled.set(Some(Sense::DAMAGED));
        }
        command.burst.set(Burst { next: burst.next + len, number: burst.number + 1, ..burst });
        if !command.awaits_data() {
            command.changed.notify();
        }
        Ok(())
    }
}

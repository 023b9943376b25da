//! The course of a command that is carried out in pieces, and of what waits for it.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_volume::Wanted;

use super::Connection;
use super::task::Command;
use crate::gate::Gate;
use crate::pieces::{Charge, Course, Ended};

/// The course of a command on the volume behind a gate.
pub(super) struct CommandCourse<'a, V> {
    connection: &'a Connection<V>,
    command: &'a Command,
    gate: Rc<Gate>,
    /// A piece has been carried out.
    begun: Cell<bool>,
}

impl<V> Course for CommandCourse<'_, V> {
    fn is_paced(&self) -> bool {
        self.gate.is_paced()
    }

    async fn next(&self, charge: Charge) -> Result<(), Ended> {
        if self.gate.is_paced() && charge != Charge::default() {
            self.connection.unless_ended(self.command, self.gate.pace(charge)).await?;
        }
        if !self.begun.replace(true) {
            return Ok(()); // a command of one piece that is due is carried out
        }
        // A volume may answer without waiting for anything.
        self.connection.link.io.yield_now().await;
        if self.connection.has_ended(self.command) { Err(Ended) } else { Ok(()) }
    }
}

impl<V> Connection<V> {
    pub(super) fn course<'a>(&'a self, command: &'a Command, gate: &Rc<Gate>) -> CommandCourse<'a, V> {
        CommandCourse { connection: self, command, gate: Rc::clone(gate), begun: Cell::new(false) }
    }

    /// Whether a command's write is still wanted, as is asked once it has compared.
    pub(super) fn wanted(&self, command: &Rc<Command>) -> Wanted {
        let (command, ending) = (Rc::clone(command), Rc::clone(&self.ending));
        Wanted::asking(move || command.aborted().is_none() && !ending.get())
    }

    /// Whether a command is not to be carried on: it was aborted, or nothing more will come from its initiator.
    pub(super) fn has_ended(&self, command: &Command) -> bool {
        command.aborted().is_some() || self.ending.get()
    }

    /// Waits for something, unless the command ends before.
    pub(super) async fn unless_ended<T>(
        &self,
        command: &Command,
        wait: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let ended = command.changed.until(|| self.has_ended(command).then_some(()));
        match race(wait, ended).await {
            Either::First(value) => Ok(value),
            Either::Second(()) => Err(Ended),
        }
    }

    /// No PDU will come any more: commands that go on for long, or wait until they are due, end.
    pub(super) fn ends(&self) {
        self.ending.set(true);
        for command in self.entry.commands.borrow().iter() {
            command.changed.notify();
        }
    }
}

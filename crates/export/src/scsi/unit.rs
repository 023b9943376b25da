//! A disk: the state that its initiators share, and what their commands come to.

use std::collections::{BTreeMap, VecDeque};

use super::action::{Action, Units};
use super::answers::{cut, log, luns, ports};
use super::cdb::{self, Blocks, CDB, Command, Compare};
use super::copy;
use super::identity::{Identity, MOST_SAME, MOST_UNMAPPED, MOST_UNMAPS};
use super::mode::Modes;
use super::opcodes;
use super::reservation::{self, Conflicts, Effects, Kind, Nexus, Out, Parameters, Reservations};
use super::sense::{Attention, Sense, Status};
use super::unit_sizes::Shape;

/// The most attentions that a nexus is owed at a time.
const MAX_ATTENTIONS: usize = 8;
/// The most nexuses that are remembered.
const MOST_NEXUSES: usize = 4096;

/// A disk.
pub struct Unit {
    /// The unit's identity.
    pub identity: Identity,
    /// The unit's sizes.
    pub shape: Shape,
    modes: Modes,
    reservations: Reservations,
    /// The nexus that has reserved it by RESERVE (6).
    reserved: Option<Nexus>,
    /// Pending unit attentions.
    attentions: BTreeMap<Nexus, VecDeque<Attention>>,
    copies: copy::Results,
}

impl Unit {
    /// A disk with the reservations that were kept.
    pub fn new(identity: Identity, shape: Shape, reservations: Reservations) -> Self {
        Self {
            identity,
            shape,
            modes: Modes::default(),
            reservations,
            reserved: None,
            attentions: BTreeMap::new(),
            copies: copy::Results::default(),
        }
    }

    /// Sense is sent in the format of descriptors.
    pub fn describes(&self) -> bool {
        self.modes.descriptors
    }

    /// Registrations and reservation.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// The registrations, once those of an initiator that are nobody's belong to a name that was proved; `None` if there are none of these.
    pub fn adopted(&self, initiator: &str, proved: &str) -> Option<Reservations> {
        let mut next = self.reservations.clone();
        next.adopt(initiator, proved).then_some(next)
    }

    /// Somebody holds the disk: other doors must not write to it.
    pub fn is_reserved(&self) -> bool {
        self.reserved.is_some() || self.reservations.held().is_some()
    }

    /// A nexus has come.
    pub fn arrived(&mut self, nexus: &Nexus) {
        if self.attentions.len() >= MOST_NEXUSES {
            // A nexus that was forgotten gets the attention POWER ON once more.
            self.attentions.clear();
        }
        let attention =
            if self.attentions.contains_key(nexus) { Attention::NexusLoss } else { Attention::PowerOn };
        let attentions = self.attentions.entry(nexus.clone()).or_default();
        attentions.clear();
        attentions.push_back(attention);
    }

    /// A nexus has gone: its reservations by RESERVE (6) end.
    pub fn left(&mut self, nexus: &Nexus) {
        self.release(nexus);
        self.copies.forget(nexus);
    }

    fn release(&mut self, nexus: &Nexus) {
        if self.reserved.as_ref() == Some(nexus) {
            self.reserved = None;
        }
    }

    /// A nexus has reset the unit: all get an attention, and what was reserved by RESERVE (6) is free.
    pub fn reset(&mut self) {
        self.reserved = None;
        self.modes = Modes::default();
        for attentions in self.attentions.values_mut() {
            attentions.clear();
            attentions.push_back(Attention::Reset);
        }
    }

    /// Changes the unit's size: all initiators get an attention.
    pub fn resized(&mut self, shape: Shape) {
        self.shape = shape;
        self.tell_all(None, Attention::CapacityChanged);
    }

    fn tell_all(&mut self, but: Option<&Nexus>, attention: Attention) {
        let others: Vec<Nexus> =
            self.attentions.keys().filter(|nexus| Some(*nexus) != but).cloned().collect();
        others.iter().for_each(|nexus| self.tell(nexus, attention));
    }

    fn tell(&mut self, nexus: &Nexus, attention: Attention) {
        let Some(attentions) = self.attentions.get_mut(nexus) else { return };
        if attentions.len() < MAX_ATTENTIONS && !attentions.contains(&attention) {
            attentions.push_back(attention);
        }
    }

    /// The action for a command of a nexus.
    pub fn plan(&mut self, nexus: &Nexus, cdb: &[u8; CDB], units: &dyn Units) -> Action {
        let command = cdb::parse(cdb);
        if !is_deaf(cdb[0])
            && let Some(attention) = self.attentions.get_mut(nexus).and_then(VecDeque::pop_front)
        {
            return Action::End(Status::Check(Sense::attention(attention)));
        }
        let command = match command {
            Ok(command) => command,
            Err(sense) => return Action::End(Status::Check(sense)),
        };
        if !self.may(nexus, cdb, &command) {
            return Action::End(Status::Conflict);
        }
        self.begin(nexus, command, units).unwrap_or_else(|sense| Action::End(Status::Check(sense)))
    }

    /// Whether reservations let a nexus give a command.
    fn may(&self, nexus: &Nexus, cdb: &[u8; CDB], command: &Command) -> bool {
        if let Some(holder) = &self.reserved
            && holder != nexus
        {
            return matches!(
                command,
                Command::Inquiry { .. }
                    | Command::RequestSense { .. }
                    | Command::ReportLuns { .. }
                    | Command::Release
            );
        }
        if matches!(command, Command::Reserve | Command::Release) {
            return !self.reservations.has_registrants();
        }
        self.reservations.allows(nexus, access(cdb, command))
    }

    /// Whether a nexus with another unit may read this one in a copy, or write to it.
    pub fn lets_copy(&self, nexus: &Nexus, writes: bool) -> bool {
        let conflicts = if writes { Conflicts::Write } else { Conflicts::Read };
        let reserved = self.reserved.as_ref().is_some_and(|holder| holder != nexus);
        !reserved && self.reservations.allows(nexus, conflicts) && !(writes && self.check_writable().is_err())
    }

    fn begin(&mut self, nexus: &Nexus, command: Command, units: &dyn Units) -> Result<Action, Sense> {
        if units.only_reads() && changes(&command) {
            return Err(Sense::WRITE_PROTECTED);
        }
        if let Some(action) = self.transfer(&command)? {
            return Ok(action);
        }
        let answer = |bytes: Vec<u8>, most: usize| Ok(Action::Answer(cut(bytes, most)));
        let shape = Shape { read_only: self.shape.read_only || units.only_reads(), ..self.shape };
        match command {
            Command::RequestSense { descriptors, most } => {
                let attentions = self.attentions.get_mut(nexus).and_then(VecDeque::pop_front);
                let sense = attentions.map_or(Sense::NONE, Sense::attention);
                answer(sense.encode(descriptors), most)
            }
            Command::Inquiry { page: None, most } => answer(self.identity.standard(), most),
            Command::Inquiry { page: Some(page), most } => {
                answer(self.identity.vital(page, &self.shape, nexus.port)?, most)
            }
            Command::ReportLuns { select, most } => answer(luns(select, most, units)?, most),
            Command::ReadCapacity10 => answer(self.capacity(), usize::MAX),
            Command::ReadCapacity16 { most } => answer(self.long_capacity(), most),
            Command::ModeSense { ten, no_descriptors, control, page, subpage, most } => {
                let modes = &self.modes;
                answer(modes.sense(&shape, ten, no_descriptors, control, page, subpage)?, most)
            }
            Command::LogSense { page, subpage, most } => answer(log(page, subpage)?, most),
            Command::ReserveIn { action, most } => answer(self.reserve_in(action)?, most),
            Command::TargetPorts { extended, most } => answer(ports(extended, &units.ports()), most),
            Command::Opcodes { options, timeouts, opcode, action, most } => {
                answer(opcodes::report(options, timeouts, opcode, action)?, most)
            }
            Command::TaskFunctions { extended, most } => answer(opcodes::task_functions(extended), most),
            Command::CopyResults { action, list, most } => {
                answer(self.copies.report(nexus, action, list)?, most)
            }
            Command::Reserve => {
                self.reserved = Some(nexus.clone());
                Ok(Action::End(Status::Good))
            }
            Command::Release => {
                self.release(nexus);
                Ok(Action::End(Status::Good))
            }
            other => self.listen(other),
        }
    }

    /// Commands with parameters.
    fn listen(&self, command: Command) -> Result<Action, Sense> {
        let len = match command {
            Command::ModeSelect { len, .. } | Command::Unmap { len } => len,
            Command::ExtendedCopy { len } if len > copy::LONGEST => return Err(Sense::PARAMETER_LENGTH),
            Command::ExtendedCopy { len } => {
                self.check_writable()?;
                len
            }
            Command::ReserveOut { action, len, .. } => {
                Out::of(action).ok_or(Sense::cdb(1))?;
                if len != reservation::PARAMETERS {
                    return Err(Sense::PARAMETER_LENGTH);
                }
                len
            }
            _ => 0,
        };
        Ok(if len == 0 { Action::End(Status::Good) } else { Action::Parameters { len, command } })
    }

    /// Commands on ranges of blocks.
    fn transfer(&self, command: &Command) -> Result<Option<Action>, Sense> {
        let shape = &self.shape;
        let at = |blocks: &Blocks| shape.transfer(blocks, 0);
        let fua = |blocks: &Blocks| blocks.fua || !self.modes.caches;
        Ok(Some(match command {
            Command::Read(blocks) => {
                let (offset, len) = at(blocks)?;
                Action::Read { offset, len }
            }
            Command::Write(blocks) | Command::WriteVerify { blocks, .. } => {
                self.check_writable()?;
                let (offset, len) = at(blocks)?;
                let verify = matches!(command, Command::WriteVerify { .. });
                Action::Write { offset, len, fua: fua(blocks), verify }
            }
            Command::Verify { blocks, compare } => {
                let (offset, len) =
                    if *compare == Compare::Each { at(blocks)? } else { shape.range(blocks)? };
                let sent = match compare {
                    Compare::Nothing => 0,
                    Compare::Each => len,
                    Compare::One => u64::from(shape.block).min(len),
                };
                Action::Verify { offset, len, sent }
            }
            Command::OrWrite(blocks) => {
                self.check_writable()?;
                let (offset, len) = at(blocks)?;
                Action::OrWrite { offset, len, fua: fua(blocks) }
            }
            Command::CompareAndWrite(blocks) => {
                self.check_writable()?;
                let (offset, len) = at(blocks)?;
                Action::CompareAndWrite { offset, len, fua: fua(blocks) }
            }
            Command::WriteSame { blocks, unmap, no_data } => {
                self.write_same(blocks, *unmap, *no_data, fua(blocks))?
            }
            Command::Prefetch(blocks) => {
                shape.range(blocks)?;
                Action::End(Status::Good)
            }
            Command::Flush(blocks) => {
                shape.range(blocks)?;
                Action::Flush
            }
            Command::LbaStatus { lba, most } => {
                let (offset, _) = shape.range(&Blocks { lba: *lba, count: 1, fua: false })?;
                Action::Allocation { offset, most: *most }
            }
            Command::TestUnitReady | Command::StartStop => Action::End(Status::Good),
            _ => return Ok(None),
        }))
    }

    fn write_same(&self, blocks: &Blocks, unmap: bool, no_data: bool, fua: bool) -> Result<Action, Sense> {
        self.check_writable()?;
        // A count of 0 stands for all blocks up to the end.
        let rest = self.shape.blocks().saturating_sub(blocks.lba);
        let all = Blocks { count: if blocks.count == 0 { rest } else { blocks.count }, ..*blocks };
        let (offset, len) = self.shape.range(&all)?;
        let count = if blocks.count > u64::from(u16::MAX) { 10 } else { 7 };
        if len > MOST_SAME || unmap && !self.shape.unmaps {
            return Err(Sense::cdb(if unmap && !self.shape.unmaps { 1 } else { count }));
        }
        let sent = if no_data { 0 } else { u64::from(self.shape.block) };
        Ok(Action::WriteSame { offset, len, sent, unmap, fua })
    }

    fn check_writable(&self) -> Result<(), Sense> {
        if self.modes.protected || self.shape.read_only { Err(Sense::WRITE_PROTECTED) } else { Ok(()) }
    }

    /// The action for a command whose parameters have come.
    pub fn parameters(&mut self, nexus: &Nexus, command: &Command, list: &[u8], units: &dyn Units) -> Action {
        let action = match *command {
            Command::ModeSelect { ten, .. } => self.mode_select(nexus, ten, list),
            Command::Unmap { .. } => self.unmap(list),
            Command::ExtendedCopy { .. } => copy::parse(list, |is_it| units.find(is_it)).map(Action::Copy),
            Command::ReserveOut { action, scope, kind, .. } => reserve_out(action, scope, kind, list),
            _ => Ok(Action::End(Status::Good)),
        };
        action.unwrap_or_else(|sense| Action::End(Status::Check(sense)))
    }

    fn mode_select(&mut self, nexus: &Nexus, ten: bool, list: &[u8]) -> Result<Action, Sense> {
        let modes = self.modes.select(ten, list)?;
        if core::mem::replace(&mut self.modes, modes) != modes {
            self.tell_all(Some(nexus), Attention::ModeChanged);
        }
        Ok(Action::End(Status::Good))
    }

    fn unmap(&self, list: &[u8]) -> Result<Action, Sense> {
        self.check_writable()?;
        let number = |at: usize, len: usize| {
            list[at..at + len].iter().fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        if list.len() < 8 {
            return Err(Sense::PARAMETER_LENGTH);
        }
        let len = number(2, 2) as usize / 16 * 16;
        if 8 + len > list.len() {
            return Err(Sense::PARAMETER_LENGTH);
        }
        if len / 16 > MOST_UNMAPS as usize {
            return Err(Sense::parameter(2));
        }
        let mut ranges = Vec::with_capacity(len / 16);
        for at in (8..8 + len).step_by(16) {
            let blocks = Blocks { lba: number(at, 8), count: number(at + 8, 4), fua: false };
            let (offset, len) = self.shape.range(&blocks)?;
            if len > MOST_UNMAPPED {
                return Err(Sense::parameter(at as u16 + 8));
            }
            if len > 0 {
                ranges.push((offset, len));
            }
        }
        Ok(if self.shape.unmaps { Action::Discard(ranges) } else { Action::End(Status::Good) })
    }

    /// The registrations and the reservation after a change, and its effects on others.
    ///
    /// # Errors
    /// How the command ends.
    pub fn change(
        &self,
        nexus: &Nexus,
        action: Out,
        kind: Result<Kind, Sense>,
        parameters: &Parameters,
    ) -> Result<(Reservations, Effects), Status> {
        let mut next = self.reservations.clone();
        let effects = next.change(nexus, action, kind, parameters)?;
        Ok((next, effects))
    }

    /// The reservations have changed.
    pub fn changed(&mut self, next: Reservations, effects: &Effects) {
        self.reservations = next;
        for (nexus, attention) in &effects.attentions {
            self.tell(nexus, *attention);
        }
    }

    /// A copy has ended.
    pub fn copied(&mut self, nexus: &Nexus, result: copy::Result) {
        self.copies.remember(nexus, result);
    }

    fn reserve_in(&self, action: u8) -> Result<Vec<u8>, Sense> {
        let of = &self.reservations;
        match action {
            0 => Ok(reservation::keys(of)),
            1 => Ok(reservation::holder(of)),
            2 => Ok(reservation::capabilities(of)),
            3 => Ok(reservation::full_status(of)),
            _ => Err(Sense::cdb(1)),
        }
    }

    fn capacity(&self) -> Vec<u8> {
        let last = u32::try_from(self.shape.blocks().saturating_sub(1)).unwrap_or(u32::MAX);
        [last.to_be_bytes(), self.shape.block.to_be_bytes()].concat()
    }

    fn long_capacity(&self) -> Vec<u8> {
        let mut bytes = vec![0; 32];
        bytes[..8].copy_from_slice(&self.shape.blocks().saturating_sub(1).to_be_bytes());
        bytes[8..12].copy_from_slice(&self.shape.block.to_be_bytes());
        bytes[13] = self.shape.exponent() as u8;
        // LBPME. What was unmapped may read as anything: LBPRZ is not set.
        bytes[14] = u8::from(self.shape.unmaps) << 7;
        bytes
    }
}

/// Commands that are answered although their nexus is owed an attention.
fn is_deaf(opcode: u8) -> bool {
    matches!(opcode, cdb::op::INQUIRY | cdb::op::REQUEST_SENSE | cdb::op::REPORT_LUNS)
}

/// Commands that change the disk, or keep others from it.
fn changes(command: &Command) -> bool {
    matches!(
        command,
        Command::Write(_)
            | Command::WriteVerify { .. }
            | Command::OrWrite(_)
            | Command::CompareAndWrite(_)
            | Command::WriteSame { .. }
            | Command::Unmap { .. }
            | Command::ExtendedCopy { .. }
            | Command::ModeSelect { .. }
            | Command::ReserveOut { .. }
            | Command::Reserve
    )
}

/// How a command fares under reservations.
fn access(cdb: &[u8; CDB], command: &Command) -> Conflicts {
    match command {
        Command::TestUnitReady
        | Command::RequestSense { .. }
        | Command::Inquiry { .. }
        | Command::ReportLuns { .. }
        | Command::ReadCapacity10
        | Command::ReadCapacity16 { .. }
        | Command::LogSense { .. }
        | Command::ReserveIn { .. }
        | Command::ReserveOut { .. }
        | Command::TargetPorts { .. }
        | Command::Reserve
        | Command::Release => Conflicts::Never,
        // It starts, and changes no power condition.
        Command::StartStop if cdb[4] & 0xf1 == 1 => Conflicts::Never,
        Command::Read(_) | Command::Verify { .. } | Command::Prefetch(_) | Command::LbaStatus { .. } => {
            Conflicts::Read
        }
        _ => Conflicts::Write,
    }
}

fn reserve_out(action: u8, scope: u8, kind: u8, list: &[u8]) -> Result<Action, Sense> {
    let action = Out::of(action).ok_or(Sense::cdb(1))?;
    let parameters = Parameters::parse(action, list)?;
    let kind = if scope == 0 { Kind::of(kind).ok_or(Sense::cdb(2)) } else { Err(Sense::cdb(2)) };
    Ok(Action::Reserve { action, kind, parameters })
}

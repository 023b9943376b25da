//! PERSISTENT RESERVE OUT (SPC-4, 6.16 and 5.12.5 to 5.12.11).

use super::{HeldReservation, Kind, MOST_REGISTRANTS, Nexus, Registrant, Reservations};
use crate::scsi::sense::{Attention, Sense, Status};

/// The service actions that are taken, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the standard names them")]
pub enum Out {
    Register = 0,
    Reserve = 1,
    Release = 2,
    Clear = 3,
    Preempt = 4,
    PreemptAndAbort = 5,
    RegisterIgnoring = 6,
}

/// Bytes of the parameter list.
pub(in crate::scsi) const PARAMETERS: usize = 24;

/// The parameter list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// RESERVATION KEY: the one that the nexus has registered.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: the new one, or the one of who is preempted.
    pub other: u64,
    /// APTPL: registrations are kept over a loss of power from now on.
    pub keep: bool,
}

/// The effects of a change on other nexuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Unit attentions for nexuses.
    pub attentions: Vec<(Nexus, Attention)>,
    /// Nexuses whose commands are to be aborted.
    pub aborts: Vec<Nexus>,
}

impl Out {
    /// The service action of a number.
    pub fn of(number: u8) -> Option<Self> {
        use Out::{Clear, Preempt, PreemptAndAbort, Register, RegisterIgnoring, Release, Reserve};
        let all = [Register, Reserve, Release, Clear, Preempt, PreemptAndAbort, RegisterIgnoring];
        all.into_iter().find(|action| *action as u8 == number)
    }
}

impl Parameters {
    /// Reads the parameter list of a service action.
    ///
    /// # Errors
    /// Its length is wrong, or it asks for what is not done: registering other initiators (SPEC_I_PT), or for all ports.
    pub fn parse(action: Out, bytes: &[u8]) -> Result<Self, Sense> {
        let bytes: &[u8; PARAMETERS] = bytes.try_into().map_err(|_| Sense::PARAMETER_LENGTH)?;
        let number = |at: usize| bytes[at..at + 8].iter().fold(0, |all, &byte| all << 8 | u64::from(byte));
        let registers = matches!(action, Out::Register | Out::RegisterIgnoring);
        if registers && bytes[20] & 0x0c != 0 {
            return Err(Sense::parameter(20));
        }
        Ok(Self { key: number(0), other: number(8), keep: bytes[20] & 1 != 0 })
    }
}

impl Reservations {
    /// Carries out a service action for a nexus. What comes of one that failed is not to be used.
    ///
    /// # Errors
    /// RESERVATION CONFLICT, or CHECK CONDITION with the field that is wrong.
    pub fn change(
        &mut self,
        nexus: &Nexus,
        action: Out,
        kind: Result<Kind, Sense>,
        parameters: &Parameters,
    ) -> Result<Effects, Status> {
        let mut effects = Effects::default();
        let registered = self.key_of(nexus);
        if matches!(action, Out::Register | Out::RegisterIgnoring) {
            let ignoring = action == Out::RegisterIgnoring;
            if !ignoring && registered.unwrap_or(0) != parameters.key {
                return Err(Status::Conflict);
            }
            self.register(nexus, registered, parameters, &mut effects)?;
            return Ok(effects);
        }
        if registered != Some(parameters.key) {
            return Err(Status::Conflict);
        }
        match action {
            Out::Reserve => self.reserve(nexus, kind.map_err(Status::Check)?)?,
            Out::Release => self.release(nexus, kind, &mut effects)?,
            Out::Clear => self.clear(nexus, &mut effects),
            _ => self.preempt(nexus, kind.map_err(Status::Check)?, parameters.other, &mut effects)?,
        }
        if action == Out::PreemptAndAbort {
            let removed = |(nexus, what): &(Nexus, Attention)| {
                (*what == Attention::RegistrationsPreempted).then(|| nexus.clone())
            };
            effects.aborts = effects.attentions.iter().filter_map(removed).collect();
        }
        Ok(effects)
    }

    fn register(
        &mut self,
        nexus: &Nexus,
        registered: Option<u64>,
        parameters: &Parameters,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        match (registered, parameters.other) {
            (None, 0) => return Ok(()),
            (None, key) => {
                if self.registrants.len() == MOST_REGISTRANTS {
                    return Err(Status::Check(Sense::REGISTRATIONS));
                }
                self.registrants.push(Registrant { nexus: nexus.clone(), key });
            }
            (Some(_), 0) => self.unregister(nexus, effects),
            (Some(_), key) => {
                let own = self.registrants.iter_mut().find(|registrant| registrant.nexus == *nexus);
                own.into_iter().for_each(|own| own.key = key);
            }
        }
        self.kept = parameters.keep;
        self.next_generation();
        Ok(())
    }

    fn unregister(&mut self, nexus: &Nexus, effects: &mut Effects) {
        self.registrants.retain(|registrant| registrant.nexus != *nexus);
        let Some(held) = &self.held else { return };
        let kind = held.kind;
        let ends = if kind.is_everybodys() { self.registrants.is_empty() } else { held.nexus == *nexus };
        if ends {
            self.held = None;
            if !kind.is_holders() {
                self.tell_all_but(nexus, Attention::ReservationsReleased, effects);
            }
        }
    }

    fn reserve(&mut self, nexus: &Nexus, kind: Kind) -> Result<(), Status> {
        match &self.held {
            None => self.held = Some(HeldReservation { kind, nexus: nexus.clone() }),
            Some(held) if self.holds(held, nexus) && held.kind == kind => {}
            Some(_) => return Err(Status::Conflict),
        }
        Ok(())
    }

    fn release(
        &mut self,
        nexus: &Nexus,
        kind: Result<Kind, Sense>,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let Some(held) = &self.held else { return Ok(()) };
        if !self.holds(held, nexus) {
            return Ok(());
        }
        let held = held.kind;
        if kind != Ok(held) {
            return Err(Status::Check(Sense::RELEASE));
        }
        self.held = None;
        if !held.is_holders() {
            self.tell_all_but(nexus, Attention::ReservationsReleased, effects);
        }
        Ok(())
    }

    fn clear(&mut self, nexus: &Nexus, effects: &mut Effects) {
        self.tell_all_but(nexus, Attention::ReservationsPreempted, effects);
        self.registrants.clear();
        self.held = None;
        self.next_generation();
    }

    fn preempt(
        &mut self,
        nexus: &Nexus,
        kind: Kind,
        other: u64,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let takes = match &self.held {
            None => false,
            Some(held) if held.kind.is_everybodys() => other == 0,
            Some(held) => self.key_of(&held.nexus) == Some(other),
        };
        if !takes {
            if other == 0 {
                return Err(Status::Check(Sense::parameter(8)));
            }
            return self.remove(nexus, effects, |registrant| registrant.key == other);
        }
        let before = self.held().map(|kind| (kind.is_everybodys(), kind));
        let everybody = before.is_some_and(|(everybodys, _)| everybodys);
        // A nexus that preempts itself stays registered.
        let gone =
            |registrant: &Registrant| registrant.nexus != *nexus && (everybody || registrant.key == other);
        let removed = self.remove(nexus, effects, gone);
        if removed.is_err() {
            self.next_generation(); // it has preempted nobody but itself, or the reservation
        }
        self.held = Some(HeldReservation { kind, nexus: nexus.clone() });
        if before.is_some_and(|(_, before)| before != kind) {
            self.tell_all_but(nexus, Attention::ReservationsReleased, effects);
        }
        Ok(())
    }

    /// Removes registrations, and tells those that had them. There has to be one.
    fn remove(
        &mut self,
        nexus: &Nexus,
        effects: &mut Effects,
        gone: impl Fn(&Registrant) -> bool,
    ) -> Result<(), Status> {
        if !self.registrants.iter().any(&gone) {
            return Err(Status::Conflict);
        }
        let reported = self.registrants.iter().filter(|one| gone(one) && one.nexus != *nexus);
        effects.attentions.extend(reported.map(|one| (one.nexus.clone(), Attention::RegistrationsPreempted)));
        self.registrants.retain(|registrant| !gone(registrant));
        if self.registrants.is_empty() {
            self.held = None;
        }
        self.next_generation();
        Ok(())
    }

    fn tell_all_but(&self, nexus: &Nexus, attention: Attention, effects: &mut Effects) {
        let others = self.registrants.iter().filter(|one| one.nexus != *nexus);
        effects.attentions.extend(others.map(|one| (one.nexus.clone(), attention)));
    }

    fn next_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

//! Every command of three initiators, in every state that they can bring about, held against the standard's rules written down
//! once more, and otherwise: here by what each nexus knows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::scsi::sense::{Attention, Sense, Status};

fn nexus(n: usize) -> Nexus {
    Nexus { initiator: format!("iqn.2026-11.example:{n},i,0x80000000000{n}"), port: 1, owner: None }
}

/// A command as a test gives it.
#[derive(Clone, Copy, Debug)]
struct Given {
    by: usize,
    action: Out,
    kind: Kind,
    key: u64,
    other: u64,
}

/// The same state, as a table: keys by initiator, and who holds what.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Model {
    keys: BTreeMap<usize, u64>,
    held: Option<(u8, usize)>,
}

/// A model's verdict on a command: its end, and the attentions of others.
type Verdict = (Result<(), Status>, BTreeSet<(usize, &'static str)>);

fn everybodys(kind: u8) -> bool {
    kind >= 7
}

impl Model {
    fn holds(&self, who: usize) -> bool {
        self.held.is_some_and(
            |(kind, holder)| {
                if everybodys(kind) { self.keys.contains_key(&who) } else { holder == who }
            },
        )
    }

    fn others(&self, by: usize) -> Vec<usize> {
        self.keys.keys().copied().filter(|&one| one != by).collect()
    }

    fn give(&mut self, given: &Given) -> Verdict {
        let Given { by, action, kind, key, other } = *given;
        let mut reported = BTreeSet::new();
        let conflict = (Err(Status::Conflict), BTreeSet::new());
        let own = self.keys.get(&by).copied();
        match action {
            Out::Register | Out::RegisterIgnoring => {
                if action == Out::Register && own.unwrap_or(0) != key {
                    return conflict;
                }
                if other != 0 {
                    self.keys.insert(by, other);
                } else if own.is_some() {
                    let held = self.holds(by);
                    self.keys.remove(&by);
                    let (kind, _) = self.held.unwrap_or((0, 0));
                    if held && (!everybodys(kind) || self.keys.is_empty()) {
                        self.held = None;
                        if kind >= 5 {
                            reported.extend(self.others(by).into_iter().map(|one| (one, "released")));
                        }
                    }
                }
            }
            _ if own != Some(key) => return conflict,
            Out::Reserve => match self.held {
                None => self.held = Some((kind as u8, by)),
                Some((held, _)) if self.holds(by) && held == kind as u8 => {}
                Some(_) => return conflict,
            },
            Out::Release => {
                if self.holds(by) {
                    let (held, _) = self.held.unwrap();
                    if held != kind as u8 {
                        return (Err(Status::Check(Sense::RELEASE)), reported);
                    }
                    self.held = None;
                    if held >= 5 {
                        reported.extend(self.others(by).into_iter().map(|one| (one, "released")));
                    }
                }
            }
            Out::Clear => {
                reported.extend(self.others(by).into_iter().map(|one| (one, "preempted")));
                *self = Self::default();
            }
            Out::Preempt | Out::PreemptAndAbort => {
                let takes = self.held.is_some_and(|(kind, holder)| {
                    if everybodys(kind) { other == 0 } else { self.keys.get(&holder) == Some(&other) }
                });
                if !takes && other == 0 {
                    return (Err(Status::Check(Sense::parameter(8))), reported);
                }
                let all = takes && everybodys(self.held.unwrap().0);
                let gone: Vec<usize> =
                    self.keys.iter().filter(|&(_, &key)| all || key == other).map(|(&n, _)| n).collect();
                if !takes && gone.is_empty() {
                    return conflict;
                }
                for one in gone {
                    if takes && one == by {
                        continue;
                    }
                    self.keys.remove(&one);
                    if one != by {
                        reported.insert((one, "removed"));
                    }
                }
                if self.keys.is_empty() {
                    self.held = None;
                }
                if takes {
                    let before = self.held.unwrap().0;
                    self.held = Some((kind as u8, by));
                    if before != kind as u8 {
                        reported.extend(self.others(by).into_iter().map(|one| (one, "released")));
                    }
                }
            }
        }
        (Ok(()), reported)
    }
}

fn word(attention: Attention) -> &'static str {
    match attention {
        Attention::ReservationsReleased => "released",
        Attention::ReservationsPreempted => "preempted",
        Attention::RegistrationsPreempted => "removed",
        other => panic!("{other:?}"),
    }
}

/// The table's columns: whether a nexus may read, and write, by what it is.
fn may(model: &Model, who: usize) -> [bool; 2] {
    let Some((kind, holder)) = model.held else { return [true, true] };
    let registered = model.keys.contains_key(&who);
    let passes = match kind {
        1 | 3 => holder == who,
        _ => registered,
    };
    [passes || matches!(kind, 1 | 5 | 7), passes]
}

fn check(model: &Model, state: &Reservations) {
    assert_eq!(state.registrants(), model.keys.len(), "{model:?}");
    assert_eq!(state.held().map(|kind| kind as u8), model.held.map(|(kind, _)| kind), "{model:?}");
    for who in 0..3 {
        assert_eq!(state.key_of(&nexus(who)), model.keys.get(&who).copied(), "{model:?}");
        let [reads, writes] = may(model, who);
        assert!(state.allows(&nexus(who), Conflicts::Never));
        assert_eq!(state.allows(&nexus(who), Conflicts::Read), reads, "{who} reads: {model:?}");
        assert_eq!(state.allows(&nexus(who), Conflicts::Write), writes, "{who} writes: {model:?}");
    }
}

fn commands() -> Vec<Given> {
    let actions = [
        Out::Register,
        Out::Reserve,
        Out::Release,
        Out::Clear,
        Out::Preempt,
        Out::PreemptAndAbort,
        Out::RegisterIgnoring,
    ];
    let mut all = Vec::new();
    for by in 0..3 {
        for action in actions {
            // Only these have a type.
            let typed = matches!(action, Out::Reserve | Out::Release | Out::Preempt | Out::PreemptAndAbort);
            let kinds = if typed { &Kind::ALL[..] } else { &Kind::ALL[..1] };
            for &kind in kinds {
                for key in 0..3 {
                    let keyed = !matches!(action, Out::Reserve | Out::Release | Out::Clear);
                    for other in 0..if keyed { 3 } else { 1 } {
                        all.push(Given { by, action, kind, key, other });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn three_initiators_and_every_command_in_every_state() {
    let commands = commands();
    let mut seen = BTreeSet::from([Model::default()]);
    let mut open = VecDeque::from([(Model::default(), Reservations::default())]);
    let mut kinds = BTreeSet::new();
    while let Some((model, state)) = open.pop_front() {
        check(&model, &state);
        for given in &commands {
            let (mut expected, mut found) = (model.clone(), state.clone());
            let (end, reported) = expected.give(given);
            let parameters = Parameters { key: given.key, other: given.other, keep: false };
            let result = found.change(&nexus(given.by), given.action, Ok(given.kind), &parameters);
            assert_eq!(result.as_ref().map(|_| ()).map_err(|status| *status), end, "{given:?} in {model:?}");
            let Ok(effects) = result else { continue };
            let number = |nexus: &Nexus| (0..3).find(|&n| *nexus == self::nexus(n)).unwrap();
            let really: BTreeSet<_> =
                effects.attentions.iter().map(|(nexus, what)| (number(nexus), word(*what))).collect();
            assert_eq!(really, reported, "{given:?} in {model:?}");
            let aborts: BTreeSet<_> = effects.aborts.iter().map(number).collect();
            let removed: BTreeSet<_> =
                reported.iter().filter(|one| one.1 == "removed").map(|one| one.0).collect();
            assert_eq!(aborts, if given.action == Out::PreemptAndAbort { removed } else { BTreeSet::new() });
            kinds.extend(expected.held.map(|(kind, _)| kind));
            if seen.insert(expected.clone()) {
                open.push_back((expected, found));
            }
        }
    }
    assert_eq!(kinds.len(), 6);
    assert!(seen.len() > 300, "{} states", seen.len());
}

#[test]
fn what_is_kept_comes_back() {
    let mut state = Reservations::default();
    assert_eq!(state.to_file_text(), None);
    let give = |state: &mut Reservations, by: usize, action, key, other, keep| {
        let parameters = Parameters { key, other, keep };
        state.change(&nexus(by), action, Ok(Kind::WriteExclusiveRegistrants), &parameters).unwrap();
    };
    give(&mut state, 0, Out::Register, 0, 7, true);
    give(&mut state, 1, Out::Register, 0, 8, true);
    give(&mut state, 0, Out::Reserve, 7, 0, true);
    let text = state.to_file_text().unwrap();
    let back = Reservations::from_file_text(&text).unwrap();
    assert_eq!(back.to_file_text().unwrap(), text);
    assert!(!back.allows(&nexus(2), Conflicts::Write) && back.allows(&nexus(1), Conflicts::Write));
    // Cut anywhere, it is refused.
    for len in 0..text.len() - 1 {
        assert!(Reservations::from_file_text(&text[..len]).is_err(), "{len}");
    }
    give(&mut state, 0, Out::RegisterIgnoring, 0, 7, false);
    assert_eq!(state.to_file_text(), None);
}

#[test]
fn a_registration_is_that_of_the_name_that_was_proved() {
    let of = |owner: Option<&str>| Nexus { owner: owner.map(str::to_owned), ..nexus(1) };
    let name = "iqn.2026-11.example:1";
    let register = Parameters { key: 0, other: 7, keep: true };
    let reserve = Parameters { key: 7, other: 0, keep: false };
    for (maker, other) in [(None, Some("bob")), (Some("bob"), Some("eve")), (Some("bob"), None)] {
        let mut state = Reservations::default();
        state.change(&of(maker), Out::Register, Ok(Kind::WriteExclusive), &register).unwrap();
        state.change(&of(maker), Out::Reserve, Ok(Kind::WriteExclusive), &reserve).unwrap();
        assert!(!state.allows(&of(other), Conflicts::Write), "{maker:?} {other:?}");
        assert_eq!(
            state.change(&of(other), Out::Clear, Ok(Kind::WriteExclusive), &reserve),
            Err(Status::Conflict)
        );
        assert_eq!(state.belong_to(name, other), maker.is_none());
        assert!(state.belong_to("iqn.2026-11.example:2", other));
        let text = state.to_file_text().unwrap();
        assert_eq!(text.starts_with("brindle reservations 2\n"), maker.is_some(), "{text}");
        assert_eq!(
            Reservations::from_file_text(&text).as_ref(),
            Ok(&Reservations { generation: 0, ..state.clone() })
        );
        assert_eq!(state.adopt(name, "eve"), maker.is_none());
        assert_eq!(state.allows(&of(Some("eve")), Conflicts::Write), maker.is_none());
        assert!(!state.adopt(name, "mallory") && !state.adopt("iqn.2026-11.example:2", "mallory"));
    }
    let head = "brindle reservations 2\nregistered 0000000000000007 1 iqn.x:i,i,0x1";
    assert!(Reservations::from_file_text(&format!("{head} chap:bob\nend\n")).is_ok());
    for wrong in [" bob", " chap:", " chap:a b", " "] {
        assert!(Reservations::from_file_text(&format!("{head}{wrong}\nend\n")).is_err(), "{wrong:?}");
    }
}

//! How often each fault met each condition of an array.

use core::fmt;
use std::collections::BTreeMap;

use brindle_array::{Array, ProcessKind, StateChange};

use crate::faults::Fault;

/// A condition of an array when a fault struck. Several may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// The array was being marked dirty, before the first write.
    Dirtying,
    /// The array was being marked clean.
    Cleaning,
    /// The failure of a member was being recorded.
    Failing,
    /// A resync was under way.
    Resync,
    /// A member was being rebuilt.
    Recovery,
    /// A check or repair was under way.
    Scrub,
    /// A member was lost.
    Degraded,
    /// Writes lagged behind on a member that is write-mostly.
    Lagging,
    /// The array was recovering from a power cut.
    AfterCut,
    /// None of these.
    Healthy,
}

impl Condition {
    /// All conditions.
    pub const ALL: [Self; 10] = [
        Self::Dirtying,
        Self::Cleaning,
        Self::Failing,
        Self::Resync,
        Self::Recovery,
        Self::Scrub,
        Self::Degraded,
        Self::Lagging,
        Self::AfterCut,
        Self::Healthy,
    ];

    /// The conditions that hold of an array.
    pub fn of(array: &Array, resyncing: bool, after_cut: bool) -> Vec<Self> {
        let roles = 0..array.geometry().members();
        let lost = roles.into_iter().any(|role| array.state(role) != brindle_array::RoleState::InSync);
        let change = array.state_change();
        let process = array.process().map(|process| process.kind());
        let recovers = matches!(process, Some(ProcessKind::Recovery | ProcessKind::Replacement));
        let scrubs = matches!(process, Some(ProcessKind::Check | ProcessKind::Repair));
        let lags = array.lagging().0 > 0;
        let mut all: Vec<Self> = [
            (change == Some(StateChange::Dirty), Self::Dirtying),
            (change == Some(StateChange::Clean), Self::Cleaning),
            (change == Some(StateChange::Failure), Self::Failing),
            (resyncing, Self::Resync),
            (recovers, Self::Recovery),
            (scrubs, Self::Scrub),
            (lost, Self::Degraded),
            (lags, Self::Lagging),
            (after_cut, Self::AfterCut),
        ]
        .into_iter()
        .filter_map(|(holds, condition)| holds.then_some(condition))
        .collect();
        if all.is_empty() {
            all.push(Self::Healthy);
        }
        all
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dirtying => "dirtying",
            Self::Cleaning => "cleaning",
            Self::Failing => "failing",
            Self::Resync => "resync",
            Self::Recovery => "recovery",
            Self::Scrub => "scrub",
            Self::Degraded => "degraded",
            Self::Lagging => "lagging",
            Self::AfterCut => "after cut",
            Self::Healthy => "healthy",
        })
    }
}

/// A strike on an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    /// The power went.
    PowerCut,
    /// A drive had a fault.
    Fault(Fault),
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PowerCut => f.write_str("power cut"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

/// Counts of faults by condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrikeTally(BTreeMap<(Strike, Condition), u64>);

impl StrikeTally {
    /// Something happened under these conditions.
    pub fn note(&mut self, strike: Strike, conditions: &[Condition]) {
        for &condition in conditions {
            *self.0.entry((strike, condition)).or_default() += 1;
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        for (&pair, count) in &other.0 {
            *self.0.entry(pair).or_default() += count;
        }
    }

    /// How often the fault struck in the condition.
    pub fn count(&self, strike: Strike, condition: Condition) -> u64 {
        self.0.get(&(strike, condition)).copied().unwrap_or(0)
    }

    /// Pairs of these strikes and any condition that never met.
    pub fn never_met(&self, strikes: &[Strike]) -> Vec<(Strike, Condition)> {
        let pairs = strikes.iter().flat_map(|&s| Condition::ALL.map(|c| (s, c)));
        pairs.filter(|&(strike, condition)| self.count(strike, condition) == 0).collect()
    }

    /// A table with a line for each of these strikes.
    pub fn table(&self, strikes: &[Strike]) -> String {
        let mut text = format!("{:16}", "");
        Condition::ALL.iter().for_each(|condition| text += &format!("{condition:>11}"));
        for &strike in strikes {
            text += &format!("\n{:16}", strike.to_string());
            for condition in Condition::ALL {
                text += &format!("{:>11}", self.count(strike, condition));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_added_and_missed() {
        let (mut one, mut two) = (StrikeTally::default(), StrikeTally::default());
        let strikes = [Strike::PowerCut, Strike::Fault(Fault::Dies)];
        one.note(Strike::PowerCut, &[Condition::Resync, Condition::Degraded]);
        two.note(Strike::PowerCut, &[Condition::Resync]);
        one.add(&two);
        assert_eq!(one.count(Strike::PowerCut, Condition::Resync), 2);
        let missed = one.never_met(&strikes);
        assert_eq!(missed.len(), 18);
        assert!(!missed.contains(&(Strike::PowerCut, Condition::Degraded)));
        let table = one.table(&strikes);
        assert_eq!(table.lines().count(), 3);
        assert!(
            table.lines().nth(1).is_some_and(|line| line.starts_with("power cut") && line.contains(" 2"))
        );
    }
}

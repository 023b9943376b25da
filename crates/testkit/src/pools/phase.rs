//! Phases of a pool in which the power can go.

use std::collections::BTreeMap;

use brindle_members::members::RoleState;
use brindle_pool::{Pool, PoolStatus};

/// A phase of a pool. Several may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Batches are under way.
    Closing,
    /// A checkpoint is.
    Checkpoint,
    /// Segments are being cleaned.
    Cleaning,
    /// The pool is opened after a power cut,
    Recovery,
    /// and one that had gone in the same.
    SecondRecovery,
    /// Members are missing.
    Degraded,
    /// A member has failed, which is not on record yet.
    Failing,
    /// All of its capacity is written.
    Full,
    /// Segments are written that have held something else.
    Reuse,
    /// The config is being changed.
    Config,
    /// Members get what they lack.
    Resilver,
    /// The pool gets another device.
    Growth,
    /// None of these.
    Idle,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 13] = [
        Self::Closing,
        Self::Checkpoint,
        Self::Cleaning,
        Self::Recovery,
        Self::SecondRecovery,
        Self::Degraded,
        Self::Failing,
        Self::Full,
        Self::Reuse,
        Self::Config,
        Self::Resilver,
        Self::Growth,
        Self::Idle,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Closing => "closing a batch",
            Self::Checkpoint => "checkpoint",
            Self::Cleaning => "cleaning",
            Self::Recovery => "recovery",
            Self::SecondRecovery => "recovery of recovery",
            Self::Degraded => "degraded",
            Self::Failing => "member failing",
            Self::Full => "full pool",
            Self::Reuse => "reuse of a segment",
            Self::Config => "change of the config",
            Self::Resilver => "resilver",
            Self::Growth => "growth",
            Self::Idle => "none of these",
        }
    }

    /// The phases of an open pool.
    pub(super) fn of(pool: &Pool) -> Vec<Self> {
        let PoolStatus { capacity, stored, busy, members, .. } = pool.status();
        let all = [
            (busy.batches > 0, Self::Closing),
            (busy.checkpoint, Self::Checkpoint),
            (busy.cleaning, Self::Cleaning),
            (members.iter().any(|member| member.state != RoleState::InSync), Self::Degraded),
            (busy.failing, Self::Failing),
            (stored >= capacity / 100 * 97, Self::Full),
            (busy.reused > 0, Self::Reuse),
            (busy.resilvering, Self::Resilver),
        ];
        let all: Vec<Self> = all.into_iter().filter(|(holds, _)| *holds).map(|(_, phase)| phase).collect();
        if all.is_empty() { vec![Self::Idle] } else { all }
    }
}

/// Power cuts by phase of the pool.
#[derive(Clone, Debug, Default)]
pub struct Phases(BTreeMap<Phase, u64>);

impl Phases {
    pub(super) fn count(&mut self, phases: &[Phase]) {
        phases.iter().for_each(|&phase| *self.0.entry(phase).or_default() += 1);
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(&phase, count)| *self.0.entry(phase).or_default() += count);
    }

    /// Cuts in a phase.
    pub fn of(&self, phase: Phase) -> u64 {
        self.0.get(&phase).copied().unwrap_or(0)
    }

    /// The phases as a table; empty if there are none.
    pub fn table(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let lines = Phase::ALL.iter().map(|&phase| format!("| {} | {} |\n", phase.name(), self.of(phase)));
        format!("| cuts of pools in | |\n|---|---|\n{}", lines.collect::<String>())
    }
}

/// How often each segment of a pool became free, by its number.
#[derive(Clone, Debug, Default)]
pub struct Reuses(pub(super) Vec<u32>);

impl Reuses {
    /// Adds those of another run of the same pool.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(all, more)| *all += more);
    }

    /// The segment that was reused least, and how often.
    pub fn least(&self) -> Option<(usize, u32)> {
        self.0.iter().copied().enumerate().min_by_key(|(_, times)| *times)
    }
}

//! The history of a pool.

use brindle_format::pool::{HistoryKind, HistoryRecord};
use brindle_pool::Pool;
use serde::{Deserialize, Serialize};

/// A command that changed a pool, or something that happened to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryEntry {
    /// Seconds since 1970.
    pub time: u64,
    /// The command, as it was typed; none of what happened.
    pub command: Option<String>,
    /// The words of something that happened.
    pub event: Option<String>,
    /// The number of the user, as the host has it.
    pub user: Option<u32>,
    /// The name of the host.
    pub host: Option<String>,
}

impl HistoryEntry {
    fn of(record: &HistoryRecord) -> Self {
        let text = record.text().to_owned();
        let host = Some(record.host().to_owned()).filter(|host| !host.is_empty());
        let one = Self { time: record.time, host, ..Self::default() };
        match record.kind {
            HistoryKind::Command { user } => Self { command: Some(text), user, ..one },
            HistoryKind::Internal => Self { event: Some(text), ..one },
        }
    }
}

/// The history of a pool, from the oldest on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryReport {
    /// The pool.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Commands, and what happened.
    pub history: Vec<HistoryEntry>,
}

impl HistoryReport {
    /// The history of a pool.
    pub fn of(pool: &Pool) -> Self {
        let label = pool.label();
        Self {
            name: label.name.clone(),
            uuid: label.pool.to_string(),
            history: pool.history().iter().map(HistoryEntry::of).collect(),
        }
    }
}

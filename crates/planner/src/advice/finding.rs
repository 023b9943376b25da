//! Findings, each with advice.

use core::fmt::{self, Write};

use serde::Serialize;

/// The least gain that counts: half a per cent.
const GAIN: f64 = 1.005;

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The setting is as it should be.
    Fine,
    /// The setting should be changed.
    Change,
    /// The setting is not known here.
    Unknown,
}

/// One array, or one drive, in the simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The setting, in words.
    pub with: String,
    /// Bytes of the array's chunk; none of a drive.
    pub chunk: Option<u64>,
    /// Requests a second.
    pub iops: f64,
    /// MiB a second.
    pub mb_s: f64,
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} requests a second ({:.1} MiB/s)", self.iops, self.mb_s)
    }
}

/// A finding.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The topic.
    pub topic: &'static str,
    /// The member, if it is about one.
    pub member: Option<String>,
    /// Whether it is as it should be.
    pub verdict: Verdict,
    /// The present state.
    pub found: String,
    /// The advice.
    pub advice: String,
    /// The command that makes the change.
    pub command: Option<String>,
    /// The expected gain of the change, or why it is not predicted.
    pub expected: Option<String>,
    /// The simulator's predictions.
    pub predicted: Vec<Prediction>,
}

impl Finding {
    fn new(
        topic: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (found, advice) = (found.into(), advice.into());
        let (member, command, expected, predicted) = (None, None, None, Vec::new());
        Self { topic, member, verdict, found, advice, command, expected, predicted }
    }

    pub(super) fn fine(topic: &'static str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(topic, Verdict::Fine, found, why)
    }

    pub(super) fn unknown(topic: &'static str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(topic, Verdict::Unknown, found, why)
    }

    /// `expected` is what it is to give, or why that is not predicted.
    pub(super) fn change(
        topic: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
        command: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let (command, expected) = (Some(command.into()), Some(expected.into()));
        Self { command, expected, ..Self::new(topic, Verdict::Change, found, advice) }
    }

    pub(super) fn of_member(self, member: &str) -> Self {
        Self { member: Some(member.to_owned()), ..self }
    }

    pub(super) fn expecting(self, expected: impl Into<String>) -> Self {
        Self { expected: Some(expected.into()), ..self }
    }

    pub(super) fn with_command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    /// A change of which the simulator sees no gain is none.
    pub(super) fn by_evidence(self) -> Self {
        match &self.predicted[..] {
            [now, then] if self.verdict == Verdict::Change && then.iops < now.iops * GAIN => Self {
                verdict: Verdict::Fine,
                advice: format!("{}; but the simulator sees no gain in a change", self.advice),
                command: None,
                ..self
            },
            _ => self,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mark = match self.verdict {
            Verdict::Fine => "ok    ",
            Verdict::Change => "CHANGE",
            Verdict::Unknown => "?     ",
        };
        let member = self.member.as_ref().map_or_else(String::new, |member| format!(" of {member}"));
        let mut text = format!("{mark} {}{member}: {}\n         {}\n", self.topic, self.found, self.advice);
        if let Some(command) = &self.command {
            let _ = writeln!(text, "         $ {command}");
        }
        if let Some(expected) = &self.expected {
            let _ = writeln!(text, "         expected: {expected}");
        }
        text
    }
}

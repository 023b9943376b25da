//! Findings, each with advice.

use core::fmt::{self, Write};

use serde::Serialize;

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

    /// A change of which the simulator sees no gain is none, and no command is given for it. `evidence` has the simulator's figures.
    pub(super) fn without_gain(self, evidence: &str) -> Self {
        let verdict = if self.verdict == Verdict::Change { Verdict::Fine } else { self.verdict };
        let advice = format!("{}; but the simulator sees no gain in a change: {evidence}", self.advice);
        Self { verdict, advice, command: None, expected: None, ..self }
    }

    /// Whether both are of a member, and say the same of it.
    fn says_the_same(&self, other: &Self) -> bool {
        fn words(of: &Finding) -> (&str, Verdict, &str, &str, Option<&str>) {
            (of.topic, of.verdict, &of.found, &of.advice, of.expected.as_deref())
        }
        self.member.is_some() && other.member.is_some() && words(self) == words(other)
    }
}

/// Findings for people. Findings that say the same of several members stand on one line, with the command for each.
pub fn text(findings: &[Finding]) -> String {
    let mut all: Vec<&str> = findings.iter().filter_map(|finding| finding.member.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    let mut text = String::new();
    for (place, finding) in findings.iter().enumerate() {
        if findings[..place].iter().any(|before| before.says_the_same(finding)) {
            continue;
        }
        let others = findings[place + 1..].iter().filter(|other| other.says_the_same(finding));
        let alike: Vec<&Finding> = core::iter::once(finding).chain(others).collect();
        text.push_str(&one(&alike, all.len()));
    }
    text
}

/// Findings that say the same, of an array of `members`.
fn one(alike: &[&Finding], members: usize) -> String {
    let finding = alike[0];
    let mark = match finding.verdict {
        Verdict::Fine => "ok    ",
        Verdict::Change => "CHANGE",
        Verdict::Unknown => "?     ",
    };
    let named: Vec<&str> = alike.iter().filter_map(|finding| finding.member.as_deref()).collect();
    let of = match named.len() {
        0 => String::new(),
        count if count > 2 && count == members => format!(" of all {count} members"),
        _ => format!(" of {}", named.join(", ")),
    };
    let mut text = format!("{mark} {}{of}: {}\n         {}\n", finding.topic, finding.found, finding.advice);
    let mut commands: Vec<&str> = alike.iter().filter_map(|finding| finding.command.as_deref()).collect();
    commands.dedup();
    for command in commands {
        let _ = writeln!(text, "         $ {command}");
    }
    if let Some(expected) = &finding.expected {
        let _ = writeln!(text, "         expected: {expected}");
    }
    text
}

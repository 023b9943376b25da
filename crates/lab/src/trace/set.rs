//! Several traces, and one number over them.

use serde::Deserialize;

use super::error::{TraceError, TraceErrorKind};

/// Traces that are replayed one after the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The traces.
    pub trace: Vec<SetMember>,
}

/// A trace of a set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetMember {
    /// The trace's file; beside the set's, unless it says where.
    pub file: String,
    /// The weight of the trace.
    #[serde(default = "one")]
    pub weight: f64,
    /// A map of its columns, if it needs one; beside the set's as well.
    #[serde(default)]
    pub columns: Option<String>,
}

const fn one() -> f64 {
    1.0
}

/// Reads a set of traces.
///
/// # Errors
/// If the text is not TOML, names no trace, or has an invalid weight.
pub fn set(file: &str, text: &str) -> Result<Set, TraceError> {
    let wrong = |at: usize, why: String| {
        let place = text.bytes().take(at).filter(|byte| *byte == b'\n').count() as u64 + 1;
        TraceError { file: file.to_owned(), place, kind: TraceErrorKind::Toml(why) }
    };
    let set: Set = toml::from_str(text)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    if set.trace.is_empty() {
        return Err(wrong(0, "there is no [[trace]]".to_owned()));
    }
    match set.trace.iter().find(|one| !(one.weight > 0.0 && one.weight <= 1e6)) {
        Some(one) => Err(wrong(0, format!("weight {} of {}: give more than 0", one.weight, one.file))),
        None => Ok(set),
    }
}

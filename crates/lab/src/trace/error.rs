//! Errors in traces, with their place.

/// Why a trace can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", at(file, *place))]
pub struct TraceError {
    /// The file, as it was named.
    pub file: String,
    /// Its line, or the number of its record, from 1; 0 for all of it.
    pub place: u64,
    /// The error itself.
    pub kind: TraceErrorKind,
}

/// An error in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceErrorKind {
    /// The bytes can't be read.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// A line is longer than any of a trace.
    #[error("a line of more than {0} bytes is none of a trace")]
    LongLine(usize),
    /// A line is not text.
    #[error("is not UTF-8; if it is compressed, unpack it first")]
    NoText,
    /// The first line of an iolog.
    #[error("is not an iolog: its first line is 'fio version 2 iolog' or 'fio version 3 iolog'")]
    Version,
    /// A line has too few or too many fields.
    #[error("{found} fields: {wanted}")]
    Fields {
        /// The number of fields in the line.
        found: usize,
        /// The values that are allowed.
        wanted: &'static str,
    },
    /// A field has a wrong value.
    #[error("'{text}' is not a {wanted}")]
    Field {
        /// The field.
        text: String,
        /// The value that is allowed.
        wanted: &'static str,
    },
    /// A request that can't be.
    #[error(
        "no request has offset {} and size {}: sizes are up to 32 MiB", number(*offset), number(*len)
    )]
    Range {
        /// First byte, if it can be counted.
        offset: Option<u64>,
        /// Bytes.
        len: Option<u64>,
    },
    /// A record does not begin as one of blktrace.
    #[error("is not a record of blktrace: it begins with {0:#010x}")]
    Magic(u32),
    /// A record of a version of blktrace that is not known.
    #[error("is a record of version {0} of blktrace; 7 is known")]
    RecordVersion(u8),
    /// The last record is cut off.
    #[error("is cut off after {0} bytes of a record")]
    CutOff(usize),
    /// The trace holds no request.
    #[error("holds no request")]
    Empty,
    /// A map of columns, or a set of traces, that is none.
    #[error("{0}")]
    Toml(String),
}

fn at(file: &str, place: u64) -> String {
    if place == 0 { format!("{file}: ") } else { format!("{file}:{place}: ") }
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "too large to count".to_owned(), |value| value.to_string())
}

/// The error for a field with a wrong value.
pub(super) fn field(text: &str, wanted: &'static str) -> TraceErrorKind {
    // A field may be as long as its line.
    TraceErrorKind::Field { text: text.chars().take(80).collect(), wanted }
}

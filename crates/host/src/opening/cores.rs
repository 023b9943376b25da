//! The cores that a server may use: how many, or which.

use core::fmt;
use core::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most reactors of a server.
const MOST: u16 = 64;

/// The cores for which a server has a reactor each. A list pins them, a number does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenCores", into = "WrittenCores")]
#[schemars(with = "WrittenCores")]
pub enum Cores {
    /// So many, wherever the kernel puts them.
    Count(u16),
    /// These, each once, in rising order.
    These(Vec<u16>),
}

/// A number, or a list: 2, "0-3,7".
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum WrittenCores {
    Count(u16),
    List(String),
}

/// Words that are no cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoresError {
    /// A number out of range.
    #[error("{0} cores: a server has 1 to {MOST} reactors")]
    Count(usize),
    /// No number and no list.
    #[error("{0:?} is neither a number of cores nor a list of them, as 0-3,7")]
    Words(String),
    /// A core twice.
    #[error("core {0} is named twice in the list: name each once")]
    Twice(u16),
}

impl Default for Cores {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Cores {
    /// The number of reactors.
    pub fn count(&self) -> usize {
        match self {
            Self::Count(count) => usize::from(*count),
            Self::These(these) => these.len(),
        }
    }

    /// The core to which a reactor is pinned.
    pub fn pinned(&self, reactor: usize) -> Option<u16> {
        match self {
            Self::Count(_) => None,
            Self::These(these) => these.get(reactor).copied(),
        }
    }

    fn checked(self) -> Result<Self, CoresError> {
        match self.count() {
            count if (1..=usize::from(MOST)).contains(&count) => Ok(self),
            count => Err(CoresError::Count(count)),
        }
    }
}

impl FromStr for Cores {
    type Err = CoresError;
    fn from_str(text: &str) -> Result<Self, CoresError> {
        let text = text.trim();
        if let Ok(count) = text.parse() {
            return Self::Count(count).checked();
        }
        let wrong = || CoresError::Words(text.to_owned());
        let mut these = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            these.extend(first..=last);
        }
        these.sort_unstable();
        match these.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(CoresError::Twice(pair[0])),
            None => Self::These(these).checked(),
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            // One core of a list is no number.
            Self::These(these) if these.len() == 1 => write!(f, "{0}-{0}", these[0]),
            Self::These(these) => {
                let names: Vec<String> = these.iter().map(u16::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl TryFrom<WrittenCores> for Cores {
    type Error = CoresError;
    fn try_from(written: WrittenCores) -> Result<Self, CoresError> {
        match written {
            WrittenCores::Count(count) => Self::Count(count).checked(),
            WrittenCores::List(list) => list.parse(),
        }
    }
}

impl From<Cores> for WrittenCores {
    fn from(cores: Cores) -> Self {
        match cores {
            Cores::Count(count) => Self::Count(count),
            these => Self::List(these.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_a_number_or_a_list() {
        for (text, cores) in [
            ("1", Cores::Count(1)),
            ("64", Cores::Count(64)),
            ("0-3,7", Cores::These(vec![0, 1, 2, 3, 7])),
            ("5-5", Cores::These(vec![5])),
            ("7,0", Cores::These(vec![0, 7])),
        ] {
            assert_eq!(text.parse(), Ok(cores.clone()), "{text}");
            assert_eq!(cores.to_string().parse(), Ok(cores));
        }
        for (text, part) in [
            ("0", "1 to 64"),
            ("65", "1 to 64"),
            ("0-99", "1 to 64"),
            ("", "neither"),
            ("a", "neither"),
            ("3-1", "neither"),
            ("-1", "neither"),
            ("1,,2", "neither"),
            ("0-3,2", "core 2 is named twice"),
        ] {
            let why = text.parse::<Cores>().expect_err(text).to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}

//! The size that members of an array are to give.

use crate::base::units::Bytes;

/// A number of bytes, or all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberSize {
    /// As much as the smallest member has room for.
    Max,
    /// So much of each.
    Of(Bytes),
}

impl std::str::FromStr for MemberSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            text => Bytes::parse_kib(text).map(Self::Of).map_err(|why| format!("{why}; or give max")),
        }
    }
}

impl MemberSize {
    /// Bytes; `None` for as many as there are.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Max => None,
            Self::Of(bytes) => Some(bytes.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_counts_kib_as_with_mdadm() {
        assert_eq!("max".parse(), Ok(MemberSize::Max));
        assert_eq!("64".parse(), Ok(MemberSize::Of(Bytes(65536))));
        assert_eq!("1G".parse(), Ok(MemberSize::Of(Bytes(1 << 30))));
        assert!("all".parse::<MemberSize>().unwrap_err().ends_with("or give max"));
    }
}

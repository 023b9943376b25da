//! The rules of Linux md by the version of its kernel, each with its source.

use core::fmt;
use core::str::FromStr;

use brindle_array::ReadPolicy;
use brindle_layout::{Layout, Level};

/// A version of Linux: whose md is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel(u32, u32);

/// A text that names no version of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no version of Linux: say 4.11 or 6.12, from 3.6 on")]
pub struct NoKernel;

impl Kernel {
    /// That of Debian 13: whose md is predicted if nothing is said.
    pub const USUAL: Self = Self(6, 12);
    /// That of the published figures of P3700 drives, 2018.
    pub const PUBLISHED: Self = Self(4, 11);
    /// The rules below hold from here on: RAID 1 chooses the member with the least pending among those that do not rotate
    /// (commit 9dedf60313fa).
    const FIRST: Self = Self(3, 6);
    /// The last whose RAID 10 goes by places alone.
    pub const BEFORE_PENDING: Self = Self(5, 3);
    /// RAID 10 chooses by pending requests among members that do not rotate (G. Jiang on linux-raid, September 2019; 208 K IOPS had been seen where
    /// RAID 1 gave 602 K).
    pub const LEAST_PENDING: Self = Self(5, 4);
    /// Reads of RAID 4, 5 and 6 no longer take the lock of the whole array (G. Ofri on linux-raid, June 2021: 2 M to 3.9 M IOPS over RAM disks,
    /// 1.6 M to what the drives gave over eight NVMe drives).
    pub const LOCKLESS_READS: Self = Self(5, 14);

    /// RAID 10 cuts reads at chunks also where every member holds all. Linux 6.12 was watched to do so, 6.1 not to; no kernel between
    /// them was watched.
    const CUT_AT_CHUNKS: Self = Self(6, 12);

    /// The pieces into which reads are cut that the layout leaves whole, if any. Bytes.
    pub(super) fn cut(self, level: Level, chunk: u64) -> Option<u64> {
        (level == Level::Raid10 && self >= Self::CUT_AT_CHUNKS).then_some(chunk)
    }

    /// The choice of a copy. `rotates` says whether the members do. No read is split over copies, and of copies that are as good the first
    /// is taken. Seen of Linux 7.2.7, one read in flight, RAID 1 and near copies: 64 reads of 128 KiB are 64 whole reads of one member.
    pub(super) fn read_policy(self, level: Level, layout: Layout, rotates: bool) -> ReadPolicy {
        match (level, layout) {
            (Level::Raid10, _) if self >= Self::LEAST_PENDING && !rotates => ReadPolicy::FewestPending,
            // An idle copy is preferred with several near copies only, and far ones are read at the lowest address
            // (`read_balance` of raid10.c; commit 8ed3a19563b6 for far copies). That is the first copy, of offset layouts too.
            (_, Layout::Raid10(copies)) if copies.far > 1 && copies.near == 1 => ReadPolicy::First,
            (Level::Raid10, _) => ReadPolicy::Nearest,
            (Level::Raid1, _) if rotates => ReadPolicy::Nearest,
            _ => ReadPolicy::FewestPending,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Kernel {
    type Err = NoKernel;

    /// `6.12`, also with what distributions write behind it.
    fn from_str(text: &str) -> Result<Self, NoKernel> {
        let mut parts = text.split(['.', '-']).map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => {
                Some(Self(major, minor)).filter(|kernel| *kernel >= Self::FIRST)
            }
            _ => None,
        }
        .ok_or(NoKernel)
    }
}

#[cfg(test)]
mod tests {
    use brindle_layout::Raid10Layout;

    use super::*;

    #[test]
    fn versions_are_read_and_each_has_its_rules() {
        let kernel = |text: &str| text.parse::<Kernel>();
        assert_eq!(kernel("4.11"), Ok(Kernel::PUBLISHED));
        assert_eq!(kernel("6.12.43-1-amd64"), Ok(Kernel::USUAL));
        assert!(
            kernel("5.10").unwrap() > Kernel::LEAST_PENDING && Kernel::LEAST_PENDING.to_string() == "5.4"
        );
        for wrong in ["", "six", "6", "2.6.32", "6.x"] {
            assert_eq!(kernel(wrong), Err(NoKernel), "{wrong}");
        }
        let of = |version: &str, layout, rotates| {
            kernel(version).unwrap().read_policy(Level::Raid10, Layout::Raid10(layout), rotates)
        };
        let (near, far, offset) = (Raid10Layout::near(2), Raid10Layout::far(2), Raid10Layout::offset(2));
        assert_eq!([of("5.3", near, false), of("6.1", near, true)], [ReadPolicy::Nearest; 2]);
        assert_eq!(
            [of("5.3", far, false), of("5.3", offset, false), of("6.1", far, true)],
            [ReadPolicy::First; 3]
        );
        let cut = |version: &str, level| kernel(version).unwrap().cut(level, 65536);
        assert_eq!([cut("6.1", Level::Raid10), cut("6.12", Level::Raid1)], [None; 2]);
        assert_eq!(cut("6.12", Level::Raid10), Some(65536));
        assert_eq!([of("5.4", near, false), of("5.4", offset, false)], [ReadPolicy::FewestPending; 2]);
    }
}

//! The arrays that can be made of a set of drives: stripes of groups.

use brindle_format::pool::place::MAX_WIDTH;
use brindle_format::pool::{MAX_MEMBERS, MAX_VDEVS};
use brindle_layout::Raid10Layout;

use crate::disk::Disk;

/// How a group keeps data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Once.
    Stripe,
    /// On every drive of the group.
    Mirror,
    /// Several times, by md's RAID 10.
    Raid10(Raid10Layout),
    /// Once, with all parity on one drive: md's RAID 4.
    DedicatedParity,
    /// Once, with so much rotating parity: md's RAID 5 and 6.
    Parity(u32),
    /// Once, with so much parity for each block: OpenZFS's RAID-Z.
    RaidZ(u32),
}

/// The thing that Brindle makes of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeAs {
    /// Arrays, as md has them.
    Array,
    /// A pool.
    Pool,
}

impl MadeAs {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Pool => "pool",
        }
    }
}

impl Scheme {
    /// How many drives of a group of `width` may be lost, whichever they are.
    pub fn tolerance(self, width: u32) -> u32 {
        match self {
            Self::Stripe => 0,
            Self::Mirror => width - 1,
            Self::Raid10(layout) => u32::from(layout.copies()) - 1,
            Self::DedicatedParity => 1,
            Self::Parity(parity) | Self::RaidZ(parity) => parity,
        }
    }

    /// Whether md has it.
    pub fn is_of_md(self) -> bool {
        !matches!(self, Self::RaidZ(_))
    }

    /// Name of one group by itself.
    fn name(self) -> &'static str {
        match self {
            Self::Stripe => "raid0",
            Self::Mirror => "raid1",
            Self::Raid10(_) => "raid10",
            Self::DedicatedParity => "raid4",
            Self::Parity(1) => "raid5",
            Self::Parity(_) => "raid6",
            Self::RaidZ(1) => "raidz",
            Self::RaidZ(2) => "raidz2",
            Self::RaidZ(_) => "raidz3",
        }
    }

    /// Name of a stripe of groups.
    fn striped(self) -> &'static str {
        match self {
            Self::Mirror => "raid10",
            Self::Parity(1) => "raid50",
            Self::Parity(_) => "raid60",
            Self::RaidZ(1) => "raidz10",
            Self::RaidZ(2) => "raidz20",
            Self::RaidZ(_) => "raidz30",
            Self::Stripe | Self::Raid10(_) | Self::DedicatedParity => self.name(),
        }
    }
}

/// Groups that are alike, striped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// How a group keeps data.
    pub scheme: Scheme,
    /// Drives of a group.
    pub width: u32,
    /// Groups.
    pub groups: u32,
    /// The size and speed that the array can count on from each drive.
    pub disk: Disk,
}

impl Part {
    /// One group.
    pub(crate) fn one(scheme: Scheme, width: u32, disk: Disk) -> Self {
        Self { scheme, width, groups: 1, disk }
    }

    /// All drives.
    pub fn drives(&self) -> u32 {
        self.width * self.groups
    }

    /// Bytes for data, before anything that a file system takes.
    pub fn net(&self) -> u64 {
        let (width, groups) = (u64::from(self.width), u64::from(self.groups));
        let of_one = match self.scheme {
            Scheme::Stripe => width * self.disk.size,
            Scheme::Mirror => self.disk.size,
            Scheme::Raid10(layout) => width * self.disk.size / u64::from(layout.copies()),
            Scheme::DedicatedParity => (width - 1) * self.disk.size,
            Scheme::Parity(parity) | Scheme::RaidZ(parity) => (width - u64::from(parity)) * self.disk.size,
        };
        groups * of_one
    }

    fn name(&self) -> &'static str {
        if self.groups > 1 { self.scheme.striped() } else { self.scheme.name() }
    }

    /// `3+1`, `2x(2+1)`, `f2 over 4`.
    fn config(&self) -> String {
        let group = |data: u32, rest: u32| match self.groups {
            1 => format!("{data}+{rest}"),
            groups => format!("{groups}x({data}+{rest})"),
        };
        match self.scheme {
            Scheme::Stripe => self.drives().to_string(),
            Scheme::Mirror => group(1, self.width - 1),
            Scheme::DedicatedParity => group(self.width - 1, 1),
            Scheme::Parity(parity) | Scheme::RaidZ(parity) => group(self.width - parity, parity),
            Scheme::Raid10(layout) => match pairs(layout, self.width) {
                Some(sets) => format!("{sets}x(1+{})", layout.copies() - 1),
                None => format!("{layout} over {}", self.width),
            },
        }
    }
}

/// How many sets of mirrors a RAID 10 is: near copies on a multiple of their number.
pub(crate) fn pairs(layout: Raid10Layout, width: u32) -> Option<u32> {
    let copies = u32::from(layout.copies());
    (layout.far == 1 && !layout.offset && width.is_multiple_of(copies)).then_some(width / copies)
}

/// An array of all drives: parts, striped.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// One, or one for each of two unlike sets.
    pub parts: Vec<Part>,
    /// The price of all drives.
    pub price: Option<f64>,
    /// The drives differ, and each counts as the smallest and slowest of them.
    pub as_the_least: bool,
}

impl Configuration {
    /// All drives.
    pub fn disks(&self) -> u32 {
        self.parts.iter().map(Part::drives).sum()
    }

    /// `raid5`, `raidz10`; of two parts `raid5+raid1`.
    pub fn level(&self) -> String {
        if self.is_plain_stripe() {
            return Scheme::Stripe.name().to_owned();
        }
        self.parts.iter().map(Part::name).collect::<Vec<_>>().join("+")
    }

    /// How drives are shared out: `3+1`, `2x(2+1)`; of two parts `3+1 & 1+1`.
    pub fn config(&self) -> String {
        if self.is_plain_stripe() {
            return self.disks().to_string();
        }
        self.parts.iter().map(Part::config).collect::<Vec<_>>().join(" & ")
    }

    /// md's RAID 0 uses all of each member, however much they differ: unlike sets are one array.
    fn is_plain_stripe(&self) -> bool {
        self.parts.iter().all(|part| part.scheme == Scheme::Stripe)
    }

    /// Bytes for data, before anything that a file system takes.
    pub fn net(&self) -> u64 {
        self.parts.iter().map(Part::net).sum()
    }

    /// Whether all of it is md's.
    pub fn is_of_md(&self) -> bool {
        self.parts.iter().all(|part| part.scheme.is_of_md())
    }

    /// Whether Brindle makes an array of it or a pool; none if it can't be either. All vdevs of a pool have to bear the loss of as many drives.
    pub fn made_as(&self) -> Option<MadeAs> {
        if self.is_of_md() {
            return Some(MadeAs::Array);
        }
        let is_vdev = |part: &Part| {
            let kind = matches!(part.scheme, Scheme::RaidZ(_) | Scheme::Mirror);
            kind && part.width <= u32::from(MAX_WIDTH)
                && part.scheme.tolerance(part.width) == self.tolerance()
        };
        let vdevs: u32 = self.parts.iter().map(|part| part.groups).sum();
        let fits = vdevs as usize <= MAX_VDEVS && self.disks() as usize <= MAX_MEMBERS;
        (fits && self.parts.iter().all(is_vdev)).then_some(MadeAs::Pool)
    }

    /// How many drives may be lost, whichever they are.
    pub fn tolerance(&self) -> u32 {
        self.parts.iter().map(|part| part.scheme.tolerance(part.width)).min().unwrap_or(0)
    }
}

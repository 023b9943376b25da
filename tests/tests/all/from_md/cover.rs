//! Few arrays in which any two values meet of: kind of level, metadata, chunk, sector, bitmap, and state. All of them
//! together would be tens of thousands.

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(super) const METADATA: [&str; 4] = ["0.90", "1.0", "1.1", "1.2"];
/// In KiB.
pub(super) const CHUNKS: [u64; 8] = [4, 8, 16, 32, 64, 128, 256, 512];
pub(super) const SECTORS: [u32; 2] = [512, 4096];

/// Arrays whose layouts take turns. Each level is one family, with two exceptions: RAID 6 has one for the layouts of
/// its own, and each kind of RAID 10 has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Linear,
    Raid0,
    Raid1,
    Raid4,
    Raid5,
    Raid6,
    Raid6Own,
    Near,
    Far,
    Offset,
}

impl Family {
    pub(super) const ALL: [Self; 10] = [
        Self::Linear,
        Self::Raid0,
        Self::Raid1,
        Self::Raid4,
        Self::Raid5,
        Self::Raid6,
        Self::Raid6Own,
        Self::Near,
        Self::Far,
        Self::Offset,
    ];

    pub(super) fn is_redundant(self) -> bool {
        !matches!(self, Self::Linear | Self::Raid0)
    }

    pub(super) fn has_chunks(self) -> bool {
        !matches!(self, Self::Linear | Self::Raid1)
    }
}

/// How an array is left; how many members it lacks then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Whole,
    Spares,
    Missing(usize),
    Stale(usize),
    HalfResynced,
    LostInResync,
    HalfRecovered,
}

impl Way {
    pub(super) const ALL: [Self; 9] = [
        Self::Whole,
        Self::Spares,
        Self::Missing(1),
        Self::Missing(2),
        Self::Stale(1),
        Self::Stale(2),
        Self::HalfResynced,
        Self::LostInResync,
        Self::HalfRecovered,
    ];

    /// Members lost.
    pub(super) fn lost(self) -> usize {
        match self {
            Self::Whole | Self::Spares | Self::HalfResynced => 0,
            Self::LostInResync | Self::HalfRecovered => 1,
            Self::Missing(lost) | Self::Stale(lost) => lost,
        }
    }
}

/// Something that two arrays can have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Family(Family),
    Metadata(&'static str),
    /// In KiB.
    Chunk(u64),
    Sector(u32),
    Bitmap(bool),
    Way(Way),
}

/// The values chosen for an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) family: Family,
    pub(super) metadata: &'static str,
    /// In KiB.
    pub(super) chunk: Option<u64>,
    pub(super) sector: u32,
    pub(super) bitmap: bool,
    pub(super) way: Way,
}

impl Plan {
    pub(super) fn values(&self) -> Vec<Value> {
        let mut values = vec![
            Value::Family(self.family),
            Value::Metadata(self.metadata),
            Value::Sector(self.sector),
            Value::Bitmap(self.bitmap),
            Value::Way(self.way),
        ];
        values.extend(self.chunk.map(Value::Chunk));
        values
    }

    fn pairs(&self) -> Vec<(Value, Value)> {
        let values = self.values();
        let after =
            |(at, &one): (usize, &Value)| values[at + 1..].iter().map(move |&other| (one, other)).collect();
        values.iter().enumerate().flat_map(|pair| -> Vec<_> { after(pair) }).collect()
    }

    /// Whether md makes such arrays.
    fn can_be_made(&self) -> bool {
        let redundant = self.family.is_redundant();
        let tolerates = match self.family {
            Family::Linear | Family::Raid0 => 0,
            Family::Raid4 | Family::Raid5 => 1,
            _ => 2,
        };
        // 0.90 has no room for RAID 0's layout; mdadm 4.2 refuses to make one, though md assembles it.
        (self.metadata, self.family) != ("0.90", Family::Raid0)
            && (redundant || !self.bitmap)
            && (redundant || self.way == Way::Whole)
            && self.way.lost() <= tolerates
    }
}

/// Everything that md makes.
fn possible() -> Vec<Plan> {
    let mut all = Vec::new();
    for family in Family::ALL {
        let chunks = if family.has_chunks() { CHUNKS.map(Some).to_vec() } else { vec![None] };
        for metadata in METADATA {
            for &chunk in &chunks {
                for sector in SECTORS {
                    for bitmap in [false, true] {
                        let plans = Way::ALL.map(|way| Plan { family, metadata, chunk, sector, bitmap, way });
                        all.extend(plans.into_iter().filter(Plan::can_be_made));
                    }
                }
            }
        }
    }
    all
}

/// The cover: again and again the plan in which most values meet that have not met yet; of equals that whose values
/// were taken least. So the first ones have the most different values.
pub(super) fn plans() -> &'static [Plan] {
    static PLANS: OnceLock<Vec<Plan>> = OnceLock::new();
    PLANS.get_or_init(|| {
        let possible = possible();
        let mut numbers = BTreeMap::new();
        let mut number = |pair| {
            let next = numbers.len();
            *numbers.entry(pair).or_insert(next)
        };
        let pairs: Vec<Vec<usize>> =
            possible.iter().map(|plan| plan.pairs().into_iter().map(&mut number).collect()).collect();
        let mut apart = vec![true; numbers.len()];
        let mut times: BTreeMap<Value, usize> = BTreeMap::new();
        let mut taken = Vec::new();
        while apart.contains(&true) {
            let new = |at: usize| pairs[at].iter().filter(|&&pair| apart[pair]).count();
            let often = |at: usize| -> usize {
                possible[at].values().iter().map(|value| times.get(value).copied().unwrap_or_default()).sum()
            };
            let most = (0..possible.len()).map(new).max().expect("there are plans");
            let equals = (0..possible.len()).filter(|&at| new(at) == most);
            let best = equals.min_by_key(|&at| often(at)).expect("one has most");
            pairs[best].iter().for_each(|&pair| apart[pair] = false);
            for value in possible[best].values() {
                *times.entry(value).or_default() += 1;
            }
            taken.push(possible[best]);
        }
        taken
    })
}

/// Whether two values can't meet, by what md(4) and mdadm(8) say.
fn exclude(one: Value, other: Value) -> bool {
    let either = |wanted: &dyn Fn(Value, Value) -> bool| wanted(one, other) || wanted(other, one);
    either(&|one, other| match (one, other) {
        (Value::Family(Family::Linear), Value::Bitmap(true) | Value::Chunk(_)) => true,
        (Value::Family(Family::Raid0), Value::Bitmap(true) | Value::Metadata("0.90")) => true,
        (Value::Family(Family::Linear | Family::Raid0), Value::Way(way)) => way != Way::Whole,
        (Value::Family(Family::Raid1), Value::Chunk(_)) => true,
        (Value::Family(Family::Raid4 | Family::Raid5), Value::Way(way)) => way.lost() > 1,
        _ => false,
    })
}

#[test]
fn every_two_values_meet() {
    let axes: [Vec<Value>; 6] = [
        Family::ALL.map(Value::Family).to_vec(),
        METADATA.map(Value::Metadata).to_vec(),
        CHUNKS.map(Value::Chunk).to_vec(),
        SECTORS.map(Value::Sector).to_vec(),
        [false, true].map(Value::Bitmap).to_vec(),
        Way::ALL.map(Value::Way).to_vec(),
    ];
    for (at, axis) in axes.iter().enumerate() {
        for &one in axis {
            for &other in axes[at + 1..].iter().flatten() {
                let meet = |plan: &Plan| {
                    let values = plan.values();
                    values.contains(&one) && values.contains(&other)
                };
                assert_eq!(plans().iter().any(meet), !exclude(one, other), "{one:?} and {other:?}");
            }
        }
    }
}

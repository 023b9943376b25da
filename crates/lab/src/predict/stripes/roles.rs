//! Sets of roles.

/// Members of a prediction at most.
const MOST: usize = 384;

/// Some roles of an array, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles([u64; MOST / 64]);

impl Roles {
    pub(super) fn of(roles: impl IntoIterator<Item = u16>) -> Self {
        let mut all = Self::default();
        roles.into_iter().for_each(|role| all.add(role));
        all
    }

    pub(super) fn add(&mut self, role: u16) {
        self.0[usize::from(role / 64)] |= 1 << (role % 64);
    }

    pub(super) fn has(&self, role: u16) -> bool {
        self.0[usize::from(role / 64)] >> (role % 64) & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn with(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self(core::array::from_fn(|at| join(self.0[at], other.0[at])))
    }

    pub(super) fn and(self, other: Self) -> Self {
        self.with(other, |one, two| one & two)
    }

    pub(super) fn or(self, other: Self) -> Self {
        self.with(other, |one, two| one | two)
    }

    pub(super) fn without(self, other: Self) -> Self {
        self.with(other, |one, two| one & !two)
    }

    pub(super) fn each(self) -> impl Iterator<Item = u16> {
        (0..MOST as u16).filter(move |role| self.has(*role))
    }
}

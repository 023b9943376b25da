//! Division by a number that is fixed for the life of a geometry.

/// Divides by a constant: a shift where it is a power of two, a plain division elsewhere.
///
/// Multiplying by a reciprocal gains nothing on processors that divide in hardware made for it (measured: a tenth
/// of the latency of a RAID 6 look-up, at the cost of throughput), so there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divider {
    value: u64,
    /// log2 of `value`, or [`Divider::NO_SHIFT`].
    shift: u32,
}

impl Divider {
    const NO_SHIFT: u32 = u32::MAX;

    /// `value` is not 0: every caller has validated it.
    pub(crate) fn new(value: u64) -> Divider {
        debug_assert!(value != 0);
        let shift = if value.is_power_of_two() { value.trailing_zeros() } else { Self::NO_SHIFT };
        Divider { value, shift }
    }

    #[inline]
    pub(crate) fn value(self) -> u64 {
        self.value
    }

    /// The quotient and the remainder of `n`.
    #[inline]
    pub(crate) fn split(self, n: u64) -> (u64, u64) {
        if self.shift == Self::NO_SHIFT {
            (n / self.value, n % self.value)
        } else {
            (n >> self.shift, n & (self.value - 1))
        }
    }
}

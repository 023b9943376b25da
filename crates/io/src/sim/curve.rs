//! A quantity that depends on another, as it was measured: points, with straight lines between them.

/// Points of a curve, by rising x. Flat before the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve(Vec<(u64, u64)>);

impl Curve {
    /// A curve that is `value` everywhere.
    #[must_use]
    pub fn flat(value: u64) -> Self {
        Self(vec![(0, value)])
    }

    /// A curve through these points; `None` if there are none, or their x values do not rise.
    #[must_use]
    pub fn through(points: Vec<(u64, u64)>) -> Option<Self> {
        let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (rising && !points.is_empty()).then_some(Self(points))
    }

    /// Its points.
    #[must_use]
    pub fn points(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// The value at `x`, the last one beyond the last point.
    #[must_use]
    pub fn at(&self, x: u64) -> u64 {
        let after = self.0.partition_point(|point| point.0 <= x);
        match (after.checked_sub(1).map(|before| self.0[before]), self.0.get(after)) {
            (Some(before), Some(&after)) => between(before, after, x),
            (Some(last), None) => last.1,
            (None, first) => first.map_or(0, |first| first.1),
        }
    }

    /// The value at `x`. Beyond the last point it continues the line through the last two, or grows in proportion to
    /// x if there is only one point.
    #[must_use]
    pub fn growing_at(&self, x: u64) -> u64 {
        match self.0.as_slice() {
            [.., last] if x <= last.0 => self.at(x),
            [last] if last.0 > 0 => scale(last.1, x, last.0),
            [.., before, last] if last.1 >= before.1 => {
                last.1.saturating_add(scale(last.1 - before.1, x - last.0, last.0 - before.0))
            }
            _ => self.at(x),
        }
    }
}

/// The straight line through two points, at an x between theirs.
pub(super) fn between((x0, y0): (u64, u64), (x1, y1): (u64, u64), x: u64) -> u64 {
    let (way, whole) = (x - x0, x1 - x0);
    if y1 >= y0 { y0 + scale(y1 - y0, way, whole) } else { y0 - scale(y0 - y1, way, whole) }
}

fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    scaled.min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_through_the_points_and_on() {
        let curve = Curve::through(vec![(10, 100), (20, 50), (40, 90)]).expect("points");
        let at = |x| (curve.at(x), curve.growing_at(x));
        assert_eq!([at(0), at(10), at(15), at(30), at(40)].map(|pair| pair.0), [100, 100, 75, 70, 90]);
        assert_eq!(at(60), (90, 130));
        assert_eq!(at(15), (75, 75));
        let one = Curve::through(vec![(10, 100)]).expect("a point");
        assert_eq!((one.at(30), one.growing_at(30), one.growing_at(5)), (100, 300, 100));
        assert_eq!(Curve::flat(7).growing_at(u64::MAX), 7);
        assert_eq!(
            Curve::through(vec![(0, 0), (1, u64::MAX)]).map(|c| c.growing_at(u64::MAX)),
            Some(u64::MAX)
        );
    }

    #[test]
    fn points_that_do_not_rise_are_none() {
        assert_eq!(Curve::through(Vec::new()), None);
        assert_eq!(Curve::through(vec![(1, 1), (1, 2)]), None);
    }
}

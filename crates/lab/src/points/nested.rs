//! Arrays of arrays: RAID 0 over others, which take the members in their order.

use std::ffi::OsString;
use std::path::PathBuf;

use brindle_layout::Level;

use super::PointError;
use crate::sweep::Point;

/// How a level is written that is RAID 0 over arrays of another.
const STRIPED: &str = "+0";

/// RAID 0 over arrays.
#[derive(Debug, PartialEq, Eq)]
pub struct Nested<'a> {
    /// The level of the inner arrays.
    pub inner: &'a str,
    /// Members of each.
    pub each: usize,
    /// Members of all.
    pub members: usize,
}

impl<'a> Nested<'a> {
    /// The arrays that a point stands for, if it is an array of arrays: `1+0` is RAID 0 over pairs, any other over
    /// two arrays.
    ///
    /// # Errors
    /// The level or the count is unknown. Members that make no whole arrays are a point that can't be.
    pub fn of(point: &'a Point) -> Result<Option<Result<Self, String>>, PointError> {
        let Some(inner) = point.level.strip_suffix(STRIPED) else { return Ok(None) };
        let level = |why| PointError::Level { level: point.level.clone(), why };
        let level: Level = inner.parse().map_err(level)?;
        let wrong = || PointError::Members(point.members.clone());
        let members: usize = point.members.parse().map_err(|_| wrong())?;
        let each = if level == Level::Raid1 { 2 } else { members / 2 };
        if each < 2 || members < 4 || !members.is_multiple_of(each) {
            return Ok(Some(Err(format!(
                "{} members do not make a RAID {}; give more, or fewer",
                members, point.level
            ))));
        }
        Ok(Some(Ok(Self { inner, each, members })))
    }

    /// Refuses members that could not be told apart once they are joined.
    ///
    /// # Errors
    /// The first that has a `+` in its name.
    pub fn can_join(&self, names: &[PathBuf]) -> Result<(), PointError> {
        let odd = names.iter().find(|name| name.as_os_str().as_encoded_bytes().contains(&b'+'));
        odd.map_or(Ok(()), |odd| {
            Err(PointError::Joined { inner: self.inner.to_owned(), name: odd.display().to_string() })
        })
    }

    /// The members of RAID 0: each the members of an array, joined as the command line has them.
    pub fn joined(&self, names: &[PathBuf]) -> Vec<PathBuf> {
        let join = |group: &[PathBuf]| {
            let mut all = OsString::new();
            for (at, name) in group.iter().enumerate() {
                all.push(if at == 0 { "" } else { "+" });
                all.push(name);
            }
            PathBuf::from(all)
        };
        names.chunks(self.each).map(join).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(level: &str, members: &str) -> Point {
        Point { level: level.into(), members: members.into(), ..Point::default() }
    }

    #[test]
    fn pairs_are_striped_and_so_are_halves() {
        let of = |level: &str, members: &str| {
            let point = point(level, members);
            let nested = Nested::of(&point).unwrap();
            nested.map(|nested| nested.map(|nested| (nested.each, nested.members)))
        };
        assert_eq!(of("10", "4"), None);
        assert_eq!(of("1+0", "6"), Some(Ok((2, 6))));
        assert_eq!(of("5+0", "6"), Some(Ok((3, 6))));
        assert!([("1+0", "5"), ("1+0", "2"), ("6+0", "9")].iter().all(|(l, m)| of(l, m).unwrap().is_err()));
        assert!(Nested::of(&point("1+0", "many")).is_err() && Nested::of(&point("7+0", "4")).is_err());
        let names = ["a", "b", "c", "d"].map(PathBuf::from);
        let pairs = Nested { inner: "1", each: 2, members: 4 }.joined(&names);
        assert_eq!(pairs, ["a+b", "c+d"].map(PathBuf::from));
        let nested = Nested { inner: "1", each: 2, members: 4 };
        assert!(nested.can_join(&names).is_ok() && nested.can_join(&["a+b".into()]).is_err());
    }
}

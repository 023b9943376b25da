//! How many cores a server needs for what drives do.

use core::iter::repeat_n;

use brindle_layout::{Geometry, GeometryError, Layout, Level};

use super::costs::{Cost, Costs};
use super::door::Door;
use super::spec::{Policies, Shape};

/// Places over which a request's time is averaged.
const PLACES: u64 = 64;
/// Nanoseconds of a core in a second.
const SECOND: f64 = 1e9;

/// Requests, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requests {
    /// Share of them that read, from 0 to 1.
    pub reads: f64,
    /// Bytes of a read.
    pub read_size: u64,
    /// Bytes of a write.
    pub write_size: u64,
}

/// An array, or several that are alike and over which a RAID 0 is striped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The array.
    pub shape: Shape,
    /// Bytes of each member.
    pub member: u64,
    /// How many of them there are.
    pub count: u32,
    /// Share of the requests that all of them get.
    pub share: f64,
}

/// Cores that carry so many requests a second to an array by a door, or to a stripe of several: none if no number of them does, since home
/// carries out what concerns arrays of arrays.
///
/// # Errors
/// There can be no such array.
pub fn cores(
    groups: &[Group],
    door: Door,
    requests: &Requests,
    rate: f64,
) -> Result<Option<u32>, GeometryError> {
    let is_nested = groups.iter().map(|group| group.count).sum::<u32>() > 1;
    let on = |reactors| {
        let each = groups.iter().map(|group| {
            let times = Times::of(&group.costs(door)?.shared_by(reactors), requests);
            Ok(times.times(group.share))
        });
        let inner =
            each.collect::<Result<Vec<_>, GeometryError>>()?.into_iter().fold(Times::default(), Times::and);
        Ok(if is_nested { inner.and(outer(groups, requests)?) } else { inner })
    };
    if rate * on(1)?.own <= SECOND {
        return Ok(Some(1));
    }
    let times = on(2)?;
    if is_nested {
        let [there, at_home] = times.handed;
        return Ok((rate * at_home <= SECOND).then(|| 1 + whole(rate * there)));
    }
    let rest = (rate - SECOND / times.own).max(0.0);
    Ok(Some(1 + whole(rest * times.in_channel).max(1)))
}

/// Cores that have so many nanoseconds in a second.
fn whole(nanos: f64) -> u32 {
    (nanos / SECOND).ceil() as u32
}

/// The RAID 0 over several arrays: its own time alone, at home.
fn outer(groups: &[Group], requests: &Requests) -> Result<Times, GeometryError> {
    let chunk = groups.iter().map(|group| group.shape.chunk).max().unwrap_or_default();
    let sizes: Vec<u64> =
        groups.iter().flat_map(|group| repeat_n(group.member, group.count as usize)).collect();
    let geometry = Geometry::new(Level::Raid0, Layout::None, chunk, &sizes)?;
    let costs = Costs::new(Policies::Brindle(Door::InProcess), &geometry).on_null_members();
    let own = Times::of(&costs, requests).own;
    Ok(Times { own, in_channel: 0.0, handed: [0.0, own] })
}

impl Group {
    fn costs(&self, door: Door) -> Result<Costs, GeometryError> {
        let Shape { level, layout, chunk, members, .. } = self.shape;
        let geometry = Geometry::new(level, layout, chunk, &vec![self.member; members.into()])?;
        Ok(Costs::new(Policies::Brindle(door), &geometry))
    }
}

/// Nanoseconds of a request on average.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    own: f64,
    in_channel: f64,
    handed: [f64; 2],
}

impl Times {
    fn of(costs: &Costs, requests: &Requests) -> Self {
        let mean = |len: u64, cost: &dyn Fn(u64) -> Cost| {
            let all = (0..PLACES).map(|place| Self::one(cost(place * len))).fold(Self::default(), Self::and);
            all.times(1.0 / PLACES as f64)
        };
        let [of_reads, of_writes] = [requests.reads, 1.0 - requests.reads];
        let mut all = Self::default();
        if of_reads > 0.0 {
            all = mean(requests.read_size, &|at| costs.read(at, requests.read_size)).times(of_reads);
        }
        if of_writes > 0.0 {
            all = all
                .and(mean(requests.write_size, &|at| costs.write(at, requests.write_size)).times(of_writes));
        }
        all
    }

    fn one(cost: Cost) -> Self {
        let elsewhere = cost.elsewhere.unwrap_or_default();
        Self {
            own: cost.own as f64,
            in_channel: elsewhere.in_channel as f64,
            handed: elsewhere.handed.map(|nanos| nanos as f64),
        }
    }

    fn times(self, by: f64) -> Self {
        let handed = self.handed.map(|nanos| nanos * by);
        Self { own: self.own * by, in_channel: self.in_channel * by, handed }
    }

    fn and(self, other: Self) -> Self {
        let handed = [0, 1].map(|at| self.handed[at] + other.handed[at]);
        Self { own: self.own + other.own, in_channel: self.in_channel + other.in_channel, handed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(level: Level, members: u16, count: u32) -> Group {
        let shape =
            Shape { level, layout: Layout::default_for(level), chunk: 512 << 10, members, bitmap: None };
        Group { shape, member: 400 << 30, count, share: 1.0 }
    }

    /// Twelve drives of the reference, 4 KiB by NBD.
    #[test]
    fn cores_are_what_requests_take() {
        let of = |groups: &[Group], door, reads: f64, rate| {
            let requests = Requests { reads, read_size: 4096, write_size: 4096 };
            cores(groups, door, &requests, rate).unwrap()
        };
        let raid6 = [group(Level::Raid6, 12, 1)];
        // 6.6 us and 17.2 us, and of several cores 6 % more of the engine's part.
        assert_eq!(of(&raid6, Door::Tcp, 1.0, 4_200_000.0), Some(28));
        assert_eq!(of(&raid6, Door::Tcp, 0.0, 341_000.0), Some(6));
        assert_eq!(of(&raid6, Door::InProcess, 1.0, 4_200_000.0), Some(9));
        assert_eq!(of(&raid6, Door::InProcess, 0.0, 341_000.0), Some(5));
        assert_eq!(
            [150_000.0, 0.0, 152_000.0].map(|rate| of(&raid6, Door::Tcp, 1.0, rate)),
            [Some(1), Some(1), Some(2)]
        );
        // Home carries out what goes to arrays of arrays: others have only the door's part.
        let nested = [group(Level::Raid6, 6, 2)];
        assert_eq!(of(&nested, Door::Tcp, 1.0, 100_000.0), Some(1));
        assert_eq!(of(&nested, Door::Tcp, 1.0, 400_000.0), Some(3));
        assert_eq!(of(&nested, Door::Tcp, 1.0, 500_000.0), None);
    }
}

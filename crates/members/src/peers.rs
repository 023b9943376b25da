//! Members that have become slow compared with their peers are reported, so that they can be looked at before they
//! fail. Based on counters that exist anyway. Mirrors read such members less by themselves, by measurements of their
//! own.

use brindle_io::{Duration, Histogram, MemberId};

/// Time between two looks.
pub const EVERY: Duration = Duration::from_secs(10);
/// The answers needed to judge the speed of a member.
const ENOUGH: u64 = 64;
/// Powers of two that it must be slower by than most others: eight times.
const APART: usize = 3;
/// A member that answers within this power of two of microseconds (256) counts as fast, however fast the others are.
const FAST: usize = 8;
/// Looks in a row that must say the same.
const LOOKS: u8 = 2;

/// Histograms of a member's answers so far: reads and writes.
pub type Answers = [Histogram; 2];

/// The observed speed of an array's members, by role.
#[derive(Default)]
pub struct Peers(Vec<Peer>);

#[derive(Default)]
struct Peer {
    device: Option<MemberId>,
    /// The member's answers so far when its pace was last computed.
    before: Answers,
    /// The power of two of microseconds below which half of the answers came, of reads and writes.
    pace: [Option<usize>; 2],
    /// Consecutive looks with another result than the reported one.
    other: u8,
    /// How many times as slow as the others the member was reported to be; 0: about as fast.
    reported: u64,
}

impl Peers {
    /// Compares the answers of the members so far (`None`: no member in that role is asked). Gives the roles whose
    /// reported factor changes now: how many times as long they take as their peers, 0 if they are about as fast.
    pub fn look(&mut self, members: &[Option<(MemberId, Answers)>]) -> Vec<(u16, u64)> {
        self.0.resize_with(members.len(), Peer::default);
        for (peer, member) in self.0.iter_mut().zip(members) {
            peer.measure(member.as_ref());
        }
        let times: Vec<u64> = (0..self.0.len()).map(|role| self.times(role)).collect();
        let changes = (0..).zip(self.0.iter_mut().zip(times));
        changes.filter_map(|(role, (peer, times))| Some((role, peer.judge(times)?))).collect()
    }

    /// How many times as long as most others a member takes; 0 if that is not much longer.
    fn times(&self, role: usize) -> u64 {
        let slower = |kind: usize| {
            let own = self.0[role].pace[kind].filter(|&own| own > FAST)?;
            let others = self.0.iter().enumerate().filter(|(other, _)| *other != role);
            let mut others: Vec<usize> = others.filter_map(|(_, peer)| peer.pace[kind]).collect();
            others.sort_unstable();
            let most = *others.get(others.len() / 2)?;
            own.checked_sub(most).filter(|&apart| apart >= APART)
        };
        [0, 1].into_iter().filter_map(slower).max().map_or(0, |apart| 1 << apart)
    }
}

impl Peer {
    fn measure(&mut self, member: Option<&(MemberId, Answers)>) {
        let Some((device, answers)) = member else {
            *self = Self::default();
            return;
        };
        if self.device != Some(*device) {
            *self = Self { device: Some(*device), before: answers.clone(), ..Self::default() };
        }
        for ((now, before), pace) in answers.iter().zip(&mut self.before).zip(&mut self.pace) {
            let new: Vec<u64> = now.buckets.iter().zip(before.buckets).map(|(n, b)| n - b).collect();
            let mut left = new.iter().sum::<u64>();
            if left < ENOUGH {
                continue;
            }
            left = left.div_ceil(2);
            *pace = new.iter().position(|&count| {
                left = left.saturating_sub(count);
                left == 0
            });
            *before = now.clone();
        }
    }

    /// The factor to be reported, if it differs from the one reported before.
    fn judge(&mut self, times: u64) -> Option<u64> {
        if (times > 0) == (self.reported > 0) {
            self.other = 0;
            return None;
        }
        self.other += 1;
        if self.other < LOOKS {
            return None;
        }
        self.other = 0;
        self.reported = times;
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many reads more of a member, all below that power of two.
    fn reads(of: &mut Option<(MemberId, Answers)>, bucket: usize, count: u64) {
        if let Some((_, answers)) = of {
            answers[0].buckets[bucket] += count;
        }
    }

    fn members(count: u32) -> Vec<Option<(MemberId, Answers)>> {
        (0..count).map(|n| Some((MemberId::device(n), Answers::default()))).collect()
    }

    #[test]
    fn who_takes_eight_times_as_long_is_reported_once_and_once_more_when_that_is_over() {
        let (mut peers, mut all) = (Peers::default(), members(4));
        assert_eq!(peers.look(&all), []);
        let mut look = |paces: [usize; 4], count| {
            all.iter_mut().zip(paces).for_each(|(one, pace)| reads(one, pace, count));
            peers.look(&all)
        };
        assert_eq!(look([9, 9, 10, 9], 100), []);
        assert_eq!(look([9, 9, 12, 9], 100), [], "once may be chance");
        assert_eq!(look([9, 9, 12, 9], 100), [(2, 8)]);
        assert_eq!(look([9, 9, 14, 9], 100), [], "it has been told");
        assert_eq!(look([9, 9, 9, 9], 10), [], "few answers say nothing");
        assert_eq!(look([9, 9, 9, 9], 100), []);
        assert_eq!(look([9, 9, 9, 9], 100), [(2, 0)]);
    }

    #[test]
    fn nobody_is_slow_where_all_are_or_none_is() {
        let (mut peers, mut all) = (Peers::default(), members(3));
        for _ in 0..4 {
            (0..3).for_each(|n| reads(&mut all[n], 16, 100));
            assert_eq!(peers.look(&all), []);
        }
        let (mut peers, mut all) = (Peers::default(), members(2));
        for _ in 0..4 {
            (0..2).for_each(|n| reads(&mut all[n], 2 + 6 * n, 100));
            assert_eq!(peers.look(&all), [], "it is fast enough");
        }
        // Another device in the role is another matter.
        let (mut peers, mut all) = (Peers::default(), members(2));
        peers.look(&all);
        (0..2).for_each(|n| reads(&mut all[n], 9 + 6 * n, 100));
        assert_eq!(peers.look(&all), []);
        all[1] = Some((MemberId::device(7), Answers::default()));
        assert_eq!((peers.look(&all), peers.look(&all)), (vec![], vec![]));
    }
}

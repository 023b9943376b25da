//! Finds holes of an array for block status, as far as its members report theirs.
//!
//! A stretch is a hole if everything that it may be read from is one, and nothing else can come of a read: every copy
//! of a mirror, or the one member that has the data. Parity is not asked, since a hole of the data's member reads as
//! zeroes whatever stands there. All else is data: what lies on members that are missing, are being rebuilt or replaced,
//! or don't answer; bad blocks; and what is being written while it is looked at.
//!
//! The answer covers as much of the range as is found out within bounds, and at least a block of it.

use core::ops::Range;
use std::collections::BTreeMap;

use brindle_io::sync::{Either, join_all, race};
use brindle_io::{Duration, OpSpan};
use brindle_volume::Allocation;
use smallvec::SmallVec;

use brindle_members::door::Door;
use brindle_members::members::{Device, RoleState};
use brindle_members::set::MemberSet;

/// Stretches of the array, each on one chunk, that one answer covers at most.
const STRETCHES: usize = 4096;
/// How often each member is asked for one answer at most.
const ROUNDS: usize = 16;
/// Time that members may take to answer; a range that a member does not report in time counts as data.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a stretch of the array is read from.
pub(crate) struct Sources {
    /// Its bytes.
    pub(crate) len: u64,
    /// Roles, and the byte of their data areas at which it begins: it reads as zeroes if all of them have holes there.
    pub(crate) of: SmallVec<[(u16, u64); 4]>,
}

/// The known state of a role's member, from one byte of its data area up to another. Copies of RAID 10 that stand apart
/// on a member have a track each.
struct Track {
    role: u16,
    /// `None` if all of it is data.
    device: Option<Device>,
    /// The end of the part that is known.
    known: u64,
    /// The end of the part of interest.
    end: u64,
    /// In their order.
    holes: Vec<Range<u64>>,
}

/// A stretch of the array: its bytes, and where it is on which tracks.
struct Stretch {
    len: u64,
    on: SmallVec<[(usize, u64); 4]>,
}

/// Appends what is known of a range that is not empty; `sources` tells where a byte is read from.
pub(crate) async fn look_for_holes(
    door: Door<'_>,
    block: u64,
    range: Range<u64>,
    sources: impl Fn(u64) -> Sources,
    found: &mut Vec<Allocation>,
) {
    let (stretches, mut tracks) = lay_out(door.set, &range, sources);
    let mut changing = changes(door, &tracks);
    ask(door, &mut tracks).await;
    changing.extend(changes(door, &tracks));
    for track in &mut tracks {
        track.leave_out(door.set, &changing);
    }
    tell(&stretches, &tracks, &range, block, found);
}

/// The stretches of a range, or of its beginning, and the tracks that they are on.
fn lay_out(
    set: &MemberSet,
    range: &Range<u64>,
    sources: impl Fn(u64) -> Sources,
) -> (Vec<Stretch>, Vec<Track>) {
    let (mut stretches, mut tracks) = (Vec::new(), Vec::<Track>::new());
    let mut numbers = BTreeMap::new();
    let mut at = range.start;
    while at < range.end && stretches.len() < STRETCHES {
        let Sources { len, of } = sources(at);
        let len = len.min(range.end - at);
        let mut place = |(copy, (role, offset)): (usize, (u16, u64))| {
            let number = *numbers.entry((role, copy)).or_insert_with(|| {
                let device = asked_of(set, role);
                tracks.push(Track { role, device, known: offset, end: offset, holes: Vec::new() });
                tracks.len() - 1
            });
            tracks[number].end = tracks[number].end.max(offset + len);
            (number, offset)
        };
        let on = of.into_iter().enumerate().map(&mut place).collect();
        stretches.push(Stretch { len, on });
        at += len;
    }
    (stretches, tracks)
}

/// The member of a role, if all reads of the role go to it and it answers.
fn asked_of(set: &MemberSet, role: u16) -> Option<Device> {
    let members = &set.members;
    let is_usual = members.state(role) == RoleState::InSync
        && members.second(role).is_none()
        && members.slow_since(role).is_none()
        && members.orphans_since(role).is_none();
    let device = members.device(role).filter(|_| is_usual)?;
    let silent =
        set.io.oldest(device.id, OpSpan::Map).is_some_and(|since| set.io.ran().since(since) >= PATIENCE);
    (!silent).then_some(device)
}

/// The ranges being changed on members, by role, in bytes of their data areas.
fn changes(door: Door<'_>, tracks: &[Track]) -> Vec<(u16, Range<u64>)> {
    let mut changes = Vec::new();
    for Track { role, device, .. } in tracks {
        let (Some(device), Some(start)) = (device, door.device_offset(*role, 0)) else { continue };
        let ranges = door.set.io.changing(device.id).into_iter();
        let within = |range: Range<u64>| range.start.saturating_sub(start)..range.end.saturating_sub(start);
        changes.extend(ranges.map(|range| (*role, within(range))));
    }
    changes
}

/// Asks the members, all at once and one after the other of what each has, as long as there is patience.
async fn ask(door: Door<'_>, tracks: &mut [Track]) {
    let io = &door.set.io;
    let until = io.now().after(PATIENCE);
    for _ in 0..ROUNDS {
        let mut asked: Vec<&mut Track> =
            tracks.iter_mut().filter(|track| track.device.is_some() && track.known < track.end).collect();
        if asked.is_empty() {
            break;
        }
        let questions = asked.iter().map(|track| {
            let (start, device) = (door.device_offset(track.role, track.known), track.device);
            let member = device.map(|device| device.id).zip(start);
            member.map(|(member, start)| io.map(member, start, track.end - track.known))
        });
        let questions: Vec<_> = questions.collect();
        let answers = join_all(questions.into_iter().map(async |question| question?.await.ok()));
        match race(answers, io.sleep_until(until)).await {
            Either::First(answers) => {
                for (track, answer) in asked.iter_mut().zip(answers) {
                    match answer {
                        Some(mapped) => track.learn(mapped.len.max(1), mapped.hole),
                        None => track.device = None,
                    }
                }
            }
            Either::Second(()) => asked.iter_mut().for_each(|track| track.device = None),
        }
    }
}

impl Track {
    fn learn(&mut self, len: u64, hole: bool) {
        let end = self.end.min(self.known.saturating_add(len));
        match self.holes.last_mut() {
            _ if !hole => {}
            Some(last) if last.end == self.known => last.end = end,
            _ => self.holes.push(self.known..end),
        }
        self.known = end;
    }

    /// Takes away ranges that are not holes after all.
    fn leave_out(&mut self, set: &MemberSet, changing: &[(u16, Range<u64>)]) {
        if self.device.is_none() || asked_of(set, self.role) != self.device {
            // A range of unknown state counts as data.
            (self.known, self.holes) = (self.end, Vec::new());
            return;
        }
        let role = self.role;
        changing.iter().filter(|(of, _)| *of == role).for_each(|(_, range)| self.cut(range));
        if set.members.slow_reads() {
            set.members.bad(self.role).places().iter().for_each(|range| self.cut(range));
        }
    }

    /// A range holds something.
    fn cut(&mut self, range: &Range<u64>) {
        let parts = |hole: &Range<u64>| {
            let before = hole.start..hole.end.min(range.start);
            let behind = hole.start.max(range.end)..hole.end;
            [before, behind].into_iter().filter(|part| !part.is_empty())
        };
        if !range.is_empty() && self.holes.iter().any(|hole| hole.start < range.end && range.start < hole.end)
        {
            self.holes = self.holes.iter().flat_map(parts).collect();
        }
    }

    /// The holes among `len` bytes at `offset`, counted from there.
    fn holes_in(&self, offset: u64, len: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.holes.partition_point(|hole| hole.end <= offset);
        let near = self.holes[first..].iter().take_while(move |hole| hole.start < offset + len);
        near.map(move |hole| hole.start.max(offset) - offset..hole.end.min(offset + len) - offset)
    }
}

/// Appends what the tracks say of the stretches, up to where one of them says nothing.
fn tell(
    stretches: &[Stretch],
    tracks: &[Track],
    range: &Range<u64>,
    block: u64,
    found: &mut Vec<Allocation>,
) {
    let (before, mut at) = (found.len(), range.start);
    for Stretch { len, on } in stretches {
        let known = on.iter().map(|&(track, offset)| tracks[track].known.saturating_sub(offset)).min();
        let known = known.unwrap_or(0).min(*len);
        let reported = if known < *len { known / block * block } else { *len };
        let mut data = 0;
        for hole in common_holes(on, reported, tracks) {
            // Blocks that are holes in part are data.
            let (start, end) = ((at + hole.start).next_multiple_of(block), (at + hole.end) / block * block);
            if start < end {
                append(found, before, start - at - data, false);
                append(found, before, end - start, true);
                data = end - at;
            }
        }
        append(found, before, reported - data, false);
        at += reported;
        if reported < *len {
            break;
        }
    }
    if at == range.start {
        append(found, before, block.min(range.end - at), false);
    }
}

/// Where a stretch of `len` bytes has holes on all of its tracks.
fn common_holes(on: &[(usize, u64)], len: u64, tracks: &[Track]) -> Vec<Range<u64>> {
    let mut common: Vec<_> = core::iter::once(0..len).collect();
    for &(track, offset) in on {
        let holes: Vec<_> = tracks[track].holes_in(offset, len).collect();
        let both = |one: &Range<u64>| {
            let one = one.clone();
            let meet = move |other: &Range<u64>| one.start.max(other.start)..one.end.min(other.end);
            holes.iter().map(meet).filter(|both| !both.is_empty()).collect::<Vec<_>>()
        };
        common = common.iter().flat_map(both).collect();
    }
    common
}

/// Appends a stretch; `before` were found by others.
fn append(found: &mut Vec<Allocation>, before: usize, len: u64, hole: bool) {
    match found[before..].last_mut() {
        _ if len == 0 => {}
        Some(last) if last.hole == hole => last.len += len,
        _ => found.push(Allocation { len, hole, zero: hole }),
    }
}

//! Checks of the drives at the end of a boot, for any next reader. md may take the members too: it takes no
//! superblock that is torn, and up to Linux 6.7 it takes a member for one in sync whose event count is only one
//! behind.

use brindle_array::{Array, DeviceState, EventKind};
use brindle_format::md::{DeviceFlags, DeviceRole, Features, SUPERBLOCK_BYTES, Superblock};
use brindle_io::MemberId;
use brindle_io::sim::Sim;
use brindle_layout::Geometry;

use super::judge::Failure;
use super::marks::Marks;
use crate::shape::Shape;

/// The table of devices in a superblock of 0.90.
const TABLE: core::ops::Range<usize> = 512..3968;
/// Bytes of an entry.
const ENTRY: usize = 128;
/// Bytes of an entry before its state: number, major, minor and role. Flags in the state are known of a superblock's own device only.
const NAMED: usize = 16;

/// The superblocks on all drives, of those too that do not answer.
pub(super) struct Disks(Vec<StormDisk>);

struct StormDisk {
    /// Its number among all drives.
    drive: u16,
    superblock: Superblock,
    /// The power went while the superblock was written.
    torn: bool,
    /// The event count from which on bits of its bitmap tell all that a member lacks.
    cleared: Option<u64>,
}

/// Drives, by their numbers, and what the engine knew of them when its boot ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// In use.
    pub(super) in_sync: Vec<u16>,
    /// Out of use since this boot, and recorded as that: writes without them may have been acknowledged.
    pub(super) failed: Vec<u16>,
    /// Spares have taken the place of members in this boot, or a bitmap has come: bits may have been cleared since a
    /// failure.
    pub(super) recovered: bool,
    /// The flags that drives were given, as was acknowledged.
    pub(super) flags: Vec<(u16, DeviceFlags)>,
}

impl Known {
    /// The array's view of its drives; none while it is recording.
    pub(super) fn of(array: &Array, drives: &[MemberId]) -> Self {
        if array.state_change().is_some() {
            return Self::default();
        }
        let detail = array.detail();
        let are = |state| {
            let devices = detail.devices.iter().filter(|device| device.state == state);
            devices.filter_map(|device| Some(drives.iter().position(|id| *id == device.id)? as u16)).collect()
        };
        let whole = |kind| matches!(kind, EventKind::RecoveryEnded | EventKind::CopyEnded);
        let ended = array.events_since(0).iter().any(|event| whole(event.kind));
        // A replacement takes its member's place when that fails, without the end of a recovery.
        let is =
            |role, state| detail.devices.iter().any(|device| device.role == role && device.state == state);
        let mut failed = detail.devices.iter().filter(|device| device.state == DeviceState::Failed);
        let recovered =
            ended || failed.any(|device| device.role.is_some() && is(device.role, DeviceState::InSync));
        let (in_sync, failed) = (are(DeviceState::InSync), are(DeviceState::Failed));
        Self { in_sync, failed, recovered, flags: Vec::new() }
    }
}

impl Disks {
    /// Looks beside the engine's back. What makes no sense is left out: assembly will tell.
    pub(super) fn look(sim: &Sim, drives: &[MemberId], shape: &Shape) -> Self {
        let (version, size) = (shape.version, shape.device_bytes());
        let Some(offset) = version.superblock_offset(size) else { return Self(Vec::new()) };
        let disk = |(drive, &id): (u16, &MemberId)| {
            let mut bytes = [0; SUPERBLOCK_BYTES];
            sim.peek(id, offset, &mut bytes);
            let whole = Superblock::parse(version, &bytes, size).ok().filter(|sb| !sb.is_mixed());
            let torn = whole.is_none();
            let superblock = whole.or_else(|| Superblock::parse_torn(version, &bytes, size))?;
            let cleared = Marks::look(sim, id, &superblock).map(|marks| marks.head.events_cleared);
            Some(StormDisk { drive, superblock, torn, cleared })
        };
        Self((0..).zip(drives).filter_map(disk).collect())
    }

    /// The role and the drive of the member with the highest event count among those whose roles `may` be asked for.
    pub(super) fn newest(&self, may: impl Fn(u16) -> bool) -> Option<(u16, u16)> {
        let claims = self.0.iter().filter_map(|disk| Some((disk.role()?, disk)));
        let newest = claims.filter(|(role, _)| may(*role)).max_by_key(|(_, disk)| disk.superblock.events);
        newest.map(|(role, disk)| (role, disk.drive))
    }

    /// Checks that torn superblocks on unharmed members are no more than the array can lose beside recorded failures.
    /// One always may be torn.
    pub(super) fn judge_torn(&self, geometry: &Geometry, struck: &[u16]) -> Result<(), Failure> {
        let torn = self.0.iter().filter(|disk| disk.torn).filter_map(StormDisk::role);
        let torn: Vec<u16> = torn.filter(|role| !struck.contains(role)).collect();
        let disowned = |role| self.0.iter().any(|disk| disk.superblock.device_in_role(role).is_none());
        let lost: Vec<u16> =
            (0..geometry.members()).filter(|&role| torn.contains(&role) || disowned(role)).collect();
        if torn.len() < 2 || geometry.can_lose(&lost) { Ok(()) } else { Err(Failure::TornTogether(torn)) }
    }

    /// Checks that members recorded as failed are two events behind each member in use.
    pub(super) fn judge_event_counts(&self, known: &Known) -> Result<(), Failure> {
        self.judge_tables(known)?;
        let counts = self.0.iter().filter(|disk| known.in_sync.contains(&disk.drive));
        let Some(least) = counts.map(|disk| disk.superblock.events).min() else { return Ok(()) };
        let near = |disk: &&StormDisk| {
            let own = &disk.superblock;
            let claims = !disk.torn && matches!(own.role(), DeviceRole::Active(_));
            known.failed.contains(&disk.drive) && claims && own.events + 2 > least
        };
        if let Some(disk) = self.0.iter().find(near) {
            return Err(Failure::TooRecent(disk.drive));
        }
        self.judge_cleared(known)?;
        self.judge_flags(known)
    }

    /// The flags of members in use are those that they were given last.
    fn judge_flags(&self, known: &Known) -> Result<(), Failure> {
        let given = |disk: &StormDisk| known.flags.iter().find(|(drive, _)| *drive == disk.drive);
        let other = |disk: &&StormDisk| {
            let known = known.in_sync.contains(&disk.drive) && !disk.torn;
            known && given(disk).is_some_and(|(_, flags)| *flags != disk.superblock.flags)
        };
        self.0.iter().find(other).map_or(Ok(()), |disk| Err(Failure::OtherFlags(disk.drive)))
    }

    /// Checks that no bit was cleared while a member was missing. The member could come back, and nothing would say
    /// which writes it missed.
    fn judge_cleared(&self, known: &Known) -> Result<(), Failure> {
        if known.recovered {
            return Ok(());
        }
        let in_use = self.0.iter().filter(|disk| known.in_sync.contains(&disk.drive));
        let cleared = in_use.filter_map(|disk| disk.cleared).max();
        let failed = |disk: &&StormDisk| {
            // A spare or a replacement beside a member may be missing.
            let beside = disk.superblock.features.contains(Features::REPLACEMENT);
            known.failed.contains(&disk.drive) && !disk.torn && disk.role().is_some() && !beside
        };
        let forgotten = |disk: &&StormDisk| cleared.is_some_and(|cleared| disk.superblock.events < cleared);
        match self.0.iter().filter(failed).find(forgotten) {
            Some(disk) => Err(Failure::Forgotten(disk.drive)),
            None => Ok(()),
        }
    }

    /// After a stop the members in use have whole superblocks of one count.
    pub(super) fn judge_whole(&self, known: &Known) -> Result<(), Failure> {
        let in_use = || self.0.iter().filter(|disk| known.in_sync.contains(&disk.drive));
        let newest = in_use().map(|disk| disk.superblock.events).max();
        self.judge_tables(known)?;
        let left: Vec<u16> = in_use()
            .filter(|disk| disk.torn || Some(disk.superblock.events) < newest)
            .map(|disk| disk.drive)
            .collect();
        if left.is_empty() { self.judge_numbers(known) } else { Err(Failure::StaleSuperblocks(left)) }
    }

    /// With 0.90 members in use with one count describe all devices alike, and no record of a failure changes numbers: a torn superblock is
    /// read with the table of another.
    fn judge_tables(&self, known: &Known) -> Result<(), Failure> {
        let whole: Vec<&StormDisk> =
            self.0.iter().filter(|disk| !disk.torn && !disk.superblock.version.is_v1()).collect();
        for (n, disk) in whole.iter().enumerate() {
            for other in &whole[n + 1..] {
                let (old, new) = (&disk.superblock, &other.superblock);
                let in_use = [disk, other].iter().all(|disk| known.in_sync.contains(&disk.drive));
                if in_use && old.events == new.events && !describe_alike(old, new) {
                    return Err(Failure::TablesDiffer(disk.drive, other.drive));
                }
                let (old, new) = if old.events < new.events { (old, new) } else { (new, old) };
                if old.events + 1 == new.events && changes_twice(old, new) {
                    return Err(Failure::ChangedTwice(disk.drive, other.drive));
                }
            }
        }
        Ok(())
    }

    /// With 0.90 mdadm takes the entry of a number for that of the role.
    fn judge_numbers(&self, known: &Known) -> Result<(), Failure> {
        let other = |disk: &&StormDisk| {
            let own = &disk.superblock;
            let at_place = own.version.is_v1() || disk.role().map(u32::from) == Some(own.device_number);
            known.in_sync.contains(&disk.drive) && !at_place
        };
        self.0.iter().find(other).map_or(Ok(()), |disk| Err(Failure::OtherNumber(disk.drive)))
    }
}

/// Whether two superblocks say the same of all devices.
fn describe_alike(one: &Superblock, other: &Superblock) -> bool {
    let entries = |superblock: &Superblock| -> Vec<Vec<u8>> {
        superblock.bytes()[TABLE].chunks(ENTRY).map(|entry| entry[..NAMED].to_vec()).collect()
    };
    one.roles == other.roles && entries(one) == entries(other)
}

/// Whether one record took a device out of a role and gave another a new number.
fn changes_twice(old: &Superblock, new: &Superblock) -> bool {
    let roles = || (0..).take(old.roles.len());
    let had = |role: u16| old.device_in_role(role).map(|number| (number, new.device_in_role(role)));
    let fails = roles().filter_map(had).any(|(_, now)| now.is_none());
    let moves = roles().filter_map(had).any(|(number, now)| now.is_some_and(|now| now != number));
    fails && moves
}

impl StormDisk {
    /// The role that it claims.
    fn role(&self) -> Option<u16> {
        self.superblock.role().active()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{encoded, planned};
    use brindle_io::sim::Model;
    use brindle_layout::Level;

    /// Drives with a long table, changed by hand.
    fn disks(shape: &Shape, change: impl Fn(u16, &mut Superblock)) -> (Sim, Vec<MemberId>) {
        let sim = Sim::new(1);
        let drives = crate::world::drives(&sim, shape, Model::nvme());
        for disk in Disks::look(&sim, &drives, shape).0 {
            let mut changed = disk.superblock;
            change(disk.drive, &mut changed);
            sim.poke(drives[usize::from(disk.drive)], changed.super_offset, &encoded(&changed));
        }
        (sim, drives)
    }

    fn shape() -> Shape {
        Shape::new(Level::Raid5, 3).metadata(brindle_format::md::Version::V1_2, 384)
    }

    #[test]
    fn a_failed_member_must_be_two_events_behind() {
        let known = Known { in_sync: vec![0, 1], failed: vec![2], ..Known::default() };
        let all = Known { in_sync: vec![0, 1, 2], ..Known::default() };
        for (lead, enough) in [(0, false), (1, false), (2, true)] {
            let (sim, drives) = disks(&shape(), |role, sb| sb.events += if role < 2 { lead } else { 0 });
            let disks = Disks::look(&sim, &drives, &shape());
            assert_eq!(disks.judge_event_counts(&known).is_ok(), enough, "{lead} ahead");
            assert!(disks.judge_whole(&known).is_ok());
            assert_eq!(disks.judge_whole(&all).is_ok(), lead == 0, "a member in use must not lag");
        }
    }

    #[test]
    fn one_superblock_may_be_torn_but_not_more_than_the_array_can_lose() {
        // The failure of the last member is being recorded: of the others the first sector is old, the second new.
        let shape = shape();
        let (sim, drives) = disks(&shape, |_, _| ());
        let (new, _) = disks(&shape, |role, sb| {
            let last = sb.roles.len() - 1;
            (sb.roles[last], sb.events) =
                if role < 2 { (DeviceRole::Faulty, sb.events + 1) } else { (sb.roles[last], sb.events) };
        });
        let geometry = planned(&shape.spec()).geometry;
        let offset = shape.superblocks()[0].0 + 512;
        for (torn, fine) in [(0, true), (1, false)] {
            let mut sector = [0; 512];
            new.peek(drives[torn], offset, &mut sector);
            sim.poke(drives[torn], offset, &sector);
            let judged = Disks::look(&sim, &drives, &shape).judge_torn(&geometry, &[2]);
            assert_eq!(judged.is_ok(), fine, "{judged:?}");
            assert_eq!(Disks::look(&sim, &drives, &shape).newest(|role| role != 0), Some((2, 2)));
            let known = Known { in_sync: vec![0], ..Known::default() };
            assert!(Disks::look(&sim, &drives, &shape).judge_whole(&known).is_err(), "it is torn");
        }
    }
}

//! Assembles an array from a set of devices, and finds the part of each. Pure: no I/O, and the order of the devices
//! never matters.
//!
//! The rules are those of md and mdadm (`super_1_validate` and `analyze_sbs` in the kernel's `md.c`, mdadm's
//! `Assemble.c`). The superblock with the highest event count decides. Members whose count is more than one behind
//! have missed writes and are left out. The deciding superblock's table says which devices are active.

mod candidate;
mod choose;
mod cut;
mod diverged;
mod error;
mod limits;
mod reshape;

use core::cmp::Reverse;

use brindle_format::md::bitmap::BitmapSuper;
use brindle_format::md::{DeviceRole, Features, Superblock, Timestamp, Uuid, Version};
use brindle_layout::{Geometry, Layout, Level};

pub(crate) use candidate::read_bad_log;
pub use candidate::{Candidate, Claim, Found};
pub(crate) use error::Roles;
pub use error::{AssemblyError, ForeignArray, ReshapeError};
pub use limits::{BitmapFault, Limitation, PplFault};
pub use reshape::Reshaping;

use brindle_array::bitmap::BitmapFile;
use brindle_array::ledger::LoggedParity;
pub use brindle_array::ledger::{DeviceUse, LeftOut};
use choose::{Chosen, Picked};
pub(crate) use choose::{differing, filled};

/// Risks that the user accepts in assembling an array.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssembleOptions {
    /// Assemble although bytes may be wrong. In an array that was not stopped cleanly those are the data of lost
    /// members; in any array those in bad blocks. Read-only arrays may also use members that missed writes, that were
    /// written apart from the others, or whose journal was not applied fully. A reshape may have moved data further
    /// than is recorded.
    pub force: bool,
    /// Assemble although more members are missing than the array can do without: what only they held is not there to be read.
    pub partial: bool,
}

/// One of the given devices in the array.
#[derive(Clone, Debug)]
pub struct AssembledDevice {
    /// The name in messages.
    pub label: String,
    /// Its superblock.
    pub superblock: Superblock,
    /// The superblock that stands there instead, if the array is read by the other side of a record that was cut short.
    pub(crate) untrue: Option<Box<Superblock>>,
    /// Byte of the device at which the superblock stands.
    pub super_offset: u64,
    /// The device's use.
    pub usage: DeviceUse,
    /// Size of the device in bytes.
    pub bytes: u64,
    /// The power went while its superblock was written (see [`Found::torn`]).
    pub torn: bool,
    /// The number that it has: where its superblock is torn, the others may know better.
    pub(crate) number: u32,
    /// Its log of bad blocks, once it was read: where the superblock says that there is something in it.
    pub(crate) bad_log: Option<Vec<u8>>,
}

impl AssembledDevice {
    /// The superblock that stands on the device.
    pub(crate) fn found(&self) -> &Superblock {
        self.untrue.as_deref().unwrap_or(&self.superblock)
    }
}

/// The largest log of bad blocks that is read, in bytes; mdadm makes one of 4 KiB.
const MOST_BAD_LOG: u64 = 64 << 10;

/// Where a device keeps its log of bad blocks, if it has room for one: the byte of the device, and how many.
pub(crate) fn bad_log_place(superblock: &Superblock) -> Option<(u64, usize)> {
    let log = superblock.bad_block_log?;
    let offset = superblock.super_offset.checked_add_signed(log.offset)?;
    Some((offset, log.size.min(MOST_BAD_LOG) as usize))
}

/// The facts that all superblocks of an array agree on at one event count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Role of every device by number.
    pub(crate) roles: Vec<DeviceRole>,
    /// See [`Superblock::resync_offset`].
    pub(crate) resync_offset: Option<u64>,
    /// When that was written.
    pub(crate) updated: Timestamp,
    /// See [`Superblock::bitmap_offset`].
    pub(crate) bitmap_offset: Option<i64>,
}

/// An array as its superblocks describe it, checked: ready to be opened.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// Identity of the array.
    pub uuid: Uuid,
    /// Its name, `host:name` as a rule; empty in 0.90.
    pub name: String,
    /// Version of its metadata.
    pub version: Version,
    /// Where its bytes live.
    pub geometry: Geometry,
    /// While it is being reshaped: where the bytes live that have moved already. `geometry` has the others.
    pub reshaping: Option<Reshaping>,
    /// Bytes used of each member as recorded; 0 for linear and RAID 0, which use all of each.
    pub component_size: u64,
    /// The highest event count.
    pub events: u64,
    /// Where redundancy stops being known to be in sync: bytes of the members' data area (of the array for RAID 10).
    /// `None` if it is in sync everywhere (clean), or must be taken as true: forced, and nothing is left to compare it with.
    pub resync_offset: Option<u64>,
    /// The one role that a RAID 6 lacks which was not stopped cleanly, and forced: its data are what P gives, and the array is
    /// resynced by that.
    pub presumed: Option<u16>,
    /// Indexed by role: the index in [`Assembly::devices`] of the device that fills it.
    pub roles: Vec<Option<usize>>,
    /// The given devices, in the given order.
    pub devices: Vec<AssembledDevice>,
    /// Reasons why the array is not written to, or why its content is less certain.
    pub limits: Vec<Limitation>,
    /// The superblock of its write-intent bitmap, if it has one that can be kept and that was [looked
    /// into](Assembly::look_into_bitmap).
    pub bitmap: Option<BitmapSuper>,
    /// The file that has its write-intent bitmap, if one was given: no superblock names it.
    pub bitmap_file: Option<BitmapFile>,
    /// The facts of the deciding superblock.
    pub(crate) recorded: Recorded,
    /// Assembled by force.
    pub(crate) forced: bool,
    /// Whether the journal holds what the members don't is known.
    pub(crate) journal_seen: bool,
    /// Partial parity logs tell what the missing member holds.
    pub(crate) replays: bool,
    /// The parity of these logs, once they were replayed.
    pub(crate) logged: Option<LoggedParity>,
}

impl Assembly {
    /// The level.
    pub fn level(&self) -> Level {
        self.geometry.level()
    }

    /// Bytes of the array.
    pub fn size(&self) -> u64 {
        let moved = self.reshaping.as_ref().map_or(u64::MAX, |reshaping| reshaping.geometry.size());
        self.geometry.size().min(moved)
    }

    /// Redundancy is in sync everywhere.
    pub fn is_clean(&self) -> bool {
        self.resync_offset.is_none()
    }

    /// Where redundancy may be untrue, if anywhere: the last copy of a mirror differs from no other, whatever is recorded.
    pub fn in_doubt(&self) -> Option<u64> {
        let holds = |at: &&usize| {
            let usage = self.devices.get(**at).map(|device| device.usage);
            !matches!(usage, None | Some(DeviceUse::Recovering { upto: 0, .. }))
        };
        let last = self.level() == Level::Raid1 && self.roles.iter().flatten().filter(holds).count() == 1;
        self.resync_offset.filter(|_| !last)
    }

    /// From where on the superblocks say that redundancy may be untrue, where that is not taken so: by force, or since partial
    /// parity logs tell what is true.
    pub fn overruled(&self) -> Option<u64> {
        let is_kept = self.resync_offset.is_some() || !self.level().is_redundant();
        self.recorded.resync_offset.filter(|_| !is_kept)
    }

    /// Roles that no device fills.
    pub fn missing(&self) -> Vec<u16> {
        (0u16..).zip(&self.roles).filter_map(|(role, device)| device.is_none().then_some(role)).collect()
    }

    /// Whether the deciding superblock names a device for the role.
    pub(crate) fn had(&self, role: u16) -> bool {
        self.recorded.roles.contains(&DeviceRole::Active(role))
    }

    /// Roles whose member does not hold all that it should: missing, or being recovered.
    pub fn degraded(&self) -> Vec<u16> {
        let whole = |device: Option<usize>| {
            device
                .and_then(|at| self.devices.get(at))
                .is_some_and(|d| matches!(d.usage, DeviceUse::Active { .. }))
        };
        (0u16..).zip(&self.roles).filter_map(|(role, &device)| (!whole(device)).then_some(role)).collect()
    }

    /// It was assembled by force.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// A reshape into more members is to be gone on with where it stands, if that is of a kind that can be: then it is no reason not to
    /// write to the array any more. False if none is under way that can be gone on with.
    pub fn go_on(&mut self) -> bool {
        let before = self.limits.len();
        self.limits.retain(|limit| !matches!(limit, Limitation::Reshape { can_go_on: true, .. }));
        self.limits.len() < before
    }

    /// No reason forbids writing.
    pub fn writable(&self) -> bool {
        !self.limits.iter().any(Limitation::forbids_writes)
    }
}

/// Works out the array that the candidates form.
///
/// # Errors
/// Each kind of [`AssemblyError`]; it names the devices at fault.
pub fn assemble(candidates: &[Candidate], options: AssembleOptions) -> Result<Assembly, AssemblyError> {
    let mut picked = choose::superblocks(candidates)?;
    let (turned, cut) = match (cut::gone_on(&picked), cut::one_side(&picked)) {
        (Some(turned), _) => (turned, None),
        (None, Some(one)) => (one.superblocks, Some(one.limit)),
        (None, None) => (cut::in_shape_of_newest(&picked), None),
    };
    for (device, turned) in picked.iter_mut().zip(&turned) {
        device.superblock = turned.as_ref().unwrap_or(device.superblock);
    }
    let chosen = choose::devices(&picked)?;
    let freshest = chosen.freshest.superblock;
    let level = Level::from_md(freshest.level)?;
    let layout = layout_of(level, freshest)?;
    let features = picked
        .iter()
        .zip(&chosen.usage)
        .filter(|(_, usage)| !matches!(usage, DeviceUse::LeftOut { .. }))
        .fold(Features::NONE, |all, (device, _)| all | device.superblock.features);
    let limits = limits::of_features(features).into_iter().chain(cut).collect();
    let mut draft = Draft { level, layout, picked: &picked, chosen, limits, replays: false };
    draft.limit_replacements();
    draft.limits.extend(limits::of_events(freshest.events));
    draft.check_missing(options)?;
    draft.limits.extend(limits::of_journal(features, &picked, &draft.chosen.usage, options)?);
    let shape = draft.shape()?;
    draft.check_reshape(&shape, options)?;
    draft.check_bad_blocks(options)?;
    draft.force_stale(&shape, options)?;
    draft.check_tolerance(&shape, options)?;
    draft.check_apart(options)?;
    draft.check_dirty(options)?;
    Ok(draft.finish(shape, options))
}

/// The layout; RAID 0's counts only if a feature bit says that it was recorded.
fn layout_of(level: Level, sb: &Superblock) -> Result<Layout, AssemblyError> {
    let recorded = level != Level::Raid0 || sb.features.contains(Features::RAID0_LAYOUT);
    Ok(Layout::from_md(level, if recorded { sb.layout } else { 0 })?)
}

/// Where bytes live, on either side of a reshape if there is one.
struct Shape {
    geometry: Geometry,
    reshaping: Option<Reshaping>,
}

impl Shape {
    fn can_lose(&self, lost: &[u16]) -> bool {
        self.geometry.can_lose(lost)
            && self.reshaping.as_ref().is_none_or(|reshaping| reshaping.geometry.can_lose(lost))
    }
}

/// An assembly in the making.
struct Draft<'a> {
    level: Level,
    layout: Layout,
    picked: &'a [Picked<'a>],
    chosen: Chosen<'a>,
    limits: Vec<Limitation>,
    /// See [`Assembly::replays`].
    replays: bool,
}

impl Draft<'_> {
    /// Roles whose member is not whole.
    fn lost(&self) -> Vec<u16> {
        let whole = |at: &Option<usize>| {
            at.is_some_and(|at| matches!(self.chosen.usage.get(at), Some(DeviceUse::Active { .. })))
        };
        (0u16..).zip(&self.chosen.roles).filter_map(|(role, at)| (!whole(at)).then_some(role)).collect()
    }

    fn limit_replacements(&mut self) {
        for (device, usage) in self.picked.iter().zip(&self.chosen.usage) {
            if matches!(usage, DeviceUse::LeftOut { why: LeftOut::Replacement, .. }) {
                self.limits.push(Limitation::Replacement { label: device.label.to_owned() });
            }
        }
    }

    /// Levels without redundancy need every member: even the geometry can't be known without.
    fn check_missing(&self, options: AssembleOptions) -> Result<(), AssemblyError> {
        let lost = self.lost();
        if self.chosen.roles.iter().all(Option::is_none) {
            return Err(AssemblyError::NoMember {
                labels: self.picked.iter().map(|d| d.label.to_owned()).collect(),
            });
        }
        if !self.level.is_redundant() && !lost.is_empty() && !options.partial {
            return Err(self.too_few(lost, 0));
        }
        Ok(())
    }

    fn shape(&self) -> Result<Shape, AssemblyError> {
        let freshest = self.chosen.freshest.superblock;
        // While the chunk changes, members are used as far as they hold whole chunks of either size.
        let unit = freshest.reshape.map_or(1, |reshape| reshape.new_chunk.max(freshest.chunk)).max(1);
        let component = freshest.component_size - freshest.component_size % unit;
        // Of levels without redundancy a missing member counts as large as the largest: only its own superblock would say.
        let there = self.chosen.roles.iter().flatten().filter_map(|at| self.picked.get(*at));
        let largest = there.map(|device| device.superblock.data_size).max().unwrap_or(0);
        let size = |at: &Option<usize>| match at.and_then(|at| self.picked.get(at)) {
            _ if self.level.is_redundant() => component,
            Some(device) => device.superblock.data_size,
            None => largest,
        };
        let roles = self.chosen.roles.iter().take(freshest.old_raid_disks() as usize);
        let sizes: Vec<u64> = roles.map(size).collect();
        Ok(Shape {
            geometry: Geometry::new(self.level, self.layout, freshest.chunk, &sizes)?,
            reshaping: Reshaping::of(freshest, component)?,
        })
    }

    /// Members with bad blocks hold bytes that were never written. Redundancy makes up for them; without any, nothing does.
    fn check_bad_blocks(&mut self, options: AssembleOptions) -> Result<(), AssemblyError> {
        let in_use = self.chosen.roles.iter().flatten().copied();
        let bad: Vec<usize> =
            in_use.filter(|&at| self.picked[at].superblock.features.contains(Features::BAD_BLOCKS)).collect();
        if bad.is_empty() || self.level.is_redundant() {
            return Ok(());
        }
        let labels: Vec<String> = bad.iter().map(|&at| self.picked[at].label.to_owned()).collect();
        if !options.force {
            return Err(AssemblyError::BadBlocks { labels });
        }
        self.limits.push(Limitation::BadBlocks { labels });
        Ok(())
    }

    /// Forced, members that missed writes are better than no array: the least behind first, and no more than needed. Never one
    /// that was being recovered, since much of what it holds was never its role's; nor one whose role another device has been given
    /// since, since what that one took is not known here.
    fn force_stale(&mut self, shape: &Shape, options: AssembleOptions) -> Result<(), AssemblyError> {
        let behind = |at: &usize| {
            let sb = self.picked[*at].superblock;
            (Reverse(sb.events), sb.device_number, self.picked[*at].label)
        };
        let out_of_date = |at: &usize| {
            matches!(
                self.chosen.usage[*at],
                DeviceUse::LeftOut { why: LeftOut::Stale { .. } | LeftOut::Faulty, .. }
            )
        };
        let newest = self.chosen.freshest.superblock;
        let was_whole = |at: &usize| {
            let own = self.picked[*at].superblock;
            let heir = claimed(own).and_then(|role| newest.device_in_role(role));
            let was_filled = heir.is_some_and(|number| number != own.device_number);
            own.recovery_offset.is_none() && !own.features.contains(Features::REPLACEMENT) && !was_filled
        };
        let mut stale: Vec<usize> = (0..self.picked.len()).filter(out_of_date).filter(was_whole).collect();
        stale.sort_by_key(behind);
        let mut taken = Vec::new();
        for &at in &stale {
            if !options.force || shape.can_lose(&self.lost()) {
                break;
            }
            let device = &self.picked[at];
            let Some(role) = claimed(device.superblock) else { continue };
            choose::agrees(device, self.chosen.freshest)?;
            if self.chosen.roles.get(usize::from(role)) != Some(&None) {
                continue;
            }
            for &rival in stale.iter().filter(|&&rival| rival != at) {
                if claimed(self.picked[rival].superblock) == Some(role) {
                    // It is unknown which of two equal devices was in the array.
                    choose::yields(&self.picked[rival], device, role)?;
                }
            }
            let before = self.chosen.usage[at];
            self.chosen.roles[usize::from(role)] = Some(at);
            self.chosen.usage[at] = choose::active(device.superblock, role);
            taken.push((at, usize::from(role), before));
        }
        // One that came early may be of a mirror that is whole without it.
        for place in (0..taken.len()).rev().filter(|_| shape.can_lose(&self.lost())).collect::<Vec<_>>() {
            let (at, role, before) = taken[place];
            let holder = self.chosen.roles[role].take();
            if shape.can_lose(&self.lost()) {
                self.chosen.usage[at] = before;
                taken.remove(place);
            } else {
                self.chosen.roles[role] = holder;
            }
        }
        let labels: Vec<String> = taken.iter().map(|(at, ..)| self.picked[*at].label.to_owned()).collect();
        if !labels.is_empty() {
            self.limits.push(Limitation::Stale { labels });
        }
        Ok(())
    }

    fn check_tolerance(&mut self, shape: &Shape, options: AssembleOptions) -> Result<(), AssemblyError> {
        let lost = self.lost();
        if shape.can_lose(&lost) {
            return Ok(());
        }
        if !options.partial {
            return Err(self.too_few(lost, shape.geometry.tolerance()));
        }
        let is_guessed = !self.level.is_redundant();
        self.limits.push(Limitation::Partial { roles: lost, is_guessed });
        Ok(())
    }

    fn too_few(&self, roles: Vec<u16>, tolerance: u16) -> AssemblyError {
        let total = self.chosen.roles.len() as u16;
        let stale = self.picked.iter().zip(&self.chosen.usage).filter_map(|(device, usage)| {
            let DeviceUse::LeftOut { why, .. } = usage else { return None };
            Some(format!("{} {}", device.label, self.reason(*why)))
        });
        let have = total - roles.len() as u16;
        AssemblyError::TooFewMembers { have, total, need: total - tolerance, stale: stale.collect(), roles }
    }

    fn reason(&self, why: LeftOut) -> String {
        match why {
            LeftOut::Stale { events } => {
                format!("is out of date, at event {events} of {}", self.chosen.freshest.superblock.events)
            }
            LeftOut::Faulty => "has failed".to_owned(),
            LeftOut::Replacement => "is an unfinished replacement".to_owned(),
        }
    }

    /// Copies of members beside the originals.
    fn check_apart(&mut self, options: AssembleOptions) -> Result<(), AssemblyError> {
        // A member that was taken in by force is out of date; `Limitation::Stale` has reported it.
        let forced = self.limits.iter().any(|limit| matches!(limit, Limitation::Stale { .. }));
        let groups = diverged::groups(self.picked, &self.chosen);
        if groups.is_empty() || forced {
            return Ok(());
        }
        if !options.force {
            return Err(AssemblyError::Apart { groups });
        }
        self.limits.push(Limitation::Apart { groups });
        Ok(())
    }

    /// Parity that was not brought in sync can't stand in for a member (md's "cannot start dirty degraded array").
    fn check_dirty(&mut self, options: AssembleOptions) -> Result<(), AssemblyError> {
        let lost = self.lost();
        let parity = matches!(self.level, Level::Raid4 | Level::Raid5 | Level::Raid6);
        // Where too many are lost parity stands in for nothing.
        let is_partial = self.limits.iter().any(|limit| matches!(limit, Limitation::Partial { .. }));
        let stands_in = parity && !lost.iter().all(|&role| self.has_parity_alone(role)) && !is_partial;
        let Some(from) = self.resync_offset().filter(|_| stands_in) else { return Ok(()) };
        // Its logs tell what the missing member holds, as md has it.
        if self.level == Level::Raid5 && lost.len() == 1 && self.chosen.freshest.superblock.ppl.is_some() {
            self.replays = true;
            return Ok(());
        }
        if !options.force {
            return Err(AssemblyError::DirtyDegraded { roles: lost });
        }
        let presumed = match lost[..] {
            [role] if self.level == Level::Raid6 => Some(role),
            _ => None,
        };
        self.limits.push(Limitation::DirtyDegraded { from, presumed });
        Ok(())
    }

    /// Whether a role holds no data in any row: nothing stands in for it where it is lost.
    fn has_parity_alone(&self, role: u16) -> bool {
        let Layout::Parity(layout) = self.layout else { return false };
        let count = self.chosen.freshest.superblock.raid_disks;
        self.level == Level::Raid6 && layout.without_q_apart().is_some() && u32::from(role) + 1 == count
    }

    /// Where redundancy stops being known to be in sync, by the deciding superblock.
    fn resync_offset(&self) -> Option<u64> {
        let freshest = self.chosen.freshest.superblock;
        // A position counted by one geometry says nothing of the other.
        freshest.resync_offset.map(|position| if freshest.reshape.is_some() { 0 } else { position })
    }

    /// The facts of the deciding superblock. If it is torn, the roles of all devices in use are put into them.
    fn recorded(&self) -> Recorded {
        let freshest = self.chosen.freshest.superblock;
        let mut roles = freshest.roles.clone();
        for (device, usage) in self.picked.iter().zip(&self.chosen.usage) {
            let entry = roles.get_mut(choose::number(device, self.chosen.freshest) as usize);
            if let (Some(role), Some(entry)) = (choose::filled(usage), entry) {
                *entry = DeviceRole::Active(role);
            }
        }
        Recorded {
            roles,
            resync_offset: freshest.resync_offset,
            updated: freshest.updated,
            bitmap_offset: freshest.bitmap_offset,
        }
    }

    fn finish(self, shape: Shape, options: AssembleOptions) -> Assembly {
        let by_force = self.limits.iter().find_map(|limit| match limit {
            Limitation::DirtyDegraded { presumed, .. } => Some(*presumed),
            _ => None,
        });
        let (forced, presumed) = (by_force.is_some(), by_force.flatten());
        // Forced, what parity gives is taken as true, as mdadm does; but not where redundancy is left that may differ from it.
        let is_doubted = self.level.is_redundant() && (!forced || presumed.is_some()) && !self.replays;
        let resync_offset = self.resync_offset().filter(|_| is_doubted);
        let freshest = self.chosen.freshest.superblock;
        let events = choose::events(self.picked, &self.chosen);
        let recorded = self.recorded();
        // Writes were under way on both devices of a role: what reached one need not have reached the other.
        let apart = forced || self.replays || resync_offset.is_some();
        let usage = |usage| match usage {
            DeviceUse::Replacement { role, .. } if apart => DeviceUse::Replacement { role, upto: 0 },
            // In rows that were being written it is unknown which members have the new data.
            DeviceUse::Recovering { role, .. } if forced => DeviceUse::Recovering { role, upto: 0 },
            usage => usage,
        };
        let devices = self.picked.iter().zip(self.chosen.usage).map(|(device, now)| AssembledDevice {
            label: device.label.to_owned(),
            superblock: device.superblock.clone(),
            untrue: (device.found != device.superblock).then(|| Box::new(device.found.clone())),
            number: choose::number(device, self.chosen.freshest),
            super_offset: device.super_offset,
            usage: usage(now),
            bytes: device.bytes,
            torn: device.torn,
            bad_log: None,
        });
        Assembly {
            uuid: freshest.set_uuid,
            name: freshest.name.clone(),
            version: freshest.version,
            component_size: freshest.component_size,
            events,
            recorded,
            resync_offset,
            presumed,
            roles: self.chosen.roles,
            devices: devices.collect(),
            limits: self.limits,
            bitmap: None,
            bitmap_file: None,
            geometry: shape.geometry,
            reshaping: shape.reshaping,
            forced: options.force,
            journal_seen: false,
            replays: self.replays,
            logged: None,
        }
    }
}

/// The role that a device claims.
fn claimed(sb: &Superblock) -> Option<u16> {
    match sb.role() {
        DeviceRole::Active(role) => Some(role),
        _ => None,
    }
}

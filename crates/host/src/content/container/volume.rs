//! A volume of a container: where its bytes are, and how far they can be relied on.

use brindle_array::ledger::Limit;
use brindle_format::imsm::{ContainerVolume, MapState, MigrationKind, VolumeMap, serial_text};
use brindle_layout::{Geometry, Layout, Level};
use brindle_members::bad_blocks::BadBlocks;

use super::assembly::ContainerSet;
use super::error::ContainerError;

/// Risks that the user accepts in reading a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContainerOptions {
    /// Read although bytes may be wrong.
    pub force: bool,
    /// Read although more disks are missing than the volume can do without.
    pub partial: bool,
}

/// A place of a volume.
#[derive(Clone, Debug)]
pub struct VolumeRole {
    /// The disk by its number in the container.
    pub disk: usize,
    /// The member that it is, if it is here and may be read.
    pub member: Option<usize>,
    /// It holds nothing of the volume yet: it is being rebuilt.
    pub is_rebuilt: bool,
    /// Places of it that hold nothing that was ever written.
    pub bad: BadBlocks,
}

/// A volume that can be read.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Its place in the table.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Where its bytes lie.
    pub geometry: Geometry,
    /// Bytes of it.
    pub size: u64,
    /// Bytes of each disk that it uses.
    pub used: u64,
    /// The byte of each disk at which its part begins.
    pub offset: u64,
    /// Its places.
    pub roles: Vec<VolumeRole>,
    /// Redundancy is not known to be true.
    pub in_doubt: bool,
    /// More disks are missing than it can do without.
    pub is_partial: bool,
    /// Why it is only read, and what is less certain.
    pub limits: Vec<Limit>,
}

impl ContainerSet {
    /// The number of the volume of that name, or of that number; of the only one without either.
    ///
    /// # Errors
    /// [`ContainerError::NoVolume`].
    pub fn find(&self, wanted: Option<&str>) -> Result<usize, ContainerError> {
        let volumes = &self.newest.volumes;
        let names = || volumes.iter().map(|volume| serial_text(&volume.name));
        let found = match wanted {
            None if volumes.len() == 1 => Some(0),
            None => None,
            Some(wanted) => {
                let by_number = || wanted.parse().ok().filter(|number: &usize| *number < volumes.len());
                names().position(|name| name == wanted).or_else(by_number)
            }
        };
        found.ok_or_else(|| ContainerError::NoVolume {
            wanted: wanted.unwrap_or("without a name").to_owned(),
            has: names()
                .enumerate()
                .map(|(number, name)| format!("{number} '{}'", name.escape_debug()))
                .collect(),
        })
    }

    /// The volume of that number.
    ///
    /// # Errors
    /// Each kind of [`ContainerError`] that names a volume.
    pub fn volume(&self, number: usize, options: ContainerOptions) -> Result<VolumePlan, ContainerError> {
        let Some(volume) = self.newest.volumes.get(number) else {
            return Err(ContainerError::NoVolume { wanted: number.to_string(), has: Vec::new() });
        };
        let name = serial_text(&volume.name);
        let is_moved = volume.migration.as_ref().is_some_and(|change| change.kind == MigrationKind::General);
        if is_moved {
            return Err(ContainerError::Moving { volume: name });
        }
        let (geometry, used) = shape(volume, &name)?;
        let mut limits = vec![only_read("Intel's containers are only read by this release")];
        let unknown = self.newest.attributes.unsupported();
        if unknown.0 != 0 {
            let names = unknown.names().join(", ");
            limits.push(only_read(&format!(
                "the container uses features that this release does not know: {names}"
            )));
        }
        limits.extend(self.forced().map(|why| only_read(&format!("{why}, and read by force"))));
        let roles = self.roles(volume, &name, used)?;
        let mut plan = VolumePlan {
            number,
            name,
            geometry,
            size: volume.size,
            used,
            offset: volume.map.offset,
            roles,
            in_doubt: is_in_doubt(volume),
            is_partial: false,
            limits,
        };
        self.check_lost(&mut plan, volume, options)?;
        Ok(plan)
    }

    fn roles(
        &self,
        volume: &ContainerVolume,
        name: &str,
        used: u64,
    ) -> Result<Vec<VolumeRole>, ContainerError> {
        let map = &volume.map;
        let nonsense = |why: &str| ContainerError::Nonsense { volume: name.to_owned(), why: why.to_owned() };
        let mut roles: Vec<VolumeRole> = Vec::new();
        // mdadm marks a place that is being rebuilt in the map of before, and not in that of afterwards.
        let before = volume.migration.as_ref().map_or(&[][..], |change| &change.before.slots[..]);
        for (at, slot) in map.slots.iter().enumerate() {
            let disk = slot.disk();
            if disk >= self.disks.len() {
                return Err(nonsense("it names a disk that the container does not have"));
            }
            if roles.iter().any(|role| role.disk == disk) {
                return Err(nonsense("it names a disk twice"));
            }
            let is_failed = self.newest.disks[disk].status.is_failed();
            let member = self.disks[disk].filter(|_| !is_failed);
            if let Some(member) = member.and_then(|at| self.members.get(at)) {
                let end =
                    map.offset.checked_add(used).ok_or_else(|| nonsense("it is larger than any disk"))?;
                if end > member.anchor {
                    let (label, has) = (member.label.clone(), member.size);
                    return Err(ContainerError::BeyondDisk { volume: name.to_owned(), end, label, has });
                }
            }
            roles.push(VolumeRole {
                disk,
                member,
                is_rebuilt: slot.is_rebuilt() || before.get(at).is_some_and(|slot| slot.is_rebuilt()),
                bad: self.bad(disk, map, used),
            });
        }
        Ok(roles)
    }

    /// Bad blocks of a disk within a volume.
    fn bad(&self, disk: usize, map: &VolumeMap, used: u64) -> BadBlocks {
        let mut bad = BadBlocks::default();
        for one in self.newest.defects.iter().flatten().filter(|one| usize::from(one.disk) == disk) {
            let (start, end) = (one.offset.saturating_sub(map.offset), one.offset.saturating_add(one.len));
            let end = end.saturating_sub(map.offset).min(used);
            bad.add(start.min(end)..end);
        }
        bad
    }

    fn check_lost(
        &self,
        plan: &mut VolumePlan,
        volume: &ContainerVolume,
        options: ContainerOptions,
    ) -> Result<(), ContainerError> {
        let is_lost = |role: &VolumeRole| role.member.is_none() || role.is_rebuilt;
        let lost: Vec<u16> =
            (0u16..).zip(&plan.roles).filter_map(|(at, role)| is_lost(role).then_some(at)).collect();
        let lacking = plan.roles.iter().filter(|role| is_lost(role));
        let missing: Vec<String> = lacking.map(|role| format!("'{}'", self.serial(role.disk))).collect();
        let (name, level) = (plan.name.clone(), plan.geometry.level());
        if !plan.geometry.can_lose(&lost) {
            // Of no disk at all there is no part, and nothing that bounds what the metadata say.
            if !options.partial || lost.len() == plan.roles.len() {
                return Err(ContainerError::TooFew { volume: name, missing });
            }
            plan.is_partial = true;
            let missing = missing.join(", ");
            plan.limits.push(only_read(&format!(
                "disks {missing} are missing that the volume can't do without (--partial): what only they held is left out"
            )));
        } else if plan.in_doubt && level == Level::Raid5 && !lost.is_empty() {
            if !options.force {
                return Err(ContainerError::DirtyDegraded { volume: name, missing });
            }
            plan.in_doubt = false;
            plan.limits.push(only_read(
                "the volume was not stopped cleanly, or not initialised, and disks are missing: what they held is worked out from parity that may be wrong",
            ));
        }
        if volume.write_hole.has_journal() {
            plan.limits.push(only_read(
                "the volume has a journal on another disk, which this release does not read: what was last written may be missing",
            ));
        }
        if level == Level::Raid0 && plan.roles.iter().any(|role| !role.bad.is_empty()) {
            plan.limits.push(only_read(
                "disks have bad blocks in the container's log, and the volume has no redundancy: what is read there was never written",
            ));
        }
        Ok(())
    }
}

fn only_read(text: &str) -> Limit {
    Limit { text: text.to_owned(), forbids_writes: true }
}

/// Redundancy is not known to be true: writes were under way, or it was never made true, or is being made.
fn is_in_doubt(volume: &ContainerVolume) -> bool {
    let change = volume.migration.as_ref().map(|change| change.kind);
    let is_made =
        matches!(change, Some(MigrationKind::Init | MigrationKind::Repair | MigrationKind::StateChange));
    let states = [Some(&volume.map), volume.migration.as_ref().map(|change| &change.before)];
    let was_never = states.into_iter().flatten().any(|map| map.state == MapState::Uninitialised);
    volume.map.level != 0 && (volume.is_dirty() || is_made || was_never)
}

/// The geometry of a volume, and bytes of each disk that it uses.
fn shape(volume: &ContainerVolume, name: &str) -> Result<(Geometry, u64), ContainerError> {
    let map = &volume.map;
    let nonsense = |why: String| ContainerError::Nonsense { volume: name.to_owned(), why };
    let count = map.slots.len() as u64;
    let (level, data) = match (map.level, count) {
        (0, 1..) => (Level::Raid0, count),
        (1, 1 | 2) => (Level::Raid1, 1),
        (1 | 10, 4..) => (Level::Raid10, count / 2),
        (5, 3..) => (Level::Raid5, count - 1),
        (level, count) => return Err(nonsense(format!("it is of level {level} with {count} disks"))),
    };
    let layout = match level {
        Level::Raid5 => Layout::parse(level, "left-asymmetric"),
        Level::Raid10 => Layout::parse(level, "n2"),
        level => Ok(Layout::default_for(level)),
    };
    let layout = layout.map_err(|why| nonsense(why.to_string()))?;
    let chunk = if level == Level::Raid1 { 0 } else { map.strip };
    let unit = chunk.max(1);
    let used = volume.size.div_ceil(data).checked_next_multiple_of(unit).filter(|used| *used > 0);
    let used = used.ok_or_else(|| nonsense(format!("it claims to have {} bytes", volume.size)))?;
    if used > map.member_size {
        let room = map.member_size;
        return Err(nonsense(format!("it takes {used} bytes of each disk, and has {room} of them")));
    }
    let sizes = vec![used; map.slots.len()];
    let geometry = Geometry::new(level, layout, chunk, &sizes).map_err(|why| nonsense(why.to_string()))?;
    Ok((geometry, used))
}

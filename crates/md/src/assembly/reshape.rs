//! An array in the middle of a reshape: two geometries, one on either side of the reshape position.
//!
//! md's rules (`super_1_validate` in the kernel's `md.c`, `run` and `make_request` of its `raid5.c` and `raid10.c`):
//! the superblock's own level, layout and chunk are those of the old geometry, and the position that it records is the
//! border. A reshape runs forward, from the array's start, unless the array shrinks or a feature bit says otherwise.

use brindle_format::md::{Features, Superblock, Version};
use brindle_layout::{Family, Geometry, Layout, Level};

use super::error::{AssemblyError, ReshapeError};
use super::limits::Limitation;
use super::{AssembleOptions, DeviceUse, Draft, Shape};

/// A reshape under way.
#[derive(Clone, Debug)]
pub struct Reshaping {
    /// The reshape position: byte of the array.
    pub position: u64,
    /// It moves towards the array's start: bytes from it on have moved. Else bytes before it have.
    pub backwards: bool,
    /// Where the bytes that have moved live.
    pub geometry: Geometry,
}

impl Reshaping {
    /// The reshape that `sb` records, if any; `component` is the bytes used of each member.
    pub(super) fn of(sb: &Superblock, component: u64) -> Result<Option<Self>, AssemblyError> {
        let Some(reshape) = &sb.reshape else { return Ok(None) };
        if reshape.new_level != sb.level {
            return Err(ReshapeError::OtherLevel { from: sb.level, to: reshape.new_level }.into());
        }
        let level = Level::from_md(sb.level)?;
        if !level.is_redundant() || level == Level::Raid1 {
            return Err(ReshapeError::Level { level }.into());
        }
        let layout = Layout::from_md(level, reshape.new_layout)?;
        let sizes = vec![component; sb.raid_disks as usize];
        Ok(Some(Self {
            position: reshape.position,
            backwards: sb.reshapes_backwards(),
            geometry: Geometry::new(level, layout, reshape.new_chunk, &sizes)?,
        }))
    }

    /// Whether the bytes near the reshape position are known to be on the members: nothing was moved over bytes that the last
    /// recorded position says are still in the old place. `shifts` are the bytes by which the members' data move.
    pub(super) fn is_safe(&self, old: &Geometry, shifts: &[i64]) -> bool {
        let chunk = i128::from(old.chunk().max(self.geometry.chunk()));
        // By how far, in the worst case, the new place of a member's bytes lies behind the border's movement.
        let behind = |shift: &i64| i128::from(if self.backwards { *shift } else { shift.saturating_neg() });
        let behind = shifts.iter().map(behind).min().unwrap_or(0);
        match (old.family(), self.geometry.family()) {
            (Family::Parity(from), Family::Parity(to)) => {
                let (from, to) = (i128::from(from.data_members()), i128::from(to.data_members()));
                let position = i128::from(self.position);
                if position % (chunk * to) != 0 {
                    return false;
                }
                // With as many data members as before, md 6.1 goes on only if the data move by a chunk or more. But
                // stopped on its way it leaves bytes overwritten beyond the position that it records, by as much as
                // the data move, and then reads wrong bytes there itself.
                if from == to {
                    return false;
                }
                let (here_old, here_new) =
                    (position / (chunk * from) * chunk, position / (chunk * to) * chunk);
                let ahead = if self.backwards { here_new - here_old } else { here_old - here_new };
                ahead + behind > 0
            }
            (Family::Mirrored(_), Family::Mirrored(_)) => {
                let stripes = |geometry: &Geometry| match geometry.layout() {
                    Layout::Raid10(layout) => i128::from(geometry.chunk()) * i128::from(layout.far),
                    _ => i128::from(geometry.chunk()),
                };
                behind >= stripes(old).max(stripes(&self.geometry))
            }
            _ => false,
        }
    }
}

impl Draft<'_> {
    /// Not even reading is safe where bytes were being moved over each other.
    pub(super) fn check_reshape(
        &mut self,
        shape: &Shape,
        options: AssembleOptions,
    ) -> Result<(), AssemblyError> {
        let Some(reshaping) = &shape.reshaping else { return Ok(()) };
        let shift = |at: &usize| {
            let reshape = self.picked.get(*at)?.superblock.reshape?;
            Some(reshape.new_offset.unwrap_or(0))
        };
        let shifts: Vec<i64> = self.chosen.roles.iter().flatten().filter_map(shift).collect();
        let in_doubt = !reshaping.is_safe(&shape.geometry, &shifts);
        if in_doubt && !options.force {
            return Err(ReshapeError::InDoubt.into());
        }
        let can_go_on = !in_doubt && self.can_go_on(shape, reshaping, &shifts);
        self.limits.push(Limitation::Reshape { position: reshaping.position, in_doubt, can_go_on });
        Ok(())
    }

    /// Whether the engine can go on with a reshape: of rows with parity into more members, whose data begin earlier by a chunk at least.
    /// Nothing else is under way.
    fn can_go_on(&self, shape: &Shape, reshaping: &Reshaping, shifts: &[i64]) -> bool {
        let (old, new) = (&shape.geometry, &reshaping.geometry);
        let is_wider = matches!(old.family(), Family::Parity(_)) && old.members() < new.members();
        let is_same = old.layout() == new.layout() && old.chunk() == new.chunk();
        let has_moved = reshaping.position >= old.size();
        let moves = |&shift: &i64| shift <= -old.chunk().cast_signed() || has_moved && shift <= 0;
        let is_bare = |at: &usize| {
            let superblock = self.picked[*at].superblock;
            let is_placed = matches!(superblock.version, Version::V1_1 | Version::V1_2);
            let others = Features::PPL | Features::JOURNAL;
            is_placed && !superblock.features.intersects(others)
        };
        let is_whole = |usage: &DeviceUse| {
            !matches!(usage, DeviceUse::Recovering { .. } | DeviceUse::Replacement { .. })
        };
        let used = || self.chosen.roles.iter().flatten();
        is_wider
            && is_same
            && !reshaping.backwards
            && shifts.iter().all(moves)
            && used().all(is_bare)
            && self.chosen.usage.iter().all(is_whole)
    }
}

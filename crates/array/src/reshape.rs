//! An array in the middle of a reshape, which is read only: bytes that have moved are read where the new geometry has
//! them, the others where the old one has.

use std::mem::swap;
use std::rc::Rc;

use brindle_io::{Io, MemberId, Slice};
use brindle_layout::Geometry;

use crate::array::{Array, Inner};
use crate::assembly::Assembly;
use crate::keeper::{Keeper, Truth};
use crate::members::Members;
use crate::open::{members, members_at};
use crate::volume::VolumeError;

/// An array as one geometry sees it.
pub(crate) struct Side {
    pub(crate) geometry: Geometry,
    pub(crate) members: Members,
}

/// What lies on the other side of a border.
pub(crate) struct Beyond {
    /// Byte of the array at which the border stands.
    position: u64,
    /// What lies before the border is the other side's; else what lies from it on.
    before: bool,
    side: Side,
}

/// The array, and what the other geometry has of it while it is being reshaped. The first side has all members.
pub(crate) fn sides(io: &Io, assembly: &Assembly, ids: &[MemberId]) -> (Side, Option<Beyond>) {
    let mut first = Side { geometry: assembly.geometry.clone(), members: members(io, assembly, ids) };
    let Some(reshaping) = &assembly.reshaping else { return (first, None) };
    let geometry = reshaping.geometry.clone();
    let members = members_at(io, assembly, ids, geometry.members(), |sb| sb.new_data_offset());
    let mut second = Side { geometry, members };
    let mut before = !reshaping.backwards;
    if second.geometry.members() > first.geometry.members() {
        swap(&mut first, &mut second);
        before = !before;
    }
    (first, Some(Beyond { position: reshaping.position, before, side: second }))
}

/// Where one geometry ends and the other begins.
pub(crate) struct Border {
    position: u64,
    before: bool,
    /// The array as the other side sees it.
    other: Array,
}

impl Array {
    /// This array, just opened and read-only, with what lies beyond the border of a reshape.
    ///
    /// # Panics
    /// If somebody else has the array already.
    pub(crate) fn with_border(mut self, beyond: Beyond) -> Self {
        let inner = Rc::get_mut(&mut self.0).expect("a new array is nobody else's");
        let Beyond { position, before, side: Side { geometry, members } } = beyond;
        inner.limits.size = inner.limits.size.min(geometry.size());
        let members = Rc::new(members);
        let map = geometry.clone();
        let truth = Truth::of(&geometry, inner.keeper.resync_offset());
        let can_lose = Box::new(move |lost: &[u16]| map.can_lose(lost));
        let keeper = Keeper::volatile(&inner.io, Rc::clone(&members), can_lose, truth);
        let other = Self::new(&inner.io, geometry, members, Rc::new(keeper), inner.config);
        inner.border = Some(Border { position, before, other });
        self
    }
}

impl Inner {
    /// Reads a range that is not empty, each side of the border by its geometry.
    pub(crate) async fn read_across(
        &self,
        border: &Border,
        offset: u64,
        into: &Slice,
    ) -> Result<(), VolumeError> {
        let cut = border.position.saturating_sub(offset).min(into.len() as u64);
        let (below, above) = (into.slice(0..cut as usize), into.slice(cut as usize..into.len()));
        let other = &*border.other.0;
        let (first, second) = if border.before { (other, self) } else { (self, other) };
        if !below.is_empty() {
            first.read_placed(offset, &below).await?;
        }
        if !above.is_empty() {
            second.read_placed(offset + cut, &above).await?;
        }
        Ok(())
    }
}

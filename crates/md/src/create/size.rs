//! Computes how much of each device a new array uses.

use brindle_format::md::{
    Version,
    defaults::{self, BitmapPlan, MAX_COMPONENT_0_90, Placement},
};
use brindle_layout::{Geometry, Layout, Level};

use super::error::TooSmall;
use super::{CONSISTENCY, CreateError, CreateSpec, NewBitmap, NewMember, devices, layout};
use crate::bitmap::create as bitmap;

const SECTOR: u64 = 512;

/// The sizes of a new array, in bytes.
pub(super) struct Sizes {
    /// As recorded: 0 for RAID 1 and linear.
    pub(super) chunk: u64,
    pub(super) data_offset: u64,
    /// As recorded: 0 for linear and RAID 0.
    pub(super) component: u64,
    /// By given device.
    pub(super) placements: Vec<Placement>,
    /// The write-intent bitmap, if there is to be one: on each device, or in a file.
    pub(super) bitmap: Option<BitmapPlan>,
}

impl Sizes {
    pub(super) fn of(spec: &CreateSpec) -> Result<Self, CreateError> {
        let chunk = match spec.level {
            Level::Raid1 if spec.chunk.is_some() => return Err(CreateError::ChunkWithoutStripes),
            Level::Raid1 | Level::Linear => spec.chunk.unwrap_or(0),
            _ => spec.chunk.unwrap_or(defaults::CHUNK),
        };
        check_chunk(spec, chunk)?;
        let given: Vec<&NewMember> = devices(spec).map(|(_, _, member)| member).collect();
        let data_offset = data_offset(spec, &given, chunk)?;
        let component = component(spec, &given, chunk, data_offset)?;
        let mut sizes = Self { chunk, data_offset, component, placements: Vec::new(), bitmap: None };
        if spec.bitmap != NewBitmap::None {
            sizes.bitmap = sizes.bitmap(spec)?;
        }
        let in_file = matches!(spec.bitmap, NewBitmap::File { .. });
        let consistency = bitmap::consistency(sizes.bitmap.filter(|_| !in_file));
        let place = |member: &&NewMember| {
            defaults::place(spec.version, member.info.size, data_offset, component, consistency).ok_or_else(
                || CreateError::Small(TooSmall::of(spec, member, data_offset, component.max(chunk))),
            )
        };
        sizes.placements = given.iter().map(place).collect::<Result<_, _>>()?;
        Ok(sizes)
    }

    /// The bitmap that is asked for.
    fn bitmap(&self, spec: &CreateSpec) -> Result<Option<BitmapPlan>, CreateError> {
        if !spec.level.is_redundant() {
            let usual = spec.bitmap == NewBitmap::Usual;
            let level = spec.level;
            return if usual { Ok(None) } else { Err(CreateError::BitmapWithoutRedundancy { level }) };
        }
        let planned = spec.bitmap.planned(spec.version, self.component, &self.geometry(spec)?);
        planned.map_err(|chunk| CreateError::BitmapChunk { chunk })
    }

    /// Bytes that each role offers; a missing one as much as the first device.
    fn of_roles(&self, spec: &CreateSpec) -> Vec<u64> {
        let mut placements = self.placements.iter();
        let size = |member: &Option<NewMember>| match (member, spec.level.is_redundant()) {
            (_, true) => self.component,
            (Some(_), false) => placements.next().map_or(0, |p| p.data_size),
            (None, false) => 0,
        };
        spec.roles.iter().map(size).collect()
    }

    pub(super) fn geometry(&self, spec: &CreateSpec) -> Result<Geometry, CreateError> {
        if !spec.level.is_redundant() && spec.roles.iter().any(Option::is_none) {
            let missing = (0u16..).zip(&spec.roles).filter_map(|(role, m)| m.is_none().then_some(role));
            return Err(CreateError::TooManyMissing { level: spec.level, roles: missing.collect() });
        }
        let layout = layout(spec);
        if !spec.version.is_v1() && self.multi_zone(spec) {
            // Kernels can't know which of the two layouts it would be.
            return Err(CreateError::ZonesIn090);
        }
        Ok(Geometry::new(spec.level, layout, self.chunk, &self.of_roles(spec))?)
    }

    /// A RAID 0 over members of different sizes: only then its layout matters.
    pub(super) fn multi_zone(&self, spec: &CreateSpec) -> bool {
        let chunks = |size: &u64| size / self.chunk.max(1);
        let sizes = self.of_roles(spec);
        spec.level == Level::Raid0 && sizes.windows(2).any(|pair| chunks(&pair[0]) != chunks(&pair[1]))
    }
}

/// Checks the chunk by the rules of the geometry, before sizes are computed from it.
fn check_chunk(spec: &CreateSpec, chunk: u64) -> Result<(), CreateError> {
    let plain = matches!(spec.level, Level::Raid1 | Level::Linear) && chunk == 0;
    let multiple = chunk.is_multiple_of(brindle_layout::MIN_CHUNK);
    if !plain && (!multiple || !(brindle_layout::MIN_CHUNK..=brindle_layout::MAX_CHUNK).contains(&chunk)) {
        return Err(brindle_layout::GeometryError::Chunk { chunk }.into());
    }
    if let Some(Layout::Raid10(_)) = spec.layout
        && spec.level != Level::Raid10
    {
        let layout = Layout::Raid10(brindle_layout::Raid10Layout::near(2));
        return Err(brindle_layout::GeometryError::LayoutOfOtherLevel {
            level: spec.level,
            layout: spec.layout.unwrap_or(layout),
        }
        .into());
    }
    Ok(())
}

fn data_offset(spec: &CreateSpec, given: &[&NewMember], chunk: u64) -> Result<u64, CreateError> {
    let first = given.first().map_or(0, |member| member.info.size);
    let block = given.iter().map(|member| u64::from(member.info.physical_block)).max().unwrap_or(SECTOR);
    match spec.data_offset {
        None => Ok(defaults::data_offset(spec.version, first, chunk, CONSISTENCY)),
        Some(0) if matches!(spec.version, Version::V0_90(_) | Version::V1_0) => Ok(0),
        Some(offset) if !spec.version.is_v1() => Err(CreateError::DataOffsetIn090 { offset }),
        Some(offset) if !offset.is_multiple_of(block.max(4096)) => {
            Err(CreateError::DataOffsetUnaligned { offset, unit: block.max(4096) })
        }
        Some(offset) => Ok(offset),
    }
}

/// Bytes used of each member; 0 for levels that use all of each.
fn component(
    spec: &CreateSpec,
    given: &[&NewMember],
    chunk: u64,
    data_offset: u64,
) -> Result<u64, CreateError> {
    if !spec.level.is_redundant() {
        return match spec.size {
            Some(_) => Err(CreateError::SizeWithoutRedundancy { level: spec.level }),
            None => Ok(0),
        };
    }
    // mdadm leaves a RAID 1 whole units of 64 KiB, but takes a size that was asked for at its word.
    let unit = match (chunk, spec.size) {
        (0, None) => 64 << 10,
        (0, Some(_)) => 1024,
        _ => chunk,
    };
    let room = |member: &NewMember| {
        defaults::available(spec.version, member.info.size, data_offset, CONSISTENCY).unwrap_or(0)
    };
    let Some((smallest, available)) = given.iter().map(|m| (m, room(m))).min_by_key(|&(_, room)| room) else {
        return Err(CreateError::NoMembers);
    };
    let wanted = spec.size.unwrap_or(available);
    if wanted < unit {
        return Err(match spec.size {
            Some(size) => CreateError::SizeBelowChunk { size, unit },
            None => CreateError::Small(TooSmall::of(spec, smallest, data_offset, unit)),
        });
    }
    if wanted > available {
        let rounded = wanted - wanted % unit;
        return Err(CreateError::Small(TooSmall::of(spec, smallest, data_offset, rounded)));
    }
    // mdadm does not choose less than there is either.
    if !spec.version.is_v1() && wanted > MAX_COMPONENT_0_90 {
        return Err(CreateError::SizeIn090 { size: wanted });
    }
    let component = defaults::component_size(spec.version, wanted, unit)
        .ok_or_else(|| CreateError::Small(TooSmall::of(spec, smallest, data_offset, unit)))?;
    if spec.level != Level::Raid10 {
        return Ok(component);
    }
    // Copies may leave a remainder that no array chunk fills; md records what it uses.
    Ok(Geometry::new(spec.level, layout(spec), chunk, &vec![component; spec.roles.len()])?.member_size())
}

//! Facts from superblocks, and from the first bytes of the array.

use std::path::PathBuf;

use brindle_format::alignment::{HEAD, Partition, partitions, striping};
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_format::md::display_uuid;
use brindle_format::signature::{self, Sample};
use brindle_layout::Layout;
use brindle_md::assembly::{Assembly, DeviceUse};
use brindle_planner::advice::{ArrayContent, Bitmap, Facts, MemberPath};
use brindle_volume::{Volume, read_again};

use crate::base::failure::Failure;
use crate::devices::world::{Set, World, WorldOptions, warn_of_left_out};

pub(super) fn look(members: &[PathBuf]) -> Result<Facts, Failure> {
    let mut world = World::new(WorldOptions::LOOK)?;
    let mut set = world.open_all(members)?;
    let assembly = world.assemble(&mut set, true)?;
    warn_of_left_out([&set]);
    let bitmap = bitmap(&world, &set, &assembly);
    let mut facts = facts(&assembly, bitmap);
    facts.content = world
        .start(assembly, &set.members)
        .and_then(|array| content(&world, &array))
        .map_err(|failure| failure.to_string());
    Ok(facts)
}

fn facts(assembly: &Assembly, bitmap: Bitmap) -> Facts {
    let geometry = &assembly.geometry;
    let (level, layout, count) = (geometry.level(), geometry.layout(), assembly.roles.len());
    let used = assembly
        .devices
        .iter()
        .filter(|device| matches!(device.usage, DeviceUse::Active { .. } | DeviceUse::Recovering { .. }));
    Facts {
        uuid: display_uuid(assembly.uuid).to_string(),
        level,
        layout: (layout != Layout::None).then(|| layout.name()),
        chunk: geometry.chunk(),
        raid_devices: count,
        row: geometry.row_bytes(),
        size: assembly.size(),
        component: assembly.component_size,
        missing: assembly.missing().len(),
        in_doubt: assembly.in_doubt().is_some(),
        members: used
            .map(|device| MemberPath {
                path: device.label.clone(),
                data_offset: device.superblock.data_offset,
            })
            .collect(),
        bitmap,
        content: Err("it was not read".to_owned()),
        shape: layout,
        drives: Vec::new(),
        md: None,
    }
}

/// The bitmap of the freshest member that can be read.
fn bitmap(world: &World, set: &Set, assembly: &Assembly) -> Bitmap {
    let freshest = assembly.devices.iter().max_by_key(|device| device.superblock.events);
    let Some((device, offset)) = freshest.and_then(|device| Some((device, device.superblock.bitmap_offset?)))
    else {
        return Bitmap::None;
    };
    let Some(named) = set.members.iter().find(|named| named.label == device.label) else {
        return Bitmap::None;
    };
    let read = device
        .super_offset
        .checked_add_signed(offset)
        .ok_or_else(|| "it would lie before the device".to_owned())
        .and_then(|at| world.read_at(named, at, BITMAP_SUPER_BYTES).map_err(|why| why.to_string()))
        .and_then(|bytes| BitmapSuper::parse(&bytes).map_err(|why| why.to_string()));
    match read {
        Ok(bitmap) => Bitmap::Chunk(bitmap.chunk),
        Err(why) => Bitmap::Unreadable(why),
    }
}

fn content(world: &World, array: &brindle_array::Array) -> Result<ArrayContent, Failure> {
    let size = array.limits().size;
    let read = |offset: u64| {
        let block = u64::from(array.limits().block);
        let len = (HEAD as u64).min(size.saturating_sub(offset)) / block * block;
        if len == 0 || !offset.is_multiple_of(block) {
            return Ok(Vec::new());
        }
        let pool = world.io.pool(HEAD);
        let read = read_again(array, offset, async || pool.alloc(len as usize).await.all());
        let bytes = world
            .io
            .block_on(read)
            .map_err(|source| Failure::Volume { doing: "reading the array", source })?;
        Ok::<_, Failure>(bytes.bytes().to_vec())
    };
    let head = read(0)?;
    let table = partitions(&head, array.limits().block.into());
    let partitioned = !table.is_empty();
    let whole = vec![Partition { start: 0, size }];
    let parts = if partitioned { table } else { whole };
    let parts = parts.into_iter().filter(|part| part.start < size);
    let parts: Result<_, Failure> = parts.map(|part| Ok((part, striping(&read(part.start)?)))).collect();
    let found = signature::detect(size, &[Sample { offset: 0, bytes: &head }]);
    Ok(ArrayContent {
        parts: parts?,
        partitioned,
        named: found.iter().map(|found| found.signature.name().to_owned()).collect(),
    })
}

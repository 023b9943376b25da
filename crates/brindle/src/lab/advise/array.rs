//! Facts from superblocks, and from the first bytes of the array.

use std::path::PathBuf;

use brindle_array::DeviceUse;
use brindle_format::alignment::{HEAD, Partition, partitions, striping};
use brindle_format::md::bitmap::BitmapSuper;
use brindle_format::signature::{self, Sample};
use brindle_host::ArrayDescription;
use brindle_layout::Layout;
use brindle_planner::advice::{ArrayContent, Bitmap, Facts, MemberPath};
use brindle_volume::{Volume, read_again};

use crate::base::failure::Failure;
use crate::devices::world::{World, WorldOptions, warn_of_left_out};

pub(super) fn look(members: &[PathBuf]) -> Result<Facts, Failure> {
    let mut world = World::new(WorldOptions::LOOK)?;
    let mut set = world.open_all(members)?;
    let assembled = world.assemble(&mut set, true)?;
    warn_of_left_out([&set]);
    let bitmap = bitmap(world.bitmap_beside(&assembled, &set));
    let mut facts = facts(&assembled.description(), bitmap);
    facts.content = world
        .start(&assembled, &set.members)
        .and_then(|array| content(&world, &array))
        .map_err(|failure| failure.to_string());
    Ok(facts)
}

fn facts(array: &ArrayDescription, bitmap: Bitmap) -> Facts {
    let geometry = &array.geometry;
    let (level, layout) = (geometry.level(), geometry.layout());
    let used = array
        .devices
        .iter()
        .filter(|device| matches!(device.usage, DeviceUse::Active { .. } | DeviceUse::Recovering { .. }));
    Facts {
        uuid: array.facts.uuid.clone(),
        level,
        layout: (layout != Layout::None).then(|| layout.name()),
        chunk: geometry.chunk(),
        raid_devices: array.facts.raid_devices,
        row: geometry.row_bytes(),
        size: array.facts.size,
        component: array.component_size,
        missing: array.missing.len(),
        in_doubt: array.in_doubt.is_some(),
        members: used
            .map(|device| MemberPath { path: device.label.clone(), data_offset: device.data_offset })
            .collect(),
        bitmap,
        content: Err("it was not read".to_owned()),
        shape: layout,
        drives: Vec::new(),
        md: None,
    }
}

/// The bitmap of the freshest member, if that can be read.
fn bitmap(read: Option<Result<BitmapSuper, String>>) -> Bitmap {
    match read {
        None => Bitmap::None,
        Some(Ok(bitmap)) => Bitmap::Chunk(bitmap.chunk),
        Some(Err(why)) => Bitmap::Unreadable(why),
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

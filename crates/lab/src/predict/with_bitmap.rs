//! An array that keeps superblocks and a write-intent bitmap on modelled drives, made and opened as the product does it.

use std::collections::BTreeSet;

use brindle_array::{Array, OpenConfig};
use brindle_format::md::bitmap::BITMAP_SUPER_BYTES;
use brindle_format::md::{SUPERBLOCK_BYTES, Uuid, Version};
use brindle_io::sim::Sim;
use brindle_io::{Io, MemberId};
use brindle_md::assembly::{AssembleOptions, Candidate, assemble};
use brindle_md::create::{CreateSpec, NewBitmap, NewMember, Plan, plan};

use super::spec::{PredictError, Shape};

/// Opens a new array of a shape on drives, with `bitmap` bytes to a bit. The drives keep what stands before its data.
pub(super) fn array(
    (sim, io): (&Sim, &Io),
    drives: &[MemberId],
    (shape, bitmap): (&Shape, u64),
    config: OpenConfig,
) -> Result<Array, PredictError> {
    let plan = plan(&wanted(io, drives, shape, bitmap))?;
    drives.iter().for_each(|drive| sim.keep_beginning(*drive, plan.data_offset));
    for write in plan.writes() {
        sim.poke(drives[write.device], write.offset, &write.bytes);
    }
    clear(sim, drives, &plan);
    io.block_on(async {
        let pool = io.pool(SUPERBLOCK_BYTES);
        let mut candidates = Vec::new();
        for drive in drives {
            candidates.push(Candidate::read(io, &pool, *drive, drive.to_string()).await?);
        }
        let assembly = assemble(&candidates, AssembleOptions::default())?;
        Ok(brindle_md::open(io, assembly, drives, config).await?)
    })
}

/// Bits of a new bitmap are all set. They are cleared here, as on an array that was not written to for long.
fn clear(sim: &Sim, drives: &[MemberId], plan: &Plan) {
    let mut headed = BTreeSet::new();
    for page in &plan.bitmaps {
        let head = if headed.insert(page.device) { BITMAP_SUPER_BYTES } else { 0 };
        sim.poke(drives[page.device], page.offset + head as u64, &vec![0; page.bytes.len() - head]);
    }
}

fn wanted(io: &Io, drives: &[MemberId], shape: &Shape, bitmap: u64) -> CreateSpec {
    let member = |(number, drive): (u128, &MemberId)| {
        Some(NewMember {
            label: drive.to_string(),
            info: io.member_info(*drive)?,
            uuid: Uuid::from_u128(number),
            old_superblocks: Vec::new(),
            flags: Default::default(),
        })
    };
    CreateSpec {
        // Superblock and bitmap stand at the beginning.
        version: Version::V1_2,
        level: shape.level,
        layout: Some(shape.layout),
        chunk: shape.level.has_chunks().then_some(shape.chunk),
        size: None,
        data_offset: None,
        bitmap: NewBitmap::Internal { chunk: Some(bitmap) },
        write_behind: 0,
        name: String::new(),
        homehost: None,
        roles: (1..).zip(drives).map(member).collect(),
        spares: Vec::new(),
        assume_clean: true,
        uuid: Uuid::from_u128(u128::MAX),
        now: 0,
    }
}

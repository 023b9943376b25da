//! A volume of a pool: up to as many members may be missing as it has parity.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use brindle_io::device::{DeviceAccess, Identity};
use brindle_pool::{DamagedRange, PoolVolume};
use brindle_volume::Volume;

use super::map::Of;
use super::rescue::Wanted;
use super::{AHEAD, PIECE, copy, part, save};
use crate::base::exit_status::UNREADABLE;
use crate::base::failure::Failure;
use crate::devices::pools::{Alone, Opened, split};
use crate::flags::cli::Cat;

pub(super) fn cat(args: &Cat, name: &str, members: &[PathBuf]) -> Result<ExitCode, Failure> {
    if args.partial {
        return Err(Failure::Usage(
            "--partial is for arrays: what a pool lost is left out without it".to_owned(),
        ));
    }
    if args.partition.is_some() {
        return Err(Failure::Usage(
            "--partition is for arrays: give --offset and --length of the volume's partition".to_owned(),
        ));
    }
    let (pool, volume) = split(name)?;
    let alone = Alone::open(members, DeviceAccess::Read, args.tuning.into())?;
    let opened = &alone.opened.pool;
    let (label, has) = (opened.label(), opened.volumes());
    let is = &label.name;
    let Some(volume) = opened.volume(volume).filter(|_| is == pool) else {
        let has: Vec<String> = has.iter().map(|volume| format!("{is}/{}", volume.name)).collect();
        let has = if has.is_empty() { "no volumes".to_owned() } else { has.join(", ") };
        return Err(Failure::Usage(format!("there is no volume {name}: the pool {is} has {has}")));
    };
    let range = part(args, 0..volume.limits().size, "volume")?;
    let (io, memory) = (&alone.world.io, alone.world.io.pool(PIECE * (AHEAD as usize + 1)));
    if let Some(to) = &args.output {
        let members: Vec<Identity> =
            alone.world.known().iter().map(|(identity, _)| identity.of_whole()).collect();
        let (of, map) = (of(&alone.opened, &volume, range), args.map.as_deref());
        let (overwrite, members) = (args.overwrite, &*members);
        return save(
            io,
            &memory,
            &Wanted {
                array: &volume,
                of,
                hopeless: u64::MAX,
                lacks: None,
                to,
                map,
                overwrite,
                members,
                notes: Vec::new(),
            },
        );
    }
    let copied = io.block_on(copy(io, &volume, &memory, range.clone()));
    let lost = lost(&alone.opened, name, &range);
    if copied.is_err() && !lost.is_empty() {
        for DamagedRange { offset, length, .. } in &lost {
            eprintln!(
                "brindle: {name}: {length} bytes from byte {offset} on are lost: no member has them any more"
            );
        }
        eprintln!("brindle: {name}: the output ends before them; --output FILE goes on behind them");
        return Ok(ExitCode::from(UNREADABLE));
    }
    copied.map(|()| ExitCode::SUCCESS)
}

/// The state of the volume that is read. A copy goes on only where nothing was written in between.
fn of(opened: &Opened, volume: &PoolVolume, range: Range<u64>) -> Of {
    let (opening, record) = opened.pool.version(opened.recovered.batches);
    let array = format!("{} volume {}", opened.pool.label().pool, volume.id());
    Of { array, events: record, range, members: BTreeMap::from([("opening".to_owned(), opening)]) }
}

/// Lost blocks of a range of a volume, as far as they were found.
fn lost(opened: &Opened, name: &str, range: &Range<u64>) -> Vec<DamagedRange> {
    let mut lost = opened.pool.status().damaged;
    lost.retain(|one| {
        let is_its = name.split_once('/').is_some_and(|(_, volume)| volume == one.volume);
        is_its && one.offset < range.end && range.start < one.offset + one.length
    });
    lost
}

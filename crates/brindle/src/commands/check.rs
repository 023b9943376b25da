//! `brindle check`: compares redundancy, changes nothing. `brindle repair`: brings it in sync, or only the blocks that are known to be wrong.

use std::process::ExitCode;

use brindle_array::{Array, Recovery, SyncMode};
use brindle_host::ContainerOptions;
use brindle_host::status::DamagedStatus;
use brindle_io::Io;
use brindle_io::device::DeviceAccess;
use brindle_layout::Level;
use serde_json::json;

use crate::base::exit_status::UNREADABLE;
use crate::base::failure::Failure;
use crate::base::{progress, report};
use crate::client::findings::{self, Report};
use crate::devices::containers::{self, LoneContainer};
use crate::devices::host::Host;
use crate::devices::pools::{self, Alone};
use crate::devices::world::{self, Through, WorldOptions};
use crate::flags::cli::{Check, Repair};

/// `brindle check`.
pub(crate) fn check(args: &Check) -> Result<ExitCode, Failure> {
    world::assume(args.assuming.assume.as_ref());
    if pools::are_of_pool(&args.members) {
        return check_pool(args);
    }
    if args.members.iter().any(|name| containers::is_disk(name)) {
        return check_volume(args);
    }
    let search = Through::of(args.searching.search);
    let tuning = args.tuning.into();
    let opening =
        WorldOptions { access: DeviceAccess::Read, force: false, tuning, search, ..WorldOptions::LOOK };
    let host = Host::open(&args.members, &args.given.bitmaps, opening)?;
    let report = go_over(&host, SyncMode::Check)?;
    report.show(args.json)?;
    Ok(report.status(report.mismatch_cnt))
}

/// A volume of a container of Intel's.
fn check_volume(args: &Check) -> Result<ExitCode, Failure> {
    let opening = WorldOptions {
        access: DeviceAccess::Read,
        force: false,
        tuning: args.tuning.into(),
        ..WorldOptions::LOOK
    };
    world::check_budget(&opening.tuning)?;
    let lone = LoneContainer::open(&args.members, args.container.disks.as_deref(), opening)?;
    let opened = &lone.opened;
    let number = opened.set.find(args.container.volume.as_deref())?;
    let plan = opened.plan(number, ContainerOptions::default())?;
    let report = compare(&lone.world.io, &lone.start(&plan), plan.geometry.level(), SyncMode::Check)?;
    report.show(args.json)?;
    Ok(report.status(report.mismatch_cnt))
}

/// Every checksum and the parity of every stripe that counts, of a pool.
fn check_pool(args: &Check) -> Result<ExitCode, Failure> {
    let alone = Alone::open(&args.members, DeviceAccess::Read, args.tuning.into())?;
    let pool = &alone.opened.pool;
    let total: u64 = pool.volumes().iter().map(|volume| volume.size).sum();
    let bar = progress::bar("checking", total);
    let found = alone.world.io.block_on(pool.check(|gone| bar.set_position(gone)));
    let found = found.map_err(|source| Failure::Volume { doing: "checking the pool", source })?;
    bar.finish_and_clear();
    let path = |member: u16| alone.opened.members.get(usize::from(member)).cloned().flatten();
    if args.json {
        let places = found.places.iter().map(|&(member, offset)| {
            json!({"device": path(member), "member": brindle_pool::Role::of(&pool.label(), member).to_string(), "offset": offset})
        });
        report::print_json(&json!({
            "pool": pool.label().name,
            "blocks": found.blocks,
            "wrong": found.wrong,
            "unreadable": found.unreadable,
            "lost": found.lost,
            "damaged": DamagedStatus::all(&pool.label().name, &found.damaged),
            "damaged_beyond": found.damaged_beyond,
            "missing": found.missing,
            "stripes": found.stripes,
            "mismatches": found.mismatches,
            "uncompared": found.uncompared,
            "places": places.collect::<Vec<_>>(),
            "labels": alone.opened.damaged.iter().map(|(device, at)| json!({"device": device, "offset": at})).collect::<Vec<_>>(),
        }))?;
    } else {
        let mut text = format!(
            "{} blocks compared with their checksums: {} wrong, {} unreadable, {} lost, {} on missing members\n\
             {} stripes compared: the parity of {} is not that of their data; {} not compared\n",
            found.blocks,
            found.wrong,
            found.unreadable,
            found.lost,
            found.missing,
            found.stripes,
            found.mismatches,
            found.uncompared
        );
        for &(member, offset) in &found.places {
            let path = path(member).unwrap_or_default();
            text.push_str(&format!("  {path}: wrong at byte {offset} of its data area\n"));
        }
        for DamagedStatus { volume, offset, length } in DamagedStatus::all(&pool.label().name, &found.damaged)
        {
            text.push_str(&format!("  lost: {volume}: {length} bytes from byte {offset} on\n"));
        }
        if found.damaged_beyond > 0 {
            text.push_str(&format!("  lost: {} blocks more, in other places\n", found.damaged_beyond));
        }
        report::print(&text)?;
    }
    if found.lost > 0 {
        return Ok(ExitCode::from(UNREADABLE));
    }
    let wrong = found.wrong + found.mismatches + alone.opened.damaged.len() as u64;
    Ok(findings::status(wrong, found.unreadable, found.missing + found.uncompared))
}

/// `brindle repair`.
pub(crate) fn repair(args: &Repair) -> Result<ExitCode, Failure> {
    let host =
        Host::open_to_change(&args.members, &args.given.bitmaps, args.tuning.into(), Recovery::Manual)?;
    let (array, io) = (host.array.array.clone(), host.world.io.clone());
    if args.locate && array.needs_resync() {
        // The wrong member can be located only where all members agreed once.
        let bar = progress::bar("resyncing", array.sync_len());
        let resynced = io.block_on(array.resync(|progress| bar.set_position(progress.position)));
        resynced.map_err(|source| Failure::Process { doing: "resyncing the array", source })?;
        bar.finish_and_clear();
    }
    let mode = if args.locate { mode_of_locating(&host) } else { Ok(SyncMode::Repair) };
    let report = mode.and_then(|mode| {
        let mut report = go_over(&host, mode)?;
        report.resynced = args.locate && mode == SyncMode::Repair;
        Ok(report)
    });
    io.block_on(host.array.stop())?;
    let report = report?;
    report.show(args.json)?;
    Ok(report.status(if args.locate && !report.resynced { report.unlocated } else { 0 }))
}

fn mode_of_locating(host: &Host) -> Result<SyncMode, Failure> {
    let doing = "looking at the array's redundancy";
    let redundancy = host.world.io.block_on(host.array.array.sample_redundancy());
    let redundancy = redundancy.map_err(|source| Failure::Volume { doing, source })?;
    findings::mode_of_locating(redundancy).map_err(|why| Failure::Refused(why.to_owned()))
}

/// Goes over the whole array of a host that has one.
fn go_over(host: &Host, mode: SyncMode) -> Result<Report, Failure> {
    let running = &host.array;
    compare(&host.world.io, &running.array, running.found.description().level(), mode)
}

fn compare(io: &Io, array: &Array, level: Level, mode: SyncMode) -> Result<Report, Failure> {
    let total = array.sync_len();
    let (verb, doing) = match mode {
        SyncMode::Check => ("checking", "checking the array"),
        SyncMode::Repair | SyncMode::Locate => ("repairing", "repairing the array"),
    };
    if total == 0 {
        return Err(Failure::Usage(format!(
            "{} has no redundancy to check: only levels with copies or parity have any",
            level.name()
        )));
    }
    let bar = progress::bar(verb, total);
    let found = io
        .block_on(array.check(mode, |progress| bar.set_position(progress.position)))
        .map_err(|source| Failure::Process { doing, source })?;
    bar.finish_and_clear();
    Ok(Report::of(array, &found))
}

//! Scrubs and resilvers beside what the drives give one behind the other.

use brindle_io::{Duration, Io, MemberId};
use brindle_pool::Replacement;
use brindle_volume::{LoneMember, Volume as _};
use uuid::Uuid;

use crate::load::{Done, Kind, beside, closed, fill};
use crate::table::{Limit, head, line};
use crate::world::{BLOCK, Scale, Stage, bare, drive};

/// Bytes of a request by which drives are read and written one behind the other, and requests in flight.
const STRETCH: u64 = 1 << 20;
const IN_FLIGHT: usize = 8;
/// The member that is replaced.
const LOST: u16 = 3;

/// Requests of clients in flight, some eight of each member.
const CLIENTS: u64 = 96;

/// Prints the tables.
pub(crate) fn print(live: u64) {
    alone(live);
    with_clients(live);
}

/// Of disks that turn, members are twice as large and units have a MiB: some half a second goes for checkpoints and changes of the config,
/// whatever their size, and a unit is read from one end to the other.
fn scale(drive: &'static str, live: u64) -> Scale {
    match drive {
        "hdd-7200" => Scale { drive, unit: Some(1 << 20), ..Scale::of(8 * live, 70) },
        _ => Scale { drive, ..Scale::of(4 * live, 70) },
    }
}

fn alone(live: u64) {
    head("Scrubs and resilvers, raidz2 of twelve drives");
    for drive in ["p3700", "hdd-7200"] {
        let scale = scale(drive, live);
        let rates = [false, true].map(|writes| sequential(&scale, writes));
        let mut times = Vec::new();
        for (what, rounds) in [("in order", 0), ("after three random overwrites", 3)] {
            let mut stage = filled(&scale, rounds);
            scrub(&stage, &format!("{drive}, {what}"), rates[0]);
            times.push(resilver(&mut stage, &scale, &format!("{drive}, {what}"), Some(rates[1])));
            stage.end();
        }
        let few = Scale { live: scale.live / 7, percent: 10, ..scale.clone() };
        let mut stage = filled(&few, 0);
        let took = resilver(&mut stage, &few, "", None);
        stage.end();
        let share = 100.0 * took / times.first().copied().unwrap_or(1.0) * 0.7;
        let why = format!("{took:.2} s, and one that is 70 % full took {:.2}", times.first().unwrap_or(&0.0));
        line(
            &format!("{drive}, resilver of a pool that is 10 % full"),
            Limit::Most(12.0),
            share,
            " % of a full one's time",
            &why,
        );
    }
}

fn filled(scale: &Scale, rounds: u64) -> Stage {
    let stage = Stage::new(scale);
    fill(&stage.io, &stage.volume, 16);
    let volumes = core::slice::from_ref(&stage.volume);
    if rounds > 0 {
        closed(&stage.io, volumes, Kind::Write, 384, rounds * stage.blocks, 5);
    }
    stage.io.block_on(stage.pool.checkpoint()).expect("drives that are well");
    stage.io.block_on(quiet(&stage));
    stage
}

/// Waits until nothing works in the background.
async fn quiet(stage: &Stage) {
    loop {
        let busy = stage.pool.status().busy;
        if !busy.cleaning && !busy.resilvering && !busy.checkpoint && busy.reaping == 0 {
            return;
        }
        stage.io.sleep(Duration::from_millis(10)).await;
    }
}

/// Bytes a second of one drive alone that is read or written from its beginning to its end.
fn sequential(scale: &Scale, writes: bool) -> f64 {
    let (io, drives) = bare(scale);
    let began = io.now();
    let bytes = scale.member() / STRETCH * STRETCH;
    io.block_on(lanes(&io, &drives[0], bytes, writes));
    let rate = bytes as f64 / io.now().since(began).as_secs_f64();
    io.shutdown();
    rate
}

async fn lanes(io: &Io, drive: &LoneMember, bytes: u64, writes: bool) {
    let next = std::rc::Rc::new(core::cell::Cell::new(0));
    let memory = io.pool(IN_FLIGHT * STRETCH as usize + (1 << 20));
    let mut lanes = Vec::new();
    for _ in 0..IN_FLIGHT {
        let (next, drive, buf) = (next.clone(), drive.clone(), memory.alloc(STRETCH as usize).await);
        lanes.push(io.spawn(async move {
            while next.get() < bytes {
                let at = next.replace(next.get() + STRETCH);
                let slice = buf.all();
                let done =
                    if writes { drive.write(at, slice, false).await } else { drive.read(at, slice).await };
                done.expect("a drive that is well");
            }
        }));
    }
    for lane in lanes {
        lane.await;
    }
}

fn scrub(stage: &Stage, what: &str, rate: f64) {
    let ((read, _), began) = (stage.moved(), stage.io.now());
    let found = stage.io.block_on(stage.pool.check(|_| {})).expect("drives that are well");
    let took = stage.io.now().since(began).as_secs_f64();
    let read = (stage.moved().0 - read) as f64;
    let all = rate * stage.ids.len() as f64;
    let why = format!(
        "{:.2} GiB in {took:.2} s, {:.2} of what is stored with parity; a drive alone reads {:.0} MB/s",
        read / f64::from(1 << 30),
        read / (found.blocks as f64 * BLOCK as f64 * 1.2),
        rate / 1e6
    );
    line(
        &format!("{what}, scrub"),
        Limit::Least(80.0),
        100.0 * read / took / all,
        " % of the drives' reads",
        &why,
    );
}

/// Clients that read and write blocks at random while a scrub or a resilver goes on, and before it.
fn with_clients(live: u64) {
    head("Clients beside scrubs and resilvers: 4K at random, 96 in flight, raidz2 of twelve drives");
    for drive in ["p3700", "hdd-7200"] {
        let scale = scale(drive, live);
        // Writes are of a pool that is cleaned all the time: what is free by chance takes some at once.
        for (kind, what, rounds) in [(Kind::Read, "reads", 0), (Kind::Write, "writes", 3)] {
            let mut stage = filled(&scale, rounds);
            let count = if kind == Kind::Write || drive == "p3700" { 200_000 } else { 5_000 };
            let before = closed(&stage.io, core::slice::from_ref(&stage.volume), kind, CLIENTS, count, 4);
            let pool = stage.pool.clone();
            let during = beside(&stage.io, &stage.volume, kind, CLIENTS, async move {
                pool.check(|_| {}).await.expect("drives that are well");
            });
            told(&format!("{drive}, {what} beside a scrub"), &before, &during);
            let new = another(&mut stage, &scale);
            stage.io.block_on(stage.pool.fail(LOST)).expect("it can do without");
            let before = closed(&stage.io, core::slice::from_ref(&stage.volume), kind, CLIENTS, count, 4);
            let pool = stage.pool.clone();
            let io = stage.io.clone();
            let during = beside(&stage.io, &stage.volume, kind, CLIENTS, async move {
                pool.replace(LOST, new).await.expect("it is replaced");
                while pool.status().busy.resilvering {
                    io.sleep(Duration::from_millis(1)).await;
                }
            });
            told(&format!("{drive}, {what} beside a resilver"), &before, &during);
            stage.end();
        }
    }
}

fn told(what: &str, before: &Done, during: &Done) {
    let why =
        format!("{:.0} a second, {:.0} before; {} of them", during.rate, before.rate, during.took.len());
    line(
        &format!("{what}: rate"),
        Limit::Least(50.0),
        100.0 * during.rate / before.rate,
        " % of that before",
        &why,
    );
    let (now, then) = (during.within(990), before.within(990));
    line(
        &format!("{what}: p99"),
        Limit::Most(3.0),
        now / then,
        " times that before",
        &format!("{now:.0} us, {then:.0} before"),
    );
}

/// One more drive, to take the place of the member that is lost.
fn another(stage: &mut Stage, scale: &Scale) -> Replacement {
    let sim = stage.sim.clone().expect("modelled drives");
    let id: MemberId = sim.add_measured_drive(&drive(scale.drive).stations, scale.member());
    sim.keep_beginning(id, scale.member());
    stage.ids[usize::from(LOST)] = id;
    Replacement { name: "new".to_owned(), id, uuid: Uuid::from_u128(0xd15c) }
}

/// A member is lost and another takes its place. Gives the seconds until that has all.
fn resilver(stage: &mut Stage, scale: &Scale, what: &str, rate: Option<f64>) -> f64 {
    let with = another(stage, scale);
    let new = with.id;
    let began = stage.io.block_on(async {
        stage.pool.fail(LOST).await.expect("it can do without");
        let began = stage.io.now();
        stage.pool.replace(LOST, with).await.expect("it is replaced");
        quiet(stage).await;
        began
    });
    let took = stage.io.now().since(began).as_secs_f64();
    let written = stage.io.counters(new).bytes_written as f64;
    if let Some(rate) = rate {
        let why = format!(
            "{:.0} MiB in {took:.2} s; a drive alone writes {:.0} MB/s",
            written / f64::from(1 << 20),
            rate / 1e6
        );
        line(
            &format!("{what}, resilver"),
            Limit::Least(80.0),
            100.0 * written / took / rate,
            " % of the new drive's writes",
            &why,
        );
    }
    took
}

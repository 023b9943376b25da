//! How fast lost members are rebuilt, and what is left for clients meanwhile, of an array whose members are RAM.
//!
//! `cargo run --profile bench -p brindle-array --example recovery_throughput [--markdown] [--only=ARRAY] [SECONDS]`
//!
//! One thread, its own processor time. The members are larger than the caches together; copying them with `memcpy`, a
//! member after the other, is what a byte costs that is read and put somewhere else. How often each surviving byte was
//! read is counted. Rounds of one lost member, two, and copying take turns; medians of [`shared::TURNS`].

mod shared;

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::{Array, Device};
use brindle_io::memory::Memory;
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, Pool};
use brindle_layout::{Geometry, Layout, Level, ParityLayout};
use brindle_testkit::world::unguarded;
use brindle_volume::Volume;

use shared::{TURNS, arguments, median, next, processor_time};

/// Bytes of each member.
const MEMBER: u64 = 128 << 20;
const CHUNK: u64 = 64 << 10;
const MEMBERS: usize = 12;
/// Clients' requests: bytes, and how many at a time.
const SMALL: usize = 4 << 10;
const DEPTH: usize = 32;

/// The result of one round.
struct Rebuilt {
    /// Bytes of surviving members that were read for each nanosecond.
    read: f64,
    /// Bytes of lost members that were written for each nanosecond.
    written: f64,
    /// Bytes read for each byte of the members that survived.
    times: f64,
}

fn main() {
    let said = arguments("recovery_throughput [--markdown] [--only=ARRAY] [SECONDS of clients' reads]", 0.5);
    if !"RAID 6 x12".starts_with(&said.only) {
        return;
    }
    let memory = Memory::new();
    // One more than the array has for each that can be lost: what is rebuilt is rebuilt on another device.
    let ids: Vec<MemberId> = (0..MEMBERS + 2).map(|number| filled(&memory, number)).collect();
    let io = Io::new(Box::new(memory));
    let mut copies = Vec::new();
    let mut rounds: [Vec<Rebuilt>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        copies.push(copied());
        for (lost, rounds) in (1..).zip(&mut rounds) {
            rounds.push(rebuilt(&io, &ids, lost));
        }
    }
    let copying = median(copies);
    if said.markdown {
        println!(
            "| array | lost | read GB/s | rebuilt GB/s | times each byte was read | memcpy GB/s | ratio |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|");
    }
    for (lost, rounds) in (1..).zip(&rounds) {
        let of = |value: fn(&Rebuilt) -> f64| median(rounds.iter().map(value).collect());
        let (read, written, times) = (of(|r| r.read), of(|r| r.written), of(|r| r.times));
        let ratio = read / copying;
        if said.markdown {
            println!(
                "| RAID 6 x12 | {lost} | {read:.2} | {written:.2} | {times:.3} | {copying:.2} | {ratio:.2} |"
            );
        } else {
            println!(
                "RAID 6 x12  {lost} lost  read {read:>5.2} GB/s  rebuilt {written:.2}  each byte {times:.3} times  \
                 memcpy {copying:>5.2}  {ratio:.2}"
            );
        }
    }
    clients(&io, &ids, said.seconds, said.markdown);
}

/// A member whose every page is its own.
fn filled(memory: &Memory, number: usize) -> MemberId {
    let id = memory.add_ram(MEMBER);
    let byte = |at: u32| (at.wrapping_mul(0x9e37_79b9).wrapping_add(number as u32) >> 24) as u8;
    let pattern: Vec<u8> = (0..1 << 20).map(byte).collect();
    for offset in (0..MEMBER).step_by(pattern.len()) {
        memory.poke(id, offset, &pattern);
    }
    id
}

/// Bytes for each nanosecond that `memcpy` moves from memory to memory.
fn copied() -> f64 {
    let from = vec![1_u8; MEMBER as usize];
    let mut to = vec![0_u8; MEMBER as usize];
    let mut best = 0_f64;
    for _ in 0..3 {
        let began = processor_time();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        best = best.max(MEMBER as f64 / (processor_time() - began));
    }
    best
}

/// The array without its first `lost` members, whose content is not valid parity and need not be: computing does not depend
/// on it.
fn degraded(io: &Io, ids: &[MemberId], lost: usize) -> Array {
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    let geometry = Geometry::new(Level::Raid6, symmetric, CHUNK, &[MEMBER; MEMBERS]);
    let device = |(role, &id)| (role >= lost).then_some(Device { id, data_offset: 0 });
    let devices = ids[..MEMBERS].iter().enumerate().map(device).collect();
    unguarded(io, geometry.expect("the shape is possible"), devices)
}

/// The roles that are lost, with the devices on which they are rebuilt.
fn spares(ids: &[MemberId], lost: usize) -> Vec<(u16, Device)> {
    let spare = |(role, &id)| (role as u16, Device { id, data_offset: 0 });
    ids[MEMBERS..][..lost].iter().enumerate().map(spare).collect()
}

fn bytes_read(io: &Io, ids: &[MemberId]) -> u64 {
    ids.iter().map(|&id| io.counters(id).bytes_read).sum()
}

fn rebuilt(io: &Io, ids: &[MemberId], lost: usize) -> Rebuilt {
    let array = degraded(io, ids, lost);
    let survivors = &ids[lost..MEMBERS];
    let (before, began) = (bytes_read(io, survivors), processor_time());
    let ended = io.block_on(array.recover_all(&spares(ids, lost), |_| ()));
    let took = processor_time() - began;
    ended.expect("members in memory do not fail");
    let read = (bytes_read(io, survivors) - before) as f64;
    Rebuilt {
        read: read / took,
        written: lost as f64 * MEMBER as f64 / took,
        times: read / (survivors.len() as u64 * MEMBER) as f64,
    }
}

/// Reads of clients done so far, and whether they are to end.
#[derive(Default)]
struct Clients {
    done: Cell<u64>,
    end: Cell<bool>,
}

impl Clients {
    /// Reads at random places for as long as they may, [`DEPTH`] at a time.
    async fn read(self: Rc<Self>, io: Io, array: Array, pool: Pool) {
        let places = array.limits().size / SMALL as u64;
        let slots = (1..=DEPTH as u64).map(|seed| {
            let (this, array, pool) = (Rc::clone(&self), array.clone(), pool.clone());
            io.spawn(async move {
                let (buf, mut state) = (pool.alloc(SMALL).await, seed);
                while !this.end.get() {
                    let offset = next(&mut state, places) * SMALL as u64;
                    array.read(offset, buf.all()).await.expect("members in memory do not fail");
                    this.done.set(this.done.get() + 1);
                }
            })
        });
        join_all(slots.collect::<Vec<_>>()).await;
    }
}

/// Clients and a recovery measured side by side: each alone, then both at once.
fn clients(io: &Io, ids: &[MemberId], seconds: f64, markdown: bool) {
    let pool = io.pool(DEPTH * SMALL);
    let mut shares: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        let idle = rebuilt(io, ids, 1).written;
        let array = degraded(io, ids, 1);
        let alone = reads(io, &array, &pool, seconds / TURNS as f64);
        let (both, recovery) = reads_during_recovery(io, &array, &pool, &spares(ids, 1));
        shares[0].push(both / alone);
        shares[1].push(recovery / idle);
    }
    let [reads, recovery] = shares.map(|share| 100.0 * median(share));
    if markdown {
        println!(
            "\n| array | clients' 4K reads during recovery | recovery during clients' reads |\n|---|---:|---:|"
        );
        println!("| RAID 6 x12, one lost | {reads:.0} % of idle | {recovery:.0} % of idle |");
    } else {
        println!("RAID 6 x12  clients' 4K reads {reads:.0} % of idle, recovery {recovery:.0} % of idle");
    }
}

/// Reads of clients for each nanosecond, by themselves.
fn reads(io: &Io, array: &Array, pool: &Pool, seconds: f64) -> f64 {
    let clients = Rc::new(Clients::default());
    let began = processor_time();
    io.block_on(async {
        let reading = io.spawn(Rc::clone(&clients).read(io.clone(), array.clone(), pool.clone()));
        while processor_time() - began < seconds * 1e9 {
            io.yield_now().await;
        }
        clients.end.set(true);
        reading.await;
    });
    clients.done.get() as f64 / (processor_time() - began)
}

/// Reads of clients while a member is rebuilt, and bytes rebuilt for each nanosecond.
fn reads_during_recovery(io: &Io, array: &Array, pool: &Pool, spares: &[(u16, Device)]) -> (f64, f64) {
    let clients = Rc::new(Clients::default());
    let began = processor_time();
    io.block_on(async {
        let reading = io.spawn(Rc::clone(&clients).read(io.clone(), array.clone(), pool.clone()));
        array.recover_all(spares, |_| ()).await.expect("members in memory do not fail");
        clients.end.set(true);
        reading.await;
    });
    let took = processor_time() - began;
    (clients.done.get() as f64 / took, MEMBER as f64 / took)
}

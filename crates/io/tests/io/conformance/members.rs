//! Operations on members.

use brindle_io::{
    Buf, Io, MAX_BUF, MAX_SEGMENTS, Mapped, MemberId, OpClass, OpError, PAGE, PathTarget, Probe, Slice,
};

use crate::conformance::Stage;
use crate::conformance::worlds::{AtCommand, Pulls, World};

async fn write(io: &Io, member: MemberId, offset: u64, from: &Slice) -> Result<(), OpError> {
    let mut group = io.group();
    group.write(member, offset, from, false);
    group.submit().await.ok()
}

async fn read(io: &Io, member: MemberId, offset: u64, into: &Slice) -> Result<(), OpError> {
    let mut group = io.group();
    group.read(member, offset, into);
    group.submit().await.ok()
}

/// Bytes of which each tells its place.
fn paint(buf: &Buf, seed: usize) {
    for (at, byte) in buf.bytes_mut().iter_mut().enumerate() {
        *byte = (at + seed + (at >> 8) * 3 + (at >> 16) * 5) as u8;
    }
}

pub(crate) fn groups_write_and_read_back<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let members: Vec<_> = (0..4).map(|_| world.member(1 << 20)).collect();
    io.block_on(async {
        let (whole, back) = (pool.alloc(1 << 20).await, pool.alloc(1 << 20).await);
        paint(&whole, 1);
        // A stripe of 64 KiB chunks: each member gets four stretches as one operation.
        let mut writes = io.group();
        for chunk in 0..16usize {
            let part = whole.slice(chunk << 16..(chunk + 1) << 16);
            writes.write(members[chunk % 4], ((chunk / 4) << 16) as u64, &part, chunk >= 8);
        }
        assert_eq!(writes.len(), 8, "with FUA and without do not mix");
        writes.submit().await.ok().unwrap();
        let mut flush = io.group();
        for &member in &members {
            flush.flush(member);
        }
        flush.submit().await.ok().unwrap();
        let mut reads = io.group();
        for chunk in 0..16usize {
            let part = back.slice(chunk << 16..(chunk + 1) << 16);
            reads.read(members[chunk % 4], ((chunk / 4) << 16) as u64, &part);
        }
        assert_eq!(reads.len(), 4);
        reads.submit().await.ok().unwrap();
        assert!(*back.bytes() == *whole.bytes());
    });
}

/// The kernel takes a priority for transfers alone.
pub(crate) fn every_class_is_carried_out<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(1 << 20);
    for class in [OpClass::Client, OpClass::Repair, OpClass::Metadata] {
        io.block_on(async {
            let (from, back) = (pool.alloc(64 << 10).await, pool.alloc(64 << 10).await);
            paint(&from, class as usize + 1);
            let mut write = io.group_of(class);
            write.write(member, 0, &from.all(), true);
            write.write_zeroes(member, 1 << 19, 64 << 10, false);
            write.submit().await.ok().unwrap();
            let mut rest = io.group_of(class);
            // Stretches of several buffers go to the kernel as a vector.
            rest.read(member, 0, &back.slice(0..4096));
            rest.read(member, 4096, &pool.alloc(4096).await.all());
            rest.read(member, 8192, &back.slice(8192..64 << 10));
            rest.flush(member);
            rest.submit().await.ok().unwrap();
            assert!(
                back.bytes()[8192..] == from.bytes()[8192..] && back.bytes()[..4096] == from.bytes()[..4096]
            );
        });
    }
}

pub(crate) fn any_count_of_blocks_at_any_place<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(1 << 20);
    let block = io.member_info(member).unwrap().logical_block as usize;
    io.block_on(async {
        let (from, into) = (pool.alloc(64 << 10).await, pool.alloc(64 << 10).await);
        for count in 1..=17 {
            for place in 0..9 {
                paint(&from, count * 31 + place);
                let (len, skip) = (count * block, place * block);
                let offset = (skip * 3) as u64;
                write(io, member, offset, &from.slice(skip..skip + len)).await.unwrap();
                // Back to another place in memory.
                read(io, member, offset, &into.slice(skip + block..skip + block + len)).await.unwrap();
                let same = into.bytes()[skip + block..][..len] == from.bytes()[skip..][..len];
                assert!(same, "{count} blocks at block {place}");
            }
        }
    });
}

pub(crate) fn many_stretches_are_one_operation<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let count = MAX_SEGMENTS + 10;
    let member = world.member((count * PAGE) as u64);
    io.block_on(async {
        let buffers: Vec<_> = (0..count).map(|_| pool.try_alloc(PAGE).unwrap()).collect();
        // Backwards, so that no two are neighbours in memory.
        let mut writes = io.group();
        for (at, buf) in buffers.iter().rev().enumerate() {
            paint(buf, at);
            writes.write(member, (at * PAGE) as u64, &buf.all(), false);
        }
        assert!(writes.len() <= 2);
        writes.submit().await.ok().unwrap();
        for at in [0, 1, MAX_SEGMENTS - 1, MAX_SEGMENTS, count - 1] {
            let (back, right) = (pool.alloc(PAGE).await, pool.alloc(PAGE).await);
            paint(&right, at);
            read(io, member, (at * PAGE) as u64, &back.all()).await.unwrap();
            assert!(*back.bytes() == *right.bytes(), "stretch {at}");
        }
    });
}

pub(crate) fn the_largest_buffer_moves_whole<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(MAX_BUF as u64);
    io.block_on(async {
        let buf = pool.alloc(MAX_BUF).await;
        paint(&buf, 3);
        write(io, member, 0, &buf.all()).await.unwrap();
        let last = pool.alloc(1 << 20).await;
        read(io, member, (MAX_BUF - (1 << 20)) as u64, &last.all()).await.unwrap();
        assert!(last.bytes()[..] == buf.bytes()[MAX_BUF - (1 << 20)..]);
    });
}

pub(crate) fn zeroed_ranges_read_as_zeroes<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(1 << 20);
    io.block_on(async {
        let (ones, back) = (pool.alloc(1 << 20).await, pool.alloc(1 << 20).await);
        ones.bytes_mut().fill(1);
        for may_unmap in [false, true] {
            write(io, member, 0, &ones.all()).await.unwrap();
            let mut zero = io.group();
            zero.write_zeroes(member, 64 << 10, 128 << 10, may_unmap);
            zero.write_zeroes(member, 512 << 10, 4096, may_unmap);
            let done = match zero.submit().await.ok() {
                Ok(()) => true,
                Err(OpError::Unsupported) => false, // and then the engine writes zeroes
                Err(other) => panic!("{other}"),
            };
            read(io, member, 0, &back.all()).await.unwrap();
            let places = |at: usize| (64..192).contains(&(at >> 10)) || (512..516).contains(&(at >> 10));
            let zeroed = |at: usize| done && places(at);
            assert!(back.bytes().iter().enumerate().all(|(at, &byte)| byte == u8::from(!zeroed(at))));
        }
    });
}

pub(crate) fn a_discard_leaves_the_rest_alone<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(1 << 20);
    io.block_on(async {
        let (ones, back) = (pool.alloc(1 << 20).await, pool.alloc(1 << 20).await);
        ones.bytes_mut().fill(1);
        write(io, member, 0, &ones.all()).await.unwrap();
        let mut discard = io.group();
        discard.discard(member, 64 << 10, 64 << 10);
        let done = discard.submit().await.ok();
        assert!(matches!(done, Ok(()) | Err(OpError::Unsupported)), "{done:?}");
        read(io, member, 0, &back.all()).await.unwrap();
        let rest = |at: usize| done.is_err() || !(64..128).contains(&(at >> 10));
        assert!(back.bytes().iter().enumerate().all(|(at, &byte)| byte == 1 || !rest(at)));
        write(io, member, 64 << 10, &ones.slice(0..4096)).await.unwrap();
        read(io, member, 64 << 10, &back.slice(0..4096)).await.unwrap();
        assert!(back.bytes()[..4096].iter().all(|&byte| byte == 1), "what is written again is there");
    });
}

pub(crate) fn short_transfers_are_carried_on<W: AtCommand>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    for block in [512, 4096] {
        let member = world.member_of_blocks(1 << 20, block);
        world.shorten(member);
        io.block_on(async {
            // Stretches that begin and end anywhere in memory, so that short ones end within them.
            let (from, back) = (pool.alloc(256 << 10).await, pool.alloc(256 << 10).await);
            paint(&from, 9);
            let cuts = [0, 4096, 20480, 24576, 131_072, 256 << 10];
            for (first, buf) in [(true, &from), (false, &back)] {
                let mut group = io.group();
                for cut in cuts.windows(2) {
                    let (part, at) = (buf.slice(cut[0]..cut[1]), cut[0] as u64 + 8192);
                    match first {
                        true => group.write(member, at, &part, false),
                        false => group.read(member, at, &part),
                    };
                }
                group.submit().await.ok().unwrap();
            }
            assert!(*back.bytes() == *from.bytes());
        });
    }
}

pub(crate) fn a_pulled_member_is_gone_not_full<W: Pulls>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    // Each is the first that the member is asked after it was pulled.
    for first in 0..6 {
        let member = world.to_be_pulled(1 << 20);
        io.block_on(async {
            let buf = pool.alloc(64 << 10).await;
            write(io, member, 0, &buf.all()).await.unwrap();
            world.pull(member);
            for n in 0..6 {
                let mut group = io.group();
                match (first + n) % 6 {
                    0 => group.write(member, 4096, &buf.all(), false),
                    1 => group.read(member, 4096, &buf.all()),
                    2 => group.write(member, 0, &buf.slice(0..4096), true),
                    3 => group.write_zeroes(member, 4096, 4096, true),
                    4 => group.write_zeroes(member, 0, 128 << 10, false),
                    _ => group.discard(member, 0, 1 << 20),
                };
                assert_eq!(group.submit().await.ok(), Err(OpError::Gone), "{first} {n}");
            }
            let until = io.now().after(brindle_io::Duration::from_secs(600));
            assert_eq!(io.probe(member, until).await.map(|probe| probe.size), Ok(0));
        });
    }
}

pub(crate) fn a_member_that_hangs_keeps_only_its_own<W: AtCommand>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let (hangs, other) = (world.member(1 << 20), world.member(1 << 20));
    world.hang(hangs);
    let (io2, pool2) = (io.clone(), pool.clone());
    let waiting = io.spawn(async move {
        let buf = pool2.alloc(PAGE).await;
        buf.bytes_mut().fill(5);
        write(&io2, hangs, 0, &buf.all()).await
    });
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        for _ in 0..10 {
            read(io, other, 0, &buf.all()).await.unwrap();
        }
        assert_eq!(io.in_flight(), 1);
        world.release(hangs);
        waiting.await.unwrap();
        read(io, hangs, 0, &buf.all()).await.unwrap();
        assert!(buf.bytes().iter().all(|&byte| byte == 5));
        // A caller with a deadline gets an answer in time, while the operation goes on.
        world.hang(hangs);
        let other = pool.alloc(PAGE).await;
        other.bytes_mut().fill(6);
        let mut group = io.group();
        group.write(hangs, 0, &other.all(), false);
        let until = io.now().after(brindle_io::Duration::from_millis(5));
        assert_eq!(group.submit_by(until).await.ok(), Err(OpError::TimedOut));
        assert!(io.now() >= until && io.orphans(hangs) == 1);
        world.release(hangs);
        io.orphans_ended(hangs).await;
        read(io, hangs, 0, &buf.all()).await.unwrap();
        assert!(buf.bytes().iter().all(|&byte| byte == 6), "it has landed late");
        // An end with one that hangs still.
        world.hang(hangs);
        let mut group = io.group();
        group.read(hangs, 0, &buf.all());
        drop(group.submit());
    });
    io.set_grace(brindle_io::Duration::from_millis(1));
    io.shutdown();
    assert_eq!((io.in_flight(), io.orphans(hangs)), (1, 1));
    world.release(hangs);
    io.block_on(io.orphans_ended(hangs));
}

pub(crate) fn beyond_the_end_is_an_error<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(1 << 20);
    io.block_on(async {
        let buf = pool.alloc(2 * PAGE).await;
        let last = (1 << 20) - PAGE as u64;
        for offset in [last, 1 << 20, 1 << 40, u64::MAX - 4095] {
            assert_eq!(write(io, member, offset, &buf.all()).await, Err(OpError::OutOfRange));
            assert_eq!(read(io, member, offset, &buf.all()).await, Err(OpError::OutOfRange));
            let mut group = io.group();
            group.write_zeroes(member, offset, 2 * PAGE as u64, false);
            group.discard(member, offset, 2 * PAGE as u64);
            let errors: Vec<_> = group.submit().await.failures().iter().map(|f| f.error).collect();
            assert_eq!(errors, [OpError::OutOfRange; 2]);
        }
        write(io, member, last, &buf.slice(0..PAGE)).await.unwrap();
        assert_eq!(io.member_info(member).unwrap().size, 1 << 20);
    });
}

pub(crate) fn a_probe_tells_size_and_place<W: World>(stage: &Stage<W>) {
    let Stage { io, world, .. } = stage;
    let (member, closed) = (world.member(1 << 20), world.member(1 << 20));
    world.close_member(closed);
    io.block_on(async {
        let until = io.now().after(brindle_io::Duration::from_secs(3600));
        let probe = io.probe(member, until).await.unwrap();
        assert_eq!(probe, Probe { size: 1 << 20, place: PathTarget::There });
        assert_eq!(io.probe(closed, until).await, Err(OpError::Gone));
        assert_eq!(io.probe(MemberId::device(999), until).await, Err(OpError::Gone));
    });
}

pub(crate) fn a_closed_member_is_gone<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let (closed, open) = (world.member(1 << 20), world.member(1 << 20));
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        write(io, closed, 0, &buf.all()).await.unwrap();
        world.close_member(closed);
        let mut group = io.group();
        group.write(closed, 0, &buf.all(), true);
        let fine = group.write(open, 0, &buf.all(), true);
        group.flush(closed);
        let outcome = group.submit().await;
        assert!(outcome.failures().iter().all(|f| f.error == OpError::Gone && f.tag != fine));
        assert_eq!(outcome.failures().len(), 2);
        assert_eq!(read(io, MemberId::device(999), 0, &buf.all()).await, Err(OpError::Gone));
    });
}

/// More than the rings of any world hold.
pub(crate) fn thousands_in_flight<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let members = [world.member(32 << 20), world.member(32 << 20)];
    let count = 7000;
    // Every other page, so that none continues another.
    let place = |at: usize| (members[at % 2], (at / 2 * 2 * PAGE) as u64);
    io.block_on(async {
        // A file system takes milliseconds to find room for each scattered write to a hole.
        let zeroes = pool.alloc(32 << 20).await;
        for member in members {
            write(io, member, 0, &zeroes.all()).await.unwrap();
        }
        drop(zeroes);
        let buffers: Vec<_> = (0..count).map(|_| pool.try_alloc(PAGE).unwrap()).collect();
        let mut writes = io.group();
        for (at, buf) in buffers.iter().enumerate() {
            buf.bytes_mut().fill(at as u8 ^ (at >> 8) as u8);
            writes.write(place(at).0, place(at).1, &buf.all(), false);
        }
        assert_eq!(writes.len(), count);
        let pending = writes.submit();
        assert_eq!(io.in_flight(), count);
        pending.await.ok().unwrap();
        buffers.iter().for_each(|buf| buf.bytes_mut().fill(0));
        let mut reads = io.group();
        for (at, buf) in buffers.iter().enumerate() {
            reads.read(place(at).0, place(at).1, &buf.all());
        }
        reads.submit().await.ok().unwrap();
        for (at, buf) in buffers.iter().enumerate() {
            assert!(buf.bytes().iter().all(|&byte| byte == at as u8 ^ (at >> 8) as u8), "page {at}");
        }
    });
}

pub(crate) fn dropped_futures_give_their_memory_back<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(4 << 20);
    io.block_on(async {
        for round in 0..200u64 {
            let (a, b) = (pool.alloc(PAGE).await, pool.alloc(3 * PAGE).await);
            a.bytes_mut().fill(round as u8);
            let mut group = io.group();
            group.write(member, round * 2 * PAGE as u64, &a.all(), false);
            group.read(member, 2 << 20, &b.all());
            drop(group.submit());
        }
        assert!(io.in_flight() > 0);
        while io.in_flight() > 0 {
            io.sleep(brindle_io::Duration::from_micros(100)).await;
        }
        assert_eq!(pool.free_bytes(), pool.capacity());
        // No task waited, and yet all of it was done.
        let back = pool.alloc(PAGE).await;
        for round in 0..200u64 {
            read(io, member, round * 2 * PAGE as u64, &back.all()).await.unwrap();
            assert_eq!(back.bytes()[PAGE - 1], round as u8);
        }
    });
}

pub(crate) fn an_executor_ends_with_operations_in_flight<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let member = world.member(16 << 20);
    io.block_on(async {
        for at in 0..32 {
            let buf = pool.alloc(256 << 10).await;
            let mut group = io.group();
            if at % 2 == 0 {
                group.read(member, at * (256 << 10), &buf.all());
            } else {
                group.write(member, at * (256 << 10), &buf.all(), true);
            }
            drop(group.submit());
        }
    });
    assert_eq!(io.in_flight(), 32, "`stage` shuts down now");
}

/// The answers about a member from a place on, one stretch after the other.
async fn mapped(io: &Io, member: MemberId, bytes: u64) -> Vec<(u64, bool)> {
    let (mut at, mut reported) = (0, Vec::new());
    while at < bytes {
        let Mapped { len, hole } = io.map(member, at, bytes - at).await.unwrap();
        assert!(len > 0 && at + len <= bytes, "{len} bytes at {at}");
        reported.push((len, hole));
        at += len;
    }
    reported
}

pub(crate) fn holes_are_told_where_nothing_was_written<W: World>(stage: &Stage<W>) {
    const SIZE: u64 = 1 << 20;
    let Stage { io, pool, world } = stage;
    let (member, full, closed) = (world.member(SIZE), world.member(SIZE), world.member(SIZE));
    world.close_member(closed);
    io.block_on(async {
        let buf = pool.alloc(SIZE as usize).await;
        buf.bytes_mut().fill(7);
        write(io, member, SIZE / 4, &buf.slice(0..SIZE as usize / 8)).await.unwrap();
        write(io, full, 0, &buf.all()).await.unwrap();
        let (reported, whole) = (mapped(io, member, SIZE).await, mapped(io, full, SIZE).await);
        assert!(whole.iter().all(|&(_, hole)| !hole), "{whole:?}");
        if world.tells_holes() {
            assert_eq!(reported, [(SIZE / 4, true), (SIZE / 8, false), (SIZE * 5 / 8, true)]);
            // Asked from the middle of a stretch.
            let middle = io.map(member, SIZE / 4 + 4096, SIZE / 2).await;
            assert_eq!(middle, Ok(Mapped { len: SIZE / 8 - 4096, hole: false }));
        } else {
            assert!(reported.iter().all(|&(_, hole)| !hole), "{reported:?}");
        }
        assert_eq!(io.map(member, SIZE - 4096, 8192).await, Err(OpError::OutOfRange));
        assert_eq!(io.map(closed, 0, SIZE).await, Err(OpError::Gone));
        assert_eq!(io.map(MemberId::device(999), 0, SIZE).await, Err(OpError::Gone));
        // Several at once, dropped before they are answered among them.
        let asked: Vec<_> = (0..100).map(|at| io.map(member, at * 4096, SIZE - at * 4096)).collect();
        drop(io.map(full, 0, SIZE));
        for (at, answer) in asked.into_iter().enumerate() {
            let hole = answer.await.unwrap().hole;
            assert!(!hole || world.tells_holes() && !(64..96).contains(&at), "{at}");
            // Between, little is left of the hole.
            assert!(hole || !world.tells_holes() || (49..96).contains(&at), "{at}");
        }
    });
}

/// A change under way is known until it has ended, even if its caller is gone.
pub(crate) fn changes_under_way_are_known<W: AtCommand>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let (member, other) = (world.member(1 << 20), world.member(1 << 20));
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        world.hang(member);
        let mut group = io.group();
        group.write(member, 8192, &buf.all(), false);
        group.discard(member, 65536, 512);
        group.write_zeroes(member, 0, 4096, true);
        group.flush(member);
        let until = io.now().after(brindle_io::Duration::from_millis(1));
        let pending = group.submit_by(until);
        io.yield_now().await;
        let mut changing = io.changing(member);
        changing.sort_by_key(|range| range.start);
        assert_eq!(changing, [0..4096, 8192..12288, 65536..66048]);
        assert!(!pending.await.is_ok(), "given up");
        assert_eq!(io.changing(member).len(), 3, "and may land yet");
        assert!(io.changing(other).is_empty());
        world.release(member);
        io.orphans_ended(member).await;
        assert!(io.changing(member).is_empty());
    });
}

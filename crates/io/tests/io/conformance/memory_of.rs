//! The memory of pools: when it is taken, and when it is given back.

use brindle_io::{Duration, Io, NoMemory, PAGE, Pool, Source};

use crate::conformance::Stage;
use crate::conformance::worlds::World;

/// Bytes of an arena.
const ARENA: usize = 4 << 20;

fn in_use(io: &Io) -> (usize, usize) {
    (io.arenas(), io.arena_bytes())
}

pub(crate) fn a_pool_ends_with_its_last_buffer<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let member = stage.world.member(1 << 20);
    assert_eq!(in_use(io), (0, 0), "nobody has asked the stage's pool for anything");
    for round in 0..1000 {
        let pool = io.pool(9 << 20);
        assert_eq!(in_use(io), (0, 0), "round {round}");
        let buf = pool.try_alloc(PAGE).unwrap();
        buf.bytes_mut().fill(round as u8);
        let mut group = io.group();
        group.write(member, 0, &buf.all(), false);
        io.block_on(group.submit()).ok().unwrap();
        drop(pool);
        assert_eq!(in_use(io), (1, ARENA), "round {round}");
        assert!(buf.bytes().iter().all(|&byte| byte == round as u8), "round {round}");
    }
    assert_eq!(in_use(io), (0, 0));
}

pub(crate) fn a_pool_ends_with_its_last_operation<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let member = stage.world.member(1 << 20);
    io.block_on(async {
        let pool = io.pool(1 << 20);
        let mut group = io.group();
        group.read(member, 0, &pool.alloc(64 << 10).await.all());
        drop((group.submit(), pool));
        assert_eq!(
            (io.in_flight(), in_use(io)),
            (1, (1, 1 << 20)),
            "nobody waits, but a device has the memory"
        );
        while io.in_flight() > 0 {
            io.sleep(Duration::from_micros(100)).await;
        }
        assert_eq!(in_use(io), (0, 0));
    });
}

/// Buffers of these sizes, for as long as the pool has room.
fn fill(pool: &Pool, len: usize) -> usize {
    let buffers: Vec<_> = std::iter::from_fn(|| pool.try_alloc(len)).collect();
    buffers.len()
}

pub(crate) fn pools_take_what_they_need<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let pool = io.pool((77 << 20) + PAGE);
    let small = pool.try_alloc(PAGE).unwrap();
    assert_eq!(in_use(io), (1, ARENA));
    let large = pool.try_alloc(32 << 20).expect("there is room beside the small one");
    assert_eq!(in_use(io), (9, 9 * ARENA));
    assert!(pool.try_alloc(32 << 20).is_none());
    drop((small, large));
    // All of the memory is available in pieces of any size, whatever its earlier use.
    assert_eq!(fill(&pool, PAGE), (77 << 20) / PAGE + 1);
    assert_eq!(in_use(io), (20, (77 << 20) + PAGE), "the last one is short");
    assert_eq!(fill(&pool, 4 << 20), 19);
    assert_eq!(fill(&pool, 16 << 20), 4);
    assert_eq!(fill(&pool, 32 << 20), 2);
    assert_eq!(fill(&pool, 64 << 10), 77 * 16);
}

pub(crate) fn pools_give_back_what_nobody_needs<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let (member, pool) = (stage.world.member(1 << 20), io.pool(64 << 20));
    let mut buffers: Vec<_> = std::iter::from_fn(|| pool.try_alloc(1 << 20)).collect();
    for (at, buf) in buffers.iter().enumerate() {
        buf.bytes_mut().fill(at as u8);
    }
    assert_eq!(in_use(io), (16, 16 * ARENA));
    // One buffer of an arena stays in use. The first arena is kept for later buffers.
    let kept = buffers.swap_remove(13 * 4);
    drop(buffers);
    io.block_on(async {
        for _ in 0..6000 {
            if in_use(io) == (2, 2 * ARENA) {
                break;
            }
            io.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(in_use(io), (2, 2 * ARENA));
        // This memory was never handed out twice, and freed memory is available again.
        assert!(kept.bytes().iter().all(|&byte| byte == kept.bytes()[0]));
        let large = pool.alloc(32 << 20).await;
        large.bytes_mut().fill(1);
        let mut group = io.group();
        group.read(member, 0, &large.slice((4 << 20) - (64 << 10)..(4 << 20) + (64 << 10)));
        group.submit().await.ok().unwrap();
        let read = |range: std::ops::Range<usize>| large.bytes()[range].iter().all(|&byte| byte == 0);
        assert!(read((4 << 20) - (64 << 10)..(4 << 20) + (64 << 10)), "across the border of two arenas");
        assert!(pool.try_alloc(32 << 20).is_none(), "one buffer is in use");
        drop((kept, large));
        assert_eq!(fill(&pool, 32 << 20), 2);
    });
}

/// Whether there are enough of them is the machine's affair; what comes of it is not.
pub(crate) fn huge_pages_carry_requests_or_are_refused_at_once<W: World>(stage: &Stage<W>) {
    let (io, member) = (&stage.io, stage.world.member(8 << 20));
    let pool = match io.pool_of(Source::HugePages, 3 << 20) {
        Ok(pool) => pool,
        Err(why) => {
            let NoMemory { kind, bytes, errno } = why;
            assert!(kind == Source::HugePages && bytes >= 3 << 20, "{why}");
            assert!([12, 22].contains(&errno), "{why}");
            assert_eq!(in_use(io), (0, 0));
            return;
        }
    };
    assert!(pool.capacity().is_multiple_of(2 << 20), "whole huge pages: {}", pool.capacity());
    io.block_on(async {
        let (from, back) = (pool.alloc(1 << 20).await, pool.alloc(1 << 20).await);
        from.bytes_mut().fill(9);
        let mut group = io.group();
        group.write(member, 4096, &from.all(), false);
        group.submit().await.ok().unwrap();
        let mut group = io.group();
        group.read(member, 4096, &back.all());
        group.submit().await.ok().unwrap();
        assert!(*back.bytes() == *from.bytes());
    });
    drop(pool);
    assert_eq!(in_use(io), (0, 0));
}

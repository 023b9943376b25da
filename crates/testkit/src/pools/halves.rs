//! Halves of a pool that both go on, each without the other: that is found out, one side is taken when somebody says which, and nothing
//! of the other is believed from then on.

use brindle_io::sim::{Model, Sim};
use brindle_io::{Io, MemberId};
use brindle_pool::{How, Looked, Pool, PoolOpenError, choose, look, open_chosen};
use brindle_volume::Volume;

use super::boot::NAME;
use super::few::copy_of;
use super::house::{House, Kind};
use crate::oracle::Oracle;
use crate::random::Random;

/// The block that both sides write, and what to.
const BLOCK: u64 = 0;
const MARKS: [u8; 2] = [0x11, 0x22];

/// Members of two halves that can do without each other, if the pool has such.
fn halves(kind: Kind) -> Option<[Vec<usize>; 2]> {
    let (parity, count) = match kind {
        Kind::Mirror(count) => (count - 1, count),
        Kind::Raidz(parity, count) => (usize::from(parity), count),
        Kind::Plain(_) | Kind::Two | Kind::Unlike | Kind::Mixed => return None,
    };
    let left = count.div_ceil(2);
    (left <= parity && count - left <= parity).then(|| [(0..left).collect(), (left..count).collect()])
}

/// Has copies of a pool's halves go on apart, and takes one of them.
///
/// # Errors
/// A promise that was broken.
pub(super) fn apart(sim: &Sim, house: &House, oracle: &Oracle, random: &mut Random) -> Result<(), String> {
    let Some(halves) = halves(house.kind).filter(|_| house.more.is_empty()) else { return Ok(()) };
    let copy = Sim::new(1);
    let all: Vec<MemberId> =
        house.ids.iter().map(|&id| copy_of(sim, id, &copy, Model::nvme(), house.size)).collect();
    let io = Io::new(Box::new(copy));
    let taken = random.below(2) as usize;
    let done = io.block_on(go_apart(&io, house, &all, &halves, taken, oracle));
    io.shutdown();
    done.map_err(|why| format!("halves {halves:?}, of which {taken} is taken: {why}"))
}

async fn go_apart(
    io: &Io,
    house: &House,
    all: &[MemberId],
    halves: &[Vec<usize>; 2],
    taken: usize,
    oracle: &Oracle,
) -> Result<(), String> {
    let looked = look_at(io, all).await?;
    let head = choose(&looked, None).map_err(|why| why.to_string())?.head;
    if (0..all.len() as u16).any(|member| head.is_out(member)) {
        return Ok(());
    }
    let buf = io.pool(4096).alloc(4096).await;
    for (half, mark) in halves.iter().zip(MARKS) {
        let ids: Vec<MemberId> = half.iter().map(|&n| all[n]).collect();
        let pool =
            open(io, house, &ids, None, 0x7000 + u64::from(mark)).await.map_err(|why| why.to_string())?;
        let Some(volume) = pool.volume(NAME) else { return Ok(()) };
        buf.bytes_mut().fill(mark);
        volume.write(BLOCK * 4096, buf.all(), true).await.map_err(|why| format!("{half:?} writes: {why}"))?;
        pool.rename(&format!("half-{mark}")).await.map_err(|why| why.to_string())?;
        pool.stop().await.map_err(|why| why.to_string())?;
    }
    match open(io, house, all, None, 0x7003).await {
        Err(PoolOpenError::Diverged { .. }) => {}
        Err(other) => return Err(format!("refused for another reason: {other}")),
        Ok(_) => return Err("both went on, and one was taken unasked".to_owned()),
    }
    let side = (0, halves[taken][0] as u16);
    for (take, opening) in [(Some(side), 0x7005), (None, 0x7007)] {
        let pool = open(io, house, all, take, opening).await.map_err(|why| why.to_string())?;
        holds(io, &pool, MARKS[taken], oracle).await?;
        if pool.label().name != format!("half-{}", MARKS[taken]) {
            return Err(format!("it is called {}", pool.label().name));
        }
        let members = pool.status().members;
        let is_out = |n: &usize| members[*n].device.is_none();
        if !halves[1 - taken].iter().all(is_out) || halves[taken].iter().any(is_out) {
            return Err(format!("others are in use than should be: {members:?}"));
        }
        let found = pool.check(|_| {}).await.map_err(|why| why.to_string())?;
        if found.wrong + found.lost + found.mismatches > 0 {
            return Err(format!("{found:?}"));
        }
        pool.stop().await.map_err(|why| why.to_string())?;
    }
    Ok(())
}

async fn look_at(io: &Io, ids: &[MemberId]) -> Result<Vec<Looked>, String> {
    let mut looked = Vec::new();
    for &id in ids {
        looked.push(look(io, "a member", id).await.map_err(|why| why.to_string())?);
    }
    Ok(looked)
}

async fn open(
    io: &Io,
    house: &House,
    ids: &[MemberId],
    take: Option<(usize, u16)>,
    opening: u64,
) -> Result<Pool, PoolOpenError> {
    let mut looked = Vec::new();
    for &id in ids {
        looked.push(look(io, "a member", id).await?);
    }
    let opened = open_chosen(io, choose(&looked, take)?, How::degraded(opening), house.config()).await;
    opened.map(|(pool, _)| pool)
}

/// The block that both wrote is that of one side, and all else is as it was.
async fn holds(io: &Io, pool: &Pool, mark: u8, oracle: &Oracle) -> Result<(), String> {
    let volume = pool.volume(NAME).ok_or("the volume is gone")?;
    let (mut oracle, buf) = (oracle.clone(), io.pool(4096).alloc(4096).await);
    for offset in (0..volume.limits().size).step_by(4096) {
        let began = oracle.read_begins();
        volume.read(offset, buf.all()).await.map_err(|why| format!("byte {offset}: {why}"))?;
        let bytes = buf.bytes();
        if offset != BLOCK * 4096 {
            oracle.judge(began, offset, &bytes).map_err(|wrong| wrong.to_string())?;
        } else if bytes.iter().any(|&byte| byte != mark) {
            return Err(format!("it holds {:#x} where {mark:#x} was written", bytes[0]));
        }
    }
    Ok(())
}

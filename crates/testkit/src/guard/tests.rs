use std::panic::{AssertUnwindSafe, catch_unwind};

use brindle_io::memory::Memory;
use brindle_io::{Io, Pool};
use brindle_layout::{Layout, Level};

use super::*;

const CHUNK: u64 = 4096;

/// Two data blocks a row; P of row 0 is on role 2.
fn raid5() -> Guard {
    guard(Level::Raid5, "left-symmetric", 3)
}

fn guard(level: Level, layout: &str, members: usize) -> Guard {
    let layout = Layout::parse(level, layout).expect("a layout");
    Guard::new(&Geometry::new(level, layout, CHUNK, &vec![16 * CHUNK; members]).expect("a geometry"))
}

fn pool() -> Pool {
    Io::new(Box::new(Memory::new())).pool(1 << 20)
}

/// Bytes for a member.
fn bytes(pool: &Pool, role: u16, offset: u64, fill: &[u8]) -> MemberChange {
    let buf = pool.try_alloc(fill.len()).expect("memory");
    buf.bytes_mut().copy_from_slice(fill);
    let content = Content::Bytes(vec![buf.all()]);
    MemberChange { role, offset, len: fill.len() as u64, content }
}

fn zeroes(role: u16, offset: u64, len: u64) -> MemberChange {
    MemberChange { role, offset, len, content: Content::Zeroes }
}

/// Why something is refused, if it is.
fn why(work: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(panic.downcast_ref::<String>().expect("a text").clone())
}

fn announce(guard: &Guard, range: Range<u64>, changes: &[MemberChange]) {
    guard.computed(&Computed { range, changes: changes.to_vec() });
}

#[test]
fn what_is_within_what_has_begun_passes_and_nothing_else() {
    // Copies on roles 0 and 1, then on 2 and 3.
    let guard = guard(Level::Raid10, "n2", 4);
    let change = Change::Bytes(512..CHUNK + 1024);
    guard.begins(&change);
    let passes = |role, offset, len| why(|| guard.sent(&zeroes(role, offset, len))).is_none();
    assert!(passes(0, 512, CHUNK - 512) && passes(1, 1024, 512) && passes(3, 0, 1024));
    assert!(!passes(0, 0, 1024), "it begins before");
    assert!(!passes(2, 0, 1536), "it ends behind");
    assert!(!passes(0, 512, CHUNK), "the next chunk is another's");
    guard.begins(&Change::Member { role: 2, range: 1024..2048 });
    assert!(passes(2, 0, 1536), "two changes that touch cover what they cover together");
    assert!(!passes(3, 0, 1536), "that is another member");
    guard.ends(&change);
    let text = why(|| guard.sent(&zeroes(3, 0, 1024))).expect("it has ended");
    assert!(text.contains("zeroes of 0..1024 of the data area of role 3's member"), "{text}");
    assert!(text.contains("Data { array_offset: 4096"), "{text}");
    assert!(why(|| guard.ends(&change)).is_some_and(|text| text.contains("never began")));
}

#[test]
fn parity_changes_with_the_columns_that_change() {
    let guard = raid5();
    let passes = |role, offset, len| why(|| guard.check_begun(&zeroes(role, offset, len))).is_none();
    // The end of the row's first block and the beginning of its second.
    guard.begins(&Change::Bytes(CHUNK - 512..CHUNK + 512));
    assert!(passes(2, 0, 512) && passes(2, CHUNK - 512, 512));
    assert!(!passes(2, 512, 512) && !passes(2, 0, CHUNK));
    assert!(!passes(2, CHUNK, 512), "that is the next row");
    guard.begins(&Change::Redundancy(0..CHUNK));
    assert!(passes(2, 0, CHUNK) && passes(0, 0, CHUNK) && !passes(0, CHUNK, 512));
}

#[test]
fn rows_are_written_as_they_were_announced_and_once() {
    let (guard, pool) = (raid5(), pool());
    guard.begins(&Change::Bytes(0..4 * CHUNK));
    let row = [bytes(&pool, 0, 0, &[1; 512]), bytes(&pool, 2, 0, &[2; 512])];
    assert!(why(|| guard.sent(&row[0])).is_some_and(|text| text.contains("not announced")));
    announce(&guard, 0..512, &row);
    guard.sent(&row[0]);
    assert!(why(|| guard.sent(&row[0])).is_some(), "it has been written");
    assert!(why(|| guard.sent(&bytes(&pool, 2, 0, &[3; 512]))).is_some(), "these are other bytes");
    assert!(why(|| guard.sent(&bytes(&pool, 1, 0, &[2; 512]))).is_some(), "that is another member");
    guard.sent(&row[1]);

    announce(&guard, 0..512, &row);
    announce(&guard, 0..1024, &[]);
    assert!(why(|| guard.sent(&row[1])).is_some(), "the rows were computed anew");
    let beyond = why(|| announce(&guard, 0..256, &row)).expect("it ends behind the window");
    assert!(beyond.contains("beyond the window 0..256"), "{beyond}");
}

#[test]
fn zeroes_may_be_sent_in_pieces_and_again() {
    let (guard, pool) = (raid5(), pool());
    guard.begins(&Change::Bytes(0..2 * CHUNK));
    announce(&guard, 0..CHUNK, &[zeroes(0, 0, CHUNK), zeroes(2, 0, CHUNK)]);
    guard.sent(&zeroes(0, 0, CHUNK));
    guard.sent(&bytes(&pool, 0, 1024, &[0; 512]));
    guard.sent(&bytes(&pool, 0, 1024, &[0; 1024]));
    assert!(why(|| guard.sent(&bytes(&pool, 0, 1024, &[1; 512]))).is_some(), "they are none");
    assert!(why(|| guard.sent(&zeroes(1, 0, CHUNK))).is_some(), "of that member nothing was said");
}

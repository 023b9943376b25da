//! Zeroes and discards of an array on an executor that is not its home: done there as writes are, and at home otherwise.

use core::ops::Range;
use std::rc::Rc;

use brindle_array::{Channeled, Patience, RoleState};
use brindle_io::Duration;
use brindle_layout::Level;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::write;
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::channel_writes::{shapes, written};
use crate::channels::Beside;

const BLOCK: usize = 4096;
/// Whole rows of all shapes, and parts of others.
const RANGE: Range<u64> = 3 * 512..3 * 512 + (90 << 10);
/// Whole rows alone.
const ROWS: Range<u64> = 0..96 << 10;

impl Beside {
    async fn fill(&self, byte: u8) {
        self.write_until_there(0, byte).await;
        let fill = async move |volume: Rc<Channeled>, pool| {
            for at in (0..ROWS.end + BLOCK as u64).step_by(BLOCK) {
                write(&pool, &*volume, at, &[byte; BLOCK]).await.expect("it can be written");
            }
        };
        self.over_there(fill).await;
    }

    async fn zero(&self, range: Range<u64>, options: ZeroOptions) -> Result<(), VolumeError> {
        let zero = async move |volume: Rc<Channeled>, _| {
            volume.write_zeroes(range.start, range.end - range.start, options).await
        };
        self.over_there(zero).await
    }

    /// The range holds zeroes, and what is around it is as it was.
    async fn is_zero(&self, range: Range<u64>, byte: u8) {
        let (start, end) = (range.start as usize, range.end as usize);
        let found = self.read(0, ROWS.end as usize + BLOCK).await;
        assert!(found[..start].iter().all(|&found| found == byte));
        assert!(found[start..end].iter().all(|&found| found == 0));
        assert!(found[end..].iter().all(|&found| found == byte));
    }
}

#[test]
fn zeroes_and_discards_are_done_in_a_channel() {
    for (seed, shape) in (300..).zip(shapes()) {
        written(&shape, seed, async |beside| {
            let (level, options) = (shape.level, ZeroOptions::default());
            beside.fill(5).await;
            let before = beside.requests();
            beside.zero(RANGE, options).await.expect("zeroes");
            assert_eq!(beside.requests(), before + 1, "{level}");
            beside.is_zero(RANGE, 5).await;
            beside.fill(6).await;
            let before = beside.requests();
            beside.zero(RANGE, ZeroOptions { keep_allocated: true, ..options }).await.expect("zeroes");
            assert_eq!(beside.requests(), before + 1, "{level}");
            beside.is_zero(RANGE, 6).await;
            let discard = async |volume: Rc<Channeled>, _| volume.discard(0, 64 << 10).await;
            let before = beside.requests();
            beside.over_there(discard).await.expect("a hint");
            assert_eq!(beside.requests(), before + 1, "{level}");
            // Home flushes, and says whether zeroes are fast.
            let before = beside.requests();
            beside.zero(RANGE, ZeroOptions { fua: true, ..options }).await.expect("zeroes");
            let fast = beside.zero(RANGE, ZeroOptions { fast_only: true, ..options }).await;
            assert!(fast.is_ok() || fast == Err(VolumeError::Unsupported));
            assert_eq!(beside.requests(), before, "{level}");
            if level.is_redundant() {
                beside.fill(7).await;
                beside.compare().await;
            }
        });
    }
}

/// Members that make no zeroes by themselves are sent some, and stay.
#[test]
fn zeroes_are_sent_in_a_channel_to_members_that_make_none() {
    for (seed, shape) in (320..).zip(shapes()) {
        written(&shape, seed, async |beside| {
            let ids = &beside.running.ids;
            for &id in ids {
                beside.running.bench.afflict(id, |faults| {
                    (faults.no_write_zeroes, faults.no_discard) = (true, true);
                });
            }
            beside.fill(5).await;
            let before = beside.requests();
            beside.zero(RANGE, ZeroOptions::default()).await.expect("zeroes");
            assert_eq!(beside.requests(), before + 1, "{}", shape.level);
            beside.is_zero(RANGE, 5).await;
            assert!((0..ids.len() as u16).all(|role| beside.running.array.state(role) == RoleState::InSync));
            if shape.level.is_redundant() {
                beside.compare().await;
            }
        });
    }
}

#[test]
fn a_member_that_refuses_zeroes_of_a_channel_is_failed_by_home() {
    for (seed, shape) in (340..).zip(shapes().into_iter().filter(|shape| shape.level.is_redundant())) {
        written(&shape, seed, async |beside| {
            beside.fill(5).await;
            beside.running.bench.refuse_writes(beside.running.ids[0]);
            beside.zero(ROWS, ZeroOptions::default()).await.expect("zeroes");
            assert_ne!(beside.running.array.state(0), RoleState::InSync, "{}", shape.level);
            beside.is_zero(ROWS, 5).await;
        });
    }
}

/// Home judges a member that is silent, by what it has asked the member itself or by the time that the zeroes of the channel have waited.
#[test]
fn a_member_that_keeps_zeroes_of_a_channel_waiting_is_judged_by_home() {
    let Patience { answer, flush, .. } = Patience::default();
    for (seed, shape) in (360..).zip([Shape::new(Level::Raid1, 2), Shape::new(Level::Raid5, 3)]) {
        written(&Shape { rows: 32, ..shape }, seed, async |beside| {
            beside.fill(5).await;
            beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = true);
            let began = beside.running.io.now();
            beside.zero(RANGE, ZeroOptions::default()).await.expect("zeroes");
            let took = beside.running.io.now().since(began);
            assert!(took >= answer && took < flush + answer, "{took:?}");
            assert_ne!(beside.running.array.state(0), RoleState::InSync);
            beside.is_zero(RANGE, 5).await;
            beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = false);
            beside.running.io.sleep(Duration::from_secs(1)).await;
        });
    }
}

//! Writes that meet: who waits for whom, who is written with whom, and what becomes of that when somebody goes.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use brindle_layout::{Layout, Level, ParityLayout};
use brindle_volume::VolumeError;

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: u64 = 16 << 10;
/// Turns of the executor after which whatever happens in RAM has happened.
const TURNS: usize = 200;

/// One look at what is under way.
pub(crate) async fn once<F: Future>(mut work: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The result of the work, if it ends within some turns.
async fn soon<F: Future>(world: &Running, mut work: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..TURNS {
        if let Some(done) = once(work.as_mut()).await {
            return Some(done);
        }
        world.io.yield_now().await;
    }
    None
}

/// A write that is given up by its client, at each moment, while another waits to be written with it.
#[test]
fn those_who_joined_a_write_that_is_dropped_get_its_error() {
    let mut reported = 0;
    for turns in 0..40 {
        let layout = Layout::Parity(ParityLayout::LeftSymmetric);
        let world = world::start(Level::Raid5, layout, CHUNK, 3, 4 * CHUNK);
        world.run(async |w| {
            let write = async |sector: u64| w.write(sector * 512, &[1 + sector as u8; 512]).await;
            write(63).await.unwrap();
            let (mut first, mut leader, mut follower) = (pin!(write(0)), Box::pin(write(1)), pin!(write(2)));
            let mut ended = (once(first.as_mut()).await, once(leader.as_mut()).await);
            assert_eq!((ended, once(follower.as_mut()).await), ((None, None), None));
            for _ in 0..turns {
                w.io.yield_now().await;
                if ended.0.is_none() {
                    ended.0 = once(first.as_mut()).await;
                }
                if ended.1.is_none() {
                    ended.1 = once(leader.as_mut()).await;
                }
            }
            drop(leader);
            if ended.0.is_none() {
                assert_eq!(soon(w, first).await, Some(Ok(())), "{turns}");
            }
            let end = soon(w, follower).await;
            match ended.1 {
                Some(result) => assert_eq!((result, end), (Ok(()), Some(Ok(()))), "{turns}"),
                None => assert_eq!(end, Some(Err(VolumeError::Stopping)), "{turns}"),
            }
            reported += usize::from(ended.1.is_none());
            let again = pin!(write(1));
            assert_eq!(soon(w, again).await, Some(Ok(())), "{turns}: the row is free");
        });
    }
    assert!((2..40).contains(&reported), "{reported}");
}

#[test]
fn a_write_to_a_mirror_waits_for_one_that_it_overlaps() {
    for at in [0, 4096] {
        let world = world::start(Level::Raid1, Layout::None, 0, 2, 64 << 10);
        world.run(async |w| w.write(32 << 10, &[1; 512]).await).unwrap();
        world.bench.hang(world.ids[1]);
        let held = || {
            let mut bytes = [0; 1024];
            world.bench.peek(world.ids[0], DATA_OFFSET + at, &mut bytes);
            bytes
        };
        world.run(async |w| {
            let (mut first, mut second) = (pin!(w.write(at, &[1; 1024])), pin!(w.write(at, &[2; 512])));
            assert_eq!((once(first.as_mut()).await, held()), (None, [1; 1024]));
            assert_eq!((soon(w, second.as_mut()).await, held()), (None, [1; 1024]), "at {at}");
            w.bench.release(w.ids[1]);
            assert_eq!((soon(w, first).await, soon(w, second).await), (Some(Ok(())), Some(Ok(()))));
        });
        assert_eq!(held()[..512], [2; 512]);
    }
}

//! Wide arrays with as little memory as they accept.

use brindle_array::{Config, SyncMode, Volume};
use brindle_layout::{Layout, Level};

use crate::world::{self, DATA_OFFSET, World};

const CHUNK: u64 = 128 << 10;

fn tight(level: Level, members: usize) -> World {
    let config = Config { scratch_bytes: 0, ..Config::default() };
    World::with(level, Layout::default_for(level), CHUNK, &vec![2 * CHUNK; members], config)
}

/// Fills the array, spoils a member, and has everything mended by `heal`.
fn mends(level: Level, members: usize, heal: &impl AsyncFn(&World, &[u8])) {
    let world = tight(level, members);
    let content = world::pattern(3, world.array.limits().size as usize);
    world.run(async |w| w.write_all(&content).await).unwrap();
    world.memory.spoil(world.ids[1], DATA_OFFSET + 4096, CHUNK);
    world.run(async |w| heal(w, &content).await);
    assert!(world.readable(world.ids[1], DATA_OFFSET, 2 * CHUNK as usize), "{level} over {members}");
    let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
    assert_eq!(report.mismatch_sectors, 0);
    assert!(world.run(async |w| w.read_all().await).unwrap() == content);
}

const WIDE: [(Level, usize); 4] =
    [(Level::Raid5, 17), (Level::Raid6, 70), (Level::Raid1, 20), (Level::Raid10, 30)];

#[test]
fn a_scrub_of_a_wide_array_mends_with_little_memory() {
    for (level, members) in WIDE {
        mends(level, members, &async |w, _| {
            w.scrub(SyncMode::Check).await.unwrap();
        });
    }
}

#[test]
fn writes_and_reads_of_a_wide_array_mend_with_little_memory() {
    for (level, members) in [(Level::Raid5, 17), (Level::Raid6, 70)] {
        mends(level, members, &async |w, content| {
            for at in (0..content.len()).step_by(32 << 10) {
                w.write(at as u64 + 512, &content[at + 512..at + 4096]).await.unwrap();
            }
            assert!(w.read_all().await.unwrap() == content);
            w.scrub(SyncMode::Check).await.unwrap();
        });
    }
}

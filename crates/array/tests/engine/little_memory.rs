//! Wide arrays with as little memory as they accept.

use brindle_array::{OpenConfig, SyncMode};
use brindle_layout::{Layout, Level};
use brindle_testkit::world::patient;

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: u64 = 128 << 10;

fn tight(level: Level, members: usize) -> Running {
    let shape = world::shape(level, Layout::default_for(level), CHUNK, members, 2 * CHUNK);
    Running::of(&shape, OpenConfig { scratch_bytes: 0, ..patient() })
}

/// Fills the array, spoils a member, and has everything mended by `heal`.
fn mends(level: Level, members: usize, heal: &impl AsyncFn(&Running, &[u8])) {
    let world = tight(level, members);
    let content = world::pattern(3, world.size() as usize);
    world.run(async |w| w.write_all(&content).await).unwrap();
    world.bench.spoil(world.ids[1], DATA_OFFSET + 4096, CHUNK);
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

//! Members in memory, whose reads are copies that processors make: windows are small there, and give the same as those of devices.

use brindle_array::{OpenConfig, SyncMode};
use brindle_layout::{Layout, Level, ParityLayout};

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: usize = 512 << 10;
/// Bytes of each member.
const SIZE: usize = 4 << 20;

fn filled(level: Level, members: usize) -> (Running, Vec<u8>) {
    let layout = Layout::Parity(ParityLayout::LeftSymmetric);
    let shape = world::shape(level, layout, CHUNK as u64, members, SIZE as u64);
    let run = Running::of(&shape, OpenConfig { scratch_bytes: 64 << 20, ..world::config() });
    let content = world::pattern(5, run.size() as usize);
    run.run(async |run| run.write_all(&content).await).unwrap();
    (run, content)
}

/// Has all members of a run count as such in memory, until the next start.
fn tell(run: &Running) {
    run.ids.iter().for_each(|&id| run.bench.set_in_memory(id));
}

fn rot(run: &Running, role: usize, offset: usize) {
    let (id, at, mut byte) = (run.ids[role], DATA_OFFSET + offset as u64, [0]);
    run.bench.peek(id, at, &mut byte);
    run.bench.poke(id, at, &[byte[0] ^ 1]);
}

#[test]
fn checks_find_the_same_in_small_windows_as_in_large_ones() {
    // Pages by themselves, at either end of a window and of a chunk, side by side, and far behind others.
    let pages =
        [(0, 0), (3, 15), (3, 16), (5, 17), (1, 127), (2, 128), (4, 400), (0, 401), (1, 402), (5, 1023)];
    for mode in [SyncMode::Check, SyncMode::Locate, SyncMode::Repair] {
        let outcomes = [false, true].map(|in_memory| {
            let (run, _) = filled(Level::Raid6, 6);
            if in_memory {
                tell(&run);
            }
            pages.iter().for_each(|&(role, page)| rot(&run, role, page * 4096 + page));
            let mut reports = Vec::new();
            let counts = run.counted(async |run| {
                reports.push(run.array.check(mode, |_| ()).await.unwrap());
            });
            let (least, most) = if in_memory { (SIZE / (128 << 10), SIZE / (32 << 10)) } else { (1, 8) };
            for (reads, _) in counts {
                assert!((least..=most).contains(&(reads as usize)), "{reads} reads, in memory: {in_memory}");
            }
            reports.push(run.run(async |run| run.array.check(SyncMode::Check, |_| ()).await).unwrap());
            reports
        });
        assert_eq!(outcomes[0][0].mismatch_sectors, 8 * pages.len() as u64, "{mode:?}");
        assert_eq!(outcomes[1], outcomes[0], "{mode:?}");
    }
}

#[test]
fn lost_data_are_computed_in_small_windows_of_the_same_bytes() {
    let lost: [(Level, usize, &[u16]); 4] = [
        (Level::Raid5, 4, &[1]),
        (Level::Raid6, 6, &[0]),
        (Level::Raid6, 6, &[0, 3]),
        (Level::Raid6, 6, &[4, 5]),
    ];
    // Whole rows, parts of two chunks, columns that don't meet, a part of a chunk, and odd sectors.
    let requests = [(0, 3 * CHUNK), (0, 2 * CHUNK), (CHUNK / 2, 2 * CHUNK), (CHUNK - 4096, 8192)];
    let requests =
        requests.into_iter().chain([(5 * CHUNK + 512, CHUNK - 1024), (3 * CHUNK - 1536, 4 * CHUNK + 512)]);
    for (level, members, lost) in lost {
        let read = [false, true].map(|in_memory| {
            let (whole, content) = filled(level, members);
            let run = whole.without(lost);
            if in_memory {
                tell(&run);
            }
            assert!(
                run.run(async |run| run.read_all().await).unwrap() == content,
                "{level} without {lost:?}"
            );
            let bytes = || run.ids.iter().map(|&id| run.io.counters(id).bytes_read).sum::<u64>();
            let each = requests.clone().map(|(offset, len)| {
                let (before, (ops, got)) = (bytes(), {
                    let mut got = Vec::new();
                    let counts = run.counted(async |run| got = run.read(offset as u64, len).await.unwrap());
                    (counts.iter().map(|(reads, _)| reads).sum::<u64>(), got)
                });
                assert!(got == content[offset..offset + len], "{level} without {lost:?}: {len} at {offset}");
                (bytes() - before, ops)
            });
            each.collect::<Vec<_>>()
        });
        for (large, small) in read[0].iter().zip(&read[1]) {
            assert_eq!(small.0, large.0, "{level} without {lost:?}: bytes of members");
            assert!(
                small.1 >= large.1,
                "{level} without {lost:?}: {} operations, of devices {}",
                small.1,
                large.1
            );
        }
        let [large, small] = read.map(|each| each.iter().map(|(_, ops)| ops).sum::<u64>());
        assert!(small > large, "{level} without {lost:?}: rows that lack something wanted are cut");
    }
}

#[test]
fn a_read_of_which_a_later_window_fails_is_done_again_whole() {
    for column in [0, 300 << 10, CHUNK - 4096] {
        let (whole, content) = filled(Level::Raid6, 6);
        let run = whole.without(&[0]);
        tell(&run);
        let bad = run.ids[2];
        run.bench.spoil(bad, DATA_OFFSET + column as u64, 4096);
        assert!(
            run.run(async |run| run.read(0, 4 * CHUNK).await).unwrap() == content[..4 * CHUNK],
            "{column}"
        );
        assert!(run.readable(bad, DATA_OFFSET + column as u64, 4096), "mended");
        // With two members lost nothing makes up for it.
        let (whole, content) = filled(Level::Raid6, 6);
        let run = whole.without(&[0, 1]);
        tell(&run);
        run.bench.spoil(run.ids[2], DATA_OFFSET + column as u64, 4096);
        run.run(async |run| {
            run.read(0, 4 * CHUNK).await.unwrap_err();
            assert!(run.read(4 * CHUNK as u64, CHUNK).await.unwrap() == content[4 * CHUNK..5 * CHUNK]);
        });
    }
}

//! Holes of real files, as the ring's members tell of them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Io, Mapped, MemberId, OpError};
use brindle_testkit::skip::{Missing, or_skip};
use tempfile::TempDir;

const KIB: u64 = 1 << 10;
const SIZE: u64 = 64 << 20;

struct World {
    folder: TempDir,
    uring: Uring,
    io: Io,
}

impl World {
    fn new() -> Option<Self> {
        let uring = or_skip(Uring::new().map_err(|error| Missing::new(error.to_string())))?;
        Some(Self { folder: TempDir::new().unwrap(), io: Io::new(Box::new(uring.clone())), uring })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("member")
    }

    /// A sparse file with something at these places, 4 KiB each.
    fn file(&self, places: impl IntoIterator<Item = u64>) -> MemberId {
        let file = File::create(self.path()).unwrap();
        file.set_len(SIZE).unwrap();
        for place in places {
            file.write_all_at(&[7; 4096], place).unwrap();
        }
        file.sync_all().unwrap();
        self.uring.add_member(OpenDevice::open(self.path(), DeviceAccess::Write).unwrap())
    }

    fn map(&self, member: MemberId, offset: u64, len: u64) -> Result<Mapped, OpError> {
        self.io.block_on(self.io.map(member, offset, len))
    }
}

#[test]
fn small_holes_are_left_out_and_what_one_answer_costs_is_bounded() {
    let Some(world) = World::new() else { return };
    // Every second block of 2 MiB, then nothing for 32 KiB, a block, nothing for 64 KiB, a block.
    let (dense, behind) = (2 << 20, (2 << 20) + 32 * KIB);
    let member = world.file((0..dense).step_by(8192).chain([behind, behind + 68 * KIB]));
    let (mut at, mut answers) = (0, 0);
    while at < behind {
        let Mapped { len, hole } = world.map(member, at, SIZE - at).unwrap();
        assert!(!hole, "at {at}");
        // 32 holes were looked at.
        assert!(len <= 64 * 4096 + 32 * KIB, "{len} bytes at {at}");
        (at, answers) = (at + len, answers + 1);
    }
    assert!(answers >= 8, "{answers}");
    let at = behind + 4 * KIB;
    assert_eq!(world.map(member, behind, SIZE - behind), Ok(Mapped { len: 4 * KIB, hole: false }));
    assert_eq!(world.map(member, at, SIZE - at), Ok(Mapped { len: 64 * KIB, hole: true }));
    assert_eq!(world.map(member, at + 64 * KIB, 8 * KIB), Ok(Mapped { len: 4 * KIB, hole: false }));
    let rest = SIZE - (at + 68 * KIB);
    assert_eq!(world.map(member, SIZE - rest, rest), Ok(Mapped { len: rest, hole: true }));
}

#[test]
fn what_a_shorter_file_has_lost_is_no_hole() {
    let Some(world) = World::new() else { return };
    let member = world.file([0]);
    assert_eq!(world.map(member, 0, SIZE), Ok(Mapped { len: 4096, hole: false }));
    File::options().write(true).open(world.path()).unwrap().set_len(SIZE / 2).unwrap();
    assert_eq!(world.map(member, 4096, SIZE - 4096), Err(OpError::Truncated));
}

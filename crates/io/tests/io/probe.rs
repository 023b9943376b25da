//! Members of the real world that change under the server: files made shorter, deleted, replaced.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Duration, Group, Io, MemberId, OpError, OpTag, PAGE, PathTarget, Probe, Slice};
use brindle_testkit::skip::{Missing, or_skip};
use tempfile::TempDir;

const SIZE: u64 = 1 << 20;

struct World {
    dir: TempDir,
    uring: Uring,
    io: Io,
}

fn world() -> Option<World> {
    let uring = or_skip(Uring::new().map_err(|error| Missing::new(error.to_string())))?;
    Some(World { dir: TempDir::new().unwrap(), io: Io::new(Box::new(uring.clone())), uring })
}

impl World {
    fn file(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, vec![7; SIZE as usize]).unwrap();
        path
    }

    fn open(&self, path: &Path) -> MemberId {
        self.uring.add_member(OpenDevice::open(path, DeviceAccess::Write).unwrap())
    }

    fn probe(&self, member: MemberId) -> Probe {
        let until = self.io.now().after(Duration::from_secs(600));
        self.io.block_on(self.io.probe(member, until)).unwrap()
    }

    fn write(&self, member: MemberId, offset: u64, len: usize) -> Result<(), OpError> {
        let pool = self.io.pool(len);
        self.io.block_on(async {
            let buf = pool.alloc(len).await;
            let mut group = self.io.group();
            group.write(member, offset, &buf.all(), false);
            group.submit().await.ok()
        })
    }

    fn submit(&self, begin: impl FnOnce(&mut Group, &Slice) -> OpTag) -> Result<(), OpError> {
        let pool = self.io.pool(SIZE as usize);
        self.io.block_on(async {
            let buf = pool.alloc(SIZE as usize).await;
            let mut group = self.io.group();
            begin(&mut group, &buf.all());
            group.submit().await.ok()
        })
    }

    fn write_at_end(&self, member: MemberId) -> Result<(), OpError> {
        self.submit(|group, buf| group.write(member, SIZE / 4, &buf.slice(0..SIZE as usize * 3 / 4), false))
    }

    fn read_at_end(&self, member: MemberId) -> Result<(), OpError> {
        self.submit(|group, buf| group.read(member, SIZE / 4, &buf.slice(0..SIZE as usize * 3 / 4)))
    }

    fn zero_at_end(&self, member: MemberId) -> Result<(), OpError> {
        self.submit(|group, _| group.write_zeroes(member, SIZE / 4, SIZE * 3 / 4, false))
    }

    fn discard_at_end(&self, member: MemberId) -> Result<(), OpError> {
        self.submit(|group, _| group.discard(member, SIZE / 4, SIZE * 3 / 4))
    }

    fn read(&self, member: MemberId, offset: u64, len: usize) -> Result<Vec<u8>, OpError> {
        let pool = self.io.pool(len);
        self.io.block_on(async {
            let buf = pool.alloc(len).await;
            let mut group = self.io.group();
            group.read(member, offset, &buf.all());
            group.submit().await.ok()?;
            Ok(buf.bytes().to_vec())
        })
    }
}

/// Changes the length of a file, and takes turns of the ring until it looks at it again.
fn truncate(world: &World, path: &Path, size: u64) {
    File::options().write(true).open(path).unwrap().set_len(size).unwrap();
    world.io.block_on(world.io.sleep(Duration::from_millis(2)));
}

#[test]
fn a_file_made_shorter_is_seen_in_its_size_and_in_reads() {
    let Some(world) = world() else { return };
    let path = world.file("m");
    let member = world.open(&path);
    assert_eq!(world.probe(member), Probe { size: SIZE, place: PathTarget::There });
    // Sizes that end at a page, at a sector and within one: a direct read ends early there, and can't be resumed.
    for size in [SIZE / 2, SIZE / 2 - 512, SIZE / 2 - 100, 1, 0] {
        truncate(&world, &path, size);
        assert_eq!(world.probe(member), Probe { size, place: PathTarget::There });
        assert_eq!(world.read(member, 0, SIZE as usize), Err(OpError::Truncated), "all, of {size} bytes");
        let last = size / PAGE as u64 * PAGE as u64;
        assert_eq!(world.read(member, last, PAGE), Err(OpError::Truncated), "the last page of {size} bytes");
        assert_eq!(world.read(member, SIZE - PAGE as u64, PAGE), Err(OpError::Truncated));
    }
    truncate(&world, &path, SIZE);
    assert_eq!(world.read(member, 0, PAGE), Ok(vec![0; PAGE]));
    assert_eq!(world.probe(member).size, SIZE, "and long again");
}

#[test]
fn a_file_that_was_made_shorter_is_not_made_long_again_by_a_write() {
    let Some(world) = world() else { return };
    let path = world.file("m");
    let member = world.open(&path);
    truncate(&world, &path, SIZE / 2);
    for offset in [0, SIZE / 2, SIZE - PAGE as u64] {
        assert_eq!(world.write(member, offset, PAGE), Err(OpError::Truncated), "at byte {offset}");
    }
    assert_eq!(path.metadata().unwrap().len(), SIZE / 2);
}

#[test]
fn a_hole_in_a_file_that_was_made_shorter_is_no_content() {
    let Some(world) = world() else { return };
    let path = world.file("m");
    let member = world.open(&path);
    truncate(&world, &path, 0);
    // As a write that was under way when it was made shorter.
    let file = File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[9; PAGE], SIZE / 2).unwrap();
    assert_eq!(world.read(member, 0, PAGE), Err(OpError::Truncated));
}

#[test]
fn a_file_that_lost_its_name_is_told_from_one_whose_name_another_has() {
    let Some(world) = world() else { return };
    let (path, link) = (world.file("m"), world.dir.path().join("link"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (member, by_link) = (world.open(&path), world.file("other"));
    let place = || world.probe(member).place;
    let elsewhere = world.dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    assert_eq!(place(), PathTarget::Deleted, "renamed: it would not be found any more");
    fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(place(), PathTarget::There);
    fs::rename(&by_link, &path).unwrap();
    assert_eq!(place(), PathTarget::Replaced);
    fs::remove_file(&path).unwrap();
    assert_eq!(place(), PathTarget::Deleted);
    assert_eq!(world.read(member, 0, PAGE), Ok(vec![7; PAGE]), "it still serves");
    // A name that is a link counts for what it leads to.
    world.file("m");
    let member = world.open(&link);
    assert_eq!(world.probe(member).place, PathTarget::There);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(world.file("third"), &link).unwrap();
    assert_eq!(world.probe(member).place, PathTarget::Replaced);
}

/// A loop device, let go when dropped.
struct Loop(PathBuf);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
        // The kernel lets go of the file when the last descriptor is closed, which a thread of the ring may do a little later.
        let name = self.0.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while backing.exists() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn loop_over(file: &Path) -> Result<Loop, Missing> {
    let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
    let made = made.map_err(|error| Missing::new(format!("losetup: {error}")))?;
    if !made.status.success() {
        return Err(Missing::new(String::from_utf8_lossy(&made.stderr).trim().to_owned()));
    }
    Ok(Loop(String::from_utf8_lossy(&made.stdout).trim().into()))
}

#[test]
fn a_block_device_made_shorter_is_seen_too() {
    let Some(world) = world() else { return };
    let file = world.file("backing");
    let Some(device) = or_skip(loop_over(&file)) else { return };
    let member = world.open(&device.0);
    assert_eq!(world.probe(member), Probe { size: SIZE, place: PathTarget::There });
    truncate(&world, &file, SIZE / 2);
    assert!(Command::new("losetup").arg("--set-capacity").arg(&device.0).status().unwrap().success());
    assert_eq!(world.probe(member), Probe { size: SIZE / 2, place: PathTarget::There });
    assert_eq!(world.read(member, 0, SIZE as usize), Err(OpError::Truncated));
    assert_eq!(world.read(member, SIZE / 2, PAGE), Err(OpError::Truncated));
    assert_eq!(world.read(member, 0, PAGE), Err(OpError::Truncated));
    world.uring.close_member(member);
}

#[test]
fn what_is_beyond_the_end_of_a_smaller_block_device_is_no_lack_of_space() {
    for on_threads in [false, true] {
        for ask in [World::write_at_end, World::read_at_end, World::zero_at_end, World::discard_at_end] {
            let Some(mut world) = world() else { return };
            if on_threads {
                world.io.shutdown();
                world.uring = Uring::on_threads().unwrap();
                world.io = Io::new(Box::new(world.uring.clone()));
            }
            let (file, kept) = (world.file("backing"), world.dir.path().join("kept"));
            let Some(device) = or_skip(loop_over(&file)) else { return };
            // Of a loop device whose file has a name that file is looked at; of a disk there is none.
            fs::hard_link(&file, &kept).unwrap();
            fs::remove_file(&file).unwrap();
            let member = world.open(&device.0);
            assert_eq!(ask(&world, member), Ok(()));
            truncate(&world, &kept, SIZE / 2);
            let set = Command::new("losetup").arg("--set-capacity").arg(&device.0).status();
            assert!(set.unwrap().success());
            // It crosses the end: the kernel leaves out what is beyond, and says that zeroes were written.
            assert_eq!(ask(&world, member), Err(OpError::Truncated));
            truncate(&world, &kept, SIZE);
            let set = Command::new("losetup").arg("--set-capacity").arg(&device.0).status();
            assert!(set.unwrap().success());
            assert!(world.read(member, SIZE / 2, PAGE) == Err(OpError::Truncated), "a hole is no content");
            world.uring.close_member(member);
        }
    }
}

/// A file system of 1 MiB; gone when dropped.
struct Full(PathBuf);

impl Drop for Full {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn full_file_system(world: &World) -> Result<Full, Missing> {
    let dir = world.dir.path().join("full");
    fs::create_dir(&dir).unwrap();
    let made = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&dir).output();
    let made = made.map_err(|error| Missing::new(format!("mount: {error}")))?;
    match made.status.success() {
        true => Ok(Full(dir)),
        false => Err(Missing::new(String::from_utf8_lossy(&made.stderr).trim().to_owned())),
    }
}

#[test]
fn a_full_file_system_is_told_from_a_file_that_is_shorter() {
    for on_threads in [false, true] {
        let Some(mut world) = world() else { return };
        if on_threads {
            world.io.shutdown();
            world.uring = Uring::on_threads().unwrap();
            world.io = Io::new(Box::new(world.uring.clone()));
        }
        let Some(full) = or_skip(full_file_system(&world)) else { return };
        let path = full.0.join("m");
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        fs::write(full.0.join("filler"), vec![1; 2 * SIZE as usize]).unwrap_err();
        // A loop device on a full file system is as large as it was, too.
        let Some(device) = or_skip(loop_over(&path)) else { return };
        let on_loop = world.open(&device.0);
        assert_eq!(world.write(on_loop, 0, PAGE), Err(OpError::NoSpace));
        world.uring.close_member(on_loop);
        drop(device);
        let member = world.open(&path);
        assert_eq!(world.write(member, 0, PAGE), Err(OpError::NoSpace), "as large as it was");
        assert_eq!(world.read(member, 0, PAGE), Ok(vec![0; PAGE]), "and of use");
        // Nothing of the ring's own looks at the file before the write is sent: less than a millisecond has passed.
        assert_eq!(world.write(member, 0, PAGE), Err(OpError::NoSpace));
        File::options().write(true).open(&path).unwrap().set_len(SIZE / 2).unwrap();
        assert_eq!(world.write(member, 0, PAGE), Err(OpError::Truncated));
        world.uring.close_member(member);
        world.io.shutdown();
    }
}

#[test]
fn a_loop_device_whose_file_was_cut_is_shorter_though_it_does_not_say_so() {
    let Some(world) = world() else { return };
    let file = world.file("backing");
    let Some(device) = or_skip(loop_over(&file)) else { return };
    let member = world.open(&device.0);
    assert_eq!(world.read(member, 0, PAGE), Ok(vec![7; PAGE]));
    truncate(&world, &file, SIZE / 2);
    assert_eq!(world.probe(member), Probe { size: SIZE / 2, place: PathTarget::There });
    assert_eq!(world.write(member, SIZE - PAGE as u64, PAGE), Err(OpError::Truncated));
    assert_eq!(world.read(member, 0, PAGE), Err(OpError::Truncated));
    assert_eq!(file.metadata().unwrap().len(), SIZE / 2, "no write makes it long again");
    world.uring.close_member(member);
}

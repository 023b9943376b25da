//! Mounts of users without rights, by the helper, and of root where nothing else is.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use brindle_tests::files;
use brindle_tests::program::{self, Ran};
use brindle_tests::tools::{self, Missing, or_skip};

use super::stage::{Folder, Stage, available, run, until, wait_until_gone};

/// The user who owns nothing else.
const NOBODY: u32 = 65534;

/// That user, with an array, a folder and the program.
struct User {
    stage: Stage,
    folder: Folder,
    program: PathBuf,
    runtime: PathBuf,
}

impl User {
    fn new(level: &str, members: usize) -> Result<Self, Missing> {
        available()?;
        if !rustix::process::geteuid().is_root() {
            return Err(Missing::new(
                "another user can be had by root alone; all other tests of mounts are that",
            ));
        }
        tools::find("fusermount3")?;
        tools::find("setpriv")?;
        let stage = Stage::new(level, members, 16 << 20);
        let program = stage.path().join("brindle");
        fs::copy(program::path(), &program).unwrap();
        fs::set_permissions(stage.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let folder = Folder::new(stage.path(), "folder");
        let runtime = stage.runtime();
        fs::create_dir(&runtime).unwrap();
        let user = Self { stage, folder, program, runtime };
        user.stage.members.iter().chain([&user.folder.path, &user.runtime]).for_each(|path| user.owns(path));
        Ok(user)
    }

    fn owns(&self, path: &Path) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }

    fn run(&self, program: &str, args: &[&str]) -> Ran {
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        let own = ["--clear-groups", &user, &group, "env", "-C", self.runtime.to_str().unwrap(), program];
        run("setpriv", &[&own[..], args].concat())
    }

    /// Runs `brindle COMMAND --runtime-dir ... ARGS`.
    fn ask(&self, command: &str, args: &[&str]) -> Ran {
        let own = [command, "--runtime-dir", self.runtime.to_str().unwrap()];
        self.run(self.program.to_str().unwrap(), &[&own[..], args].concat())
    }

    fn mount(&self, flags: &[&str]) {
        let mut args = [flags, &["--background", "--members"]].concat();
        args.extend(self.stage.members.iter().map(|member| member.to_str().unwrap()));
        args.extend(["--", self.folder.text()]);
        self.ask("mount", &args).ended(0);
    }

    /// Unmounts, and waits for the end of the server.
    fn umount(&self) {
        self.run(self.program.to_str().unwrap(), &["umount", self.folder.text()]).ok();
        wait_until_gone(&self.folder);
        let is_socket = |path: PathBuf| fs::metadata(path).is_ok_and(|of| of.mode() & 0o170_000 == 0o140_000);
        until("its server ends", || {
            !fs::read_dir(&self.runtime).unwrap().any(|entry| is_socket(entry.unwrap().path()))
        });
    }
}

#[test]
fn any_user_mounts_by_the_helper() {
    let Some(user) = or_skip(User::new("5", 3)) else { return };
    let before = user.stage.sums();
    user.mount(&[]);
    let file = user.folder.file("data");
    let look = format!("stat -c %u:%a '{0}' && head -c 1000000 '{0}' | wc -c", file.display());
    assert_eq!(user.run("sh", &["-c", &look]).ok().text(), "65534:400\n1000000\n");
    user.umount();
    assert_eq!(user.stage.sums(), before);
}

/// Without loop devices a file system is made, filled and checked in the file itself, while members fail and one is rebuilt.
fn has_a_file_system() -> Result<(), Missing> {
    for tool in ["mkfs.ext4", "e2fsck", "debugfs", "fio"] {
        tools::find(tool)?;
    }
    let user = User::new("6", 5)?;
    let spare = files::members(user.stage.path(), "spare", 1, 16 << 20).remove(0);
    user.owns(&spare);
    user.mount(&["--write"]);
    let (file, tree) = (user.folder.file("data"), user.stage.path().join("tree"));
    let file = file.to_str().unwrap();
    let fio = |more: &[&str]| {
        let job = "--name=load --rw=randwrite --bsrange=512-64k --blockalign=512 --size=12m --ioengine=psync --thread \
             --verify=crc32c --verify_fatal=1 --verify_state_save=0 --end_fsync=1";
        let filename = format!("--filename={file}");
        let words: Vec<&str> =
            job.split_whitespace().chain(more.iter().copied()).chain([&*filename]).collect();
        user.run("fio", &words).ended(0);
    };
    let fail = |member: &str| until("the member fails", || user.ask("fail", &["data", member]).code == 0);
    fio(&[]);
    fail("0");
    fail("1");
    fio(&["--verify_only=1"]);
    fs::create_dir(&tree).unwrap();
    let content: Vec<u8> = (0..5 << 20).map(|at: u32| (at ^ at >> 7) as u8).collect();
    fs::write(tree.join("file"), &content).unwrap();
    user.run("mkfs.ext4", &["-q", "-F", "-d", tree.to_str().unwrap(), file]).ended(0);
    user.ask("add", &["data", spare.to_str().unwrap()]).ended(0);
    user.ask("wait", &["data"]).ended(0);
    fail("2");
    user.run("e2fsck", &["-f", "-n", file]).ended(0);
    assert!(user.run("debugfs", &["-R", "cat file", file]).ended(0).out == content);
    user.umount();
    Ok(())
}

#[test]
fn any_user_has_a_file_system_in_the_file() {
    let _ = or_skip(has_a_file_system());
}

/// The static program, in a root folder that has no other file but the device and the members.
fn mounts_where_nothing_else_is() -> Result<(), Missing> {
    available()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::new("devices in another root folder need root"));
    }
    let program = program::without_libraries()?;
    for tool in ["chroot", "mknod"] {
        tools::find(tool)?;
    }
    let stage = Stage::new("5", 3, 16 << 20);
    let root = stage.path().join("root");
    fs::create_dir_all(root.join("dev")).unwrap();
    fs::copy(program, root.join("brindle")).unwrap();
    run("mknod", &[root.join("dev/fuse").to_str().unwrap(), "c", "10", "229"]).ended(0);
    if File::open(root.join("dev/fuse")).is_err() {
        return Err(Missing::new("devices in folders for temporary files can't be opened"));
    }
    for (number, member) in stage.members.iter().enumerate() {
        fs::rename(member, root.join(format!("m{number}"))).unwrap();
    }
    let folder = Folder::new(&root, "folder");
    let inside = |args: &[&str]| run("chroot", &[&[root.to_str().unwrap(), "/brindle"], args].concat());
    let mount = |write: &[&str], members: &[&str]| {
        let background = ["mount", "--runtime-dir", "/run", "--background"];
        let words = [&background[..], write, &["--members"], members, &["--", "/folder"]].concat();
        inside(&words).ended(0);
    };
    let umount = || {
        inside(&["umount", "/folder"]).ended(0);
        wait_until_gone(&folder);
    };
    mount(&["--write"], &["/m0", "/m1", "/m2"]);
    let content: Vec<u8> = (0..9 << 20).map(|at: u32| (at ^ at >> 7) as u8).collect();
    File::options().write(true).open(folder.file("data")).unwrap().write_all_at(&content, 777).unwrap();
    umount();
    mount(&[], &["/m2", "/m0"]);
    assert!(fs::read(folder.file("data")).unwrap()[777..][..content.len()] == content);
    umount();
    Ok(())
}

#[test]
fn the_static_program_mounts_where_there_is_nothing_else() {
    let _ = or_skip(mounts_where_nothing_else_is());
}

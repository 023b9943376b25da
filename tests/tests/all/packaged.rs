//! Packages as `make package` makes them, of the programs of this build: installed, and run where nothing else is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use brindle_tests::nbd::Client;
use brindle_tests::program::{self, Ran};
use brindle_tests::tools::{Missing, cache_dir, find, or_skip};
use brindle_tests::vm::{Kernel, Vm};
use tempfile::TempDir;

/// Words of the demo when every byte is there.
const IS_WHOLE: &str = "Every byte is back";

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Runs `scripts/package` quickly: what is packed need not be small.
fn package(args: &[&Path]) {
    let mut command = Command::new(checkout().join("scripts/package"));
    command.args(args).env("XZ_DEFAULTS", "-0").env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
    Ran::of(command).ended(0);
}

/// The packages of this build, in a folder that is kept until the next run.
fn packages() -> Result<&'static Path, Missing> {
    static MADE: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    let make = || {
        for tool in ["strip", "dpkg-deb", "dpkg-shlibdeps", "xz"] {
            find(tool)?;
        }
        // It is packed if it is beside the program.
        program::console()?;
        let out = cache_dir("tmp").join("packages");
        package(&[Path::new("--of"), program::without_libraries()?, program::path(), &out]);
        Ok(out)
    };
    MADE.get_or_init(make).as_deref().map_err(Clone::clone)
}

/// The package whose name ends so.
pub(crate) fn package_of(end: &str) -> Result<PathBuf, Missing> {
    let names = fs::read_dir(packages()?).unwrap().map(|entry| entry.unwrap().path());
    Ok(names.into_iter().find(|path| path.to_str().unwrap().ends_with(end)).unwrap())
}

/// The content of a package that is unpacked sooner where instructions are emulated; made in this folder.
pub(crate) fn without_compression(package: &Path, dir: &Path) -> Vec<u8> {
    let (tree, plain) = (dir.join("tree"), dir.join("plain.deb"));
    run("dpkg-deb", &["--raw-extract", text(package), text(&tree)]).ok();
    run("dpkg-deb", &["-Znone", "--root-owner-group", "--build", text(&tree), text(&plain)]).ended(0);
    fs::remove_dir_all(tree).unwrap();
    fs::read(plain).unwrap()
}

fn run(program: &str, args: &[&str]) -> Ran {
    let mut command = Command::new(find(program).unwrap_or_else(|missing| panic!("{missing}")));
    command.args(args);
    Ran::of(command)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let found = run("find", &[text(folder), "-type", "f", "-printf", "%P\n"]).ok().text();
    let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
    files.sort();
    files
}

/// The tar's content, and the folder in it.
fn unpacked() -> Result<(TempDir, PathBuf), Missing> {
    let (dir, tar) = (tempfile::tempdir().unwrap(), package_of("linux.tar.xz")?);
    run("tar", &["-xf", text(&tar), "-C", text(dir.path())]).ok();
    let top = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    Ok((dir, top))
}

#[test]
fn the_same_programs_give_the_same_bits() {
    let Some(first) = or_skip(packages()) else { return };
    let again = tempfile::tempdir().unwrap();
    package(&[
        Path::new("--of"),
        program::without_libraries().unwrap_or_else(|missing| panic!("{missing}")),
        program::path(),
        again.path(),
    ]);
    let sums = |dir: &Path| fs::read_to_string(dir.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(first), sums(again.path()));
    assert_eq!(sums(first).lines().count(), 3);
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(first);
    Ran::of(check).ok();
}

#[test]
fn the_static_program_plays_its_demo_where_there_is_nothing_else() {
    let Some((dir, top)) = or_skip(unpacked()) else { return };
    let all = files(&top);
    for wanted in
        ["README.md", "LICENSE-MIT", "share/man/man1/brindle.1", "share/zsh/site-functions/_brindle"]
    {
        assert!(all.iter().any(|file| file == wanted), "{wanted}: {all:?}");
    }
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::rename(top.join("bin/brindle"), root.join("brindle")).unwrap();
    let mut chroot = Command::new(find("unshare").unwrap_or_else(|missing| panic!("{missing}")));
    // A user of no rights is root in a namespace of their own.
    let user: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
    chroot.args(user).args(["--root", text(&root), "/brindle", "demo", "--member-size", "8M"]);
    let reported = Ran::of(chroot).ended(0).text();
    assert!(reported.contains(IS_WHOLE), "{reported}");
    assert_eq!(files(&root), ["brindle"]);
}

/// A disk that holds the program.
fn image(dir: &TempDir, top: &Path) -> PathBuf {
    let image = dir.path().join("image");
    run("cp", &[text(&top.join("bin/brindle")), text(&image)]).ok();
    let size = fs::metadata(&image).unwrap().len();
    fs::File::options().write(true).open(&image).unwrap().set_len(size.next_multiple_of(4096)).unwrap();
    image
}

/// Disks of virtio tell their serial number themselves, those of SCSI in a page of product data, with their model.
#[test]
fn members_are_told_by_what_is_printed_on_their_drives() {
    let Some((dir, top)) = or_skip(unpacked()) else { return };
    let image = image(&dir, &top);
    let disks = brindle_tests::files::members(dir.path(), "disk", 6, 8 << 20);
    for (count, bus, model) in [(2, "virtio", serde_json::Value::Null), (6, "scsi", "QEMU HARDDISK".into())] {
        let Some(vm) = or_skip(Vm::new()) else { return };
        // udev is not there, so its names are made here.
        let script = format!(
            "cat /dev/member/0 >/tmp/brindle
            chmod +x /tmp/brindle
            mkdir -p /dev/disk/by-id
            for n in 1 2; do
                disk=$(readlink /dev/member/$n)
                ln -s \"../../${{disk##*/}}\" /dev/disk/by-id/{bus}-BRINDLE-$n
            done
            one=$(readlink -f /dev/member/1) two=$(readlink -f /dev/member/2)
            step create /tmp/brindle create --force -l 1 -N a $one $two
            put one $one
            put two $two
            put detail \"$(/tmp/brindle detail --json $one $two | tr -d '\\n')\"
            put plain \"$(/tmp/brindle detail $one $two | tr '\\n' '|')\"
            /tmp/brindle serve $one $two --nbd unix:/tmp/nbd.sock --runtime-dir /tmp/brindles 2>/tmp/log &
            waited=0
            until [ -e /tmp/nbd.sock ]; do
                waited=$((waited + 1))
                [ $waited -lt 600 ]
                sleep 0.1
            done
            step fail /tmp/brindle fail --runtime-dir /tmp/brindles a $two
            put status \"$(/tmp/brindle status --runtime-dir /tmp/brindles --json a | tr -d '\\n')\"
            put told \"$(/tmp/brindle status --runtime-dir /tmp/brindles a | tr '\\n' '|')\"
            step stop /tmp/brindle stop --runtime-dir /tmp/brindles a
            put log \"$(flat /tmp/log)\""
        );
        let report = vm.disks([&image]).disks(&disks[..count]).run(&script).unwrap();
        let json = |key: &str| serde_json::from_str::<serde_json::Value>(&report[key]).unwrap();
        for (reported, key) in [(json("detail"), "detail"), (json("status")["array"].clone(), "status")] {
            for (n, name) in [(1, "one"), (2, "two")] {
                let devices = reported["devices"].as_array().unwrap();
                let device = devices.iter().find(|device| device["path"] == report[name]);
                let drive = &device.unwrap_or_else(|| panic!("{key}: {name} in {reported}"))["drive"];
                let serial = format!("BRINDLE-{n}");
                assert_eq!(drive["serial"], *serial, "{bus}, {key}: {reported}");
                assert_eq!(drive["by_id"], format!("{bus}-{serial}"), "{bus}, {key}: {reported}");
                assert_eq!(drive["model"], model, "{bus}, {key}: {reported}");
            }
        }
        for key in ["plain", "told", "log"] {
            let words = format!("serial BRINDLE-2, {bus}-BRINDLE-2");
            assert!(report[key].contains(&words), "{bus}, {key}: {}", &report[key]);
        }
    }
}

/// The kernel of Debian 11 is too old for the ring, so threads ask the members, and nothing but the program is there.
#[test]
fn the_static_program_plays_its_demo_on_linux_5_10() {
    let Some((dir, top)) = or_skip(unpacked()) else { return };
    let Some(vm) = or_skip(Vm::on(Kernel::Old)) else { return };
    assert_eq!(vm.version(), (5, 10));
    let image = image(&dir, &top);
    let script = "cat /dev/member/0 >/tmp/brindle
        chmod +x /tmp/brindle
        /tmp/brindle demo --member-size 8M >/tmp/demo
        put demo \"$(flat /tmp/demo)\"
        truncate -s 8M /tmp/a /tmp/b
        /tmp/brindle create -l 1 /tmp/a /tmp/b >/tmp/said 2>&1
        put said \"$(flat /tmp/said)\"
        /tmp/brindle detail --reactor uring /tmp/a /tmp/b >/tmp/uring 2>&1 || true
        put uring \"$(flat /tmp/uring)\"";
    let report = vm.disks([&image]).run(script).unwrap();
    assert!(report["demo"].contains(IS_WHOLE), "{}", &report["demo"]);
    for (key, words) in [("said", "members are asked by threads"), ("said", "5.19"), ("uring", "5.19")] {
        assert!(report[key].contains(words), "{}", &report[key]);
    }
}

#[test]
fn debian_takes_the_package_and_lets_go_of_it() {
    let Some(deb) = or_skip(package_of(".deb")) else { return };
    if let Some(lintian) = or_skip(find("lintian")) {
        let mut lintian = Command::new(lintian);
        lintian.args(["--allow-root", "--fail-on", "error,warning", text(&deb)]);
        let reported = Ran::of(lintian).ended(0).text();
        assert!(!reported.lines().any(|line| line.starts_with("W:") || line.starts_with("E:")), "{reported}");
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let state = root.join("var/lib/dpkg");
    fs::create_dir_all(state.join("info")).unwrap();
    fs::create_dir(state.join("updates")).unwrap();
    fs::write(state.join("status"), "").unwrap();
    let dpkg = |args: &[&str]| {
        let (root, log) =
            (format!("--root={}", text(&root)), format!("--log={}", text(&dir.path().join("log"))));
        let flags = ["--force-not-root,depends,bad-path,script-chrootless", root.as_str(), log.as_str()];
        run("dpkg", &[&flags, args].concat()).ended(0)
    };
    dpkg(&["--install", text(&deb)]);
    let mut program = Command::new(root.join("usr/bin/brindle"));
    program.arg("--version");
    assert!(Ran::of(program).ok().text().starts_with("brindle "));
    let installed = files(&root.join("usr"));
    for wanted in ["share/man/man1/brindle-cat.1.gz", "share/bash-completion/completions/brindle"] {
        assert!(installed.iter().any(|file| file == wanted), "{wanted}: {installed:?}");
    }

    // A newer one in its place.
    let (newer, tree) = (dir.path().join("newer.deb"), dir.path().join("tree"));
    run("dpkg-deb", &["--raw-extract", text(&deb), text(&tree)]).ok();
    let control = fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    assert!(control.lines().any(|line| line.starts_with("Depends: libc6 (>= ")), "{control}");
    let version = control.lines().find_map(|line| line.strip_prefix("Version: ")).unwrap();
    fs::write(tree.join("DEBIAN/control"), control.replace(version, "99.0-1")).unwrap();
    fs::remove_file(tree.join("usr/share/fish/vendor_completions.d/brindle.fish")).unwrap();
    run("dpkg-deb", &["-Znone", "--root-owner-group", "--build", text(&tree), text(&newer)]).ended(0);
    dpkg(&["--install", text(&newer)]);
    assert!(dpkg(&["--status", "brindle"]).text().contains("Version: 99.0-1"));
    assert_eq!(files(&root.join("usr")).len(), installed.len() - 1);

    dpkg(&["--purge", "brindle"]);
    assert!(!root.join("usr").exists(), "{:?}", files(&root));
}

/// As systemd judges it: 0 is closed, 10 is open.
#[test]
fn the_unit_of_the_service_is_exposed_at_most_by_3_5() {
    let Some(analyze) = or_skip(find("systemd-analyze")) else { return };
    let mut command = Command::new(analyze);
    command.args(["security", "--no-pager", "--offline=true", "--threshold=35"]);
    command.arg(checkout().join("packaging/systemd/brindle.service"));
    let judged = Ran::of(command).ended(0).text();
    assert!(judged.contains("Overall exposure level for brindle.service"), "{judged}");
}

/// The console's unit has no rights at all, and the package does not enable it.
#[test]
fn the_unit_of_the_console_is_exposed_at_most_by_2_and_is_not_enabled() {
    let Some(analyze) = or_skip(find("systemd-analyze")) else { return };
    let mut command = Command::new(analyze);
    command.args(["security", "--no-pager", "--offline=true", "--threshold=20"]);
    command.arg(checkout().join("packaging/systemd/brindle-console.service"));
    let judged = Ran::of(command).ended(0).text();
    assert!(judged.contains("Overall exposure level for brindle-console.service"), "{judged}");
    let Some(deb) = or_skip(package_of(".deb")) else { return };
    let all = run("dpkg-deb", &["--contents", text(&deb)]).ok().text();
    assert!(all.contains("lib/systemd/system/brindle-console.service"), "{all}");
    assert!(all.contains("usr/lib/sysusers.d/brindle.conf"), "{all}");
    assert!(!all.contains(".wants/"), "{all}");
}

#[test]
fn make_install_puts_all_where_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut make = Command::new("make");
    make.current_dir(checkout()).args(["--old-file=build", "install", "PREFIX=/opt/brindle"]);
    make.arg(format!("DESTDIR={}", text(dir.path()))).arg(format!("PROGRAM={}", text(program::path())));
    Ran::of(make).ended(0);
    let all = files(dir.path());
    for wanted in
        ["bin/brindle", "share/man/man1/brindle-serve.1", "share/fish/vendor_completions.d/brindle.fish"]
    {
        assert!(all.contains(&format!("opt/brindle/{wanted}")), "{wanted}: {all:?}");
    }
    let mode = fs::metadata(dir.path().join("opt/brindle/bin/brindle")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

/// The image's one layer and its configuration, as a bundle for crun: the folder, and what becomes of it.
fn bundle(dir: &Path, args: &[&str]) -> Result<(), Missing> {
    let image = package_of("oci.tar")?;
    run("tar", &["-xf", text(&image), "-C", text(dir)]).ok();
    let read =
        |digest: &serde_json::Value| dir.join("blobs").join(digest.as_str().unwrap().replace(':', "/"));
    let json = |path: &Path| serde_json::from_slice::<serde_json::Value>(&fs::read(path).unwrap()).unwrap();
    let manifest = json(&read(&json(&dir.join("index.json"))["manifests"][0]["digest"]));
    let config = json(&read(&manifest["config"]["digest"]));
    let health = &config["config"]["Healthcheck"]["Test"];
    assert_eq!(*health, serde_json::json!(["CMD", "/bin/brindle", "status", "--test"]));
    assert_eq!(config["config"]["User"], "65532:65532");
    fs::create_dir(dir.join("rootfs")).unwrap();
    let layer = read(&manifest["layers"][0]["digest"]);
    run("tar", &["-xzf", text(&layer), "-C", text(&dir.join("rootfs"))]).ok();
    let mut run = vec![config["config"]["Entrypoint"][0].as_str().unwrap()];
    run.extend(args);
    let mount = |at: &str, kind: &str, source: &str, options: &[&str]| serde_json::json!({"destination": at, "type": kind, "source": source, "options": options});
    let spec = serde_json::json!({
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 65532, "gid": 65532}, "args": run, "cwd": config["config"]["WorkingDir"],
            "env": config["config"]["Env"], "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": true},
        "mounts": [
            mount("/proc", "proc", "proc", &[]),
            mount("/dev", "tmpfs", "tmpfs", &["nosuid", "mode=755"]),
            mount("/data", "none", text(&dir.join("data")), &["bind", "rw"]),
            mount("/run/brindle", "none", text(&dir.join("run")), &["bind", "rw"]),
        ],
        "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "network"}]},
    });
    fs::write(dir.join("config.json"), spec.to_string()).unwrap();
    Ok(())
}

/// crun in a mount namespace with control groups of version 2, whatever this machine has.
fn crun(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec crun \"$@\"";
    command.args(["--mount", "sh", "-ec", script, "sh", "--cgroup-manager=disabled", "--root"]);
    command.arg(dir.join("state")).args(args);
    command
}

/// A container that is ended, whatever becomes of the test.
struct Container {
    child: Child,
    dir: PathBuf,
}

impl Container {
    fn start(dir: &Path) -> Self {
        let child = crun(dir, &["run", "-b", text(dir), "brindle-test"]).spawn().unwrap();
        Self { child, dir: dir.to_owned() }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The container is crun's child's child: to end crun alone would leave it.
            let _ = crun(&self.dir, &["delete", "--force", "brindle-test"]).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn the_image_serves_on_a_socket_without_root_and_tells_of_its_health() {
    if or_skip(find("crun")).is_none() {
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    if or_skip(is_root.then_some(()).ok_or_else(|| Missing::new("only root may make control groups anew")))
        .is_none()
    {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [data, state] = ["data", "run"].map(|name| dir.path().join(name));
    for folder in [&data, &state] {
        fs::create_dir(folder).unwrap();
        rustix::fs::chown(folder, Some(rustix::process::Uid::from_raw(65532)), None).unwrap();
    }
    let members = ["m0", "m1", "m2"].map(|name| data.join(name));
    members.iter().for_each(|member| brindle_tests::files::sparse(member, 8 << 20));
    let mut create = Command::new(program::path());
    create.args(["create", "-l", "5", "-N", "a"]).args(&members);
    Ran::of(create).ended(0);
    for member in &members {
        rustix::fs::chown(member, Some(rustix::process::Uid::from_raw(65532)), None).unwrap();
    }
    let serve = ["serve", "--nbd", "unix:/data/nbd.sock", "m0", "m1", "m2"];
    if or_skip(bundle(dir.path(), &serve)).is_none() {
        return;
    }
    let mut container = Container::start(dir.path());
    let (socket, begun) = (data.join("nbd.sock"), Instant::now());
    while !socket.exists() {
        assert_eq!(container.child.try_wait().unwrap(), None, "the container ended");
        assert!(begun.elapsed() < Duration::from_secs(60), "no socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = Client::connect(&format!("nbd+unix:///?socket={}", text(&socket)));
    assert_eq!(client.read(0, 4096), vec![0; 4096]);
    let health = |whole: i32| {
        let asked = crun(
            dir.path(),
            &["exec", "--user=65532:65532", "brindle-test", "/bin/brindle", "status", "--test"],
        );
        Ran::of(asked).ended(whole);
    };
    health(0);
    Ran::of(crun(
        dir.path(),
        &["exec", "--user=65532:65532", "brindle-test", "/bin/brindle", "fail", "a", "m1"],
    ))
    .ended(0);
    health(1);
    client.close();
    Ran::of(crun(dir.path(), &["kill", "brindle-test", "TERM"])).ended(0);
    let ended = container.child.wait().unwrap();
    assert!(ended.success(), "{ended}");
}

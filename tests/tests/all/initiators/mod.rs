//! Initiators of others on a server of ours: open-iscsi and the kernel in a machine, and QEMU's own driver.

mod takeovers;
mod way;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{self, or_skip};
use brindle_tests::vm::{HOST, Kernel, Vm};
use rustix::process::Signal;
use tempfile::TempDir;
use way::Way;

/// The secrets of the initiator and of the target, as the initiators' script has them, too.
const SECRETS: &str = "initiator guest a secret of 20 bytes\ninitiator reader a third secret of 24 b.\n\
                       target target another one of 24 bytes.\n";
/// Rights to the array.
const RIGHTS: &str = "a chap:guest write\na chap:reader read\n";

/// An array that a server offers by two portals.
struct Scene {
    dir: TempDir,
    members: Vec<PathBuf>,
    server: Option<Server>,
    /// Of the portals, and the target behind them.
    ports: Vec<String>,
    target: String,
    /// The address that other machines are told leads to the second portal.
    way: Option<Way>,
    /// The server is a daemon, in whose place another can go on.
    is_daemon: bool,
}

impl Scene {
    fn new() -> Self {
        Self::of(false)
    }

    fn of(is_daemon: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "m", 3, 24 * MIB);
        let secrets = dir.path().join("secrets");
        std::fs::write(&secrets, SECRETS).unwrap();
        std::fs::set_permissions(&secrets, PermissionsExt::from_mode(0o600)).unwrap();
        let create =
            ["create", "--level", "5", "--bitmap", "internal", "--name", "here:a"].map(PathBuf::from);
        program::brindle(create.iter().chain(&members)).ok();
        let ports = vec!["0".to_owned(); 2];
        let mut scene =
            Self { dir, members, server: None, ports, target: String::new(), way: None, is_daemon };
        scene.serve();
        scene
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Starts the server, on the ports that it had before.
    fn serve(&mut self) {
        self.serve_with(&[]);
    }

    fn serve_with(&mut self, flags: &[&str]) {
        if self.is_daemon {
            return self.serve_by_daemon(flags);
        }
        let portals: Vec<String> = self.ports.iter().map(|port| format!("0.0.0.0:{port}")).collect();
        let (secrets, state) = (self.path("secrets"), self.path("state"));
        let rights = self.path("rights");
        std::fs::write(&rights, RIGHTS).unwrap();
        let mut words = vec!["--iscsi-secrets", &secrets, "--iscsi-state", &state, "--access", &rights];
        words.extend(flags);
        words.extend(portals.iter().flat_map(|portal| ["--iscsi", portal]));
        words.extend(self.members.iter().map(|member| member.to_str().unwrap()));
        self.found(Server::start(&self.dir.path().join("run"), words));
    }

    /// The server tells its portals and its target.
    fn found(&mut self, server: Server) {
        let uris = server.said["iscsi"].as_array().expect("portals");
        // iscsi://ADDRESS:PORT/TARGET/0
        let parts = |uri: &str| {
            let (address, rest) = uri.trim_start_matches("iscsi://").split_once('/').expect("a target");
            (address.rsplit(':').next().expect("a port").to_owned(), rest.trim_end_matches("/0").to_owned())
        };
        let found: Vec<_> = uris.iter().map(|uri| parts(uri.as_str().expect("a URI"))).collect();
        self.target = found[0].1.clone();
        self.ports = found.into_iter().map(|(port, _)| port).collect();
        self.server = Some(server);
    }

    fn second_port(&self) -> u16 {
        self.ports[1].parse().expect("a port")
    }

    /// Does what the machine asks for.
    fn act(&mut self, word: &str) {
        match word {
            "kill" => {
                let (code, _) = self.server.take().expect("it runs").signal(Signal::KILL);
                assert_eq!(code, -1);
                released(&self.members);
                self.serve();
            }
            "takeover" => self.take_over(),
            "close" => self.way.as_mut().expect("a way").close(),
            "open" => self.way.as_mut().expect("a way").open(),
            other => panic!("nobody can {other}"),
        }
    }

    /// The server's status and its messages, for a test that failed. Ends the server.
    fn told(mut self) -> String {
        let server = self.server.take().expect("it runs");
        let status = server.status();
        let (code, messages) = server.signal(Signal::TERM);
        format!("status: {status}\nexit status: {code}, messages:\n{messages}")
    }

    /// Ends the server in order.
    fn end(mut self) {
        let (code, err) = self.server.take().expect("it runs").signal(Signal::TERM);
        assert_eq!(code, 0, "{err}");
    }
}

/// Waits until a killed server has let go of the members: the kernel ends its ring later than the process.
fn released(members: &[PathBuf]) {
    for member in members {
        let file = std::fs::File::open(member).unwrap();
        while file.try_lock().is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs a machine whose script may ask for things, and gives back the scene in which they were done.
fn played(mut scene: Scene, vm: Vm, script: &str) -> (Scene, brindle_tests::vm::Report) {
    scene.way = Some(Way::to(scene.second_port()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let control = listener.local_addr().unwrap();
    let script = format!(
        "HOST={HOST} FIRST={} SECOND={} CONTROL={}\n{}\n{script}",
        scene.ports[0],
        scene.way.as_ref().expect("just made").port(),
        control.port(),
        include_str!("session.sh")
    );
    let acting = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut word = String::new();
            BufReader::new(&stream).read_line(&mut word).unwrap();
            match word.trim() {
                "over" => return scene,
                word => scene.act(word),
            }
            stream.write_all(b"done\n").unwrap();
        }
    });
    let report = vm.run(&script);
    TcpStream::connect(control).unwrap().write_all(b"over\n").unwrap();
    let scene = acting.join().unwrap();
    match report {
        Ok(report) => (scene, report),
        Err(error) => panic!("{error}\n{}", scene.told()),
    }
}

/// Chap both ways, digests, ext4 while the server is killed, then two paths of which one is closed again and again.
#[test]
fn linux_keeps_its_data_while_the_server_is_killed_and_a_portal_closed() {
    let long = std::env::var_os("BRINDLE_LONG").is_some();
    for kernel in Kernel::ALL {
        let Some(vm) = or_skip(Vm::on(kernel).and_then(Vm::initiator)) else { return };
        let (closings, least) = if long { (50, 600) } else { (2, 0) };
        let vm = vm.limit(Duration::from_secs(if long { 3000 } else { 600 }));
        let script = format!("CLOSINGS={closings} LEAST={least}\n{}", include_str!("linux.sh"));
        let (scene, report) = played(Scene::new(), vm, &script);
        assert_eq!((&report["digests"], &report["targets"]), ("2", "1"), "of headers and of data");
        assert_eq!(&report["portals"], "2", "discovery names the address that it has reached");
        assert_eq!(report["closings"], closings.to_string());
        // A reader's reset ends its own session alone.
        assert_eq!((&report["read_only"], &report["sessions"]), ("1", "2 2"));
        println!(
            "{kernel:?}: {closings} closings, {} verified rounds of both paths, {} s of fio, in {:?}",
            &report["rounds"], &report["seconds"], report.took
        );
        let status = scene.server.as_ref().expect("it runs").status();
        assert_eq!(status["array"]["degraded"].as_u64().unwrap_or(0), 0, "{status}");
        scene.end();
    }
}

/// Options of QEMU for the array.
fn image(scene: &Scene) -> String {
    format!(
        "driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=127.0.0.1:{},file.target={},file.lun=0,file.user=guest,\
         file.password-secret=s,file.header-digest=crc32c,file.initiator-name=iqn.2026-11.example:qemu",
        scene.ports[0], scene.target
    )
}

#[test]
fn the_driver_of_qemu_writes_and_reads() {
    let wanted = ["qemu-img", "qemu-io"].map(tools::find);
    let [Some(img), Some(io)] = wanted.map(or_skip) else { return };
    let scene = Scene::new();
    let secret = format!("secret,id=s,data={}", "a secret of 20 bytes");
    let run = |program: &Path, words: &[&str]| {
        let out = Command::new(program).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
        (out.status.success(), said)
    };
    let (content, target) = (scene.path("content"), image(&scene));
    let size = scene.server.as_ref().expect("it runs").status()["array"]["size"].as_u64().unwrap();
    files::write_pattern(Path::new(&content), size, 32);
    let file = format!("driver=raw,file.driver=file,file.filename={content}");
    let (done, said) = run(
        &img,
        &["convert", "--object", &secret, "-n", "--image-opts", "--target-image-opts", &file, &target],
    );
    assert!(done, "{said}");
    let (done, said) = run(&img, &["compare", "--object", &secret, "--image-opts", &file, &target]);
    assert!(done && said.contains("identical"), "{said}");
    let commands =
        ["write -P 7 4k 1M", "write -z 64k 64k", "discard 2M 1M", "read -P 0 64k 64k", "read -P 7 128k 256k"];
    let mut words = vec!["--object", &secret, "--image-opts", "-t", "none"];
    words.extend(commands.iter().flat_map(|command| ["-c", command]));
    words.push(&target);
    let (done, said) = run(&io, &words);
    assert!(done && !said.contains("failed") && !said.contains("rror"), "{said}");
    // Without its secret it does not come in.
    let (done, said) =
        run(&img, &["info", "--object", "secret,id=s,data=another one of 20", "--image-opts", &target]);
    assert!(!done, "{said}");
    scene.end();
}

/// Bytes of memory that a process has had at most.
fn most_resident(pid: u64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Lets this process have some thousand sockets.
fn many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(4096, |most| most.min(4096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).unwrap();
}

#[test]
fn a_thousand_half_open_logins_hold_little_and_keep_nobody_out() {
    let Some(inquire) = or_skip(tools::find("iscsi-inq")) else { return };
    many_files();
    let scene = Scene::new();
    let served = || {
        let uri = format!("iscsi://127.0.0.1:{}/{}/0", scene.ports[0], scene.target);
        let secret = ["LIBISCSI_CHAP_USERNAME", "LIBISCSI_CHAP_PASSWORD"]
            .into_iter()
            .zip(["guest", "a secret of 20 bytes"]);
        let out = Command::new(&inquire).arg(&uri).envs(secret).output().unwrap();
        String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).contains("DIRECT_ACCESS")
    };
    assert!(served(), "before all others");
    let pid = scene.server.as_ref().expect("it runs").said["pid"].as_u64().expect("a number");
    let before = most_resident(pid);
    // The head of a login, which announces text, and a part of that.
    let mut login = [0; 60];
    (login[0], login[1], login[7]) = (0x43, 0x81, 200);
    let mut held = Vec::new();
    for number in 1..=1000 {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", scene.ports[number % 2])).unwrap();
        // One that was made to leave again by others is as good.
        let _ = stream.write_all(&login[..number % login.len()]);
        held.push(stream);
        if number % 200 == 0 {
            assert!(served(), "beside {number}");
        }
    }
    let more = most_resident(pid) - before;
    println!("1000 half-open logins: {} KiB", more >> 10);
    assert!(more <= 64 << 20, "{more} bytes");
    drop(held);
    scene.end();
}

#[test]
fn a_patience_that_initiators_do_not_bear_is_reported_at_the_start() {
    for (flags, reported) in
        [(&["--member-timeout", "5s"][..], true), (&["--member-timeout", "4s"], false), (&[], false)]
    {
        let mut scene = Scene::new();
        drop(scene.server.take());
        released(&scene.members);
        scene.serve_with(flags);
        let (code, err) = scene.server.take().expect("it runs").signal(Signal::TERM);
        assert!(code == 0 && err.contains("VMware") == reported, "{flags:?}: {code} {err}");
    }
}

//! Initiators go on while one daemon after the other takes over.

use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use brindle_export::nbd::client::Client;

use super::*;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Bytes of a write.
const LEN: usize = 64 << 10;

/// Blocks that are written in turn.
const BLOCKS: u64 = 64;

impl Scene {
    pub(super) fn serve_by_daemon(&mut self, flags: &[&str]) {
        let portals: Vec<String> = self.ports.iter().map(|port| format!("0.0.0.0:{port}")).collect();
        let (secrets, state) = (self.path("secrets"), self.path("state"));
        let settings = format!(
            "homehost = \"here\"\nwait = \"1ms\"\ndevices = {:?}\n[tuning]\nmemory = \"64M\"\n[exports.iscsi]\nportals = {portals:?}\n\
             secrets = {secrets:?}\nstate = {state:?}\n",
            self.members
        );
        std::fs::write(self.path("brindle.toml"), settings).unwrap();
        let server = self.daemon(flags);
        self.found(server);
    }

    fn daemon(&self, flags: &[&str]) -> Server {
        let file = self.path("brindle.toml");
        let words = flags.iter().copied().chain(["--config", &file]);
        Server::start_by("daemon", &self.dir.path().join("run"), words, &[])
    }

    /// Another daemon goes on in the place of the one that runs.
    pub(super) fn take_over(&mut self) {
        let (ports, target) = (self.ports.clone(), self.target.clone());
        let mut old = self.server.take().expect("it runs");
        let new = self.daemon(&["--takeover"]);
        let (code, err) = old.end();
        // On a busy machine files are slow at times.
        let is_usual = |line: &str| {
            ["authenticated, not encrypted", "has grown slow", "is slow", "is as fast"]
                .iter()
                .any(|words| line.contains(words))
        };
        assert!(code == 0 && err.lines().all(is_usual), "{code}: {err}");
        self.found(new);
        assert_eq!((&self.ports, &self.target), (&ports, &target), "all is where it was");
    }
}

/// Takeovers: two, if `BRINDLE_TAKEOVERS` does not say how many.
fn takeovers() -> u64 {
    std::env::var("BRINDLE_TAKEOVERS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

/// ext4 on a disk of open-iscsi, with CHAP both ways and digests: fio writes and verifies, and the kernel complains of nothing.
#[test]
fn linux_sees_no_error_while_one_daemon_after_the_other_takes_over() {
    let Some(vm) = or_skip(Vm::on(Kernel::Release).and_then(Vm::initiator)) else { return };
    let vm = vm.limit(Duration::from_secs(600 + 60 * takeovers()));
    let script = format!("TAKEOVERS={}\n{}", takeovers(), include_str!("takeovers.sh"));
    let (scene, report) = played(Scene::of(true), vm, &script);
    assert_eq!((&report["takeovers"], &report["errors"]), (&*takeovers().to_string(), "0"));
    println!("{} takeovers, {} verified rounds, in {:?}", takeovers(), &report["rounds"], report.took);
    let status = scene.server.as_ref().expect("it runs").status();
    assert_eq!(status["array"]["degraded"].as_u64().unwrap_or(0), 0, "{status}");
    scene.end();
}

/// libiscsi behind qemu-nbd, whose client writes and compares.
struct Bridge {
    child: Child,
    socket: PathBuf,
}

impl Bridge {
    fn new(program: &Path, scene: &Scene) -> Self {
        let socket = PathBuf::from(scene.path("bridge"));
        let mut command = Command::new(program);
        command.args([
            "--object",
            "secret,id=s,data=a secret of 20 bytes",
            "--cache",
            "none",
            "--image-opts",
        ]);
        command.arg(image(scene)).arg("--socket").arg(&socket).stderr(Stdio::inherit());
        let bridge = Self { child: command.spawn().unwrap(), socket };
        let begun = Instant::now();
        while !bridge.socket.exists() {
            assert!(begun.elapsed() < PATIENCE, "it does not log in");
            std::thread::sleep(Duration::from_millis(10));
        }
        bridge
    }

    /// Writes and reads until that ends: no byte is wrong, and no request fails.
    fn write_and_read(&self, ends: &AtomicBool, requests: &AtomicU64) {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client::connect(stream, "").unwrap();
        let (mut written, mut turn) = (vec![None; BLOCKS as usize], 0_u64);
        while !ends.load(Relaxed) {
            turn += 1;
            let (at, byte) = (turn % BLOCKS, (turn / BLOCKS + turn) as u8);
            client.write(at * LEN as u64, &vec![byte; LEN]).unwrap();
            written[at as usize] = Some(byte);
            let other = turn * 7 % BLOCKS;
            let mut read = vec![0; LEN];
            client.read(other * LEN as u64, &mut read).unwrap();
            let expected = written[other as usize];
            assert!(expected.is_none_or(|byte| read == vec![byte; LEN]), "block {other} at turn {turn}");
            requests.fetch_add(2, Relaxed);
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn libiscsi_sees_no_error_while_one_daemon_after_the_other_takes_over() {
    let Some(program) = or_skip(tools::find("qemu-nbd")) else { return };
    let mut scene = Scene::of(true);
    let bridge = Bridge::new(&program, &scene);
    let (ends, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| bridge.write_and_read(&ends, &requests));
        for _ in 0..takeovers() {
            let (before, begun) = (requests.load(Relaxed), Instant::now());
            while requests.load(Relaxed) < before + 50 && !client.is_finished() {
                assert!(begun.elapsed() < PATIENCE, "nothing is done");
                std::thread::sleep(Duration::from_millis(1));
            }
            if client.is_finished() {
                break;
            }
            scene.take_over();
        }
        let (before, begun) = (requests.load(Relaxed), Instant::now());
        while requests.load(Relaxed) < before + 50 && !client.is_finished() {
            assert!(begun.elapsed() < PATIENCE, "nothing is done after the last");
            std::thread::sleep(Duration::from_millis(1));
        }
        ends.store(true, Relaxed);
        client.join().unwrap();
    });
    println!("{} takeovers with {} requests", takeovers(), requests.load(Relaxed));
    drop(bridge);
    scene.end();
}

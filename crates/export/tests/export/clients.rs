//! Real clients over real sockets: libnbd's tools and binding, QEMU's, and fio.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use crate::support::session;
use brindle_export::nbd::client::{Client, ClientError};
use brindle_export::nbd::{Config, Server};
use brindle_io::uring::Uring;
use brindle_io::{Io, Remote};
use brindle_testkit::ram::RamVolume;
use brindle_testkit::random::Random;
use brindle_testkit::skip::{Missing, find, or_skip};

const SIZE: u64 = 64 << 20;

/// A server on a thread of its own, with one export in RAM.
struct Host {
    /// Holds the socket; removed in the end.
    dir: tempfile::TempDir,
    port: u16,
    remote: Remote,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// `None`, with a note, if this kernel lets nobody use io_uring.
    fn start() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("nbd");
        let (send, recv) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || run(&path, &send, &stopped));
        let started: Result<_, String> = recv.recv().expect("the server begins or says why not");
        let (port, remote) = or_skip(started.map_err(Missing::new))?;
        Some(Self { dir, port, remote, stop, thread: Some(thread) })
    }

    fn unix(&self) -> String {
        format!("nbd+unix:///disk?socket={}", self.dir.path().join("nbd").display())
    }

    fn tcp(&self) -> String {
        format!("nbd://127.0.0.1:{}/disk", self.port)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Stops the server, which checks that nothing is left.
    fn end(mut self) {
        self.shut_down();
        let thread = self.thread.take().expect("not ended yet");
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }

    fn shut_down(&self) {
        self.stop.store(true, Ordering::Release);
        self.remote.run(|_| {});
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shut_down(); // a test failed: let the thread go
        }
    }
}

type Started = Result<(u16, Remote), String>;

fn run(path: &Path, started: &mpsc::Sender<Started>, stop: &AtomicBool) {
    let uring = match Uring::new() {
        Ok(uring) => uring,
        Err(error) => {
            started.send(Err(error.to_string())).expect("somebody waits");
            return;
        }
    };
    let io = Io::new(Box::new(uring.clone()));
    let volume = RamVolume::new(&io, SIZE);
    let server = Server::new(&io, Config::default());
    server.add_export("disk", "64 MiB of RAM", Rc::clone(&volume)).expect("a fresh name");
    server.serve(uring.listen_unix(path).expect("a fresh path"));
    let tcp = uring.listen_tcp("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    server.serve(tcp);
    let port = uring.local_addr(tcp).expect("bound").port();
    started.send(Ok((port, io.remote()))).expect("somebody waits");
    io.block_on(async {
        while !stop.load(Ordering::Acquire) {
            io.sleep(brindle_io::Duration::from_millis(10)).await;
        }
        server.stop().await;
        while io.in_flight() > 0 {
            io.yield_now().await; // what was cancelled holds its buffers until the kernel has let go
        }
    });
    assert_eq!(io.tasks_alive(), 0, "tasks are left");
    assert_eq!(server.memory_in_use(), 0, "buffers are left");
    assert_eq!(volume.busy.get(), 0);
}

/// A command, or `None` with a note if its program is not installed.
fn tool(name: &str) -> Option<Command> {
    let mut command = Command::new(or_skip(find(name))?);
    command.stdin(Stdio::null());
    Some(command)
}

/// Runs to success; returns what was printed.
fn run_tool(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}

fn random_file(path: &Path, len: u64) -> Vec<u8> {
    let bytes = Random::new(1).bytes(len as usize);
    std::fs::write(path, &bytes).expect("room for a temporary file");
    bytes
}

#[test]
fn nbdinfo_sees_all() {
    let (Some(_), Some(host)) = (tool("nbdinfo"), Host::start()) else { return };
    for uri in [host.unix(), host.tcp()] {
        let nbdinfo = |args: &[&str]| run_tool(tool("nbdinfo").expect("there").args(args).arg(&uri));
        let reported = nbdinfo(&["--json"]);
        for part in [
            "\"protocol\": \"newstyle-fixed\"",
            "\"structured\": true",
            "\"export-name\": \"disk\"",
            "\"export-size\": 67108864",
            "\"description\": \"64 MiB of RAM\"",
            "\"base:allocation\"",
            "\"can_cache\": false",
            "\"can_df\": true",
            "\"can_fast_zero\": true",
            "\"can_flush\": true",
            "\"can_fua\": true",
            "\"can_multi_conn\": true",
            "\"can_trim\": true",
            "\"can_zero\": true",
            "\"is_read_only\": false",
            "\"block_size_minimum\": 512",
            "\"block_size_preferred\": 4096",
            "\"block_size_maximum\": 33554432",
        ] {
            assert!(reported.contains(part), "no {part} in {reported}");
        }
        assert!(nbdinfo(&["--list"]).contains("export=\"disk\""));
        assert_eq!(
            nbdinfo(&["--map"]).split_whitespace().collect::<Vec<_>>(),
            ["0", "67108864", "3", "hole,zero"]
        );
    }
    host.end();
}

#[test]
fn nbdcopy_there_and_back() {
    let (Some(_), Some(host)) = (tool("nbdcopy"), Host::start()) else { return };
    let (from, to) = (host.file("from"), host.file("to"));
    let content = random_file(&from, SIZE);
    for uri in [host.unix(), host.tcp()] {
        let nbdcopy = || tool("nbdcopy").expect("there");
        run_tool(nbdcopy().args(["--connections=4", "--flush"]).arg(&from).arg(&uri));
        run_tool(nbdcopy().args(["--connections=4", "--request-size=1048576"]).arg(&uri).arg(&to));
        assert!(std::fs::read(&to).expect("a copy") == content);
        std::fs::remove_file(&to).expect("there");
        // And with the largest requests.
        run_tool(nbdcopy().args(["--request-size=33554432", "--queue-size=1073741824"]).arg(&uri).arg(&to));
        assert!(std::fs::read(&to).expect("a copy") == content);
        std::fs::remove_file(&to).expect("there");
    }
    host.end();
}

/// Commands for libnbd's binding; it checks that each reply is well-formed.
const SCRIPT: &str = r#"
import os
def fails(name, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errno == name, error
    else:
        assert False, "no error"
assert h.get_structured_replies_negotiated() and h.can_meta_context("base:allocation")
h.set_strict_mode(0)
a, b = os.urandom(4096), os.urandom(65536)
h.pwrite(a, 8192, nbd.CMD_FLAG_FUA)
h.pwrite(b, 1 << 20)
h.flush()
assert h.pread(4096, 8192, nbd.CMD_FLAG_DF) == a and h.pread(65536, 1 << 20) == b
extents = []
h.block_status(2 << 20, 0, lambda context, offset, entries, error: extents.extend(entries))
assert extents == [8192, 3, 4096, 0, (1 << 20) - 12288, 3, 65536, 0, (1 << 20) - 65536, 3], extents
one = []
h.block_status(1 << 20, 0, lambda context, offset, entries, error: one.extend(entries), nbd.CMD_FLAG_REQ_ONE)
assert one == [8192, 3], one
h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(4096, 8192) == bytes(4096)
h.trim(65536, 1 << 20)
fails("EINVAL", lambda: h.pread(512, 1))
fails("EINVAL", lambda: h.pread(512, h.get_size()))
fails("ENOSPC", lambda: h.pwrite(bytes(512), h.get_size()))
fails("EINVAL", lambda: h.pwrite(bytes(100), 0))
fails("EINVAL", lambda: h.cache(512, 0))
fails("ENOTSUP", lambda: h.zero(2 << 20, 0, nbd.CMD_FLAG_FAST_ZERO))
big = os.urandom(32 << 20)
h.pwrite(big, 4096)
assert h.pread(32 << 20, 4096) == big
# Many at once, in any order.
pending = []
for i in range(500):
    buffer = nbd.Buffer(8192)
    pending.append((i, buffer, h.aio_pread(buffer, 4096 + i * 8192)))
while h.aio_in_flight():
    h.poll(-1)
for i, buffer, cookie in pending:
    assert h.aio_command_completed(cookie)
    assert buffer.to_bytearray() == big[i * 8192:(i + 1) * 8192]
h.shutdown()
print("well")
"#;

#[test]
fn nbdsh_agrees_on_each_command() {
    let Some(_) = tool("nbdsh") else { return };
    for over in [Host::unix, Host::tcp] {
        let Some(host) = Host::start() else { return };
        let mut nbdsh = tool("nbdsh").expect("there");
        nbdsh.env("PATH", "/usr/bin:/bin"); // the binding is for the system's Python, which another may hide
        let reported = run_tool(nbdsh.args(["--base-allocation", "-u", &over(&host), "-c", SCRIPT]));
        assert_eq!(reported, "well\n");
        host.end();
    }
}

#[test]
fn qemu_io_writes_and_verifies() {
    let (Some(_), Some(host)) = (tool("qemu-io"), Host::start()) else { return };
    for uri in [host.unix(), host.tcp()] {
        let commands = [
            "write -P 1 0 1M",
            "write -f -P 2 1M 64k",
            "aio_write -P 3 2M 128k",
            "aio_write -P 4 3M 33M",
            "aio_flush",
            "write -z 512k 64k",
            "write -z -n 640k 64k",
            "discard 40M 1M",
            "flush",
            "read -P 1 0 512k",
            "read -P 0 512k 64k",
            "read -P 1 576k 64k",
            "read -P 0 640k 64k",
            "read -P 1 704k 320k",
            "read -P 2 1M 64k",
            "read -P 3 2M 128k",
            "read -P 4 3M 33M",
            "read -P 0 40M 1M",
        ];
        let mut qemu = tool("qemu-io").expect("there");
        qemu.args(["-f", "raw", "-d", "unmap"]);
        commands.iter().for_each(|command| _ = qemu.args(["-c", command]));
        let reported = run_tool(qemu.arg(&uri));
        assert!(!reported.contains("failed"), "{reported}");
    }
    host.end();
}

#[test]
fn qemu_img_converts_and_compares() {
    let (Some(_), Some(host)) = (tool("qemu-img"), Host::start()) else { return };
    let from = host.file("from");
    random_file(&from, SIZE);
    // Half of it a hole.
    let file = std::fs::File::options().write(true).open(&from).expect("there");
    file.set_len(SIZE / 2).and_then(|()| file.set_len(SIZE)).expect("a sparse file");
    for uri in [host.unix(), host.tcp()] {
        let qemu = || tool("qemu-img").expect("there");
        run_tool(
            qemu().args(["convert", "-n", "-W", "-m", "8", "-f", "raw", "-O", "raw"]).arg(&from).arg(&uri),
        );
        run_tool(qemu().args(["compare", "-f", "raw", "-F", "raw"]).arg(&from).arg(&uri));
        let map = run_tool(qemu().args(["map", "--output=json", "-f", "raw", &uri]));
        assert!(
            map.contains("\"start\": 33554432, \"length\": 33554432") && map.contains("\"zero\": true"),
            "{map}"
        );
    }
    host.end();
}

#[test]
fn fio_verifies_what_it_writes() {
    let (Some(mut fio), Some(host)) = (tool("fio"), Host::start()) else { return };
    let engines = run_tool(fio.arg("--enghelp"));
    let engine = engines.contains("nbd").then_some(());
    let Some(()) = or_skip(engine.ok_or(Missing::new("this fio has no nbd engine"))) else { return };
    for uri in [host.unix(), host.tcp()] {
        let mut fio = tool("fio").expect("there");
        let reported = run_tool(fio.current_dir(host.dir.path()).args([
            "--name=verify",
            "--ioengine=nbd",
            "--rw=randrw",
            "--bssplit=512/10:4k/60:64k/20:1m/10",
            "--iodepth=32",
            "--size=48m",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--randseed=7",
            &format!("--uri={uri}"),
        ]));
        assert!(reported.contains("err= 0"), "{reported}");
    }
    host.end();
}

#[test]
fn brindles_own_client_does_as_others_do() {
    let Some(host) = Host::start() else { return };
    let content = brindle_testkit::random::pattern(1, 5 << 20);
    let unix = Client::connect(UnixStream::connect(host.file("nbd")).expect("the server accepts"), "disk");
    let mut unix = unix.expect("the export");
    assert_eq!((unix.size(), unix.agreed().block), (SIZE, 512));
    assert!(unix.agreed().structured && unix.agreed().status);
    unix.write(12_800, &content).and_then(|()| unix.flush()).expect("written");
    let tcp = Client::connect(TcpStream::connect(("127.0.0.1", host.port)).expect("the server accepts"), "");
    let mut tcp = tcp.expect("the default export");
    let mut back = vec![0; content.len()];
    tcp.read(12_800, &mut back).expect("read");
    assert!(back == content);
    assert!(matches!(tcp.read(SIZE, &mut [0; 512]), Err(ClientError::Failed(22))));
    assert!(matches!(tcp.write(SIZE, &[0; 512]), Err(ClientError::Failed(28))));
    tcp.read(0, &mut back).expect("the stream is in step");
    let missing = UnixStream::connect(host.file("nbd")).expect("the server accepts");
    assert!(matches!(Client::connect(missing, "other"), Err(ClientError::Refused { .. })));
    tcp.close().and_then(|()| unix.close()).expect("the server is there");
    host.end();
}

/// Says the first `end` bytes of a session and dies, at times when the answers have come: left unread, they make TCP
/// reset the connection.
fn die(mut stream: impl Read + Write, session: &[u8], end: usize) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a greeting");
    stream.write_all(&session[..end]).expect("the server reads");
    if end.is_multiple_of(2) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn clients_that_die_at_any_byte_leave_nothing() {
    let Some(host) = Host::start() else { return };
    let session = session();
    let healthy = || {
        let mut stream = UnixStream::connect(host.file("nbd")).expect("the server accepts");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        stream.write_all(&session).expect("the server reads");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the server answers all and hangs up");
        all
    };
    let answers = healthy();
    assert!(
        answers.windows(1024).any(|bytes| bytes == [7; 1024]),
        "the data that the session wrote are read"
    );
    for end in 0..=session.len() {
        die(UnixStream::connect(host.file("nbd")).expect("the server accepts"), &session, end);
        die(TcpStream::connect(("127.0.0.1", host.port)).expect("the server accepts"), &session, end);
        if end.is_multiple_of(100) {
            assert_eq!(healthy().len(), answers.len());
        }
    }
    assert_eq!(healthy().len(), answers.len());
    host.end();
}

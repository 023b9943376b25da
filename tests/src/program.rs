//! The program as a user runs it.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::tools;

/// How long a server may take to begin or to end before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of the `brindle` that belongs to this test binary; built if it is not up to date.
///
/// # Panics
/// If it cannot be built.
pub fn brindle() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // target/PROFILE/deps/TEST-HASH
        let test = std::env::current_exe().expect("path of the test binary");
        let dir = test.ancestors().nth(2).expect("folder of the profile");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut arguments = vec!["build", "--quiet", "--package", "brindle"];
        if dir.ends_with("release") {
            arguments.push("--release");
        }
        tools::run(Path::new(&cargo), arguments);
        dir.join("brindle")
    })
}

/// Runs `brindle` with these arguments to its end, whatever that is.
///
/// # Panics
/// If it cannot be started.
pub fn output<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(brindle()).args(args).stdin(Stdio::null()).output().expect("brindle starts")
}

/// Runs `brindle` with these arguments and returns what it printed.
///
/// # Panics
/// If it fails, with all that it printed.
pub fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    tools::run(brindle(), args)
}

/// Content of the array that `members` form, as `brindle cat` gives it, in `to`.
///
/// # Panics
/// If it fails, with what it complained of.
pub fn cat(members: &[PathBuf], to: &Path) {
    let file = std::fs::File::create(to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    let mut command = Command::new(brindle());
    command.arg("cat").args(members).stdin(Stdio::null()).stdout(file).stderr(Stdio::piped());
    let output = command.spawn().and_then(Child::wait_with_output).expect("brindle starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A running `brindle serve` on a Unix socket; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    /// Serves `members` on `socket` and waits until clients can connect.
    ///
    /// # Panics
    /// If it ends, or does not listen within a minute.
    pub fn start(members: &[PathBuf], socket: &Path) -> Self {
        let child = Command::new(brindle())
            .arg("serve")
            .args(members)
            .arg("--nbd")
            .arg(format!("unix:{}", socket.display()))
            // Its control socket: beside the other one, so that tests do not see each other's servers.
            .env("XDG_RUNTIME_DIR", socket.parent().expect("a socket in a folder"))
            .stdin(Stdio::null())
            .spawn()
            .expect("brindle starts");
        let mut server = Self { child, socket: socket.to_path_buf() };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(socket).is_err() {
            if let Some(status) = server.child.try_wait().expect("a child can be waited for") {
                panic!("brindle serve ended before it listened: {status}");
            }
            assert!(Instant::now() < deadline, "brindle serve does not listen on {}", socket.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Address in the words of NBD clients.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// Asks it to stop as a service manager does, and waits for a clean end.
    ///
    /// # Panics
    /// If it does not end within a minute, or not with success.
    pub fn stop(mut self) {
        tools::run(&tools::find("kill").expect("kill"), ["-TERM", &self.child.id().to_string()]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                assert!(status.success(), "brindle serve ended with {status}");
                return;
            }
            assert!(Instant::now() < deadline, "brindle serve does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

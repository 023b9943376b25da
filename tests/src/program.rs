//! The program `brindle`, as its users run it: built once per test binary, run on files, asked what it says.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::tools::Missing;

/// Longest wait for something that takes no time on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Settings with which the program is built in a third of the time: it shows that it runs, not how fast. Hashes stay optimised, and so does
/// parity, or an emulated machine would work on them for a minute.
const SOON: [&str; 3] =
    ["profile.dev.opt-level=0", "profile.dev.debug=false", "profile.dev.package.brindle-parity.opt-level=1"];

/// Path of the program: what `BRINDLE_PROGRAM` says, else built if it is older than its source.
///
/// # Panics
/// If it can't be built.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("BRINDLE_PROGRAM") {
            return path.into();
        }
        // target/PROFILE/deps/TEST-HASH: the program is built as the tests were.
        let test = std::env::current_exe().expect("path of the test binary");
        let release = test.ancestors().nth(2).is_some_and(|profile| profile.ends_with("release"));
        built("brindle", release.then_some("--release"))
    })
}

/// Path of the console's program, beside the program that has it run.
///
/// # Errors
/// `BRINDLE_PROGRAM` has none beside it.
///
/// # Panics
/// If it can't be built.
pub fn console() -> Result<&'static Path, Missing> {
    static PATH: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    let make = || {
        let name = "brindle-console";
        let beside = path().with_file_name(name);
        if std::env::var_os("BRINDLE_PROGRAM").is_none() {
            let release = path().ancestors().nth(1).is_some_and(|profile| profile.ends_with("release"));
            return Ok(built(name, release.then_some("--release")));
        }
        if beside.is_file() {
            Ok(beside)
        } else {
            Err(Missing::new(format!("{} is not built: cargo build -p {name}", beside.display())))
        }
    };
    PATH.get_or_init(make).as_deref().map_err(Clone::clone)
}

/// Path of the program that needs no library: what `BRINDLE_STATIC` says, else built.
///
/// # Errors
/// The compiler has no library of musl.
///
/// # Panics
/// If it can't be built.
pub fn without_libraries() -> Result<&'static Path, Missing> {
    static PATH: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    let make = || {
        if let Some(path) = std::env::var_os("BRINDLE_STATIC") {
            return Ok(path.into());
        }
        let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &target]).current_dir(env!("CARGO_MANIFEST_DIR"));
        let library = rustc.output().expect("rustc can be run").stdout;
        if !Path::new(String::from_utf8_lossy(&library).trim()).is_dir() {
            return Err(Missing::new(format!(
                "the compiler has no library for {target}: rustup target add {target}"
            )));
        }
        crate::tools::find("musl-gcc")?;
        let flags = ["--target", &target].into_iter().chain(SOON.iter().flat_map(|set| ["--config", set]));
        Ok(built("brindle", flags))
    };
    PATH.get_or_init(make).as_deref().map_err(Clone::clone)
}

/// Has cargo build a program, and tells where it is. Features are those of the whole workspace, as of all that is built already: with
/// those of the program alone, macros and build scripts would be built once more.
fn built<'a>(program: &str, flags: impl IntoIterator<Item = &'a str>) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--bin", program, "--message-format", "json"])
        .args(flags)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{program} can't be built");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .expect("cargo names the program that it built")
}

/// Runs the program with these arguments to its end.
///
/// # Panics
/// If it can't be started.
pub fn brindle<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    let mut command = Command::new(path());
    command.args(args);
    Ran::of(command)
}

/// Content of the array that `members` form, as `brindle cat` gives it, in `to`.
///
/// # Panics
/// If it fails, with what it complained of.
pub fn cat(members: &[PathBuf], to: &Path) {
    cat_with(&[], members, to);
}

/// [`cat`] with flags.
///
/// # Panics
/// If it fails.
pub fn cat_with(flags: &[&str], members: &[PathBuf], to: &Path) {
    let file = File::create(to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    let mut command = Command::new(path());
    command.arg("cat").args(flags).args(members).stdin(Stdio::null()).stdout(file).stderr(Stdio::piped());
    let output = command.spawn().and_then(Child::wait_with_output).expect("brindle starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The output and exit status of a command.
#[derive(Debug)]
pub struct Ran {
    /// The command line, for messages.
    pub command: String,
    /// Exit status; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Runs a command to its end.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn of(mut command: Command) -> Self {
        let Output { status, stdout, stderr } =
            command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Self {
            command: format!("{command:?}"),
            code: status.code().unwrap_or(-1),
            out: stdout,
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Checks that the program ended with this status.
    ///
    /// # Panics
    /// If not, with all that it said.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}{}", self.command, self.text(), self.err);
        self
    }

    /// Checks that the program succeeded without a remark.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn ok(self) -> Self {
        let ran = self.ended(0);
        assert_eq!(ran.err, "", "{}", ran.command);
        ran
    }

    /// The report that it printed; it ended well.
    ///
    /// # Panics
    /// If it failed or the report is no JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        self.ok().report()
    }

    /// The report that it printed, however it ended.
    ///
    /// # Panics
    /// If it is no JSON.
    #[track_caller]
    pub fn report(&self) -> Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|e| panic!("{}: {e}\n{}{}", self.command, self.text(), self.err))
    }

    /// Checks that the program refused with this status and one line that holds each of these words.
    ///
    /// # Panics
    /// If it did not, or said it in another way than all refusals are said.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) {
        let ran = self.ended(code);
        let message = one_line(&ran.err, &ran.command);
        for word in words {
            assert!(message.contains(word), "{}: '{word}' is not in\n{message}", ran.command);
        }
        assert_eq!(ran.text(), "", "{}: a refusal prints no report", ran.command);
    }
}

/// The one message in `err`, in the form that all messages have.
#[track_caller]
fn one_line<'a>(err: &'a str, command: &str) -> &'a str {
    assert_eq!(err.lines().count(), 1, "{command}: one line expected\n{err}");
    let message = err.trim_end();
    assert!(message.starts_with("brindle: ") && err.ends_with('\n'), "{command}: {message}");
    let body = &message["brindle: ".len()..];
    let debug = ["Some(", "Os {", "Err(", "brindle:", "kind:", "\\\"", ": :", "PathBuf"];
    for trace in debug {
        assert!(!body.contains(trace), "{command}: '{trace}' is for programmers\n{message}");
    }
    message
}

/// A server of one array, in a runtime folder of its own. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    runtime: PathBuf,
    out: BufReader<ChildStdout>,
    /// The server's first line of JSON.
    pub said: Value,
}

/// The lines of a server's log, except those about slow members and those that are always printed for parity arrays
/// without all members.
fn remarks(err: &str) -> Vec<&str> {
    let usual = [" is slow: the others answer for it: read: ", " it starts again only with --force"];
    err.lines().filter(|line| !usual.iter().any(|words| line.contains(words))).collect()
}

impl Server {
    /// Starts `brindle serve --json` and waits until it serves.
    ///
    /// # Panics
    /// If it ends instead, with its message.
    #[track_caller]
    pub fn start<S: AsRef<OsStr>>(runtime: &Path, args: impl IntoIterator<Item = S>) -> Self {
        Self::start_by("serve", runtime, args, &[])
    }

    /// The same by another command that serves, with variables of its environment.
    ///
    /// # Panics
    /// If it ends instead, with its message.
    #[track_caller]
    pub fn start_by<S: AsRef<OsStr>>(
        by: &str,
        runtime: &Path,
        args: impl IntoIterator<Item = S>,
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(path());
        command.args([by, "--json", "--runtime-dir"]).arg(runtime).args(args);
        command.env("STATE_DIRECTORY", runtime.with_file_name("state")).envs(env.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a pipe can be read");
        if line.is_empty() {
            let output = child.wait_with_output().expect("it ends");
            panic!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let said = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        Self { child, runtime: runtime.to_owned(), out, said }
    }

    /// The next event on the server's output. Waits for it.
    ///
    /// # Panics
    /// If it says nothing more.
    #[track_caller]
    pub fn next_event(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a pipe can be read");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("'{line}': {e}"))
    }

    /// All that it has said and nobody has read yet, once it has ended.
    ///
    /// # Panics
    /// If a line is no JSON.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<Value> {
        let mut text = String::new();
        self.out.read_to_string(&mut text).expect("a pipe can be read");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("'{line}': {e}")))
            .collect()
    }

    /// NBD address.
    ///
    /// # Panics
    /// If it told none.
    pub fn uri(&self) -> String {
        self.said["nbd"][0].as_str().expect("an address").to_owned()
    }

    /// Name of the array for `status` and so on.
    ///
    /// # Panics
    /// If it told none.
    pub fn name(&self) -> String {
        self.said["name"].as_str().expect("a name").to_owned()
    }

    /// Runs `brindle COMMAND --runtime-dir ... NAME ARGS`.
    pub fn ask(&self, command: &str, args: &[&str]) -> Ran {
        let runtime = self.runtime.to_str().expect("a path of this test").to_owned();
        let mut words = vec![command.to_owned(), "--runtime-dir".into(), runtime, self.name()];
        words.extend(args.iter().map(|&arg| arg.to_owned()));
        brindle(words)
    }

    /// `brindle fail`, asked again while a busy machine lets the server say that its array does not answer now, or is not that far.
    ///
    /// # Panics
    /// If the member can't be failed, or that takes far too long.
    #[track_caller]
    pub fn fail(&self, member: &str) {
        let begun = Instant::now();
        // A spare may have the role by the time that it is asked again.
        let device = self.device_in(member);
        let member = device.as_deref().unwrap_or(member);
        loop {
            let failed = self.ask("fail", &[member]);
            let is_late =
                ["does not answer now", "is still in service"].iter().any(|why| failed.err.contains(why));
            if failed.code == 0 || !is_late || begun.elapsed() > PATIENCE {
                failed.ok();
                return;
            }
        }
    }

    /// The path of the device that has a role of the array, by the role's number.
    fn device_in(&self, role: &str) -> Option<String> {
        let role: u64 = role.parse().ok()?;
        let status = self.status();
        let devices = status["array"]["devices"].as_array()?;
        let device = devices.iter().find(|device| device["role"] == role && device["state"] == "in-sync")?;
        Some(device["path"].as_str()?.to_owned())
    }

    /// `brindle status --json`.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.ask("status", &["--json"]).json()
    }

    /// Waits until the array's state has or has not this word.
    ///
    /// # Panics
    /// If it takes far too long.
    #[track_caller]
    pub fn wait_for_state(&self, word: &str, there: bool) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            let words = status["array"]["state"].as_array().expect("words");
            if words.iter().any(|w| w == word) == there {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "'{word}' should be {there}: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as a service manager does; it ends well and has nothing to remark, but that this machine was too busy to
    /// read a member in time: what is read then comes from the others.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn stop(self) {
        let (code, err) = self.signal(Signal::TERM);
        assert_eq!((code, remarks(&err)), (0, vec![]));
    }

    /// As [`Server::stop`], of a server that has told of members which were failed by command, and of nothing else.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn stop_after_failing(self, members: usize) {
        let (code, err) = self.signal(Signal::TERM);
        let by_command = |line: &&str| line.contains("has failed") && line.ends_with("by command");
        let remarks = remarks(&err);
        assert!(code == 0 && remarks.iter().all(by_command) && remarks.len() == members, "{code}: {err}");
    }

    /// As [`Server::stop`], of a server that has told of one refusal, in these words and no others.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn stop_after_refusing(self, words: &str) {
        let (code, err) = self.signal(Signal::TERM);
        let remarks = remarks(&err);
        assert!(code == 0 && remarks.len() == 1 && remarks[0].contains(words), "{code}: {err}");
    }

    /// As [`Server::stop`], of a server that has told of all of this and of nothing else.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn stop_after_telling(self, words: &[&str]) {
        let (code, err) = self.signal(Signal::TERM);
        let remarks = remarks(&err);
        let is_meant = |line: &&str| words.iter().any(|words| line.contains(words));
        let is_told = |words: &&str| remarks.iter().any(|line| line.contains(words));
        assert!(code == 0 && remarks.iter().all(is_meant) && words.iter().all(is_told), "{code}: {err}");
    }

    /// Sends a signal and waits for the end: exit status (-1 for a signal) and what it said on standard error.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn signal(mut self, signal: Signal) -> (i32, String) {
        self.send(signal);
        self.end()
    }

    /// The end of one that ends by itself: exit status, and what it said on standard error.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn signal_or_ended(mut self) -> (i32, String) {
        self.end()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If it can't be sent.
    pub fn send(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it can be signalled");
    }

    /// Waits for the end after somebody else told it to stop.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn end(&mut self) -> (i32, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut err = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut err).expect("text");
        }
        (status.code().unwrap_or(-1), err)
    }

    /// True if the program has ended, or is ending and waits in the kernel only for a device that hangs.
    pub fn is_over(&self) -> bool {
        /// The kernel's marks of a task that has begun to exit: PF_EXITING and, before that, PF_POSTCOREDUMP.
        const EXITING: u64 = 4 | 8;
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())) else {
            return true;
        };
        // The fields follow the name, which stands in parentheses: the third is the state, the ninth the flags.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
        fields.first() == Some(&"Z") || flags & EXITING != 0
    }

    /// The server's process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

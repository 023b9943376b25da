//! A daemon on files, a console, and a client that says what it is told to say.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use brindle_testkit::skip::Missing;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest wait for something that takes no time on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until there is something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut tried: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = tried() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The program, if it was built.
pub(crate) fn brindle() -> Result<PathBuf, Missing> {
    if let Some(path) = std::env::var_os("BRINDLE_PROGRAM") {
        return Ok(path.into());
    }
    let beside = Path::new(env!("CARGO_BIN_EXE_brindle-console")).with_file_name("brindle");
    if beside.is_file() {
        Ok(beside)
    } else {
        Err(Missing::new("brindle is not built: cargo build -p brindle".to_owned()))
    }
}

/// A process that ends with its test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
    }

    /// Kibibytes that it has in memory.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::CONT);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with files for members, and what is served of them.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    brindle: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Result<Self, Missing> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("disks")).unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        Ok(Self { dir, brindle: brindle()? })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of that size in the folder of disks.
    pub(crate) fn disk(&self, name: &str, mib: u64) -> String {
        let path = self.path("disks").join(name);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs the program, and gives what it says.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> String {
        let out =
            Command::new(&self.brindle).args(words).env("BRINDLE_RUNTIME_DIR", self.path("run")).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// A daemon with these settings besides the place of its disks.
    pub(crate) fn daemon(&self, settings: &str) -> Running {
        let file = self.path("brindle.toml");
        let disks = self.path("disks");
        fs::write(&file, format!("devices = [{disks:?}]\nhomehost = \"none\"\nwait = \"0s\"\n{settings}"))
            .unwrap();
        let log = File::create(self.path("daemon.log")).unwrap();
        let daemon = Command::new(&self.brindle)
            .args(["daemon", "--config", file.to_str().unwrap()])
            .env("BRINDLE_RUNTIME_DIR", self.path("run"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let daemon = Running(daemon);
        until("a daemon", || {
            fs::read_to_string(self.path("daemon.log")).ok().filter(|log| log.contains("serve"))
        });
        daemon
    }

    /// Files that make an array of that name, in roles, and one that is blank.
    pub(crate) fn array(&self, level: &str, name: &str, count: usize) -> Vec<String> {
        let disks: Vec<String> = (0..count).map(|at| self.disk(&format!("{name}{at}"), 64)).collect();
        let mut words = vec!["create", "--level", level, "--name", name];
        words.extend(disks.iter().map(String::as_str));
        self.run(&words);
        disks
    }

    pub(crate) fn console(&self, flags: &[&str]) -> Console {
        Console::start(&[self.brindle.to_str().unwrap().to_owned()], self.dir.path(), flags)
    }

    /// The same behind these words, by which it is another user's.
    pub(crate) fn console_as(&self, before: &[String], flags: &[&str]) -> Console {
        let state = self.path("state");
        let _ = fs::remove_dir_all(&state);
        fs::create_dir(&state).unwrap();
        std::os::unix::fs::chown(&state, Some(61000), Some(61000)).unwrap();
        let program = [before, &[self.brindle.to_str().unwrap().to_owned()]].concat();
        Console::start(&program, self.dir.path(), flags)
    }
}

/// A console that runs.
pub(crate) struct Console {
    pub(crate) process: Running,
    pub(crate) address: String,
    pub(crate) token: String,
    log: PathBuf,
}

impl Console {
    fn start(program: &[String], dir: &Path, flags: &[&str]) -> Self {
        let (run, state, log) = (dir.join("run"), dir.join("state"), dir.join("console.log"));
        let command = || {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).arg("console").arg("--state").arg(&state);
            command
        };
        let token = command().arg("--token").output().unwrap();
        let token = String::from_utf8(token.stdout).unwrap().trim().to_owned();
        assert_eq!(token.len(), 64);
        let mut child = command()
            .args(["--listen", "127.0.0.1:0", "--runtime-dir"])
            .arg(run)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("brindle-console: http://").and_then(|line| line.strip_suffix('/'));
        let address =
            address.unwrap_or_else(|| panic!("{line}: {}", fs::read_to_string(&log).unwrap())).to_owned();
        Self { process: Running(child), address, token, log }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Says this, and gives all that is answered until the connection ends.
    pub(crate) fn say(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A console that refuses does not take all of it.
        let _ = stream.write_all(bytes);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        Answer::of(&String::from_utf8_lossy(&text))
    }

    /// A request with these headers, of which each stands in a line.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[String], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        headers.iter().for_each(|header| text.push_str(&format!("{header}\r\n")));
        if method == "POST" {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        self.say(format!("{text}\r\n{body}").as_bytes())
    }

    pub(crate) fn own(&self) -> Vec<String> {
        vec![format!("Host: {}", self.address), format!("Origin: http://{}", self.address)]
    }

    /// Signs in, and gives the headers by which pages ask.
    pub(crate) fn sign_in(&self) -> Session {
        let answer = self.ask("POST", "/login", &self.own(), &format!("token={}", self.token));
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let mut headers = vec![format!("Host: {}", self.address), format!("Cookie: {cookie}")];
        let told = self.ask("GET", "/api/v1/session", &headers, "").json();
        headers.push(format!("Origin: http://{}", self.address));
        headers.push(format!("X-Page-Token: {}", told["page_token"].as_str().unwrap()));
        Session { headers }
    }
}

/// A browser that has signed in.
pub(crate) struct Session {
    pub(crate) headers: Vec<String>,
}

impl Session {
    pub(crate) fn get(&self, console: &Console, path: &str) -> Answer {
        console.ask("GET", path, &self.headers, "")
    }

    pub(crate) fn order(&self, console: &Console, order: &Value) -> Answer {
        console.ask("POST", "/api/v1/orders", &self.headers, &order.to_string())
    }

    /// The same without the headers that begin so.
    pub(crate) fn without(&self, name: &str) -> Vec<String> {
        self.headers.iter().filter(|header| !header.starts_with(name)).cloned().collect()
    }
}

/// An answer of HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

/// A control socket whose server says what a test has it say to each line.
pub(crate) fn lying(place: &Place, name: &str, say: impl Fn(&mut UnixStream, &str) + Send + Sync + 'static) {
    let listener = UnixListener::bind(place.path("run").join(format!("{name}.control"))).unwrap();
    let say = std::sync::Arc::new(say);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), say) = (stream, std::sync::Arc::clone(&say)) else { return };
            thread::spawn(move || {
                let mut line = String::new();
                let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
                say(&mut stream, &line);
            });
        }
    });
}

/// The line by which a server answers one that asks for its status, or looks at the one of this number.
pub(crate) fn status_line(line: &str, number: u64, reports: &Value) -> String {
    let asked: Value = serde_json::from_str(line).unwrap_or_default();
    let answer = match (&asked["ask"], &asked["known"]) {
        (ask, known) if ask == "look" && *known == number => json!({"number": number, "age": 0.5}),
        (ask, _) if ask == "look" => json!({"number": number, "age": 0.5, "volumes": reports}),
        _ => reports.clone(),
    };
    json!({ "ok": answer }).to_string() + "\n"
}

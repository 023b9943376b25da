//! Ways to tell of events: a line of output, a program with mdadm's arguments, mail, a webhook. None is waited for by the monitor.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::changes::Happened;
use super::conf::MdadmConf;
use crate::failure::Failure;
use crate::{executable, report};

/// Time that a program may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a webhook may take.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(10);
/// The program that speaks HTTP.
const CURL: &str = "curl";
/// The most bytes of a program's output that are read.
const MOST_OUTPUT: u64 = 1 << 20;
/// How often mail and webhooks are tried.
const TRIES: u32 = 3;
/// Programs that may run at a time; beyond that events are reported on the output alone.
const MOST_RUNNING: usize = 32;
/// Where a program that sends mail stands.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// An event as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    at: u64,
    event: &'a str,
    array: &'a str,
    device: Option<&'a str>,
    about: Option<&'a str>,
}

/// Lines of events on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Json,
    None,
}

/// Receivers of events, and the ways to them.
pub(super) struct Ways {
    pub(super) conf: MdadmConf,
    pub(super) output: Output,
    running: Arc<AtomicUsize>,
}

impl Ways {
    pub(super) fn new(conf: MdadmConf, output: Output) -> Self {
        Self { conf, output, running: Arc::default() }
    }

    /// Tells of an event.
    pub(super) fn tell(&self, happened: &Happened) -> Result<(), Failure> {
        self.print(happened)?;
        if let Some(program) = &self.conf.program {
            let args = arguments(happened);
            let program = program.clone();
            self.begin(move || run(&program, &args, None, PATIENCE).map(drop));
        }
        if let Some(to) = self.conf.mail_to.as_ref().filter(|_| happened.is_alert()) {
            let mail = mail(to, self.conf.mail_from.as_deref(), happened);
            let sendmail = self.conf.sendmail.clone();
            self.begin(move || send(sendmail, &mail));
        }
        if let Some(url) = &self.conf.webhook {
            let words = curl(url, &line(happened)?);
            self.begin(move || post(Path::new(CURL), &words));
        }
        Ok(())
    }

    /// Waits until all that was begun has ended, which has a bound.
    pub(super) fn finish(&self) {
        while self.running.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn print(&self, happened: &Happened) -> Result<(), Failure> {
        let Happened { event, array, device, about } = happened;
        if self.output == Output::None {
            return Ok(());
        }
        if self.output == Output::Json {
            return report::print(&(line(happened)? + "\n"));
        }
        let device = device.as_ref().map_or_else(String::new, |device| format!(" {}", shown(device)));
        let about = about.as_ref().map_or_else(String::new, |about| format!(" ({})", shown(about)));
        report::print(&format!("{event} on {}{device}{about}\n", shown(array)))
    }

    /// Runs the work in a thread, and reports its failure.
    fn begin(&self, work: impl FnOnce() -> Result<(), String> + Send + 'static) {
        if self.running.fetch_add(1, Ordering::AcqRel) >= MOST_RUNNING {
            self.running.fetch_sub(1, Ordering::AcqRel);
            eprintln!(
                "brindle: {MOST_RUNNING} programs that tell of events have not ended: no other is started"
            );
            return;
        }
        let running = Arc::clone(&self.running);
        let reported = move || {
            if let Err(why) = work() {
                eprintln!("brindle: {why}");
            }
            running.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("tell".into()).spawn(reported).is_err() {
            self.running.fetch_sub(1, Ordering::AcqRel);
            eprintln!("brindle: no thread can be started to tell of an event");
        }
    }
}

/// An event as JSON in one line.
fn line(happened: &Happened) -> Result<String, Failure> {
    let Happened { event, array, device, about } = happened;
    let line = Line { at: now(), event, array, device: device.as_deref(), about: about.as_deref() };
    serde_json::to_string(&line).map_err(|error| Failure::output("the event", error.into()))
}

/// The orders to curl, which it reads: an address may hold a secret, and command lines are seen by all. It follows no redirection.
fn curl(url: &str, body: &str) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "url = \"{}\"\nrequest = \"POST\"\nheader = \"Content-Type: application/json\"\ndata-raw = \"{}\"\nmax-time = {}\nproto = \"=http,https\"\nfail\nsilent\nshow-error\noutput = \"/dev/null\"\n",
        quoted(url),
        quoted(body),
        WEBHOOK_PATIENCE.as_secs()
    )
}

/// Posts to a webhook, and tries again if that fails.
fn post(program: &Path, words: &str) -> Result<(), String> {
    let mut failed = String::new();
    for tried in 0..TRIES {
        std::thread::sleep(Duration::from_secs(u64::from(tried) * 2));
        match run(program, &["--config".to_owned(), "-".to_owned()], Some(words), 2 * WEBHOOK_PATIENCE) {
            Ok(_) => return Ok(()),
            Err(why) => failed = why,
        }
    }
    Err(format!("the webhook was not told, tried {TRIES} times: {failed}"))
}

/// The output of a program, whatever its exit status; it is killed when it takes too long.
pub(super) fn output_of(program: &Path, args: &[String], patience: Duration) -> Result<Vec<u8>, String> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(args)
        .stdin(executable::nothing())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} can't be run: {error}"))?;
    let Some(pipe) = child.stdout.take() else { return Err(format!("{name} has no output")) };
    let (tell, read) = std::sync::mpsc::channel();
    let reads = move || {
        let mut text = Vec::new();
        let read = pipe.take(MOST_OUTPUT).read_to_end(&mut text);
        let _ = tell.send(read.map(|_| text));
    };
    let reader = std::thread::Builder::new().name("read".into()).spawn(reads);
    let output = match reader {
        Ok(_) => read.recv_timeout(patience),
        Err(error) => return Err(format!("{name}: {error}")),
    };
    // One that has closed its output may go on: it is not waited for.
    let _ = child.kill();
    let _ = child.wait();
    match output {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(format!("{name}: {error}")),
        Err(_) => Err(format!("{name} did not end within {} s, and was killed", patience.as_secs())),
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A name from a disk, in one line and without control characters.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

/// mdadm's arguments of a program: the event, the array, and the device if there is one. Names are words of their own and never
/// flags: a name that begins with a dash gets a path in front.
fn arguments(happened: &Happened) -> Vec<String> {
    let word = |name: &String| if name.starts_with('-') { format!("./{name}") } else { name.clone() };
    let names = [&happened.array].into_iter().chain(&happened.device).map(word);
    std::iter::once(happened.event.clone()).chain(names).map(|word| word.replace('\0', "")).collect()
}

/// A message as it goes to sendmail: no name from a disk can add a header.
fn mail(to: &str, from: Option<&str>, happened: &Happened) -> String {
    let header = |text: &str| text.replace(|letter: char| letter.is_control(), " ");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let from = header(from.unwrap_or("Brindle monitoring <root>"));
    let (event, array) = (&happened.event, shown(&happened.array));
    let device = happened
        .device
        .as_ref()
        .map_or_else(String::new, |device| format!("\nThe device is {}.", shown(device)));
    let about = happened
        .about
        .as_ref()
        .map_or_else(String::new, |about| format!("\nIt is known of it: {}.", shown(about)));
    format!(
        "From: {from}\nTo: {}\nSubject: {event} event on {}:{}\nContent-Type: text/plain; charset=utf-8\n\n\
         This is a message of `brindle monitor` on {host}.\n\nA {event} event was seen on {array}.{device}{about}\n\n\
         `brindle status` says how the array is, and what to type.\n",
        header(to),
        header(&host),
        header(&array),
    )
}

/// Sends a message, and tries again if that fails.
fn send(program: Option<PathBuf>, mail: &str) -> Result<(), String> {
    let program = program.or_else(|| SENDMAIL.iter().map(PathBuf::from).find(|path| path.exists()));
    let Some(program) = program else {
        return Err(
            "no mail can be sent: there is no sendmail; install a mail server, or tell by --program".into()
        );
    };
    let mut failed = String::new();
    for tried in 0..TRIES {
        std::thread::sleep(Duration::from_secs(u64::from(tried) * 2));
        match run(&program, &["-t".to_owned()], Some(mail), PATIENCE) {
            Ok(_) => return Ok(()),
            Err(why) => failed = why,
        }
    }
    Err(format!("mail was not sent, tried {TRIES} times: {failed}"))
}

/// Runs a program to its end, or kills it when it takes too long.
fn run(
    program: &Path,
    args: &[String],
    stdin: Option<&str>,
    patience: Duration,
) -> Result<ExitStatus, String> {
    let name = program.display();
    let input = if stdin.is_some() { Stdio::piped() } else { executable::nothing() };
    let mut child = Command::new(program)
        .args(args)
        .stdin(input)
        .stdout(executable::nothing())
        .spawn()
        .map_err(|error| format!("{name} can't be run: {error}"))?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // Less than a pipe holds; one that does not read it says why by how it ends.
        let _ = pipe.write_all(text.as_bytes());
    }
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(status),
            Ok(Some(status)) => return Err(format!("{name} ended with {status}")),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} did not end within {} s, and was killed", patience.as_secs()));
            }
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_disks_are_data() {
        let evil = "x\r\nBcc: y@z\u{1b}[1m";
        let mut happened = Happened::new("Fail", evil);
        happened.device = Some("-rf".into());
        let mail = mail("root\nX: y", Some("a\nb"), &happened);
        let (head, _) = mail.split_once("\n\n").unwrap();
        assert_eq!(head.lines().count(), 4, "{mail}");
        assert!(!mail.contains('\r') && !mail.contains('\u{1b}'), "{mail}");
        assert_eq!(arguments(&happened), ["Fail".to_owned(), evil.to_owned(), "./-rf".to_owned()]);
    }

    #[test]
    fn an_address_and_an_event_are_words_of_curls_and_no_orders() {
        let happened = Happened::new("Fail", "x\"\nurl = \"http://other\\");
        let words = curl("http://here/\"a", &line(&happened).unwrap());
        assert_eq!(words.lines().filter(|line| line.starts_with("url")).count(), 1, "{words}");
        assert!(words.starts_with("url = \"http://here/\\\"a\"\n"), "{words}");
    }

    #[test]
    fn output_is_read_with_patience() {
        let shell =
            |words: &str, patience| output_of(Path::new("sh"), &["-c".into(), words.into()], patience);
        assert_eq!(shell("echo a; exit 3", PATIENCE), Ok(b"a\n".to_vec()));
        let late = shell("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(late.contains("sh did not end"), "{late}");
        assert!(output_of(Path::new("/no/such"), &[], PATIENCE).unwrap_err().contains("can't be run"));
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_one_that_fails_is_named() {
        let sleep = run(Path::new("sleep"), &["600".into()], None, Duration::from_millis(50)).unwrap_err();
        assert!(sleep.contains("sleep did not end"), "{sleep}");
        let fails = run(Path::new("false"), &[], None, PATIENCE).unwrap_err();
        assert!(fails.contains("false ended with"), "{fails}");
        assert!(
            run(Path::new("/no/such"), &[], None, PATIENCE).unwrap_err().contains("/no/such can't be run")
        );
        assert!(run(Path::new("cat"), &[], Some("text"), PATIENCE).is_ok());
    }
}

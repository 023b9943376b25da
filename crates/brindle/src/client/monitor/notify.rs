//! Ways to tell of events: a line of output, a program with mdadm's arguments, mail, a webhook. Each has a queue, and threads that
//! take from it: the monitor waits for none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use brindle_host::opening::MonitorConfig;
use serde::Serialize;

use super::changes::{Happened, Severity, host};
use super::conf::MdadmConf;
use super::mail;
use super::programs::{lacks, run};
use super::queue::{Batch, MOST, Queue};
use crate::base::failure::Failure;
use crate::base::report;

/// Time that a program may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a webhook may take.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(10);
/// The program that speaks HTTP.
const CURL: &str = "curl";
/// How often mail and webhooks are tried where no more events come, and what a webhook refuses.
const TRIES: u32 = 3;
/// Programs that run at a time, and posts to a webhook. Those of one array never do.
const AT_A_TIME: usize = 8;
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
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
    host: String,
    severity: Severity,
    state: &'a [String],
    members_left: Option<usize>,
    members: Option<usize>,
    redundancy_left: Option<u64>,
    disks: &'a [String],
    next: Option<&'a str>,
    /// Events before it that found no room in the queue.
    #[serde(skip_serializing_if = "is_none")]
    lost: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Lines of events on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Text,
    Json,
    None,
}

/// Receivers of events, and the ways to them. Dropped, it has threads tell what still waits.
pub(super) struct Ways {
    pub(super) output: Output,
    mail: Option<Way>,
    program: Option<Way>,
    webhook: Option<Way>,
}

/// A queue, and the threads that take from it.
struct Way {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    about: &'static str,
}

impl Ways {
    pub(super) fn new(conf: MdadmConf, output: Output) -> Self {
        let MdadmConf { mail_to, mail_from, program, sendmail, webhook, .. } = conf;
        let mail = mail_to.map(|to| {
            Way::new("mail", 1, move |queue| mails(queue, &to, mail_from.as_deref(), sendmail.as_deref()))
        });
        let program =
            program.map(|program| Way::new("the program", AT_A_TIME, move |queue| programs(queue, &program)));
        let webhook = webhook
            .map(|url| Way::new("the webhook", AT_A_TIME, move |queue| posts(queue, Path::new(CURL), &url)));
        Self { output, mail, program, webhook }
    }

    /// Tells of events.
    pub(super) fn tell(&self, events: &[Happened]) -> Result<(), Failure> {
        for happened in events {
            self.print(happened)?;
        }
        let alerts = || events.iter().filter(|one| one.is_mailed()).cloned();
        self.mail.iter().for_each(|way| way.push(alerts()));
        self.program.iter().chain(&self.webhook).for_each(|way| way.push(events.iter().cloned()));
        Ok(())
    }

    /// Waits until all that waits has been told or given up, which has a bound.
    pub(super) fn finish(mut self) {
        for way in [&mut self.mail, &mut self.program, &mut self.webhook].into_iter().flatten() {
            way.queue.end();
            std::mem::take(&mut way.threads).into_iter().for_each(|thread| drop(thread.join()));
        }
    }

    fn print(&self, happened: &Happened) -> Result<(), Failure> {
        let Happened { event, array, device, about, .. } = happened;
        if self.output == Output::None {
            return Ok(());
        }
        if self.output == Output::Json {
            return report::print(&(line(happened, 0)? + "\n"));
        }
        let device = device.as_ref().map_or_else(String::new, |device| format!(" {}", shown(device)));
        let about = about.as_ref().map_or_else(String::new, |about| format!(" ({})", shown(about)));
        report::print(&format!("{event} on {}{device}{about}\n", shown(array)))
    }
}

impl Way {
    fn new(about: &'static str, count: usize, work: impl Fn(&Queue) + Clone + Send + 'static) -> Self {
        let queue = Arc::new(Queue::default());
        let threads = (0..count).filter_map(|_| {
            let (work, queue) = (work.clone(), Arc::clone(&queue));
            std::thread::Builder::new().name("tell".into()).spawn(move || work(&queue)).ok()
        });
        let threads: Vec<_> = threads.collect();
        if threads.is_empty() {
            eprintln!("brindle: no thread can be started to tell of events ({about})");
        }
        Self { queue, threads, about }
    }

    fn push(&self, events: impl IntoIterator<Item = Happened>) {
        if let Some(lost) = self.queue.push(events) {
            eprintln!("brindle: {MOST} events wait for {}: {lost} find no room", self.about);
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// Sends mails: all that waits is in one. A mail that is not taken is tried again, with all that has come meanwhile.
fn mails(queue: &Queue, to: &str, from: Option<&str>, sendmail: Option<&Path>) {
    let mut tries = Tries::default();
    while let Some(batch) = queue.all() {
        let text = mail::text(to, from, &batch.events, batch.lost);
        match send(sendmail, text) {
            Ok(()) => {
                tries = Tries::default();
                queue.done(&batch);
            }
            Err(why) if queue.ends() && tries.count + 1 >= TRIES => {
                eprintln!("brindle: mail was not sent, tried {TRIES} times: {why}");
                queue.done(&batch);
                tries = Tries::default();
            }
            Err(why) => {
                tries.failed("mail is not sent yet", why);
                queue.put_back(batch);
                queue.pause(tries.pause());
            }
        }
    }
}

/// Runs the program at each event, once.
fn programs(queue: &Queue, program: &Path) {
    while let Some(batch) = queue.one() {
        for happened in &batch.events {
            if let Err(why) = run(program, &arguments(happened), None, PATIENCE) {
                eprintln!("brindle: {why}");
            }
        }
        queue.done(&batch);
    }
}

/// Posts each event. As long as the webhook can't be reached it is tried again.
fn posts(queue: &Queue, program: &Path, url: &str) {
    while let Some(batch) = queue.one() {
        let mut tries = Tries::default();
        while let Err(refused) = post(program, url, &batch) {
            let (is_final, why) = match refused {
                Refused::Unreachable(why) => (queue.ends(), why),
                Refused::ByServer(why) => (true, why),
            };
            if is_final && tries.count + 1 >= TRIES {
                eprintln!("brindle: the webhook was not told, tried {TRIES} times: {why}");
                break;
            }
            tries.failed("the webhook is not told yet", why);
            queue.pause(tries.pause());
        }
        queue.done(&batch);
    }
}

/// Tries that have failed.
#[derive(Default)]
struct Tries {
    count: u32,
    said: String,
}

impl Tries {
    /// Reports the first failure, and those for another reason.
    fn failed(&mut self, about: &str, why: String) {
        self.count += 1;
        if self.said != why {
            eprintln!("brindle: {about}, and is tried again: {why}");
            self.said = why;
        }
    }

    fn pause(&self) -> Duration {
        LONGEST_PAUSE.min(Duration::from_secs(1 << self.count.min(6)))
    }
}

/// An event as JSON in one line.
fn line(happened: &Happened, lost: u64) -> Result<String, Failure> {
    let Happened { event, array, device, about, facts, .. } = happened;
    let line = Line {
        at: now(),
        event,
        array,
        device: device.as_deref(),
        about: about.as_deref(),
        host: host(),
        severity: happened.severity(),
        state: &facts.state,
        members_left: facts.members.map(|(left, _)| left),
        members: facts.members.map(|(_, of)| of),
        redundancy_left: facts.redundancy_left,
        disks: &facts.disks,
        next: facts.next.as_deref(),
        lost,
    };
    serde_json::to_string(&line).map_err(|error| Failure::output("the event", error.into()))
}

/// The orders to curl, which it reads: an address may hold a secret, and command lines are seen by all. It follows no redirection, and
/// says with which status it was answered.
fn curl(url: &str, body: &str) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "url = \"{}\"\nrequest = \"POST\"\nheader = \"Content-Type: application/json\"\ndata-raw = \"{}\"\nmax-time = {}\nproto = \"=http,https\"\nsilent\nshow-error\noutput = \"/dev/null\"\nwrite-out = \"%{{http_code}}\"\n",
        quoted(url),
        quoted(body),
        WEBHOOK_PATIENCE.as_secs()
    )
}

/// The end of a post that did not arrive.
enum Refused {
    /// There is no network, or no server that works.
    Unreachable(String),
    /// A server that works does not take it.
    ByServer(String),
}

/// Posts an event to a webhook.
fn post(program: &Path, url: &str, batch: &Batch) -> Result<(), Refused> {
    for happened in &batch.events {
        let body = line(happened, batch.lost).map_err(|why| Refused::ByServer(why.to_string()))?;
        let args = ["--config".to_owned(), "-".to_owned()];
        match run(program, &args, Some(curl(url, &body)), 2 * WEBHOOK_PATIENCE) {
            Ok(output) => answered(&output)?,
            Err(why) => return Err(Refused::Unreachable(why)),
        }
    }
    Ok(())
}

/// Holds the status of the answer against what a webhook that was told says: a redirection is no success.
fn answered(output: &[u8]) -> Result<(), Refused> {
    let status = String::from_utf8_lossy(output).trim().parse::<u32>().ok();
    match status {
        // It works again later.
        Some(status @ (408 | 425 | 429 | 500..)) => {
            Err(Refused::Unreachable(format!("it answers with status {status}")))
        }
        Some(status @ 400..=499) => Err(Refused::ByServer(format!("it answers with status {status}"))),
        Some(status @ 300..=399) => Err(Refused::ByServer(format!(
            "it answers with a redirection ({status}), which is not followed: give the address that it leads to"
        ))),
        _ => Ok(()),
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

/// The program that sends mail where none is named.
fn usual_sendmail() -> Option<PathBuf> {
    SENDMAIL.iter().map(PathBuf::from).find(|path| path.exists())
}

/// Reasons for which programs that settings name can't be run; and remarks on other programs that the settings need and that are missing.
pub(crate) fn programs_lacking(table: &MonitorConfig) -> (Vec<String>, Vec<String>) {
    let MonitorConfig { mail, program, sendmail, webhook, smart, smartctl, .. } = table;
    let named = [("program", program), ("sendmail", sendmail), ("smartctl", smartctl)];
    let cant = |(key, program): (&str, &Option<PathBuf>)| {
        Some(format!("monitor.{key}: {}", lacks(program.as_deref()?)?))
    };
    let wrong = named.into_iter().filter_map(cant).collect();
    let mut remarks = Vec::new();
    if mail.is_some() && sendmail.is_none() && usual_sendmail().is_none() {
        remarks.push(NO_SENDMAIL.to_owned());
    }
    let usual = [
        (webhook.is_some(), CURL, "the webhook"),
        (*smart && smartctl.is_none(), "smartctl", "smart = true"),
    ];
    for (_, program, of) in usual.into_iter().filter(|(is_needed, ..)| *is_needed) {
        remarks.extend(lacks(Path::new(program)).map(|why| format!("{why}, which {of} needs: install it")));
    }
    (wrong, remarks)
}

/// The remark where mail can't be sent.
const NO_SENDMAIL: &str =
    "no mail can be sent: there is no sendmail; install a mail server, or tell by --program";

/// Sends a message.
fn send(program: Option<&Path>, mail: String) -> Result<(), String> {
    let Some(program) = program.map(Path::to_owned).or_else(usual_sendmail) else {
        return Err(NO_SENDMAIL.into());
    };
    run(&program, &["-t".to_owned()], Some(mail), PATIENCE).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_disks_are_words_of_a_program_and_no_flags() {
        let evil = "x\r\nBcc: y@z\u{1b}[1m";
        let mut happened = Happened::new("Fail", evil);
        happened.device = Some("-rf".into());
        assert_eq!(arguments(&happened), ["Fail".to_owned(), evil.to_owned(), "./-rf".to_owned()]);
    }

    #[test]
    fn an_address_and_an_event_are_words_of_curls_and_no_orders() {
        let happened = Happened::new("Fail", "x\"\nurl = \"http://other\\");
        let words = curl("http://here/\"a", &line(&happened, 0).unwrap());
        assert_eq!(words.lines().filter(|line| line.starts_with("url")).count(), 1, "{words}");
        assert!(words.starts_with("url = \"http://here/\\\"a\"\n"), "{words}");
    }

    #[test]
    fn a_redirection_is_no_answer_and_pauses_have_a_bound() {
        let end = |output: &str| match answered(output.as_bytes()) {
            Ok(()) => "told",
            Err(Refused::Unreachable(_)) => "later",
            Err(Refused::ByServer(_)) => "refused",
        };
        assert_eq!(["301", "308", "404"].map(end), ["refused"; 3]);
        assert_eq!(["429", "503"].map(end), ["later"; 2]);
        assert_eq!(["200", "204", "", "odd"].map(end), ["told"; 4]);
        let pause = |count| Tries { count, said: String::new() }.pause();
        assert_eq!([pause(1), pause(5), pause(999)], [2, 32, 60].map(Duration::from_secs));
    }
}

//! Everything that is served as the first page tells it: how bad it is, a sentence with the cause, the step that helps. Pure.

use brindle_host::status::{
    AbsentStatus, ExportStatus, NextStep, OtherStatus, PoolStatus, Report, SyncStatus, shell,
};
use serde::Serialize;

use crate::ask::Answering;
use crate::members::{Member, Shape, missing, of_array, of_pool};
use crate::rates::Rates;
use crate::words::{bytes, count, plain, sentence};

/// How bad it is: worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    /// Data can't be had.
    Down,
    /// Nothing is known of it now.
    Unknown,
    /// One more failure loses data.
    Critical,
    /// Redundancy is lacking.
    Degraded,
    /// Something is to be looked at.
    Warning,
    /// Work is under way, and nothing is wrong.
    Busy,
    Fine,
}

/// Work that is under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Running {
    /// The work, in words.
    pub(crate) words: String,
    pub(crate) percent: f64,
    pub(crate) paused: bool,
    /// Bytes a second.
    pub(crate) speed: Option<u64>,
    /// Seconds.
    pub(crate) left: Option<u64>,
}

/// How a step is taken from a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub(crate) enum Mend {
    /// By one order.
    Order {
        /// The words of its button.
        button: &'static str,
        /// The order, without the server.
        order: serde_json::Value,
    },
    /// By an order for which a device is chosen: what is there is asked for first.
    Device {
        button: &'static str,
        /// The order, with `null` where the device stands.
        order: serde_json::Value,
        /// Bytes that the device has to have.
        least: u64,
        /// The command, with `DEVICE` for the device.
        command: String,
    },
    /// Not from here.
    Shell {
        /// Why not.
        why: &'static str,
    },
    /// By waiting.
    Wait,
}

/// The step that helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StepTold {
    /// A sentence.
    pub(crate) why: String,
    /// The words that do the same in a shell.
    pub(crate) command: String,
    pub(crate) mend: Mend,
}

/// Something that is served, or should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Item {
    pub(crate) server: String,
    pub(crate) name: String,
    /// `array`, `pool`, or another.
    pub(crate) kind: String,
    pub(crate) severity: Severity,
    /// The state in a word or two.
    pub(crate) word: String,
    /// Its kind and size: `RAID 6 of 6 members, 18 TiB`.
    pub(crate) title: String,
    /// The words with which `sentence` begins if something is lost, and of which `since` is the time.
    pub(crate) cause: String,
    /// How it fares, with the cause.
    pub(crate) sentence: String,
    /// Seconds since 1970 of the cause.
    pub(crate) since: Option<u64>,
    pub(crate) next: Option<StepTold>,
    pub(crate) running: Option<Running>,
    pub(crate) members: Vec<Member>,
    /// Of the last minute.
    pub(crate) rates: Option<Rates>,
    /// Seconds since all of this was true.
    pub(crate) stale_for: Option<f64>,
}

/// The item of a report that the server of that name gave.
pub(crate) fn item(server: &str, report: &Report) -> Item {
    let told = match report {
        Report::Array(status) => of_array_status(status),
        Report::Pool(status) => of_pool_status(status),
        Report::Absent(status) => absent(status),
        Report::Other(status) => other(status),
    };
    let mut item = Item {
        server: server.to_owned(),
        name: report.name().to_owned(),
        next: NextStep::of(report).map(|step| next(&step, report)).or(told.next),
        kind: told.kind,
        severity: told.severity,
        word: told.word,
        title: told.title,
        cause: told.cause,
        sentence: told.sentence,
        since: told.since,
        running: told.running,
        members: told.members,
        rates: None,
        stale_for: report.stale_for(),
    };
    if let Some(seconds) = item.stale_for {
        item.severity = item.severity.min(Severity::Unknown);
        item.word = "does not answer".to_owned();
        item.sentence =
            format!("Its thread does not answer: this is as it was {seconds:.0} s ago. {}", item.sentence);
    }
    item
}

impl Item {
    /// Its server does not answer as it should: what is told was so some seconds ago.
    pub(crate) fn silence(&mut self, answering: Answering, seconds: f64) {
        self.severity = self.severity.min(Severity::Unknown);
        self.stale_for = Some(seconds.round());
        self.word = if answering == Answering::Gone { "server gone" } else { "no answer" }.to_owned();
        let cause =
            if answering == Answering::Gone { "Its server has ended" } else { "Its server does not answer" };
        self.sentence = format!("{cause}: this is as it was {seconds:.0} s ago. {}", self.sentence);
        self.next = None;
    }
}

/// Parts of an item that kinds tell differently.
struct Told {
    kind: String,
    severity: Severity,
    word: String,
    title: String,
    cause: String,
    sentence: String,
    since: Option<u64>,
    next: Option<StepTold>,
    running: Option<Running>,
    members: Vec<Member>,
}

/// `raid6`: RAID 6.
fn level(word: &str) -> String {
    match word.strip_prefix("raid") {
        Some(number) => format!("RAID {}", plain(number)),
        None => plain(word),
    }
}

fn running(sync: &SyncStatus, done: &str) -> Running {
    let SyncStatus { percent, paused, speed, seconds_left, .. } = *sync;
    Running { words: done.to_owned(), percent, paused, speed, left: seconds_left }
}

/// The words for a process of an array.
fn process(action: &str) -> &'static str {
    match action {
        "recover" => "Rebuilding",
        "resync" => "Making redundancy agree",
        "check" => "Checking",
        "repair" | "locate" => "Repairing",
        "resilver" => "Filling members",
        _ => "Working",
    }
}

/// Members that are lost, in a few words, and since when.
fn lost(members: &[Member]) -> (String, Option<u64>) {
    let gone: Vec<&Member> = members.iter().filter(|member| member.shape == Shape::Lost).collect();
    let missing = members.iter().filter(|member| member.shape == Shape::Missing).count() as u64;
    let named: Vec<String> =
        gone.iter().take(3).map(|member| format!("{} {}", member.called(), verb(&member.state))).collect();
    let mut parts = named;
    let more = gone.len().saturating_sub(3) as u64;
    if more > 0 {
        parts.push(format!("{more} more are out of use"));
    }
    if missing > 0 {
        let is = if missing == 1 { "is" } else { "are" };
        let words = format!("{} {is} missing", count(missing, "member", "members"));
        parts.push(if parts.is_empty() { sentence(&words) } else { words });
    }
    (parts.join(", "), gone.iter().filter_map(|member| member.since).max())
}

fn verb(state: &str) -> &str {
    match state {
        "failed" | "faulty" => "failed",
        "offline" => "was taken out",
        "stale" => "is out of date",
        other => other,
    }
}

/// Members that may still be lost, in words.
fn left(redundancy: Option<u16>) -> String {
    match redundancy {
        None => "data are lost".to_owned(),
        Some(0) => "no more may fail".to_owned(),
        Some(left) => {
            format!("{} more may fail", if left == 1 { "one".to_owned() } else { left.to_string() })
        }
    }
}

fn of_array_status(status: &ExportStatus) -> Told {
    let array = &status.array;
    let members = of_array(status);
    let (facts, redundancy) = (&array.facts, array.redundancy_left);
    let devices = count(facts.raid_devices as u64, "member", "members");
    let title = format!("{} of {devices}, {}", level(&facts.level), bytes(facts.size));
    let (cause, since) = lost(&members);
    let filling = || {
        let all: Vec<String> =
            members.iter().filter(|member| member.shape == Shape::Filling).map(Member::called).collect();
        if all.is_empty() {
            "A member is rebuilt".to_owned()
        } else {
            format!("{} is being rebuilt", all.join(", "))
        }
    };
    let remarks = remarks_of_array(status, &members);
    let is = |word: &str| array.is(word);
    let process = array.sync.as_ref().map(|sync| running(sync, process(&sync.action)));
    let (severity, word, sentence) = if is("broken") {
        (Severity::Down, "broken", format!("{cause}: too many members are lost, and no writes are taken"))
    } else if is("degraded") {
        let words = if cause.is_empty() { &filling() } else { &cause };
        let (severity, word) = if redundancy.unwrap_or(0) == 0 {
            (Severity::Critical, "no redundancy")
        } else {
            (Severity::Degraded, "degraded")
        };
        (severity, word, format!("{words}, {}", left(redundancy)))
    } else if !remarks.is_empty() {
        (Severity::Warning, "to be looked at", remarks.join("; "))
    } else if let Some(running) = &process {
        let paused = if running.paused { " is paused" } else { "" };
        let (severity, word) =
            if running.paused { (Severity::Warning, "paused") } else { (Severity::Busy, "busy") };
        (severity, word, format!("{}{paused}; {}", running.words, whole(redundancy)))
    } else {
        let left_over =
            if cause.is_empty() { String::new() } else { format!("; {cause}, and can be pulled") };
        (Severity::Fine, "fine", format!("{}{left_over}", sentence(&whole(redundancy))))
    };
    Told {
        kind: "array".to_owned(),
        severity,
        word: word.to_owned(),
        title,
        cause,
        sentence,
        since,
        next: None,
        running: process,
        members,
    }
}

fn whole(redundancy: Option<u16>) -> String {
    match redundancy {
        Some(left) if left > 0 => {
            format!(
                "all members are well, {} may fail",
                if left == 1 { "one".to_owned() } else { left.to_string() }
            )
        }
        _ => "all members are well; this level has no redundancy".to_owned(),
    }
}

/// Remarks on an array that is whole.
fn remarks_of_array(status: &ExportStatus, members: &[Member]) -> Vec<String> {
    let array = &status.array;
    let mut all = Vec::new();
    for member in members.iter().filter(|member| member.shape == Shape::Watch) {
        all.extend(member.notes.first().map(|note| format!("{}: {note}", member.called())));
    }
    if let Some(last) = status.last_action.as_ref().filter(|last| last.action == "check") {
        let found = last.findings.mismatch_cnt;
        all.extend((found > 0).then(|| format!("The last check found {found} sectors that disagree")));
    }
    if array.bitmap.as_ref().is_some_and(|bitmap| bitmap.failed) {
        all.push("The file of its bitmap has failed: after a crash all of it is resynced".to_owned());
    }
    all.extend(array.facts.limits.iter().map(|why| plain(why)));
    all.extend(status.left_out.iter().map(|left| format!("Left out: {}", plain(&left.why))));
    if !status.exported {
        all.push("It is offered to no client".to_owned());
    }
    all
}

fn of_pool_status(status: &PoolStatus) -> Told {
    let pool = &status.pool;
    let members = of_pool(status);
    let title = format!(
        "pool of {}, {} of {} stored",
        count(members.len() as u64, "member", "members"),
        bytes(pool.stored),
        bytes(pool.capacity)
    );
    let (cause, since) = lost(&members);
    let process = pool_running(status);
    let remarks = remarks_of_pool(status, &members);
    let (severity, word, sentence) = if pool.is("broken") {
        (Severity::Down, "broken", format!("{cause}: more is lost than it can do without"))
    } else if !status.waits_for.is_empty() {
        let missing = count(status.waits_for.len() as u64, "member", "members");
        (
            Severity::Degraded,
            "waits",
            format!("It waits for {missing} that were in use, and is read-only until then"),
        )
    } else if pool.is("damaged") {
        let places = pool.damaged.len() as u64 + pool.damaged_beyond;
        (
            Severity::Critical,
            "damaged",
            sentence(&format!("{} of volumes can't be rebuilt", count(places, "place", "places"))),
        )
    } else if pool.is("degraded") || pool.is("thin") {
        let words = if cause.is_empty() { "Members get what they lack" } else { &cause };
        let thin = if pool.thin > 0 {
            format!(", {} with less redundancy", bytes(pool.thin))
        } else {
            String::new()
        };
        (Severity::Degraded, "degraded", format!("{words}{thin}"))
    } else if !remarks.is_empty() {
        (Severity::Warning, "to be looked at", remarks.join("; "))
    } else if let Some(running) = &process {
        let (severity, word) =
            if running.paused { (Severity::Warning, "paused") } else { (Severity::Busy, "busy") };
        (severity, word, format!("{}; all members are well", running.words))
    } else {
        (Severity::Fine, "fine", "All members are well".to_owned())
    };
    Told {
        kind: "pool".to_owned(),
        severity,
        word: word.to_owned(),
        title,
        cause,
        sentence,
        since,
        next: None,
        running: process,
        members,
    }
}

fn pool_running(status: &PoolStatus) -> Option<Running> {
    let pool = &status.pool;
    if let Some(at) = &pool.resilver {
        return Some(Running {
            words: "Filling members".to_owned(),
            percent: at.position.min(at.total) as f64 * 100.0 / at.total.max(1) as f64,
            paused: false,
            speed: at.speed,
            left: at.left,
        });
    }
    let sync = pool.scan.as_ref()?.sync()?;
    Some(running(&sync, if sync.action == "check" { "Checking" } else { "Scrubbing" }))
}

fn remarks_of_pool(status: &PoolStatus, members: &[Member]) -> Vec<String> {
    let mut all = Vec::new();
    for member in members.iter().filter(|member| member.shape == Shape::Watch) {
        all.extend(member.notes.first().map(|note| format!("{}: {note}", member.called())));
    }
    all.extend(status.left_out.iter().map(|left| format!("Left out: {}", plain(&left.why))));
    if !status.exported {
        all.push("It is offered to no client".to_owned());
    }
    all
}

fn absent(status: &AbsentStatus) -> Told {
    let next = status.next.as_ref().map(|command| StepTold {
        why: "the server says how it goes on".to_owned(),
        command: plain(command),
        mend: Mend::Shell { why: "it is not served, and what is needed for that is done beside the server" },
    });
    let missing = status.missing.iter().flatten().map(|place| missing(plain(place), None));
    Told {
        kind: plain(&status.kind),
        severity: Severity::Down,
        word: "not served".to_owned(),
        title: plain(&status.kind),
        cause: String::new(),
        sentence: format!("It is not served: {}", plain_long(&status.not_served)),
        since: None,
        next,
        running: None,
        members: missing.collect(),
    }
}

/// Sentences of servers are longer than names.
fn plain_long(text: &str) -> String {
    text.split(' ').take(200).map(plain).collect::<Vec<_>>().join(" ")
}

fn other(status: &OtherStatus) -> Told {
    let says = |word: &str| status.state.iter().any(|state| state == word);
    let severity = match (says("broken"), says("degraded")) {
        (true, _) => Severity::Down,
        (_, true) => Severity::Degraded,
        _ => Severity::Fine,
    };
    let state = status.state.iter().map(|word| plain(word)).collect::<Vec<_>>().join(", ");
    Told {
        kind: plain(&status.kind),
        severity,
        word: state.clone(),
        title: plain(&status.kind),
        cause: String::new(),
        sentence: state,
        since: None,
        next: None,
        running: None,
        members: Vec::new(),
    }
}

fn next(step: &NextStep, report: &Report) -> StepTold {
    let name = shell(report.name());
    StepTold {
        why: step.why().to_owned(),
        command: format!("brindle {}", step.command("", &name, "DEVICE")),
        mend: mend(step, report),
    }
}

const ENDS_SERVICE: &str = "it ends the service of this array or pool for its clients: do it in a shell, when they are ready for that";

/// How a step is taken from a page: each has a button, or a reason why it has none.
fn mend(step: &NextStep, report: &Report) -> Mend {
    let name = report.name();
    let action = |button, word: &str| Mend::Order {
        button,
        order: serde_json::json!({"ask": "action", "array": name, "action": word}),
    };
    let command = || format!("brindle {}", step.command("", &shell(name), "DEVICE"));
    match step {
        NextStep::Resume => action("Go on", "resume"),
        NextStep::Rebuild => action("Begin the rebuild", "resume"),
        NextStep::Repair => action("Repair", "repair"),
        NextStep::ReAdd => Mend::Order {
            button: "Take it back",
            order: serde_json::json!({"ask": "add", "array": name, "devices": ["missing"], "re_add": true}),
        },
        NextStep::Add => Mend::Device {
            button: "Add a disk",
            order: serde_json::json!({"ask": "add", "array": name, "devices": [null]}),
            least: least(report),
            command: command(),
        },
        NextStep::PoolOnline(member) => Mend::Order {
            button: "Bring it back",
            order: serde_json::json!({"ask": "pool-online", "pool": name, "member": member}),
        },
        NextStep::PoolReplace(member) | NextStep::PoolReplaceFailing(member) => Mend::Device {
            button: "Replace it",
            order: serde_json::json!({"ask": "pool-replace", "pool": name, "member": member, "with": null}),
            least: least(report),
            command: command(),
        },
        NextStep::Replace(role) => Mend::Device {
            button: "Replace it",
            order: serde_json::json!({"ask": "replace", "array": name, "member": role.to_string(), "with": null}),
            least: least(report),
            command: command(),
        },
        NextStep::Wait => Mend::Wait,
        NextStep::Restart | NextStep::ServeWritable | NextStep::PoolRestart => {
            Mend::Shell { why: ENDS_SERVICE }
        }
        NextStep::PoolAttach => Mend::Shell { why: "connect the disks: the pool takes them by itself" },
        NextStep::PoolRestore => Mend::Shell { why: "only a copy has what is lost" },
    }
}

/// Bytes that a device has to have at least; the server has the last word.
fn least(report: &Report) -> u64 {
    match report {
        Report::Array(status) => status.array.facts.component_size.unwrap_or_default(),
        Report::Pool(_) | Report::Absent(_) | Report::Other(_) => 0,
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;

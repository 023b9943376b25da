//! All servers as they are known: asked once a second while a page is open, whoever looks, and not at all while none is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use brindle_host::control::Ask;
use brindle_host::status::Report;
use brindle_host::{Looked, Volumes};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

use crate::ask::{self, Answering, Silence};
use crate::health::{Item, item};
use crate::rates::{History, Series};
use crate::work::Work;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Servers that are asked in a second at most: with more of them looks are rarer.
const MOST_A_SECOND: u32 = 20;

/// Time after the last request in which looks go on.
const WANTED: Duration = Duration::from_secs(4);

/// Time that a page waits for its first look.
const FIRST: Duration = Duration::from_millis(1500);

/// Time for which one that has ended is shown still.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The age from which the last status of a server means that nothing of it has run since: while anything does, it makes one a second.
const QUIET: f64 = 1.6;

/// The age of the last status from which the thread that makes it hangs: while nothing runs it makes one each nine seconds.
const LATE: f64 = 10.0;

/// Time for which one text of the first page is given to all who ask, if no server has answered since.
const SAME: Duration = Duration::from_millis(500);

/// A server, as the first page tells of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ServerState {
    pub(crate) name: String,
    pub(crate) answering: Answering,
    /// Why it gives no answer.
    pub(crate) why: Option<String>,
}

/// A report, typed and as it was told.
pub(crate) struct Told {
    pub(crate) report: Report,
    pub(crate) value: Value,
}

struct Server {
    answering: Answering,
    why: Option<String>,
    reports: Arc<Vec<Told>>,
    /// The number that its server has given to these.
    known: Option<u64>,
    /// When it said that they are so.
    at: Instant,
    /// When it was asked, if it has not answered yet.
    asked: Option<Instant>,
    histories: BTreeMap<String, History>,
    works: BTreeMap<String, Work>,
}

impl Server {
    fn new(now: Instant) -> Self {
        Self {
            answering: Answering::Loading,
            why: None,
            reports: Arc::default(),
            known: None,
            at: now,
            asked: None,
            histories: BTreeMap::new(),
            works: BTreeMap::new(),
        }
    }

    /// It is called silent while it lets others wait, and not only when the patience is over.
    fn state(&self, name: &str, now: Instant) -> ServerState {
        let late = self.asked.is_some_and(|asked| now - asked > Duration::from_millis(1400));
        let (answering, why) = match self.answering {
            Answering::Answers | Answering::Loading if late => {
                (Answering::Silent, Some(Silence::Silent.words(name)))
            }
            answering => (answering, self.why.clone()),
        };
        ServerState { name: name.to_owned(), answering, why }
    }
}

#[derive(Default)]
struct BoardState {
    servers: BTreeMap<String, Server>,
    wanted: Option<Instant>,
    looked: Option<Instant>,
    /// The reason why it is not seen which servers there are.
    closed: Option<String>,
    /// The first page as it was told last.
    page: Option<(Instant, Bytes)>,
}

impl BoardState {
    fn overview(&self, now: Instant) -> Overview {
        let mut servers: Vec<ServerState> =
            self.servers.iter().map(|(name, server)| server.state(name, now)).collect();
        servers.extend(self.closed.iter().map(|why| ServerState {
            name: String::new(),
            answering: Answering::Closed,
            why: Some(why.clone()),
        }));
        let mut items: Vec<Item> =
            self.servers.iter().flat_map(|(name, server)| server.items(name, now)).collect();
        items.sort_by(|one, other| {
            (one.severity, &one.name, &one.server).cmp(&(other.severity, &other.name, &other.server))
        });
        Overview { servers, items }
    }
}

/// All servers as they are known. A handle: cloning gives the same.
#[derive(Clone)]
pub(crate) struct Board {
    folder: PathBuf,
    state: Arc<Mutex<BoardState>>,
    /// A page wants to know.
    asked: Arc<Notify>,
    /// A server has answered.
    answered: Arc<Notify>,
}

/// The first page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Overview {
    pub(crate) servers: Vec<ServerState>,
    /// Worst first.
    pub(crate) items: Vec<Item>,
}

impl Board {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, state: Arc::default(), asked: Arc::default(), answered: Arc::default() }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    fn state(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for as long as the process runs.
    pub(crate) async fn look(self) {
        loop {
            let now = Instant::now();
            let (wanted, every) = {
                let state = self.state();
                let wanted = state.wanted.is_some_and(|wanted| now - wanted < WANTED);
                (wanted, EVERY * (state.servers.len() as u32).div_ceil(MOST_A_SECOND).max(1))
            };
            if !wanted {
                self.asked.notified().await;
                continue;
            }
            self.look_once(now);
            tokio::time::sleep(every).await;
        }
    }

    /// Asks all servers that do not owe an answer.
    fn look_once(&self, now: Instant) {
        let (names, closed) = match ask::servers(&self.folder) {
            Ok(names) => (names, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let mut state = self.state();
        (state.looked, state.closed, state.page) = (Some(now), closed, None);
        for (name, server) in &mut state.servers {
            if !names.contains(name) && server.asked.is_none() && server.answering != Answering::Gone {
                server.answering = Answering::Gone;
                server.why = Some(Silence::Gone.words(name));
                server.at = now;
            }
        }
        state.servers.retain(|_, server| server.answering != Answering::Gone || now - server.at < REMEMBERED);
        if names.is_empty() {
            self.answered.notify_waiters();
        }
        for name in names {
            let server = state.servers.entry(name.clone()).or_insert_with(|| Server::new(now));
            if server.asked.is_none() {
                server.asked = Some(now);
                tokio::spawn(self.clone().ask(name));
            }
        }
    }

    async fn ask(self, server: String) {
        let known = self.state().servers.get(&server).and_then(|server| server.known);
        let look = self.look_at(&server, known).await;
        self.note(&server, look);
        self.answered.notify_waiters();
    }

    /// The last status of a server, which is told without asking what it serves, and only if it is not known.
    async fn look_at(&self, server: &str, known: Option<u64>) -> Result<Look, Silence> {
        let read = match ask::ask(&self.folder, server, &Ask::Look { known }.into()).await {
            // A server of before does not know the question.
            Err(Silence::Refused(_)) => {
                Look::of_status(ask::ask(&self.folder, server, &Ask::Status.into()).await?)
            }
            told => Look::of_looked(told?),
        };
        match read {
            Ok(look) => Ok(look),
            Err(why) => Err(ask::misread(&self.folder, server, &why).await),
        }
    }

    fn note(&self, name: &str, look: Result<Look, Silence>) {
        let now = Instant::now();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map(|at| at.as_secs_f64()).unwrap_or_default();
        let mut state = self.state();
        state.page = None;
        let Some(server) = state.servers.get_mut(name) else { return };
        server.asked = None;
        match look {
            Ok(look) => {
                (server.answering, server.why, server.at) = (Answering::Answers, None, now);
                server.note(look, at);
            }
            Err(why) => {
                server.answering = match &why {
                    Silence::Gone => Answering::Gone,
                    Silence::Silent | Silence::Cut => Answering::Silent,
                    Silence::Closed => Answering::Closed,
                    Silence::Misread { theirs: Some(theirs), .. }
                        if *theirs != brindle_host::control::VERSION =>
                    {
                        Answering::OtherVersion
                    }
                    Silence::Misread { .. } | Silence::Refused(_) => Answering::Unreadable,
                };
                server.why = Some(why.words(name));
            }
        }
    }

    /// Has looks go on, and waits for the first one, but not for a server that is silent.
    pub(crate) async fn want(&self) {
        let is_known = {
            let mut state = self.state();
            let now = Instant::now();
            let was = state.wanted.replace(now);
            was.is_some_and(|was| now - was < WANTED) && state.looked.is_some()
        };
        self.asked.notify_one();
        let settled = || {
            let state = self.state();
            state.looked.is_some() && state.servers.values().all(|server| server.asked.is_none())
        };
        if is_known && !self.state().servers.values().any(|server| server.answering == Answering::Loading) {
            return;
        }
        let until = Instant::now() + FIRST;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let answered = self.answered.notified();
            let fresh = self.state().looked.is_some_and(|looked| looked.elapsed() < EVERY * 2);
            if fresh && settled() {
                return;
            }
            let _ = tokio::time::timeout(left.min(Duration::from_millis(100)), answered).await;
        }
    }

    /// Looks now, as what was told is out of date by an order.
    pub(crate) async fn look_again(&self) {
        self.look_once(Instant::now());
        let _ = tokio::time::timeout(Duration::from_millis(500), self.answered.notified()).await;
    }

    /// The first page as JSON: made once for all who ask, until a server has told more.
    pub(crate) fn page(&self) -> Bytes {
        let now = Instant::now();
        let mut state = self.state();
        if let Some((at, page)) = &state.page
            && now - *at < SAME
        {
            return page.clone();
        }
        // Texts and numbers have a form in any case.
        let page = Bytes::from(serde_json::to_vec(&state.overview(now)).unwrap_or_default());
        state.page = Some((now, page.clone()));
        page
    }

    /// One thing that is served, with its report as it was told and its last minutes.
    pub(crate) fn item(&self, server: &str, name: &str) -> Option<(Item, Value, Series)> {
        let state = self.state();
        let of = state.servers.get(server)?;
        let item = of.items(server, Instant::now()).into_iter().find(|item| item.name == name)?;
        let told = of.reports.iter().find(|told| told.report.name() == name)?;
        let series = of.histories.get(name).map(History::series).unwrap_or_default();
        Some((item, told.value.clone(), series))
    }

    /// Whether a server has anything of that name; `None` if it does not say.
    pub(crate) fn has(&self, server: &str, name: &str) -> Option<bool> {
        let state = self.state();
        let of = state.servers.get(server).filter(|server| server.answering == Answering::Answers)?;
        Some(of.reports.iter().any(|told| told.report.name() == name))
    }

    /// Reports of all servers as they were told: of one server, if one is named.
    pub(crate) fn reports(&self) -> Vec<(String, Arc<Vec<Told>>)> {
        let state = self.state();
        let answers = |server: &&Server| server.answering == Answering::Answers;
        let all = state.servers.iter().filter(|(_, server)| answers(server));
        all.map(|(name, server)| (name.clone(), Arc::clone(&server.reports))).collect()
    }
}

impl Server {
    /// Takes what it has told at `at`, seconds since 1970.
    fn note(&mut self, look: Look, at: f64) {
        let Look { number, age, reports } = look;
        if let Some(reports) = reports {
            let (mut before, now) = (std::mem::take(&mut self.works), Instant::now());
            for Told { report, .. } in &reports {
                let mut work = before.remove(report.name()).unwrap_or_default();
                work.note(report, item("", report).running, now);
                self.works.insert(report.name().to_owned(), work);
            }
            (self.reports, self.known) = (Arc::new(reports), number);
        }
        if age >= LATE {
            // Once it answers again all of it is told anew.
            self.reports = Arc::new(self.reports.iter().map(|told| told.stale(age)).collect());
            self.known = None;
            return;
        }
        let at = if age < QUIET { at - age } else { at };
        let mut before = std::mem::take(&mut self.histories);
        for told in self.reports.iter() {
            let mut history = before.remove(told.report.name()).unwrap_or_default();
            history.note(at, &told.report);
            self.histories.insert(told.report.name().to_owned(), history);
        }
    }

    fn items(&self, name: &str, now: Instant) -> Vec<Item> {
        let state = self.state(name, now);
        let of = |told: &Told| {
            let mut item = item(name, &told.report);
            item.rates = self.histories.get(told.report.name()).and_then(History::last_minute);
            let ended = || self.works.get(told.report.name())?.just_ended(now);
            item.running = item.running.or_else(ended);
            if state.answering != Answering::Answers {
                item.silence(state.answering, (now - self.at).as_secs_f64());
            }
            item
        };
        self.reports.iter().map(of).collect()
    }
}

impl Told {
    /// The same, from a thread that has not answered for so many seconds.
    fn stale(&self, seconds: f64) -> Self {
        let (mut report, mut value) = (self.report.clone(), self.value.clone());
        report.set_stale(seconds);
        value["stale_for"] = seconds.into();
        Self { report, value }
    }
}

/// An answer of a server.
struct Look {
    /// The number of this status, if the server numbers them.
    number: Option<u64>,
    /// Seconds since it was made.
    age: f64,
    /// None if it is the one that is known.
    reports: Option<Vec<Told>>,
}

impl Look {
    fn of_status(told: Value) -> Result<Self, String> {
        Ok(Self { number: None, age: 0.0, reports: Some(read(told)?) })
    }

    fn of_looked(told: Value) -> Result<Self, String> {
        let looked: Looked = serde_json::from_value(told).map_err(|error| error.to_string())?;
        let reports = looked.volumes.map(read).transpose()?;
        Ok(Self { number: Some(looked.number), age: looked.age.max(0.0), reports })
    }
}

fn read(told: Value) -> Result<Vec<Told>, String> {
    let volumes: Volumes = serde_json::from_value(told.clone()).map_err(|error| error.to_string())?;
    let values = match told {
        Value::Array(all) => all,
        Value::Null => Vec::new(),
        one => vec![one],
    };
    Ok(volumes.into_all().into_iter().zip(values).map(|(report, value)| Told { report, value }).collect())
}

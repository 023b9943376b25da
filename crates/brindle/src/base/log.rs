//! Diagnostics of all crates, to standard error: `--log FILTER`, `$BRINDLE_LOG`.
//!
//! Lines are written by a thread of their own, so that nobody waits for whoever reads them: an array serves on though
//! the pipe behind its standard error is full. Lines that find no room are counted, and the count is logged.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::base::failure::Failure;
use crate::base::text;

/// The filter without `--log`.
const DEFAULT: &str = "warn";

/// Lines that wait for their reader at most.
const ROOM: usize = 1024;

/// Time that the last lines may take when the process ends.
const PATIENCE: Duration = Duration::from_millis(500);

static LINES: OnceLock<SyncSender<Line>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

enum Line {
    /// To standard error.
    Error(Vec<u8>),
    /// To standard output.
    Output(Vec<u8>),
    /// Asks for an answer once all lines before it are written.
    Flush(SyncSender<()>),
}

/// Prints from now on the messages that `filter` passes, which is in `tracing`'s syntax.
pub(crate) fn begin(filter: Option<&str>) -> Result<(), Failure> {
    let text = filter.filter(|text| !text.is_empty()).unwrap_or(DEFAULT);
    let filter = EnvFilter::builder().parse(text).map_err(|error| {
        Failure::Usage(format!(
            "--log '{text}': {error}; give for example debug, or warn,brindle_export=debug"
        ))
    })?;
    let (sender, lines) = sync_channel(ROOM);
    let started = std::thread::Builder::new().name("log".into()).spawn(move || write(&lines));
    started.map_err(|source| Failure::system("the log thread can't start", source))?;
    let _ = LINES.set(sender); // set once: `main` calls this once
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).event_format(Plain).with_writer(Lines).finish();
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| Failure::system("the log", io::Error::other(error)))
}

/// Waits briefly until all lines are written.
pub(crate) fn flush() {
    let (done, wait) = sync_channel(1);
    if LINES.get().is_some_and(|lines| lines.try_send(Line::Flush(done)).is_ok()) {
        let _ = wait.recv_timeout(PATIENCE); // else the reader is too slow
    }
}

/// Tells why a command failed, whatever the filter says.
pub(crate) fn complain(failure: &Failure) {
    let failure = failure.to_string();
    let failure = text::shown(&failure);
    if LINES.get().is_some() {
        post(Line::Error(format!("brindle: {failure}\n").into_bytes()));
    } else {
        eprintln!("brindle: {failure}");
    }
}

/// Prints a line to standard output without waiting for its reader. One that has left is no concern of the array's.
pub(crate) fn print(line: String) {
    post(Line::Output(line.into_bytes()));
}

fn post(line: Line) {
    if LINES.get().is_some_and(|lines| lines.try_send(line).is_err()) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

fn write(lines: &Receiver<Line>) {
    for line in lines {
        // A reader that has left reads no complaint about it either.
        match line {
            Line::Error(text) => drop(io::stderr().write_all(&text)),
            Line::Output(text) => {
                let mut out = io::stdout().lock();
                let _ = out.write_all(&text).and_then(|()| out.flush());
            }
            Line::Flush(done) => drop(done.send(())),
        }
        let lost = LOST.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ =
                writeln!(io::stderr(), "brindle: {lost} lines of the log were lost: its reader is too slow");
        }
    }
}

/// Where `tracing-subscriber` writes its events, a whole line at a time.
struct Lines;

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        post(Line::Error(text.to_vec()));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        Self
    }
}

/// The form of all messages: `brindle: ` and one line. Lines that are shown on demand only name their level and
/// source.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        write!(to, "brindle: ")?;
        if *about.level() > Level::WARN {
            write!(to, "[{} {}] ", about.level(), about.target())?;
        }
        let mut fields = String::new();
        context.field_format().format_fields(Writer::new(&mut fields), event)?;
        // Paths and names that are told of are data, and an event is one line.
        writeln!(to, "{}", text::shown(&fields).replace('\n', "\\n"))
    }
}

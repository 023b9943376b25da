//! `brindle watch`: how arrays and pools do, drawn again and again on a terminal.

mod frame;
mod history;
mod members;
mod rates;
mod screen;
mod style;
mod view;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use brindle_host::Volumes;

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{self, Target};
use crate::client::control::Ask;
use crate::flags::cli::Watch;
use frame::frame;
use history::History;
use rates::{Pair, Snapshot};
use screen::Screen;
use style::Line;
use view::View;

/// `brindle watch`.
pub(crate) fn watch(args: &Watch) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let (began, every) = (Instant::now(), Duration::from_millis(args.interval.0));
    let look = || snapshot(&folder, args.array.as_deref(), began);
    let before = look()?;
    if args.once || args.json || !std::io::stdout().is_terminal() {
        std::thread::sleep(every);
        let now = look()?;
        if args.json {
            return report::print_json(&rates::json(&before, &now));
        }
        // A pipe has no edge.
        let view = View { width: usize::from(u16::MAX), ..View::default() };
        let lines = frame(Some(&before), &now, &History::default(), &view);
        return report::print(&lines.iter().map(|line| format!("{}\n", line.text())).collect::<String>());
    }
    live(before, every, look)
}

/// Draws until the reader has seen enough.
fn live(
    mut now: Snapshot,
    every: Duration,
    look: impl Fn() -> Result<Snapshot, Failure>,
) -> Result<(), Failure> {
    let screen = Screen::begin(coloured())?;
    let mut before: Option<Snapshot> = None;
    let mut view = View { ascii: !knows_bars(), ..View::default() };
    let mut history = History::default();
    loop {
        let next = Instant::now() + every;
        while Instant::now() < next {
            let (rows, columns) = Screen::size();
            view.width = columns;
            let lines: Vec<Line> = frame(before.as_ref(), &now, &history, &view);
            view.above = screen.draw(&lines, view.above, |below| view.footer(below))?;
            for key in screen.keys(next) {
                if view.press(key, rows) {
                    return Ok(());
                }
            }
        }
        let last = std::mem::replace(&mut now, look()?);
        remember(&mut history, &last, &now);
        before = Some(last);
    }
}

fn remember(history: &mut History, before: &Snapshot, now: &Snapshot) {
    for report in &now.reports {
        let pair = Pair::of(report, Some(before), now);
        if let [Some(read), Some(written)] =
            [rates::BYTES_READ, rates::BYTES_WRITTEN].map(|count| pair.rate(count))
        {
            history.add(report, [read, written]);
        }
    }
    history.keep(&now.reports);
}

/// Colours are not wanted where `NO_COLOR` has a value (no-color.org), and a dumb terminal has none.
fn coloured() -> bool {
    let is = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    is("NO_COLOR").is_none() && is("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the locale says that the terminal takes UTF-8; one that says nothing does.
fn knows_bars() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| std::env::var(name).ok());
    let locale = said.filter(|value| !value.is_empty()).map(|value| value.to_lowercase()).next();
    locale.is_none_or(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

/// How the array that is meant does, or all that are served.
fn snapshot(folder: &Path, array: Option<&str>, began: Instant) -> Result<Snapshot, Failure> {
    let reports = match array {
        Some(name) => {
            let Target { server, array, .. } = Target::meant(folder, Some(name))?;
            ask::ask::<Volumes>(folder, &server, &Ask::Status.of(array))?.into_read().into_all()
        }
        None => ask::reports(folder),
    };
    Ok(Snapshot { reports, at: began.elapsed() })
}

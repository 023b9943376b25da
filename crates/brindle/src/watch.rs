//! `brindle watch`: how arrays do, drawn again and again on a terminal.

mod frame;
mod screen;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::ask::{self, Target};
use crate::cli::Watch;
use crate::control::Request;
use crate::failure::Failure;
use crate::{report, runtime};
use frame::{Snapshot, frame};
use screen::Screen;

/// `brindle watch`.
pub(crate) fn watch(args: &Watch) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime)?;
    let (began, every) = (Instant::now(), Duration::from_millis(args.interval.0));
    let look = || snapshot(&folder, args.array.as_deref(), began);
    let mut before = look()?;
    if args.once || args.json || !std::io::stdout().is_terminal() {
        std::thread::sleep(every);
        let now = look()?;
        if args.json {
            return report::print_json(&frame::json(&before, &now));
        }
        let lines = frame(Some(&before), &now);
        return report::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    let screen = Screen::begin()?;
    screen.draw(&frame(None, &before))?;
    loop {
        std::thread::sleep(every);
        let now = look()?;
        screen.draw(&frame(Some(&before), &now))?;
        before = now;
    }
}

/// How the array that is meant does, or all that are served.
fn snapshot(folder: &Path, array: Option<&str>, began: Instant) -> Result<Snapshot, Failure> {
    let reports = match array {
        Some(name) => {
            let Target { server, array } = Target::meant(folder, Some(name))?;
            let told = ask::ask(folder, &server, &Request::Status { array })?;
            report::of_arrays(&told).to_vec()
        }
        None => ask::reports(folder),
    };
    Ok(Snapshot { reports, at: began.elapsed() })
}

//! `brindle watch`: how arrays do, drawn again and again on a terminal.

mod frame;

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::ask::{self, Target};
use crate::cli::Watch;
use crate::control::Request;
use crate::failure::Failure;
use crate::{report, runtime};
use frame::{Snapshot, frame};

/// To the upper left corner, and lines are cut at the right edge.
const BEGIN: &str = "\x1b[H\x1b[?7l";
/// The rest of a line is cleared,
const CLEAR_LINE: &str = "\x1b[K\n";
/// and what is below the last one; lines go on as before.
const END: &str = "\x1b[J\x1b[?7h";

/// `brindle watch`.
pub(crate) fn watch(args: &Watch) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime)?;
    let (began, every) = (Instant::now(), Duration::from_millis(args.interval.0));
    let look = || snapshot(&folder, args.array.as_deref(), began);
    let mut before = look()?;
    if args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(every);
        let lines = frame(Some(&before), &look()?);
        return report::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }
    report::print("\x1b[2J")?;
    draw(&frame(None, &before))?;
    loop {
        std::thread::sleep(every);
        let now = look()?;
        draw(&frame(Some(&before), &now))?;
        before = now;
    }
}

fn draw(lines: &[String]) -> Result<(), Failure> {
    let lines: String = lines.iter().map(|line| format!("{line}{CLEAR_LINE}")).collect();
    report::print(&format!("{BEGIN}{lines}{END}"))
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

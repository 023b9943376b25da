//! A terminal's second screen, on which lines are drawn over each other; what was on the first is there again in the end.

use console::Term;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::Failure;
use crate::report;

/// The second screen, without a cursor; lines are cut at the right edge.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the upper left corner.
const BEGIN: &str = "\x1b[H";
/// The rest of a line is cleared,
const CLEAR_LINE: &str = "\x1b[K";
/// and what is below the last one.
const CLEAR_BELOW: &str = "\x1b[J";

/// The second screen, until it is dropped or a signal ends the process.
pub(super) struct Screen;

impl Screen {
    pub(super) fn begin() -> Result<Self, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|source| Failure::system("signals can't be watched", source))?;
        let leave = move || {
            for signal in signals.forever() {
                // A terminal that is gone needs nothing.
                let _ = report::print(LEAVE);
                let _ = emulate_default_handler(signal);
            }
        };
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(leave)
            .map_err(|source| Failure::system("signals can't be watched", source))?;
        report::print(ENTER)?;
        Ok(Self)
    }

    /// Draws as many lines as there is room for.
    #[expect(clippy::unused_self, reason = "nothing is drawn on the first screen")]
    pub(super) fn draw(&self, lines: &[String]) -> Result<(), Failure> {
        let (rows, _) = Term::stdout().size();
        // Nothing may follow the last line: the screen would scroll.
        let lines = fit(lines, rows.into()).join(&format!("{CLEAR_LINE}\n"));
        report::print(&format!("{BEGIN}{lines}{CLEAR_LINE}{CLEAR_BELOW}"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = report::print(LEAVE);
    }
}

/// The first lines, and in the last row how many there are more.
fn fit(lines: &[String], rows: usize) -> Vec<String> {
    if lines.len() <= rows.max(1) {
        return lines.to_vec();
    }
    let shown = rows.max(1) - 1;
    let more = format!("{} more lines", lines.len() - shown);
    lines[..shown].iter().cloned().chain([more]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let lines: Vec<String> = (0..5).map(|line| line.to_string()).collect();
        assert_eq!(fit(&lines, 5), lines);
        assert_eq!(fit(&lines, 3), ["0", "1", "3 more lines"]);
        assert_eq!(fit(&lines, 0), ["5 more lines"]);
        assert!(fit(&[], 0).is_empty());
    }
}

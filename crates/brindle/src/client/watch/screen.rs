//! A terminal's second screen, on which lines are drawn over each other, and the keys; its first content is restored
//! at the end, and so is the terminal's mode.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use console::Term;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::style::Line;
use super::view::Key;
use crate::base::failure::Failure;
use crate::base::report;

/// The second screen, without a cursor; lines are cut at the right edge.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the upper left corner.
const BEGIN: &str = "\x1b[H";
/// The rest of a line is cleared,
const CLEAR_LINE: &str = "\x1b[K";
/// and the part below the last one.
const CLEAR_BELOW: &str = "\x1b[J";

/// The second screen, until it is dropped or a signal ends the process.
pub(super) struct Screen {
    /// The terminal's mode before keys were asked for; none where there are no keys.
    mode: Option<Termios>,
    coloured: bool,
}

impl Screen {
    pub(super) fn begin(coloured: bool) -> Result<Self, Failure> {
        let watched = |source| Failure::system("signals can't be watched", source);
        let mode = keys();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(watched)?;
        let before = mode.clone();
        let leave = move || {
            for signal in signals.forever() {
                // A terminal that is gone needs nothing.
                restore(before.as_ref());
                let _ = report::print(LEAVE);
                let _ = emulate_default_handler(signal);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(leave).map_err(watched)?;
        // It is handled so that it interrupts the wait for keys, and the new size is drawn at once.
        signal_hook::flag::register(SIGWINCH, std::sync::Arc::default()).map_err(watched)?;
        report::print(ENTER)?;
        Ok(Self { mode, coloured })
    }

    /// Rows and columns.
    pub(super) fn size() -> (usize, usize) {
        let (rows, columns) = Term::stdout().size();
        (rows.into(), columns.into())
    }

    /// Draws the lines that fit, from `first` on, and in the last row `footer`, which gets the number of lines below.
    /// Returns the first line drawn.
    pub(super) fn draw(
        &self,
        lines: &[Line],
        first: usize,
        footer: impl Fn(usize) -> String,
    ) -> Result<usize, Failure> {
        let (rows, _) = Self::size();
        let (first, shown) = fit(lines.len(), first, rows);
        let text = |line: &Line| if self.coloured { line.coloured() } else { line.text() };
        let mut all: Vec<String> = lines[first..first + shown].iter().map(text).collect();
        all.resize(rows.max(1) - 1, String::new());
        all.push(footer(lines.len() - first - shown));
        // Nothing may follow the last line: the screen would scroll.
        let all = all.join(&format!("{CLEAR_LINE}\n"));
        report::print(&format!("{BEGIN}{all}{CLEAR_LINE}{CLEAR_BELOW}"))?;
        Ok(first)
    }

    /// Keys that are pressed until then; none if the time has passed or the terminal's size has changed.
    pub(super) fn keys(&self, until: Instant) -> Vec<Key> {
        let left = until.saturating_duration_since(Instant::now());
        if self.mode.is_none() {
            std::thread::sleep(left);
            return Vec::new();
        }
        let stdin = std::io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Vec::new(),
            Ok(_) => {}
            Err(_) => {
                std::thread::sleep(left);
                return Vec::new();
            }
        }
        let mut sent = [0; 64];
        match rustix::io::read(&stdin, &mut sent) {
            Ok(count @ 1..) => Key::all(&sent[..count]),
            // The terminal is gone.
            _ => {
                std::thread::sleep(
                    until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1)),
                );
                Vec::new()
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(self.mode.as_ref());
        let _ = report::print(LEAVE);
    }
}

/// Has keys come one by one and unseen, and gives the mode before that; none if standard input is not a terminal.
fn keys() -> Option<Termios> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return None;
    }
    let before = tcgetattr(&stdin).ok()?;
    let mut mode = before.clone();
    mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Now, &mode).ok()?;
    Some(before)
}

fn restore(mode: Option<&Termios>) {
    if let Some(mode) = mode {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, mode);
    }
}

/// The first of `lines` to be shown and how many fit, given the first one that was asked for. The last row is the
/// footer's.
fn fit(lines: usize, first: usize, rows: usize) -> (usize, usize) {
    let room = rows.max(1) - 1;
    let first = first.min(lines.saturating_sub(room));
    (first, lines.saturating_sub(first).min(room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_scrolled_to_the_last_one_and_no_further() {
        assert_eq!(fit(5, 0, 6), (0, 5));
        assert_eq!(fit(5, 9, 6), (0, 5));
        assert_eq!(fit(5, 0, 3), (0, 2));
        assert_eq!(fit(5, 9, 3), (3, 2));
        assert_eq!((fit(5, 0, 0), fit(0, 3, 4)), ((0, 0), (0, 0)));
    }
}

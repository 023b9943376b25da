//! How the demo tells its story.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::base::units::Bytes;

/// A line on standard output; a reader who has gone misses nothing that the demo needs.
macro_rules! tell {
    ($($words:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($words)*);
    }};
}

/// The telling: numbered steps on standard output, in colour on a terminal.
pub(super) struct Story {
    began: Instant,
    step: Cell<u32>,
    colour: bool,
}

impl Story {
    pub(super) fn begin(folder: &Path, members: usize, size: Bytes) -> Self {
        let story =
            Self { began: Instant::now(), step: Cell::new(0), colour: std::io::stdout().is_terminal() };
        tell!("{}", story.paint("1", "Brindle demo: RAID 6 in user space, on plain files, without root"));
        tell!("{members} members of {size} in {}", folder.display());
        story
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn step(&self, what: &str) {
        self.step.set(self.step.get() + 1);
        tell!("\n{} {}", self.paint("1;36", &format!("{}.", self.step.get())), self.paint("1", what));
    }

    pub(super) fn fact(&self, what: &str) {
        tell!("   {what}");
    }

    pub(super) fn done(&self, what: &str) {
        tell!("   {} {what}", self.paint("32", "ok"));
    }

    pub(super) fn proof(&self, kind: &str, hash: &str) {
        tell!("   {} {kind} {}", self.paint("32", "ok"), self.paint("2", hash));
    }

    pub(super) fn end(&self, commands: &[String]) {
        let seconds = self.began.elapsed().as_secs_f64();
        let line = format!("Every byte is back. {seconds:.1} s.");
        tell!("\n{}", self.paint("1;32", &line));
        tell!("\nThe same by hand:\n");
        for command in commands {
            tell!("   {command}");
        }
    }
}

/// Bytes over time, for people.
pub(super) fn rate(bytes: usize, took: Duration) -> String {
    let per_second = bytes as f64 / took.as_secs_f64().max(1e-9);
    format!("{} in {:.2} s, {}/s", Bytes(bytes as u64), took.as_secs_f64(), Bytes(per_second as u64))
}

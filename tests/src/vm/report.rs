//! The results of a run, and whether it counts as success.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::time::Duration;

/// The report of a script that ended well.
#[derive(Debug)]
pub struct Report {
    /// Kernel log and output of the script.
    pub log: String,
    /// The values that the script handed over with `put`.
    pub results: BTreeMap<String, String>,
    /// From power-on to power-off.
    pub took: Duration,
}

impl Index<&str> for Report {
    type Output = str;

    /// The value that the script gave to `key`.
    fn index(&self, key: &str) -> &str {
        self.results
            .get(key)
            .unwrap_or_else(|| panic!("the script put no {key}, only {:?}", self.results.keys()))
    }
}

/// Why a run failed, with the log. Its `Debug` form is for people too, since that is what `unwrap` prints.
pub struct Failure {
    why: String,
    log: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n--- log of the machine\n{}--- {}", self.why, self.log, self.why)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Messages of a kernel that has gone wrong; a script may end well all the same.
const COMPLAINTS: [&str; 6] =
    ["Kernel panic", "BUG:", "Oops:", "WARNING: CPU:", "general protection fault", "blocked for more than"];

/// Reads the lines of the second serial port against the log of the first.
pub(super) fn judge(log: String, lines: &str, ended: bool, took: Duration) -> Result<Report, Failure> {
    let mut results = BTreeMap::new();
    let (mut step, mut exit) = (None, None);
    for line in lines.lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("BEGIN", name) => step = Some(name),
            ("END", _) => step = None,
            ("EXIT", status) => exit = exit.or(Some(status)),
            ("SET", pair) => {
                let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
                results.insert(key.to_owned(), value.to_owned());
            }
            _ => return Err(Failure { why: format!("garbage on the result line: {line:?}"), log }),
        }
    }
    let place = step.map_or(String::new(), |name| format!(" in step {name}"));
    let why = if let Some(complaint) = COMPLAINTS.iter().find(|c| log.contains(**c)) {
        format!("the kernel complained ({complaint}){place}")
    } else if !ended {
        format!("the machine was still running after {} s{place}", took.as_secs())
    } else {
        match exit {
            Some("0") => return Ok(Report { log, results, took }),
            Some(status) => format!("the script failed ({status}){place}"),
            None => format!("the machine ended before the script{place}"),
        }
    };
    Err(Failure { why, log })
}

/// The values that a script has put so far, while it may still run. The last line may be incomplete: it does not
/// count yet.
pub(super) fn so_far(log: String, lines: &str, took: Duration) -> Report {
    let whole = lines.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let pair = |line: &str| {
        let (key, value) = line.strip_prefix("SET ")?.split_once(' ')?;
        Some((key.to_owned(), value.to_owned()))
    };
    Report { log, results: whole.lines().filter_map(pair).collect(), took }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(log: &str, lines: &str, ended: bool) -> Result<Report, String> {
        judge(log.to_owned(), lines, ended, Duration::from_secs(9)).map_err(|f| f.why)
    }

    #[test]
    fn values_are_handed_over() {
        let report = verdict("", "BEGIN a\nSET hash 12 34\nEND\nSET empty\nEXIT 0\n", true).expect("success");
        assert_eq!((&report["hash"], &report["empty"]), ("12 34", ""));
    }

    #[test]
    fn half_a_line_does_not_count_yet() {
        let report = so_far(String::new(), "SET a 1\nBEGIN x\nSET a 2\nSET a 34", Duration::ZERO);
        assert_eq!((&report["a"], report.results.len()), ("2", 1));
        assert!(so_far(String::new(), "SET a 1", Duration::ZERO).results.is_empty());
    }

    #[test]
    fn every_bad_end_is_reported_with_its_step() {
        let why = |log, lines, ended| verdict(log, lines, ended).expect_err("should fail");
        assert_eq!(why("", "BEGIN stop md1\nEXIT 2\n", true), "the script failed (2) in step stop md1");
        assert_eq!(why("", "EXIT module raid1\nEXIT 0\n", true), "the script failed (module raid1)");
        assert_eq!(why("", "BEGIN a\nEND\nBEGIN b\n", true), "the machine ended before the script in step b");
        assert_eq!(why("", "BEGIN a\n", false), "the machine was still running after 9 s in step a");
        assert!(why("[1.0] Kernel panic - not syncing", "EXIT 0\n", true).contains("Kernel panic"));
        assert!(why("", "EXIT 0\nnoise\n", true).contains("garbage"));
    }
}

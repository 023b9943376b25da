//! Tests that can't run on this machine are skipped, with the reason; and whether a test has time for all its cases.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

/// Something that a test needs and this machine does not have: what, and how to get it.
#[derive(Debug, Clone)]
pub struct Missing(String);

impl Missing {
    /// `what` names the thing, the reason and the way out.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Path of the program `name`, looked for in `PATH` and where administrators' programs live.
///
/// # Errors
/// It is nowhere.
pub fn find(name: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Missing::new(format!("{name} is not installed; scripts/install-test-deps.sh knows the package"))
        })
}

/// `BRINDLE_LONG` is in the environment (`make test-long`): tests try everything. Otherwise tests run some of their
/// cases, so that `make test` stays short.
pub fn is_long() -> bool {
    std::env::var_os("BRINDLE_LONG").is_some()
}

/// The value, or `None` after saying that this thread's test is skipped, and why.
///
/// # Panics
/// With `CI=true` in the environment: there a test that can't run has failed.
pub fn or_skip<T>(found: Result<T, Missing>) -> Option<T> {
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    decide(found, ci, &mut std::io::stderr())
}

/// `say` is standard error itself: the test harness would swallow the output of `eprintln!`.
fn decide<T>(found: Result<T, Missing>, ci: bool, say: &mut dyn Write) -> Option<T> {
    let missing = match found {
        Ok(it) => return Some(it),
        Err(missing) => missing,
    };
    assert!(!ci, "{missing} (with CI=true no test may be skipped)");
    let test = std::thread::current();
    // One write for the line: tests run side by side. If it fails, the test is skipped all the same.
    let line = format!("SKIPPED: {}: {missing}\n", test.name().unwrap_or("a test"));
    let _unheard = say.write_all(line.as_bytes());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_named() {
        assert!(find("sh").is_ok());
        let missing = find("no-such-program").expect_err("should be nowhere").to_string();
        assert!(missing.contains("no-such-program"), "{missing}");
    }

    #[test]
    fn a_test_that_can_run_runs() {
        let mut said = Vec::new();
        assert_eq!(decide(Ok(7), true, &mut said), Some(7));
        assert!(said.is_empty());
    }

    #[test]
    fn a_test_that_can_not_says_so() {
        let mut said = Vec::new();
        let missing: Result<(), _> = Err(Missing::new("no tool; install it"));
        assert_eq!(decide(missing, false, &mut said), None);
        let said = String::from_utf8(said).unwrap();
        assert!(
            said.starts_with("SKIPPED: ") && said.contains("a_test_that_can_not") && said.contains("no tool")
        );
    }

    #[test]
    #[should_panic(expected = "no test may be skipped")]
    fn in_ci_it_fails() {
        let missing: Result<(), _> = Err(Missing::new("no tool"));
        decide(missing, true, &mut Vec::new());
    }
}

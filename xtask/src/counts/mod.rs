//! `cargo xtask counts`: the instructions of each hot path, beside those of the commit that they are held against.
//!
//! The program `instruction_counts` of crate `hot-paths` does each path a fixed number of times; callgrind counts. Counts
//! are those of one compiler, on processors for which callgrind takes one parity kernel. The store says both, and
//! elsewhere nothing is judged. The commit to compare with does not move: many small steps would get past a comparison
//! with the last.

mod callgrind;
mod growth;
mod store;
mod table;
mod tolerance;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::Failure;
use callgrind::Count;
use store::Store;
use table::Judged;

/// The store, from the root.
const STORE: &str = "docs/bench/instructions.toml";
/// The exit status that `scripts/test.sh` takes for a step that was skipped.
const SKIPPED: u8 = 77;
/// How often is counted at most.
const TIMES: usize = 3;

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Print a table, and judge.
    Check,
    /// Accept the counts of now in the store.
    Update,
    /// Count the stored commit anew.
    Base,
    /// Pin the counts of now as those of the last commit.
    Pin,
}

impl Mode {
    /// The mode that the words after `counts` ask for.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        match words {
            [] => Some(Self::Check),
            [word] => match word.as_str() {
                "--update" => Some(Self::Update),
                "--base" => Some(Self::Base),
                "--pin" => Some(Self::Pin),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Counts, and does with the counts what `mode` says.
///
/// # Errors
/// A store that is not understood; a program that does not build or run.
pub(crate) fn run(root: &Path, mode: Mode) -> Result<ExitCode, Failure> {
    let path = root.join(STORE);
    let text = fs::read_to_string(&path).map_err(|error| format!("{STORE}: {error}"))?;
    let mut store = Store::parse(&text).map_err(|why| format!("{STORE}: {why}"))?;
    let compiler = compiler()?;
    if let Some(why) = callgrind::missing(&store.kernel) {
        return Ok(skipped(&why));
    }
    match mode {
        Mode::Base => {
            let counts = callgrind::count_commit(root, &store.commit)?;
            store.rebase(&counts, &compiler);
        }
        // Counts of two compilers differ by what no commit did.
        _ if store.compiler != compiler => {
            return Ok(skipped(&format!(
                "counted with {}, and this is {compiler}; `cargo xtask counts --base` counts {} anew",
                store.compiler, store.commit
            )));
        }
        Mode::Update => {
            let counts = lowest(root, |_| true)?;
            store.accept(&counts);
        }
        Mode::Pin => store.pin(&lowest(root, |_| true)?, last_commit(root)?),
        Mode::Check => {
            let raised = |counts: &[Count]| {
                let above = table::judge(&store, counts).iter().any(Judged::is_raised);
                above || !store.above_pins(counts).is_empty()
            };
            let counts = lowest(root, raised)?;
            let judged = table::judge(&store, &counts);
            print!("{}", table::render(&store.commit, &judged));
            let mut more = growth::complaints(&counts);
            more.extend(store.above_pins(&counts));
            return Ok(verdict(&judged, &more));
        }
    }
    fs::write(&path, store.render())?;
    println!(
        "{STORE} is written: say in it why each path that has become dearer is, and look at the difference"
    );
    Ok(ExitCode::SUCCESS)
}

/// Counts, and again while `more` asks for it, [`TIMES`] at most; the lowest counts hold. A machine so busy that a copy
/// of a mirror seems slow takes dearer ways, and no machine takes cheaper ones.
fn lowest(root: &Path, more: impl Fn(&[Count]) -> bool) -> Result<Vec<Count>, Failure> {
    let mut counts = callgrind::count(root)?;
    for _ in 1..TIMES {
        if !more(&counts) {
            break;
        }
        for (count, again) in counts.iter_mut().zip(callgrind::count(root)?) {
            count.instructions = count.instructions.min(again.instructions);
        }
    }
    Ok(counts)
}

fn skipped(why: &str) -> ExitCode {
    println!("SKIPPED: counts: {why}");
    ExitCode::from(SKIPPED)
}

/// The verdict on the counts: failures and remarks; `more` has further failures.
fn verdict(judged: &[Judged], more: &[String]) -> ExitCode {
    for reported in judged.iter().filter_map(Judged::reported).chain(more.iter().cloned()) {
        println!("counts: {reported}");
    }
    let failed = judged.iter().filter(|path| path.fails()).count() + more.len();
    if failed == 0 {
        println!("counts: nothing to complain about");
        return ExitCode::SUCCESS;
    }
    eprintln!("counts: {failed} path(s) to mend; {STORE} says how a raise is accepted");
    ExitCode::FAILURE
}

fn last_commit(root: &Path) -> Result<String, Failure> {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn compiler() -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_mode() {
        let mode =
            |words: &[&str]| Mode::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(mode(&[]), Some(Mode::Check));
        assert_eq!(mode(&["--update"]), Some(Mode::Update));
        assert_eq!(mode(&["--base"]), Some(Mode::Base));
        assert_eq!(mode(&["--pin"]), Some(Mode::Pin));
        assert_eq!(mode(&["--update", "--base"]), None);
        assert_eq!(mode(&["base"]), None);
    }

    #[test]
    fn the_store_is_understood_and_written_as_update_would() {
        let root = crate::workspace::root().expect("the workspace");
        let text = fs::read_to_string(root.join(STORE)).expect("the store");
        let store = Store::parse(&text).unwrap_or_else(|why| panic!("{why}"));
        assert!(store.paths.len() > 30, "{} paths", store.paths.len());
        assert_eq!(store.render(), text);
    }
}

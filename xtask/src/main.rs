//! `cargo xtask`: checks on the source tree that no compiler does.
//!
//! - `cargo xtask tidy` looks for what the architecture says must never be: a dependency that points up or
//!   sideways, a clock in the engine, `unsafe` outside the two crates that may have it, a file too long to read.
//! - `cargo xtask deny` checks licences, duplicate versions and origins of dependencies against `deny.toml`.
//! - `cargo xtask messages` writes a table of all messages, to be read.
//! - `cargo xtask mutants` builds engines that are broken on purpose, and counts the seeds by which storms find each.
//! - `cargo xtask counts` counts the instructions of the hot paths, and holds them against those of an older commit.
//!
//! Each finding is one line with the place, the rule and the way out; any finding makes the exit status 1.

mod counts;
mod deny;
mod mutants;
mod report;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "usage: cargo xtask tidy|deny|messages|counts|mutants\n  tidy   check the source tree against the rules of ARCHITECTURE.md\n  deny   check dependencies against deny.toml\n  messages   write a table of all messages, target/messages.md\n  counts [--update|--base|--pin]   instructions of the hot paths, against docs/bench/instructions.toml\n  mutants [ONLY=name] [SECONDS=60] [SEEDS=10] [SEED=n]   search for engines broken on purpose";

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    if name == "mutants" {
        return mutants(&args[1..]);
    }
    if name == "counts" {
        return counts(&args[1..]);
    }
    let offences = match (name, args.len()) {
        ("tidy", 1) => Workspace::load().and_then(|workspace| tidy::check(&workspace)),
        ("deny", 1) => workspace::root().and_then(|root| deny::check(&root)),
        ("messages", 1) => {
            return match messages() {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => {
                    eprintln!("messages: {failure}");
                    ExitCode::from(2)
                }
            };
        }
        ("help" | "--help" | "-h", 1) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match offences {
        Ok(offences) => report::print(name, &offences),
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Writes a table of all messages, and says where it is.
fn messages() -> Result<(), Failure> {
    let table = tidy::messages::table(&Workspace::load()?)?;
    let page = workspace::root()?.join(tidy::messages::PAGE);
    // cargo may put its own files elsewhere.
    std::fs::create_dir_all(page.parent().unwrap_or(&page))?;
    std::fs::write(&page, table)?;
    println!("{}", page.display());
    Ok(())
}

fn counts(words: &[String]) -> ExitCode {
    let Some(mode) = counts::Mode::parse(words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    workspace::root().and_then(|root| counts::run(&root, mode)).unwrap_or_else(|failure| {
        eprintln!("counts: {failure}");
        ExitCode::from(2)
    })
}

/// Each word is NAME=value; an empty value stands for what is usual.
fn mutants(words: &[String]) -> ExitCode {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut options =
        mutants::Options { only: None, seconds: 60, seeds: 10, seed: now.map_or(0, |since| since.as_secs()) };
    for word in words {
        let known = match word.split_once('=') {
            Some((_, "")) => true,
            Some(("ONLY", name)) => {
                options.only = Some(name.to_owned());
                true
            }
            Some((name, value)) => value.parse().is_ok_and(|value| {
                match name {
                    "SECONDS" => options.seconds = value,
                    "SEEDS" => options.seeds = value,
                    "SEED" => options.seed = value,
                    _ => return false,
                }
                true
            }),
            None => false,
        };
        if !known {
            eprintln!("{word}: not known\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    match workspace::root().and_then(|root| mutants::run(&root, &options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("mutants: {failure}");
            ExitCode::FAILURE
        }
    }
}

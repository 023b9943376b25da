//! `cargo xtask`: checks on the source tree that no compiler does.
//!
//! - `cargo xtask tidy` looks for what the architecture says must never be: a dependency that points up or
//!   sideways, a clock in the engine, `unsafe` outside the two crates that may have it, a file too long to read.
//! - `cargo xtask deny` checks licences, duplicate versions and origins of dependencies against `deny.toml`.
//!
//! Each finding is one line with the place, the rule and the way out; any finding makes the exit status 1.

mod deny;
mod report;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const USAGE: &str = "usage: cargo xtask tidy|deny\n  tidy   check the source tree against the rules of ARCHITECTURE.md\n  deny   check dependencies against deny.toml";

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    let offences = match (name, args.len()) {
        ("tidy", 1) => Workspace::load().and_then(|workspace| tidy::check(&workspace)),
        ("deny", 1) => workspace::root().and_then(|root| deny::check(&root)),
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

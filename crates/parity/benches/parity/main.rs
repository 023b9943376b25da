//! Parity kernels against ISA-L's, one core, in turns: `cargo bench -p brindle-parity`.
//!
//! Each kernel that this CPU can run has a column: its rate, and the ratio to ISA-L's functions for the same
//! instruction set, which are called by their own names rather than by ISA-L's choice for this CPU.
//!
//! `-- --json FILE` writes all figures, `-- --kernel NAME` measures only one kernel, `-- --work NAME` only
//! one thing, as it is named in the table.

#![allow(unsafe_code, reason = "calls ISA-L through its C interface")]

mod isal;
mod measure;
mod report;

use std::process::ExitCode;

use brindle_parity::{Kernel, available};

use isal::Isal;
use measure::{Place, Ring, Work, compare};
use report::{Line, Setup};

/// Data members of the rows that are measured.
const MEMBERS: [usize; 3] = [4, 8, 10];

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    if !Isal::is_there() {
        println!("SKIPPED: install libisal2");
        return ExitCode::SUCCESS;
    }
    let mut ring = Ring::new();
    let mut lines = Vec::new();
    for work in Work::ALL.into_iter().filter(|work| options.work.is_none_or(|only| only == *work)) {
        for place in [Place::Cache, Place::Cold] {
            for members in MEMBERS {
                let mut compare = |kernel| compare(kernel, &mut ring, work, place, members);
                let kernels = options.kernels.iter().map(|kernel| compare(kernel)).collect();
                lines.push(Line { work, place, members, kernels });
            }
        }
    }
    let setup = Setup::new();
    print!("{}", report::table(&setup, &lines));
    if let Some(path) = options.json
        && let Err(error) = std::fs::write(&path, report::json(&setup, &lines))
    {
        eprintln!("error: cannot write {path}: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

struct Options {
    json: Option<String>,
    work: Option<Work>,
    kernels: Vec<&'static Kernel>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { json: None, work: None, kernels: available().collect() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--json" => options.json = Some(arguments.next().ok_or("--json needs a file")?),
                "--work" => {
                    let name = arguments.next().ok_or("--work needs a name")?;
                    let work = Work::ALL.into_iter().find(|work| work.name() == name);
                    options.work = Some(work.ok_or_else(|| format!("there is no work {name}"))?);
                }
                "--kernel" => {
                    let name = arguments.next().ok_or("--kernel needs a name")?;
                    options.kernels.retain(|kernel| kernel.name() == name);
                    if options.kernels.is_empty() {
                        return Err(format!("this CPU has no kernel {name}"));
                    }
                }
                _ => {
                    return Err(format!(
                        "unknown argument {argument}; known: --json FILE, --kernel NAME, --work NAME"
                    ));
                }
            }
        }
        Ok(options)
    }
}

//! `brindle console` runs this: the console in a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    match brindle_console::run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("brindle-console: {why}");
            ExitCode::FAILURE
        }
    }
}

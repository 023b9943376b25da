//! The program `brindle`: flags, reports, the control socket. The only place that reads flags and environment.

mod ask;
mod cat;
mod check;
mod cli;
mod control;
mod create;
mod demo;
mod detail;
mod docs;
mod examine;
mod failure;
mod look;
mod progress;
mod report;
mod runtime;
mod serve;
mod service;
mod units;
mod world;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use failure::Failure;

/// Exit status of `brindle check` when redundancy does not agree.
const MISMATCH: u8 = 3;

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(code) => code,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("brindle: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Create(args) => create::create(args)?,
        Command::Examine(args) => return examine::examine(args),
        Command::Detail(args) => detail::detail(args)?,
        Command::Cat(args) => cat::cat(args)?,
        Command::Check(args) => return check::check(args),
        Command::Serve(args) => serve::serve(args)?,
        Command::Status(args) => ask::status(args)?,
        Command::Fail(args) => ask::fail(args)?,
        Command::Stop(args) => ask::stop(args)?,
        Command::Demo(args) => demo::demo(args)?,
        Command::Completions(args) => docs::completions(args)?,
        Command::Man(args) => docs::man(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

//! The program `brindle`: flags, reports, the control socket. The only place that reads flags and environment.

/// Prints a line to standard error. A full disk behind that ends nothing.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

mod base;
mod client;
mod commands;
mod devices;
mod flags;
mod lab;
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use base::failure::Failure;
use base::{log, reactor};
use client::{action, ask, bundle, console, exports, metrics, monitor, mount, scrub, wait, watch};
use commands::{cat, check, create, demo, detail, examine, grow, pool, update, zero};
use flags::cli::{Cli, Command};
use flags::docs;
use lab::{advise, bench, plan, predict, reliability, sweep};
use server::{assemble, daemon, serve};

fn main() -> ExitCode {
    let mut cli = Cli::given();
    reactor::choose(cli.reactor.into());
    let begun = survive_the_file_size_limit().and_then(|()| log::begin(cli.log.as_deref()));
    let code = match begun.and_then(|()| run(&mut cli.command)) {
        Ok(code) => code,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            log::complain(&failure);
            failure.exit_code()
        }
    };
    log::flush();
    code
}

/// A volume of a running server is mounted by that one, members by this process.
fn mount_any(args: &flags::cli::Mount) -> Result<ExitCode, Failure> {
    match args.volume() {
        Some((name, folder)) => mount::mount(args, name, folder).map(|()| ExitCode::SUCCESS),
        None => serve::mount(args),
    }
}

/// A write beyond the limit (`ulimit -f`) ends a process, unless it handles the signal: then it is an error, as a full
/// file system is.
fn survive_the_file_size_limit() -> Result<(), Failure> {
    let handled = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    handled.map(drop).map_err(|source| Failure::system("signals can't be handled", source))
}

fn run(command: &mut Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Create(args) => create::create(args)?,
        Command::Examine(args) => return examine::examine(args),
        Command::Detail(args) => return detail::detail(args),
        Command::Advise(args) => advise::advise(args)?,
        Command::Cat(args) => return cat::cat(args),
        Command::Check(args) => return check::check(args),
        Command::Repair(args) => return check::repair(args),
        Command::Assemble(args) => return assemble::assemble(args),
        Command::Serve(args) => return serve::serve(args),
        Command::Status(args) => return ask::status(args),
        Command::Fail(args) => commands::devices::fail(args)?,
        Command::Add(args) => commands::devices::add(args)?,
        Command::Replace(args) => commands::devices::replace(args)?,
        Command::Remove(args) => commands::devices::remove(args)?,
        Command::Grow(args) => grow::grow(args)?,
        Command::Flag(args) => ask::flag(args)?,
        Command::Action(args) => action::action(args)?,
        Command::Wait(args) => return wait::wait(args),
        Command::Scrub(args) => return scrub::scrub(args),
        Command::Watch(args) => watch::watch(args)?,
        Command::Console(args) => console::console(args)?,
        Command::Export(args) => exports::export(args)?,
        Command::Unexport(args) => exports::unexport(args)?,
        Command::Disconnect(args) => exports::disconnect(args)?,
        Command::Stop(args) => ask::stop(args)?,
        Command::Bench(args) => return bench::bench(args),
        Command::Reliability(args) => reliability::reliability(args)?,
        Command::Calibrate(args) => return predict::calibrate(args),
        Command::Simulate(args) => predict::simulate(args)?,
        Command::Sweep(args) => return sweep::sweep(args),
        Command::Plan(args) => plan::plan(args)?,
        Command::Pool(args) => return pool::pool(args),
        Command::Volume(args) => pool::volume(args)?,
        Command::Demo(args) => demo::demo(args)?,
        Command::Completions(args) => docs::completions(args)?,
        Command::Metrics(args) => metrics::metrics(args)?,
        Command::Monitor(args) => monitor::monitor(args)?,
        Command::Attach(args) => exports::attach(args)?,
        Command::Detach(args) => exports::detach(args)?,
        Command::Mount(args) => return mount_any(args),
        Command::Umount(args) => mount::umount(args)?,
        Command::Daemon(args) => return daemon::daemon(args),
        Command::Config(args) => daemon::config(args)?,
        Command::Incremental(args) => daemon::incremental(args)?,
        Command::Reload(args) => daemon::reload(args)?,
        Command::Report(args) => bundle::bundle(args)?,
        Command::Update(args) => update::update(args)?,
        Command::ZeroSuperblock(args) => zero::zero_superblock(args)?,
        Command::Man(args) => docs::man(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

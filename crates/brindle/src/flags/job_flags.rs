//! fio's options as flags: each that the lab understands, by fio's own names.

use brindle_lab::job::{DEFAULTS, HONOURED, Honoured, TAKEN};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// Options of jobs in the order in which they were given. Those before the first `--name` are of all jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobFlags(pub(crate) Vec<(String, Option<String>)>);

/// Stands for the value of a word that stands alone.
const NOTHING: &str = "\0";

/// The one option without an effect of its own that changes how many requests are in flight.
const ENGINE: &str = "ioengine";

impl Args for JobFlags {
    fn augment_args(command: Command) -> Command {
        let engine = Arg::new(ENGINE)
            .long(ENGINE)
            .value_name("ENGINE")
            .help("fio's engine: an engine that has one request in flight, such as psync, keeps it so")
            .action(ArgAction::Append)
            .help_heading("Jobs, in fio's words");
        let taken = taken().map(|name| alone(Arg::new(name).long(name)).hide(true));
        HONOURED.iter().map(flag).chain(taken).fold(command.arg(engine), Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Options that are taken as a job file's are: a command line of fio's can be kept.
fn taken() -> impl Iterator<Item = &'static str> {
    let stated = DEFAULTS.iter().map(|(name, _)| *name);
    TAKEN.iter().flat_map(|(names, _)| names.iter().copied()).chain(stated)
}

/// A word that may stand alone, as in a job file.
fn alone(arg: Arg) -> Arg {
    let arg = arg.action(ArgAction::Append).num_args(0..=1).require_equals(true);
    arg.default_missing_value(NOTHING)
}

fn flag(option: &'static Honoured) -> Arg {
    let arg = Arg::new(option.name)
        .long(option.name)
        .aliases(option.aliases)
        .help(option.help)
        .action(ArgAction::Append)
        .help_heading("Jobs, in fio's words");
    if option.value.is_empty() {
        alone(arg.value_name("0|1"))
    } else {
        arg.value_name(option.value).allow_hyphen_values(true)
    }
}

impl FromArgMatches for JobFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = HONOURED.iter().map(|option| option.name).chain([ENGINE]).chain(taken());
        let mut all: Vec<(usize, &str, &String)> = Vec::new();
        for name in names {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            all.extend(places.zip(values).map(|(place, value)| (place, name, value)));
        }
        all.sort_by_key(|(place, ..)| *place);
        let said = |value: &String| Some(value.clone()).filter(|value| value != NOTHING);
        Ok(Self(all.into_iter().map(|(_, name, value)| (name.to_owned(), said(value))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::flags::cli::{Cli, Command};

    fn words(flags: &[&str]) -> Vec<String> {
        let cli = Cli::parse_from([&["brindle", "bench", "--device", "x"], flags].concat());
        let Command::Bench(bench) = cli.command else { panic!("bench") };
        bench
            .options
            .0
            .into_iter()
            .map(|(name, value)| format!("{name}={}", value.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn flags_keep_their_order_and_have_fios_names() {
        let given = ["--bs=4k", "--name=a", "--rw", "read", "--time_based", "--name=b", "--blocksize", "8k"];
        assert_eq!(words(&given), ["bs=4k", "name=a", "rw=read", "time_based=", "name=b", "bs=8k"]);
        assert_eq!(words(&["--stonewall=0", "--ioengine=psync"]), ["stonewall=0", "ioengine=psync"]);
        assert_eq!(
            words(&["--filename=/dev/x", "--thread", "--rw=read"]),
            ["filename=/dev/x", "thread=", "rw=read"]
        );
        assert_eq!(words(&["--verify_backlog=0", "--disk_util"]), ["verify_backlog=0", "disk_util="]);
        assert!(words(&[]).is_empty());
    }
}

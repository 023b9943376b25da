//! `brindle action`: the check, repair or recovery of a running array, as md's `sync_action` has it.

use brindle_host::status::Report;
use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{Order, Target, ask};
use crate::client::control::{Answer, Ask, Word};
use crate::flags::cli::{Action, Said};

impl ValueEnum for Said<Word> {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Said(Word::Check),
            Said(Word::Repair),
            Said(Word::Locate),
            Said(Word::Pause),
            Said(Word::Resume),
            Said(Word::Idle),
            Said(Word::Speed),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(match self.0 {
            Word::Check => "Compare redundancy",
            Word::Repair => "Compare redundancy, and correct it as `brindle repair` does",
            Word::Locate => {
                "Compare redundancy, and write what is known to be wrong, as `brindle repair --locate` does"
            }
            Word::Pause => "Pause the check, repair or recovery that is running",
            Word::Resume => {
                "Go on after `pause`, or with a resync, recovery or replacement that has ended early"
            }
            Word::Idle => {
                "Stop the check, repair or recovery that is running: the part that is done stays done"
            }
            Word::Speed => "Set the array's speeds, for the process that runs now and for later ones",
        }))
    }
}

/// `brindle action`.
pub(crate) fn action(args: &Action) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    let [max_speed, min_speed] = [args.max_speed, args.min_speed].map(|speed| speed.map(|speed| speed.0));
    if args.action.0 == Word::Speed && max_speed.or(min_speed).is_none() {
        return Err(Failure::Usage(
            "give which speed: --max-speed SIZE, or 0 for as fast as it goes; or --min-speed SIZE".to_owned(),
        ));
    }
    let ask_for = Ask::Action { action: args.action.0, max_speed, min_speed };
    let answer: Answer<Report> = match args.action.0 {
        Word::Repair | Word::Locate | Word::Resume => {
            Order::of(&folder, &target, args.array.as_deref())?.give(ask_for)?
        }
        _ => ask(&folder, &target.server, &ask_for.of(target.array))?,
    };
    if args.json { report::print_json(&answer) } else { report::print(&crate::client::status::text(&answer)) }
}

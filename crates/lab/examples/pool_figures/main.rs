//! Figures of pools beside what they are to reach: twelve modelled drives in virtual time, and one core on members in memory.
//!
//! `cargo run --profile bench -p brindle-lab --example pool_figures -- [--live=BLOCKS] [--only=SUBJECT]...`
//!
//! Virtual time has no processor: figures of drives say what the drives allow, those of one core what the processor does.

mod amplification;
mod latency;
mod load;
mod members;
mod processor;
mod reads;
mod recovery;
mod scaling;
mod table;
mod turns;
mod world;

use std::process::ExitCode;

/// A subject's name, and what prints its tables for so many live blocks.
type Subject = (&'static str, fn(u64));

const SUBJECTS: [Subject; 8] = [
    ("scaling", scaling::print),
    ("reads", reads::print),
    ("writes", amplification::print),
    ("latency", latency::print),
    ("recovery", recovery::print),
    ("members", members::print),
    ("processor", processor::print),
    ("turns", turns::print),
];

fn main() -> ExitCode {
    let (mut live, mut only) = (1u64 << 17, Vec::new());
    for arg in std::env::args().skip(1) {
        let number = arg.strip_prefix("--live=").map(str::parse);
        match (number, arg.strip_prefix("--only=")) {
            (Some(Ok(blocks)), _) => live = blocks,
            (_, Some(name)) if SUBJECTS.iter().any(|(own, _)| *own == name) => only.push(name.to_owned()),
            _ => {
                eprintln!(
                    "pool_figures [--live=BLOCKS] [--only=scaling|reads|writes|latency|recovery|members|processor|turns]..."
                );
                return ExitCode::from(2);
            }
        }
    }
    for (name, print) in SUBJECTS {
        if only.is_empty() || only.iter().any(|own| own == name) {
            print(live);
        }
    }
    ExitCode::SUCCESS
}

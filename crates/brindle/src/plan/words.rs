//! What is read and told in words.

use brindle_planner::{Conflict, Need};

use super::Answer;
use crate::cli::{Plan, PlanFormat};
use crate::failure::Failure;

/// Levels by their names.
const NAMES: [&str; 14] = [
    "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "raid50", "raid60", "raidz", "raidz2", "raidz3",
    "raidz10", "raidz20", "raidz30",
];

/// Which levels are listed.
pub(super) enum Levels {
    All,
    /// Those of published tables.
    Table,
    /// These.
    Named(Vec<String>),
}

pub(super) fn levels(args: &Plan) -> Result<Levels, Failure> {
    let csv = args.format == Some(PlanFormat::Csv);
    match args.levels.as_slice() {
        [] if csv && args.drives.and.is_none() => Ok(Levels::Table),
        [] => Ok(Levels::All),
        [one] if one == "all" => Ok(Levels::All),
        [one] if one == "table" => Ok(Levels::Table),
        named => {
            let of_digits =
                |name: &String| if name.starts_with("raid") { name.clone() } else { format!("raid{name}") };
            let named: Vec<String> = named.iter().map(of_digits).collect();
            match named.iter().find(|name| !NAMES.contains(&name.as_str())) {
                Some(unknown) => {
                    let known = NAMES.join(", ");
                    Err(Failure::Usage(format!(
                        "--levels {unknown}: no such level is planned: say all, table, or of {known}"
                    )))
                }
                None => Ok(Levels::Named(named)),
            }
        }
    }
}

/// Needs that exclude each other, and how close others come.
pub(super) fn conflict(conflict: &Conflict, needs: &[Need]) -> String {
    let named: Vec<String> = conflict.needs.iter().map(|place| needs[*place].to_string()).collect();
    match (named.as_slice(), conflict.closest.as_slice()) {
        ([alone], [closest]) => format!("none meets {alone}; closest is: {closest}"),
        (_, closest) => {
            let each: Vec<String> = named
                .iter()
                .zip(closest)
                .map(|(need, closest)| match named.len() {
                    2 => format!("with the other, closest to {need} is: {closest}"),
                    _ => format!("with the others, closest to {need} is: {closest}"),
                })
                .collect();
            format!("{} exclude each other ({})", named.join(" and "), each.join("; "))
        }
    }
}

/// How many are not listed, and how to narrow it.
pub(super) fn more(answer: &Answer<'_>) -> Option<String> {
    let (listed, fitting) = (answer.rows.len(), answer.fitting);
    (listed < fitting).then(|| {
        format!(
            "{listed} of {fitting} configurations are listed: narrow it with --drives, --levels or a need such as \
             --min-capacity or --max-loss, or raise --limit"
        )
    })
}

//! Words of the command line and of reports.

use brindle_planner::{Conflict, Need};

use super::columns::{one_in, short};
use super::{Answer, Row, Taken};
use crate::base::failure::Failure;
use crate::flags::cli::{PlanFlags, PlanFormat};

/// Levels by their names.
const NAMES: [&str; 14] = [
    "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "raid50", "raid60", "raidz", "raidz2", "raidz3",
    "raidz10", "raidz20", "raidz30",
];

/// The levels that are listed.
pub(super) enum Levels {
    All,
    /// The levels of published tables.
    Table,
    /// These.
    Named(Vec<String>),
}

pub(super) fn levels(args: &PlanFlags) -> Result<Levels, Failure> {
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
                        "--levels {unknown}: no such level is planned: give all, table, or of {known}"
                    )))
                }
                None => Ok(Levels::Named(named)),
            }
        }
    }
}

/// Figures that are bounds, and why. Those of RAID-Z, which each list has, only where they are read with the others (`reported`).
pub(super) fn bounds(rows: &[Row], link: Option<u64>, reported: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(rate) = link {
        notes.push(format!(
            "all drives together move {:.0} MB/s on their link, copies and parity too: no figure is above that",
            rate as f64 / 1e6
        ));
    }
    if reported && rows.iter().any(|row| !row.figures.is_of_md) {
        notes.push(
            "random figures of RAID-Z are bounds, by a rule of thumb that counts drives: pools of fast drives stay 3 to 5 times below"
                .to_owned(),
        );
        notes.push("room and speed of RAID-Z are OpenZFS's: brindle pool create --dry-run says what room a pool of Brindle's has".to_owned());
    }
    notes
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

/// Number of configurations that are not listed, and how to narrow the list.
pub(super) fn more(answer: &Answer<'_>) -> Option<String> {
    let (listed, fitting) = (answer.rows.len(), answer.fitting);
    (listed < fitting).then(|| {
        format!(
            "{listed} of {fitting} configurations are listed: narrow it with --drives, --levels or a need such as \
             --min-capacity or --max-loss, or raise --limit"
        )
    })
}

/// Reasons against a configuration with more room than the recommended one.
pub(super) fn roomier(answer: &Answer<'_>, taken: &Taken) -> Option<String> {
    let of = &answer.rows[taken.place].figures;
    let others = answer.rows.iter().map(|row| &row.figures);
    let fit = others.filter(|other| other.made_as == of.made_as && other.tolerance > 0 && other.net > of.net);
    let most = fit.max_by_key(|other| other.net)?;
    let mut against = Vec::new();
    if most.speed.write_iops < of.speed.write_iops {
        against.push(format!(
            "does {:.0} random writes a second in place of {:.0}",
            most.speed.write_iops, of.speed.write_iops
        ));
    }
    if let (Some(theirs), Some(own)) = (most.double, of.double)
        && theirs.to_string() != own.to_string()
    {
        let of = |share: String| if share == "1" { "every one".to_owned() } else { share };
        let [theirs, own] = [theirs, own].map(|share| of(share.to_string()));
        against.push(format!("of double failures {theirs} loses data in place of {own}"));
    }
    if let (Some(theirs), Some(own)) = (&most.risk, &of.risk)
        && theirs.loss.value > own.loss.value
    {
        let [theirs, own] = [theirs, own].map(|risk| one_in(risk.loss.value));
        against.push(match own.as_str() {
            "" => format!("loses data in one of {theirs} cases"),
            own => format!("loses data in one of {theirs} cases in place of one of {own}"),
        });
    }
    let against =
        if against.is_empty() { "is dearer or no better".to_owned() } else { against.join(", and ") };
    let (level, config, net) = (&most.level, &most.config, short(most.net as f64 / 1e12));
    Some(format!("{level} {config} has more room ({net} TB), but {against}."))
}

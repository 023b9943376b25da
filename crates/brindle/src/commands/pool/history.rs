//! `brindle pool history`: commands that changed a pool, as `zpool history` has them, and what happened to it.

use brindle_host::opening::Tuning;
use brindle_host::status::{HistoryEntry, HistoryReport};
use brindle_io::device::DeviceAccess;

use super::{all, refuse_other, served};
use crate::base::failure::Failure;
use crate::base::units::Moment;
use crate::base::{report, runtime};
use crate::client::ask::ask;
use crate::client::control::Ask;
use crate::devices::pools::Alone;
use crate::flags::cli::PoolHistory;

/// `brindle pool history`.
pub(super) fn history(args: &PoolHistory) -> Result<(), Failure> {
    let mut all = reports(args)?;
    for one in &mut all {
        one.history.retain(|entry| args.internal || entry.command.is_some());
    }
    if args.of.json {
        return report::print_json(&all);
    }
    if all.is_empty() {
        return report::print("no pool is served\n");
    }
    report::print(&all.iter().map(|one| text(one, args.long)).collect::<Vec<_>>().join("\n"))
}

fn reports(args: &PoolHistory) -> Result<Vec<HistoryReport>, Failure> {
    let of = &args.of;
    if !of.stopped.members.is_empty() {
        let alone = Alone::open(&of.stopped.members, DeviceAccess::Read, Tuning::USUAL)?;
        let pool = &alone.opened.pool;
        refuse_other(&pool.label().name, of.name.as_deref())?;
        return Ok(vec![HistoryReport::of(pool)]);
    }
    let folder = runtime::folder(of.runtime.folder())?;
    let pools = match &of.name {
        Some(name) => vec![served(&folder, name)?],
        None => all(&folder),
    };
    let told = |pool: &brindle_host::status::PoolStatus| {
        let request = Ask::PoolHistory { pool: pool.name.clone() }.into();
        Ok(ask::<HistoryReport>(&folder, &pool.server, &request)?.into_read())
    };
    pools.iter().map(told).collect()
}

fn text(report: &HistoryReport, long: bool) -> String {
    let mut text = format!("History for '{}':\n", report.name);
    for entry in &report.history {
        text.push_str(&line(entry, long));
    }
    text
}

fn line(entry: &HistoryEntry, long: bool) -> String {
    let what = match (&entry.command, &entry.event) {
        (Some(command), _) => command.clone(),
        (None, event) => format!("[internal] {}", event.as_deref().unwrap_or_default()),
    };
    let by = match (entry.user, &entry.host) {
        _ if !long => String::new(),
        (Some(user), Some(host)) => format!(" [user {user} on {host}]"),
        (Some(user), None) => format!(" [user {user}]"),
        (None, Some(host)) => format!(" [on {host}]"),
        (None, None) => String::new(),
    };
    format!("{} {what}{by}\n", Moment(entry.time).dotted())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_zpool() {
        let command = HistoryEntry {
            time: 951_782_399,
            command: Some("brindle pool create tank mirror a b".to_owned()),
            user: Some(0),
            host: Some("nas".to_owned()),
            ..HistoryEntry::default()
        };
        let event = HistoryEntry { time: 0, event: Some("0.1 failed".to_owned()), ..HistoryEntry::default() };
        let lines = [line(&command, false), line(&command, true), line(&event, true)];
        assert_eq!(
            lines,
            [
                "2000-02-28.23:59:59 brindle pool create tank mirror a b\n",
                "2000-02-28.23:59:59 brindle pool create tank mirror a b [user 0 on nas]\n",
                "1970-01-01.00:00:00 [internal] 0.1 failed\n"
            ]
        );
    }
}

//! The events of everything that is served, latest first.

use serde_json::Value;

use crate::board::Board;

/// The most that are listed.
const MOST: usize = 200;

/// Events as their servers told them, each with `server` and `name`.
pub(crate) fn latest(board: &Board) -> Vec<Value> {
    let mut all: Vec<(u64, u64, Value)> = Vec::new();
    for (server, reports) in board.reports() {
        for told in reports.iter() {
            let events =
                told.report.events().iter().zip(told.value["events"].as_array().into_iter().flatten());
            all.extend(events.map(|(event, value)| {
                let mut value = value.clone();
                value["server"] = server.clone().into();
                value["name"] = told.report.name().into();
                (event.at, event.number, value)
            }));
        }
    }
    all.sort_by_key(|(at, number, _)| core::cmp::Reverse((*at, *number)));
    all.into_iter().take(MOST).map(|(.., value)| value).collect()
}

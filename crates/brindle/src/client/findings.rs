//! The results of a check, a repair or a recovery: as JSON, as text, as an exit status.

use std::ops::{Deref, DerefMut};
use std::process::ExitCode;

use brindle_array::{Array, SyncReport};
pub(crate) use brindle_host::status::mode_of_locating;
use brindle_host::status::{Findings, Outcome};
use serde::{Deserialize, Serialize};

use crate::base::exit_status::{INCOMPLETE, MISMATCH, UNREADABLE};
use crate::base::failure::Failure;
use crate::base::report;
use crate::base::units::Bytes;

/// The report of `brindle check --json` and `brindle repair --json`: of repair, what it found.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Report(Findings);

impl Deref for Report {
    type Target = Findings;
    fn deref(&self) -> &Findings {
        &self.0
    }
}

impl DerefMut for Report {
    fn deref_mut(&mut self) -> &mut Findings {
        &mut self.0
    }
}

impl Report {
    /// The findings of a process over an array.
    pub(crate) fn of(array: &Array, found: &SyncReport) -> Self {
        Self(Findings::of(array, found))
    }

    /// The exit status, given how many sectors disagree in the end: that matters more than places that could not be
    /// compared.
    pub(crate) fn status(&self, left: u64) -> ExitCode {
        status(left, self.unreadable, if self.resynced { 0 } else { self.unverified })
    }

    pub(crate) fn show(&self, json: bool) -> Result<(), Failure> {
        if json { report::print_json(self) } else { report::print(&self.text()) }
    }

    /// The text for a resync: ranges that it could not bring in sync.
    fn text_of_resync(&self) -> String {
        let bytes = Bytes(self.unverified);
        format!("resynced but for {bytes}, since members are missing or can't be read\n{}", self.bad_text())
    }

    /// The text for a recovery or a similar process: ranges that could not be rebuilt.
    fn text_of_rebuilding(&self, done: &str) -> String {
        if self.unreadable == 0 {
            return format!("{done}\n");
        }
        let bytes = Bytes(self.unreadable);
        format!(
            "{done} but for {bytes}, which the others can't give: they can't be read until they are written anew\n{}",
            self.bad_text()
        )
    }

    fn text(&self) -> String {
        let mut text = format!("mismatch_cnt {} (sectors of 512 bytes)\n", self.mismatch_cnt);
        if self.resynced {
            return text
                + "redundancy hardly was ever in sync: it was brought in sync everywhere, and no member was looked for\n"
                + &self.bad_text();
        }
        if self.unverified > 0 {
            let bytes = Bytes(self.unverified);
            text.push_str(&format!(
                "{bytes} could not be compared, since members are missing or can't be read\n"
            ));
        }
        for place in &self.places {
            let device = place.device.as_deref().unwrap_or("?");
            let (kind, role, offset, length) = (&place.kind, place.role, place.offset, Bytes(place.length));
            text.push_str(&if place.located {
                format!(
                    "  wrong: {length} of role {role} ({device}, {kind}) at byte {offset} of its data area\n"
                )
            } else {
                format!("  {kind} of role {role} ({device}) at byte {offset} of its data area\n")
            });
        }
        if self.unlocated > 0 {
            text.push_str(&format!(
                "of {} (sectors of 512 bytes) it can't be told which member is wrong\n",
                self.unlocated
            ));
        }
        if self.unreadable > 0 {
            text.push_str(&format!("{} of members can't be read\n", Bytes(self.unreadable)));
        }
        text + &self.bad_text()
    }

    fn bad_text(&self) -> String {
        let mut text = String::new();
        for bad in &self.bad_places {
            let device = bad.device.as_deref().unwrap_or("?");
            text.push_str(&format!(
                "  unreadable: {} of role {} ({device}) at byte {} of its data area",
                Bytes(bad.length),
                bad.role,
                bad.offset
            ));
            let held: Vec<String> =
                bad.array.iter().map(|held| format!("{} to {}", held.from, held.to)).collect();
            if !held.is_empty() {
                text.push_str(&format!(", bytes {} of the array", held.join(", ")));
            }
            text.push('\n');
        }
        text
    }
}

/// The exit status of a comparison: of sectors that disagree in the end, and of bytes that can't be read or were not compared.
pub(crate) fn status(left: u64, unreadable: u64, unverified: u64) -> ExitCode {
    match (left, unreadable, unverified) {
        (0, 0, 0) => ExitCode::SUCCESS,
        (0, 0, _) => ExitCode::from(INCOMPLETE),
        (0, _, _) => ExitCode::from(UNREADABLE),
        _ => ExitCode::from(MISMATCH),
    }
}

/// The text for a process's result as a server reports it.
pub(crate) fn text(reported: &Outcome) -> String {
    let action = &*reported.action;
    if let Some(error) = &reported.error {
        let what = match action {
            "recover" => "recovery",
            "replace" => "replacement",
            "locate" => "repair",
            action => action,
        };
        let begins_by_itself = matches!(action, "resync" | "recover" | "replace");
        let way_out = if begins_by_itself { "; `brindle action resume` goes on with it" } else { "" };
        return format!("the {what} did not come to its end: {error}{way_out}\n");
    }
    let report = Report(reported.findings.clone());
    match action {
        "recover" => report.text_of_rebuilding("rebuilt"),
        "replace" => report.text_of_rebuilding("replaced"),
        "resync" if report.unverified > 0 => report.text_of_resync(),
        "resync" => report.text_of_rebuilding("resynced"),
        _ => report.text(),
    }
}

#[cfg(test)]
mod tests {
    use brindle_host::status::{Bad, Bounds};

    use super::*;

    fn report(mismatch_cnt: u64, unreadable: u64) -> Report {
        let held = vec![Bounds { from: 131_072, to: 131_584 }];
        let bad = Bad { role: 2, device: Some("/dev/sdc".into()), offset: 65_536, length: 512, array: held };
        Report(Findings {
            uuid: String::new(),
            level: "raid5".into(),
            checked: 1 << 20,
            mismatch_cnt,
            unlocated: 0,
            unverified: unreadable,
            unreadable,
            places: Vec::new(),
            bad_places: if unreadable > 0 { vec![bad] } else { Vec::new() },
            resynced: false,
        })
    }

    #[test]
    fn the_status_tells_what_disagrees_and_what_can_not_be_read() {
        let statuses = [(0, 0), (0, 512), (8, 0), (8, 512)].map(|(a, b)| report(a, b).status(a));
        assert_eq!(statuses, [0, 4, 3, 3].map(ExitCode::from));
        let lacking = |left| Report(Findings { unverified: 4096, ..report(left, 0).0 }).status(left);
        assert_eq!([lacking(0), lacking(8)], [5, 3].map(ExitCode::from));
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        let text = report(0, 512).text();
        for words in ["/dev/sdc", "role 2", "byte 65536", "512", "131072 to 131584"] {
            assert!(text.contains(words), "{text}");
            assert!(report(0, 512).text_of_rebuilding("rebuilt").contains(words));
        }
        assert_eq!(report(0, 0).text_of_rebuilding("rebuilt"), "rebuilt\n");
        let reported = |report: Report| {
            super::text(&Outcome { findings: report.0, action: "resync".into(), error: None })
        };
        assert_eq!(reported(report(0, 0)), "resynced\n");
        let lacking = reported(Report(Findings { unverified: 4096, ..report(0, 0).0 }));
        assert_eq!(lacking, "resynced but for 4 KiB, since members are missing or can't be read\n");
        assert!(!report(0, 0).text().contains("unreadable"));
    }
}

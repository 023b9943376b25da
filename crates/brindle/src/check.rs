//! `brindle check`: compares redundancy, changes nothing.

use std::process::ExitCode;

use brindle_array::{BadPlace, MismatchKind, SyncMode};
use brindle_io::device::DeviceAccess;
use serde::Serialize;

use crate::cli::Check;
use crate::failure::Failure;
use crate::host::Host;
use crate::units::Bytes;
use crate::world::Opening;
use crate::{MISMATCH, UNREADABLE, progress, report};

/// What `brindle check --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    uuid: String,
    level: &'static str,
    checked: u64,
    /// md's unit: 512-byte sectors.
    mismatch_cnt: u64,
    /// Bytes that could not be compared since members are missing, or can't be read.
    unverified: u64,
    /// Bytes of members that can't be read.
    unreadable: u64,
    /// The first places that disagree.
    places: Vec<Place>,
    /// The first places that can't be read.
    bad_places: Vec<Bad>,
}

#[derive(Debug, Serialize)]
struct Bad {
    role: u16,
    device: Option<String>,
    offset: u64,
    length: u64,
}

#[derive(Debug, Serialize)]
struct Place {
    /// What disagrees: p, q or copy.
    kind: &'static str,
    role: u16,
    device: Option<String>,
    offset: u64,
}

pub(crate) fn check(args: &Check) -> Result<ExitCode, Failure> {
    let opening = Opening { access: DeviceAccess::Read, force: false, tuning: args.tuning, ..Opening::LOOK };
    let host = Host::open(&args.members, opening)?;
    let running = host.only();
    let level = running.found.assembly.level();
    let total = running.array.sync_len();
    if total == 0 {
        return Err(Failure::Usage(format!("{} has no redundancy to check", level.name())));
    }
    let bar = progress::bar("checking", total);
    let array = running.array.clone();
    let found = host
        .world
        .io
        .block_on(array.check(SyncMode::Check, |progress| bar.set_position(progress.position)))
        .map_err(|source| Failure::Process { doing: "checking the array", source })?;
    bar.finish_and_clear();
    let path = |role: u16| {
        let device = running.found.assembly.roles.get(usize::from(role)).copied().flatten()?;
        running.found.assembly.devices.get(device).map(|device| device.label.clone())
    };
    let bad = |place: &BadPlace| Bad {
        role: place.role,
        device: path(place.role),
        offset: place.offset,
        length: place.len,
    };
    let report = Report {
        uuid: brindle_format::md::display_uuid(running.found.assembly.uuid).to_string(),
        level: level.name(),
        checked: total,
        mismatch_cnt: found.mismatch_sectors,
        unverified: found.unverified,
        unreadable: found.unreadable,
        bad_places: found.bad_places.iter().filter(|place| !place.mended).map(bad).collect(),
        places: found
            .places
            .iter()
            .map(|place| Place {
                kind: kind(place.kind),
                role: place.role,
                device: path(place.role),
                offset: place.offset,
            })
            .collect(),
    };
    if args.json {
        report::print_json(&report)?;
    } else {
        report::print(&report.text())?;
    }
    Ok(report.status().map_or(ExitCode::SUCCESS, ExitCode::from))
}

impl Report {
    /// The exit status, if not all is well: what disagrees matters more than what could not be looked at.
    fn status(&self) -> Option<u8> {
        match (self.mismatch_cnt, self.unreadable) {
            (0, 0) => None,
            (0, _) => Some(UNREADABLE),
            _ => Some(MISMATCH),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("mismatch_cnt {} (sectors of 512 bytes)\n", self.mismatch_cnt);
        if self.unverified > 0 {
            let bytes = Bytes(self.unverified);
            text.push_str(&format!(
                "{bytes} could not be compared, since members are missing or can't be read\n"
            ));
        }
        for place in &self.places {
            let device = place.device.as_deref().unwrap_or("?");
            text.push_str(&format!(
                "  {} of role {} ({device}) at byte {} of its data area\n",
                place.kind, place.role, place.offset
            ));
        }
        if self.unreadable > 0 {
            text.push_str(&format!("{} of members can't be read\n", Bytes(self.unreadable)));
        }
        for bad in &self.bad_places {
            let device = bad.device.as_deref().unwrap_or("?");
            text.push_str(&format!(
                "  unreadable: {} of role {} ({device}) at byte {} of its data area\n",
                Bytes(bad.length),
                bad.role,
                bad.offset
            ));
        }
        text
    }
}

fn kind(kind: MismatchKind) -> &'static str {
    match kind {
        MismatchKind::P => "p",
        MismatchKind::Q => "q",
        MismatchKind::Copy => "copy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(mismatch_cnt: u64, unreadable: u64) -> Report {
        let bad = Bad { role: 2, device: Some("/dev/sdc".into()), offset: 65_536, length: 512 };
        Report {
            uuid: String::new(),
            level: "raid5",
            checked: 1 << 20,
            mismatch_cnt,
            unverified: unreadable,
            unreadable,
            places: Vec::new(),
            bad_places: if unreadable > 0 { vec![bad] } else { Vec::new() },
        }
    }

    #[test]
    fn the_status_tells_what_disagrees_and_what_can_not_be_read() {
        let statuses = [(0, 0), (0, 512), (8, 0), (8, 512)].map(|(a, b)| report(a, b).status());
        assert_eq!(statuses, [None, Some(4), Some(3), Some(3)]);
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        let text = report(0, 512).text();
        for words in ["/dev/sdc", "role 2", "byte 65536", "512"] {
            assert!(text.contains(words), "{text}");
        }
        assert!(!report(0, 0).text().contains("unreadable"));
    }
}

//! `brindle check`: compares redundancy, changes nothing.

use std::process::ExitCode;

use brindle_array::{MismatchKind, SyncMode};
use brindle_io::device::Access;
use serde::Serialize;

use crate::cli::Check;
use crate::failure::Failure;
use crate::units::Bytes;
use crate::world::{self, Opening};
use crate::{MISMATCH, progress, report};

/// What `brindle check --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    uuid: String,
    level: &'static str,
    checked: u64,
    /// md's unit: 512-byte sectors.
    mismatch_cnt: u64,
    /// Bytes that could not be compared since members are missing.
    unverified: u64,
    /// The first places.
    places: Vec<Place>,
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
    let opening = Opening { access: Access::Read, force: false, tuning: args.tuning };
    let running = world::open(&args.members, opening)?;
    let level = running.assembly.level();
    let total = running.array.sync_len();
    if total == 0 {
        return Err(Failure::Usage(format!("{} has no redundancy to check", level.name())));
    }
    let bar = progress::bar("checking", total);
    let array = running.array.clone();
    let found = running
        .world
        .io
        .block_on(array.check(SyncMode::Check, |progress| bar.set_position(progress.position)))
        .map_err(|source| Failure::Volume { doing: "checking the array", source })?;
    bar.finish_and_clear();
    let path = |role: u16| {
        let device = running.assembly.roles.get(usize::from(role)).copied().flatten()?;
        running.assembly.devices.get(device).map(|device| device.label.clone())
    };
    let report = Report {
        uuid: brindle_format::md::display_uuid(running.assembly.uuid).to_string(),
        level: level.name(),
        checked: total,
        mismatch_cnt: found.mismatch_sectors,
        unverified: found.unverified,
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
    Ok(if report.mismatch_cnt == 0 { ExitCode::SUCCESS } else { ExitCode::from(MISMATCH) })
}

impl Report {
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

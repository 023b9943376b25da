//! Copies of an array's members beside the members themselves: nothing on them tells which are which, so that what is
//! written to one set and not to the other can be mixed up later. Most such mixtures are refused then
//! (`assembly/apart.rs`), but not those of members that are one event apart.

use std::path::Path;

use brindle_format::md::{Uuid, display_uuid};

use crate::ask;
use crate::control::Asked;
use crate::failure::Failure;

/// Refuses to serve for writing an array whose UUID another server here has; warns if only that one writes.
pub(super) fn refuse(folder: &Path, uuid: Uuid, writes: bool) -> Result<(), Failure> {
    let uuid = display_uuid(uuid).to_string();
    for (name, answer) in ask::status_of_all(folder) {
        let Ok(Asked::Report(report)) = answer else { continue };
        let array = &report["array"];
        let read_only =
            array["state"].as_array().is_some_and(|words| words.iter().any(|word| word == "read-only"));
        if array["uuid"] != *uuid || (read_only && !writes) {
            continue;
        }
        let twin = format!(
            "'{name}' (process {}) serves an array of the same UUID {uuid}: one's members are copies of the other's",
            report["pid"]
        );
        if writes {
            return Err(Failure::Refused(format!(
                "{twin}, and nothing would tell them apart once both are written to: stop it, serve these with \
                 --read-only, or give the copies a UUID of their own (mdadm --assemble --update=uuid)"
            )));
        }
        eprintln!("brindle: {twin}");
    }
    Ok(())
}

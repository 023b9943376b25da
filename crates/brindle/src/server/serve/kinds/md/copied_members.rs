//! Copies of an array's members beside the members themselves: they can't be told apart, so that writes to one set
//! only may get mixed up with the other later. Most such mixtures are refused then (`assembly/diverged.rs`), but not
//! those of members that are one event apart.

use brindle_host::Volumes;
use brindle_host::status::Report;
use brindle_volume::Volume;

use super::super::Others;
use crate::base::failure::Failure;
use crate::client::control::Response;
use crate::devices::host::Hosted;

/// Refuses to serve for writing an array whose UUID another server here has, and warns if only that one writes; refuses
/// a name by which an array of another server is known, if that server has several, or this one.
pub(super) fn refuse(others: &Others, hosted: &Hosted, several: bool) -> Result<(), Failure> {
    for (server, answer) in others {
        let Ok(Response::Report(reported)) = answer else { continue };
        for report in reported.all() {
            refuse_copy(server, report, hosted)?;
            let name = &hosted.name;
            // Between servers of one array each the control socket tells.
            let has_several = matches!(**reported, Volumes::List(_));
            if report.name() == name && !report.is_absent() && (has_several || several) {
                return Err(Failure::Refused(format!(
                    "'{server}' (process {}) serves an array named '{name}': stop that, or serve this one by itself, \
                     with another --name",
                    report.pid()
                )));
            }
        }
    }
    Ok(())
}

fn refuse_copy(server: &str, report: &Report, hosted: &Hosted) -> Result<(), Failure> {
    let uuid = hosted.found.uuid();
    let writes = !hosted.array.limits().read_only;
    let Some(status) = report.array() else { return Ok(()) };
    let read_only = status.array.is("read-only");
    if status.array.facts.uuid != uuid || (read_only && !writes) {
        return Ok(());
    }
    let twin = format!(
        "'{server}' (process {}) serves an array of the same UUID {uuid}: one's members are copies of the other's",
        status.pid
    );
    if writes {
        return Err(Failure::Refused(format!(
            "{twin}, and nothing would tell them apart once both are written to: stop it, serve these with --read-only, \
             or give the copies a UUID of their own (brindle update --update uuid)"
        )));
    }
    eprintln!("brindle: {twin}");
    Ok(())
}

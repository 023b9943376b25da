//! The arrays to be served: their names, and whether they are written to.

use brindle_format::md::display_uuid;
use brindle_host::opening::{Opening, Permission};
use brindle_io::device::DeviceAccess;

use crate::base::failure::Failure;
use crate::devices::host::{self, AssembledArray, Wanted};
use crate::devices::unserved::Unserved;

/// The arrays to be served with their names. They are opened for writing, unless the user or an array's features
/// forbid it.
pub(super) fn wanted(
    opening: &Opening,
    found: Vec<AssembledArray>,
    unserved: &Unserved,
) -> Result<Vec<Wanted>, Failure> {
    let names = match &opening.name {
        // A server of several arrays has a name of its own.
        Some(name) if found.len() == 1 && !opening.own_names => vec![name.clone()],
        _ => host::names(&found),
    };
    let several = opening.own_names || found.len() > 1;
    let mut wanted = Vec::with_capacity(found.len());
    for (name, found) in names.into_iter().zip(found) {
        match access(opening, &found, several.then_some(&*name)) {
            Ok(access) => wanted.push(Wanted { name, found, access }),
            Err(why) => unserved.leave(&name, &display_uuid(found.assembly.uuid).to_string(), why)?,
        }
    }
    Ok(wanted)
}

/// `name`: the array's name in messages, where there are several.
pub(crate) fn access(
    opening: &Opening,
    found: &AssembledArray,
    name: Option<&str>,
) -> Result<DeviceAccess, Failure> {
    let uuid = display_uuid(found.assembly.uuid).to_string();
    let said = opening.access_of(name.unwrap_or(&found.own_name()), &uuid);
    if said == Permission::ReadOnly {
        return Ok(DeviceAccess::Read);
    }
    let reasons: Vec<String> =
        found.limits().filter(|limit| limit.forbids_writes()).map(ToString::to_string).collect();
    if reasons.is_empty() {
        return Ok(DeviceAccess::Write);
    }
    let reasons = reasons.join("; ");
    if said == Permission::ReadWrite {
        let array = name.map_or_else(|| "the array".to_owned(), |name| format!("array '{name}'"));
        return Err(Failure::Refused(format!("{array} can't be written to: {reasons}")));
    }
    let of = name.map_or_else(String::new, |name| format!("{name}: "));
    eprintln!("brindle: {of}serving read-only: {reasons}");
    Ok(DeviceAccess::Read)
}

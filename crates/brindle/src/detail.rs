//! `brindle detail`: the array that members form.

use brindle_io::device::Access;

use crate::cli::Detail;
use crate::failure::Failure;
use crate::members;
use crate::report::{self, ArrayReport};

pub(crate) fn detail(args: &Detail) -> Result<(), Failure> {
    let found = members::open_all(&args.members, Access::Examine)?;
    // A dirty and degraded array is told about; only its use has to be forced.
    let assembly = match members::assembly(&found, false) {
        Err(brindle_array::assembly::AssemblyError::DirtyDegraded { .. }) => members::assembly(&found, true)?,
        other => other?,
    };
    let report = ArrayReport::of(&assembly);
    if args.json { report::print_json(&report) } else { report::print(&report.text()) }
}

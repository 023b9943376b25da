//! `brindle metrics`: those of all running servers.

use std::path::Path;

use brindle_host::metrics::Families;

use crate::base::failure::Failure;
use crate::base::replace::replace;
use crate::base::{report, runtime};
use crate::client::ask;
use crate::client::control::{Ask, Response};
use crate::flags::cli::Metrics;

pub(crate) fn metrics(args: &Metrics) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let (mut all, mut silent) = (Families::default(), None);
    for (server, answer) in ask::ask_all::<Families>(&folder, &Ask::Metrics { full: args.full }.into()) {
        match answer {
            Ok(Response::Report(families)) => all.merge(&server, families.into_read()),
            // A server that was killed has no metrics; nor has it had the time to remove its socket.
            Ok(Response::Stale) => {}
            Err(why) => silent = silent.or(Some(why)),
        }
    }
    let text = if args.json {
        serde_json::to_string_pretty(&all).map_err(|error| Failure::output("the metrics", error.into()))?
            + "\n"
    } else {
        all.text()
    };
    if args.textfile == Path::new("-") {
        report::print(&text)?;
    } else {
        let failed = |source| Failure::output(args.textfile.display().to_string(), source);
        replace(&args.textfile, text.as_bytes()).map_err(failed)?;
    }
    // Servers that answered are reported all the same.
    silent.map_or(Ok(()), Err)
}

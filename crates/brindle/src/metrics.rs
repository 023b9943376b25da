//! `brindle metrics`: those of all running servers.

use std::io::Write;
use std::path::Path;

use brindle_host::metrics::Families;

use crate::ask;
use crate::cli::Metrics;
use crate::control::{Request, Response};
use crate::failure::Failure;
use crate::{report, runtime};

pub(crate) fn metrics(args: &Metrics) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let (mut all, mut silent) = (Families::default(), None);
    for (server, answer) in ask::ask_all(&folder, &Request::Metrics) {
        let reported = match answer {
            Ok(Response::Report(reported)) => reported,
            // A server that was killed has no metrics; nor has it had the time to remove its socket.
            Ok(Response::Stale) => continue,
            Err(why) => {
                silent = silent.or(Some(why));
                continue;
            }
        };
        match serde_json::from_value(reported) {
            Ok(families) => all.merge(&server, families),
            Err(error) => silent = silent.or(Some(Failure::Refused(format!("{server}: {error}")))),
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
        replace(&args.textfile, &text)?;
    }
    // Servers that answered are reported all the same.
    silent.map_or(Ok(()), Err)
}

/// Puts a file in the place of another, so that readers see one or the other.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let failed = |source| Failure::output(path.display().to_string(), source);
    let written = std::fs::File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&new, path));
    written.map_err(|source| {
        let _ = std::fs::remove_file(&new);
        failed(source)
    })
}

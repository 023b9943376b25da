//! Members of a served pool that are taken out, come back, or are replaced.

use std::path::{Path, PathBuf};

use super::volume::{ask_server, tell};
use crate::base::failure::Failure;
use crate::client::control::Ask;
use crate::flags::cli::pools::{PoolOffline, PoolOnline, PoolReplace};

/// A device by its path from the root: the server may run elsewhere.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|source| Failure::system(path.display().to_string(), source))
}

/// `brindle pool offline`.
pub(super) fn offline(args: &PoolOffline) -> Result<(), Failure> {
    let (pool, member) = (args.name.clone(), args.member.clone());
    let reported = ask_server(&args.runtime, &args.name, Ask::PoolOffline { pool, member })?;
    let text = format!(
        "{} is offline: `brindle pool online {} {}` brings it back\n",
        args.member, args.name, args.member
    );
    tell(args.json, &reported, &text)
}

/// `brindle pool online`.
pub(super) fn online(args: &PoolOnline) -> Result<(), Failure> {
    let (pool, member) = (args.name.clone(), args.member.clone());
    let device = args.device.as_deref().map(absolute).transpose()?;
    let reported = ask_server(&args.runtime, &args.name, Ask::PoolOnline { pool, member, device })?;
    let text = format!(
        "{} is in use again, and gets what it lacks: `brindle wait {}` waits for that\n",
        args.member, args.name
    );
    tell(args.json, &reported, &text)
}

/// `brindle pool replace`.
pub(super) fn replace(args: &PoolReplace) -> Result<(), Failure> {
    let (pool, member, with) = (args.name.clone(), args.member.clone(), absolute(&args.with)?);
    let force = args.force;
    let reported = ask_server(&args.runtime, &args.name, Ask::PoolReplace { pool, member, with, force })?;
    let text = format!(
        "{} takes the place of {}, and gets what that had: `brindle wait {}` waits for that\n",
        args.with.display(),
        args.member,
        args.name
    );
    tell(args.json, &reported, &text)
}

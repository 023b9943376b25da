//! Members of a served pool that are taken out, come back, or are replaced.

use std::path::{Path, PathBuf};

use super::volume::{ask_server, tell};
use crate::base::failure::Failure;
use crate::client::control::Ask;
use crate::flags::cli::pools::{PoolMember, PoolOnline, PoolReplace};

/// A device by its path from the root: the server may run elsewhere.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|source| Failure::system(path.display().to_string(), source))
}

/// Has the server of a member's pool do that, and tells it.
fn change(of: &PoolMember, ask: Ask, text: &str) -> Result<(), Failure> {
    let reported = ask_server(&of.runtime, &of.name, ask)?;
    tell(of.json, &reported, text)
}

/// `brindle pool offline`.
pub(super) fn offline(args: &PoolMember) -> Result<(), Failure> {
    let (pool, member) = (args.name.clone(), args.member.clone());
    let text = format!("{member} is offline: `brindle pool online {pool} {member}` brings it back\n");
    change(args, Ask::PoolOffline { pool, member }, &text)
}

/// `brindle pool online`.
pub(super) fn online(args: &PoolOnline) -> Result<(), Failure> {
    let (pool, member) = (args.of.name.clone(), args.of.member.clone());
    let device = args.device.as_deref().map(absolute).transpose()?;
    let text =
        format!("{member} is in use again, and gets what it lacks: `brindle wait {pool}` waits for that\n");
    change(&args.of, Ask::PoolOnline { pool, member, device }, &text)
}

/// `brindle pool replace`.
pub(super) fn replace(args: &PoolReplace) -> Result<(), Failure> {
    let (pool, member, with) = (args.of.name.clone(), args.of.member.clone(), absolute(&args.with)?);
    let text = format!(
        "{} gets what {member} has, which answers until then if it is in use: `brindle wait {pool}` waits for that\n",
        args.with.display()
    );
    change(&args.of, Ask::PoolReplace { pool, member, with, force: args.force }, &text)
}

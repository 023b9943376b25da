//! Members of a served pool that are taken out, come back, or are replaced.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_host::status::{PoolStatus, Report};

use super::{order, served_or};
use crate::base::failure::Failure;
use crate::base::path::absolute;
use crate::base::text::shell;
use crate::base::{report, runtime};
use crate::client::ask::Target;
use crate::client::control::{Answer, Ask};
use crate::client::wait::PoolWatch;
use crate::flags::cli::Runtime;
use crate::flags::cli::pools::{PoolMember, PoolOnline, PoolReplace, role};

/// Time between two lines of progress where standard error is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// The pool of a member that is to be changed.
pub(super) struct Meant {
    folder: PathBuf,
    /// Before the change.
    status: PoolStatus,
    /// The member, as the server knows it.
    pub(super) member: String,
}

impl Meant {
    pub(super) fn by(of: &PoolMember) -> Result<Self, Failure> {
        let meant = Self::pool(&of.runtime, &of.name)?;
        let member = known_as(&meant.status, &of.member);
        Ok(Self { member, ..meant })
    }

    /// The pool as a whole.
    pub(super) fn pool(runtime: &Runtime, name: &str) -> Result<Self, Failure> {
        let folder = runtime::folder(runtime.folder())?;
        let status = served_or(&folder, name, "serve it: these commands are for pools that are served")?;
        Ok(Self { folder, status, member: String::new() })
    }

    pub(super) fn order(&self, ask: Ask) -> Result<Answer<Report>, Failure> {
        order(&self.folder, &self.status.server, &ask.into())
    }
}

/// How the server knows a member: by its number, its place, or the name that it was given; else by a file's path from the root, since the server
/// may run elsewhere.
fn known_as(status: &PoolStatus, member: &str) -> String {
    let is_known = member.parse::<u16>().is_ok()
        || role(member).is_ok()
        || status.pool.devices.iter().any(|device| device.path.as_deref() == Some(member));
    let path = Path::new(member);
    if is_known || !path.exists() {
        return member.to_owned();
    }
    absolute(path).into_os_string().into_string().unwrap_or_else(|_| member.to_owned())
}

pub(super) fn tell(json: bool, reported: &Answer<Report>, text: &str) -> Result<(), Failure> {
    if json { report::print_json(reported) } else { report::print(text) }
}

/// `brindle pool offline`.
pub(super) fn offline(args: &PoolMember) -> Result<(), Failure> {
    let meant = Meant::by(args)?;
    let (pool, member) = (args.name.clone(), meant.member.clone());
    let reported = meant.order(Ask::PoolOffline { pool, member })?;
    let (pool, member) = (shell(&args.name), shell(&args.member));
    tell(
        args.json,
        &reported,
        &format!("{member} is offline: `brindle pool online {pool} {member}` brings it back\n"),
    )
}

/// `brindle pool online`.
pub(super) fn online(args: &PoolOnline) -> Result<(), Failure> {
    let meant = Meant::by(&args.of)?;
    let (pool, member) = (args.of.name.clone(), meant.member.clone());
    let device = args.device.as_deref().map(absolute);
    let reported = meant.order(Ask::PoolOnline { pool, member, device })?;
    let (pool, member) = (shell(&args.of.name), shell(&args.of.member));
    let text =
        format!("{member} is in use again, and gets what it lacks: `brindle wait {pool}` waits for that\n");
    tell(args.of.json, &reported, &text)
}

/// `brindle pool replace`.
pub(super) fn replace(args: &PoolReplace) -> Result<(), Failure> {
    let meant = Meant::by(&args.of)?;
    let (pool, member, with) = (args.of.name.clone(), meant.member.clone(), absolute(&args.with));
    let mut watch = PoolWatch::since(&meant.status);
    let reported = meant.order(Ask::PoolReplace { pool, member, with: with.clone(), force: args.force })?;
    let (pool, old, new) =
        (shell(&args.of.name), shell(&args.of.member), shell(&args.with.to_string_lossy()));
    let with = with.to_string_lossy();
    if !args.wait {
        let has = matches!(&*reported, Report::Pool(status) if state_of(status, &with).is_some());
        let text = if has {
            format!(
                "{new} has the place of {old}, and gets what it lacks: `brindle wait {pool}` waits for that\n"
            )
        } else {
            format!(
                "{old} is copied to {new} and stays in use until {new} has all: leave it in until `brindle pool status {pool}` shows {new} in \
                 its place; `brindle wait {pool}` waits for that\n"
            )
        };
        return tell(args.of.json, &reported, &text);
    }
    let target = Target::of(&meant.status.server, Some(&args.of.name));
    let status = watch.wait(&meant.folder, &target, EVERY)?;
    let why = match state_of(&status, &with) {
        Some("online") if args.of.json => return report::print_json(&status),
        Some("online") => {
            return report::print(&format!(
                "{new} has the place of {old}, and all that it is to have: {old} is not used any more\n"
            ));
        }
        Some(state) => {
            format!("{new} has the place of {old}, and is {state}: `brindle pool status {pool}` tells more")
        }
        None => {
            let why =
                watch.not_replaced(&status).unwrap_or_else(|| "the log of the server says why".to_owned());
            format!("{new} did not get the place of {old}: {why}")
        }
    };
    Err(Failure::Refused(why))
}

/// The state of the member that has this device.
fn state_of<'a>(status: &'a PoolStatus, device: &str) -> Option<&'a str> {
    let devices = status.pool.devices.iter();
    devices.filter(|one| one.path.as_deref() == Some(device)).map(|one| &*one.state).next()
}

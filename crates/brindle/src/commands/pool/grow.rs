//! Devices that a served pool gets more of, and copies and spares that leave it.

use brindle_host::control::NewVdev;
use brindle_host::status::Report;

use super::create::{Redundancy, words_of};
use super::members::{Meant, tell};
use crate::base::failure::Failure;
use crate::base::path::absolute;
use crate::base::text::shell;
use crate::base::units::Bytes;
use crate::client::control::{Answer, Ask};
use crate::flags::cli::pools::{PoolAdd, PoolAttach, PoolMember};

/// `brindle pool add`.
pub(super) fn add(args: &PoolAdd) -> Result<(), Failure> {
    let vdevs = words_of(&args.vdevs, Redundancy::Spares(args.no_redundancy))?;
    let meant = Meant::pool(&args.runtime, &args.name)?;
    let mut reported = None;
    for (kind, devices) in vdevs {
        let devices = devices.iter().map(|device| absolute(device)).collect();
        let force = args.force || kind == NewVdev::Plain;
        reported = Some(meant.order(Ask::PoolAdd { pool: args.name.clone(), kind, devices, force })?);
    }
    let Some(reported) = reported else { return Err(Failure::Usage("name the devices".to_owned())) };
    let text = format!("{} has room for {} now\n", shell(&args.name), room(&reported));
    tell(args.json, &reported, &text)
}

/// `brindle pool attach`.
pub(super) fn attach(args: &PoolAttach) -> Result<(), Failure> {
    let meant = Meant::by(&args.of)?;
    let (pool, to, device) = (args.of.name.clone(), meant.member.clone(), absolute(&args.device));
    let reported = meant.order(Ask::PoolAttach { pool, to, device, force: args.force })?;
    let (pool, device) = (shell(&args.of.name), shell(&args.device.to_string_lossy()));
    let text = format!(
        "{device} is in use; {pool} has room for {}; copies that it lacks it gets: `brindle wait {pool}` waits for that\n",
        room(&reported)
    );
    tell(args.of.json, &reported, &text)
}

/// `brindle pool detach`.
pub(super) fn detach(args: &PoolMember) -> Result<(), Failure> {
    let meant = Meant::by(args)?;
    let (pool, member) = (args.name.clone(), meant.member.clone());
    let reported = meant.order(Ask::PoolDetach { pool, member })?;
    let (pool, member) = (shell(&args.name), shell(&args.member));
    tell(args.json, &reported, &format!("{member} is no member of {pool} any more\n"))
}

/// Bytes that volumes may have in all.
fn room(reported: &Answer<Report>) -> String {
    match &**reported {
        Report::Pool(status) => Bytes(status.pool.capacity).to_string(),
        _ => "more".to_owned(),
    }
}

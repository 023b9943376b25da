//! Devices that a served pool gets more of, and copies and spares that leave it.

use std::path::PathBuf;

use brindle_host::control::NewVdev;
use brindle_host::status::{PoolStatus, Report};

use super::create::{Redundancy, words_of};
use super::members::{Meant, tell};
use crate::base::failure::Failure;
use crate::base::path::absolute;
use crate::base::text::shell;
use crate::base::units::Bytes;
use crate::client::control::{Answer, Ask};
use crate::flags::cli::pools::{PoolAdd, PoolAttach, PoolMember};

/// `brindle pool add`: vdevs one behind the other, since each is in the pool's config before the next is looked at.
pub(super) fn add(args: &PoolAdd) -> Result<(), Failure> {
    let vdevs = words_of(&args.vdevs, Redundancy::Spares(args.no_redundancy))?;
    if let Some((kind, _)) = vdevs.iter().find(|(_, devices)| devices.is_empty()) {
        return Err(Failure::Usage(format!("'{}' has no devices: name them behind it", kind.name())));
    }
    refuse_twice(&vdevs)?;
    let meant = Meant::pool(&args.runtime, &args.name)?;
    let (mut reported, mut done) = (None, Vec::new());
    for (kind, devices) in vdevs {
        let named = devices.iter().map(|device| shell(&device.to_string_lossy()));
        let named = format!("{} {}", kind.name(), named.collect::<Vec<_>>().join(" "));
        let devices = devices.iter().map(|device| absolute(device)).collect();
        let ask = Ask::PoolAdd { pool: args.name.clone(), kind, devices, force: args.force };
        match meant.order(ask) {
            Ok(answer) => reported = Some(answer),
            Err(why) if done.is_empty() => return Err(why),
            Err(why) => {
                return Err(Failure::Refused(format!("{why}; it has {} already", done.join(" and "))));
            }
        }
        done.push(named);
    }
    let Some(reported) = reported else { return Err(Failure::Usage("name the devices".to_owned())) };
    let text =
        format!("{} has {}, and room for {}\n", shell(&args.name), done.join(" and "), room(&reported));
    tell(args.json, &reported, &text)
}

fn refuse_twice(vdevs: &[(NewVdev, Vec<PathBuf>)]) -> Result<(), Failure> {
    let all: Vec<&PathBuf> = vdevs.iter().flat_map(|(_, devices)| devices).collect();
    let is_again = |n: &usize| all.iter().take(*n).any(|other| other == &all[*n]);
    let Some(n) = (0..all.len()).find(is_again) else { return Ok(()) };
    Err(Failure::Usage(format!("{} is named twice: name each device once", all[n].display())))
}

/// `brindle pool attach`.
pub(super) fn attach(args: &PoolAttach) -> Result<(), Failure> {
    let meant = Meant::by(&args.of)?;
    let (pool, to, device) = (args.of.name.clone(), meant.member.clone(), absolute(&args.device));
    let path = device.to_string_lossy().into_owned();
    let reported = meant.order(Ask::PoolAttach { pool, to, device, force: args.force })?;
    let (pool, device) = (shell(&args.of.name), shell(&args.device.to_string_lossy()));
    let is_copy = matches!(&*reported, Report::Pool(status) if kind_of(status, &path) == Some("mirror"));
    let text = if is_copy {
        format!(
            "{device} is a copy in a mirror now, and gets what it lacks: `brindle wait {pool}` waits for that\n"
        )
    } else {
        format!("{device} is in use, and {pool} has room for {}\n", room(&reported))
    };
    tell(args.of.json, &reported, &text)
}

/// The kind of the vdev that has this device.
fn kind_of<'a>(status: &'a PoolStatus, device: &str) -> Option<&'a str> {
    status.pool.devices.iter().find(|one| one.path.as_deref() == Some(device)).map(|one| &*one.kind)
}

/// `brindle pool detach`.
pub(super) fn detach(args: &PoolMember) -> Result<(), Failure> {
    let meant = Meant::by(args)?;
    let (pool, member) = (args.name.clone(), meant.member.clone());
    let reported = meant.order(Ask::PoolDetach { pool, member })?;
    let (pool, member) = (shell(&args.name), shell(&args.member));
    tell(
        args.json,
        &reported,
        &format!("{member} is no member of {pool} any more: its labels stay, and --force overwrites them\n"),
    )
}

/// Bytes that volumes may have in all.
fn room(reported: &Answer<Report>) -> String {
    match &**reported {
        Report::Pool(status) => Bytes(status.pool.capacity).to_string(),
        _ => "more".to_owned(),
    }
}

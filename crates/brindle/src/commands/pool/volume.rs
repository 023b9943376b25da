//! `brindle volume`: volumes of a pool that is served, or of one that is not.

use brindle_host::status::VolumeFacts;
use brindle_pool::{Pool, PoolChangeError, check_name};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Shown, columns, order, refuse_other, reports, served};
use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::base::{report, runtime};
use crate::client::control::Ask;
use crate::devices::pools::{Alone, split};
use crate::flags::cli::pools::{PoolRename, VolumeCreate, VolumeDestroy, VolumeRename};
use crate::flags::cli::{PoolReportArgs, Runtime, StoppedPool, Volume, VolumeCommand};

/// `brindle volume`.
pub(crate) fn volume(args: &Volume) -> Result<(), Failure> {
    match &args.command {
        VolumeCommand::Create(args) => create(args),
        VolumeCommand::List(args) => list(args),
        VolumeCommand::Rename(args) => rename(args),
        VolumeCommand::Destroy(args) => destroy(args),
    }
}

fn tell(json: bool, reported: &Value, text: &str) -> Result<(), Failure> {
    if json { report::print_json(reported) } else { report::print(text) }
}

/// Asks the server of the pool to do it.
fn ask_server(runtime: &Runtime, pool: &str, ask: Ask) -> Result<Value, Failure> {
    let folder = runtime::folder(runtime.folder())?;
    let server = served(&folder, pool)?.server;
    // As it was told.
    Ok(json!(order(&folder, &server, &ask.into())?))
}

/// Changes a pool that is not served. It is left as it was, if `check` refuses that.
fn change(
    of: &StoppedPool,
    name: &str,
    check: impl Fn(&Pool) -> Result<(), PoolChangeError>,
    change: impl AsyncFnOnce(&Pool) -> Result<(), PoolChangeError>,
) -> Result<(), Failure> {
    let check = |pool: &Pool| {
        refuse_other(&pool.label().name, Some(name))?;
        Ok(check(pool)?)
    };
    let alone = Alone::open_to_change(&of.stopped.members, of.degraded, &check)?;
    alone.finish(async |pool| Ok(change(pool).await?))
}

fn create(args: &VolumeCreate) -> Result<(), Failure> {
    super::create::take_properties(&args.properties, &["volblocksize"])?;
    let (pool, name) = split(&args.name)?;
    // Before the pool is opened.
    check_name(name)?;
    let size = args.size.0;
    let reported = if args.pool.stopped.members.is_empty() {
        let request = Ask::VolumeCreate { pool: pool.to_owned(), name: name.to_owned(), size };
        ask_server(&args.runtime, pool, request)?
    } else {
        let make = async |pool: &Pool| pool.create_volume(name, size).await.map(drop);
        change(&args.pool, pool, |pool| pool.check_create(name, size), make)?;
        json!({"name": args.name, "size": size})
    };
    tell(args.json, &reported, &format!("volume {} of {} created\n", args.name, Bytes(size)))
}

fn list(args: &PoolReportArgs) -> Result<(), Failure> {
    let pools = reports(args)?;
    let volumes: Vec<ListedVolume> = pools.iter().flat_map(ListedVolume::all).collect();
    if args.json {
        return report::print_json(&volumes);
    }
    let line = |volume: &ListedVolume| {
        let [used, available, reserved] =
            [volume.used, volume.available, volume.reserved].map(|of| Bytes(of).to_string());
        vec![volume.facts.name.clone(), used, available, reserved]
    };
    let head = ["NAME", "USED", "AVAIL", "RESERV"].map(str::to_owned).to_vec();
    report::print(&columns(&std::iter::once(head).chain(volumes.iter().map(line)).collect::<Vec<_>>()))
}

/// A volume with what `zfs list` has of one. All of its size is kept for it, whether it was written or not.
#[derive(Serialize)]
struct ListedVolume {
    #[serde(flatten)]
    facts: VolumeFacts,
    /// Bytes of the pool that it takes.
    used: u64,
    /// Bytes that other volumes may have besides.
    available: u64,
    /// Bytes that are kept for it.
    reserved: u64,
}

impl ListedVolume {
    fn all(shown: &Shown) -> Vec<Self> {
        let pool = shown.facts();
        let available = pool.capacity.saturating_sub(pool.sold);
        let of = |volume: &VolumeFacts| Self {
            facts: VolumeFacts { name: format!("{}/{}", shown.name(), volume.name), ..volume.clone() },
            used: volume.size,
            available,
            reserved: volume.size,
        };
        shown.volumes().iter().map(of).collect()
    }
}

fn rename(args: &VolumeRename) -> Result<(), Failure> {
    let ((pool, name), (other, to)) = (split(&args.name)?, split(&args.to)?);
    if other != pool {
        return Err(Failure::Usage(format!("a volume stays in its pool: give {pool}/{to}")));
    }
    check_name(to)?;
    let reported = if args.pool.stopped.members.is_empty() {
        let (pool, name, to) = (pool.to_owned(), name.to_owned(), to.to_owned());
        ask_server(&args.runtime, other, Ask::VolumeRename { pool, name, to })?
    } else {
        let rename = async |pool: &Pool| pool.rename_volume(name, to).await;
        change(&args.pool, pool, |pool| pool.check_rename(name, to).map(drop), rename)?;
        json!({"name": args.to})
    };
    tell(args.json, &reported, &format!("volume {} is {} from now on\n", args.name, args.to))
}

/// `brindle pool rename`.
pub(super) fn rename_pool(args: &PoolRename) -> Result<(), Failure> {
    let (name, to) = (args.name.as_str(), args.to.as_str());
    check_name(to)?;
    let reported = if args.pool.stopped.members.is_empty() {
        ask_server(&args.runtime, name, Ask::PoolRename { pool: name.to_owned(), to: to.to_owned() })?
    } else {
        let rename = async |pool: &Pool| pool.rename(to).await;
        change(&args.pool, name, |pool| pool.check_rename_pool(to), rename)?;
        json!({"name": to})
    };
    let still_called = reported["still_called"].as_array().into_iter().flatten().filter_map(Value::as_str);
    still_called.for_each(|told| eprintln!("brindle: {told}"));
    tell(args.json, &reported, &format!("pool {name} is {to} from now on\n"))
}

fn destroy(args: &VolumeDestroy) -> Result<(), Failure> {
    let (pool, name) = split(&args.name)?;
    let reported = if args.pool.stopped.members.is_empty() {
        let request = Ask::VolumeDestroy { pool: pool.to_owned(), name: name.to_owned(), force: args.force };
        ask_server(&args.runtime, pool, request)?
    } else {
        let destroy = async |pool: &Pool| pool.destroy_volume(name).await;
        change(&args.pool, pool, |pool| pool.check_destroy(name).map(drop), destroy)?;
        json!({"name": args.name, "destroyed": true})
    };
    tell(args.json, &reported, &format!("volume {} is destroyed\n", args.name))
}

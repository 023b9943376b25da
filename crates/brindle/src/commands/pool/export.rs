//! `brindle pool export`: a pool is stopped, and no host has it any more.

use serde_json::json;

use super::{order, refuse_other, served};
use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{Target, stop_here};
use crate::client::control::Ask;
use crate::devices::pools::Alone;
use crate::flags::cli::PoolEnd;

pub(super) fn export(args: &PoolEnd) -> Result<(), Failure> {
    let name = &args.name;
    if args.pool.stopped.members.is_empty() {
        let folder = runtime::folder(args.runtime.folder())?;
        let server = served(&folder, name)?.server;
        let ask = Ask::PoolExport { pool: name.clone(), force: args.force };
        let _status = order(&folder, &server, &ask.into())?;
        stop_here(&folder, &Target::of(&server, Some(name)))?;
    } else {
        let check = |pool: &brindle_pool::Pool| refuse_other(&pool.label().name, Some(name));
        Alone::open_to_change(&args.pool.stopped.members, args.pool.degraded, &check)?.export()?;
    }
    if args.json {
        return report::print_json(&json!({"name": name, "exported": true}));
    }
    report::print(&format!(
        "{name} is exported: no host has it, and `brindle pool import` makes it that of another\n"
    ))
}

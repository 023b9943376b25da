//! `brindle pool scrub`: goes over all that a served pool stores, and heals what is wrong.

use std::process::ExitCode;
use std::time::Duration;

use brindle_host::status::{Report, ScanStatus};
use serde_json::json;

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask::{Target, ask};
use crate::client::control::{Ask, Word};
use crate::client::wait::Waiting;
use crate::client::{scan, scrub};
use crate::flags::cli::PoolScrub;

/// Time between two lines of progress where standard error is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// `brindle pool scrub`: its exit status is that of `check`, once a scrub has ended that was waited for.
pub(super) fn begin(args: &PoolScrub) -> Result<ExitCode, Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let way = "serve it; `brindle check MEMBER...` goes over one that is not served";
    let server = super::served_or(&folder, &args.name, way)?.server;
    let target = Target::of(&server, Some(&args.name));
    let now = scrub::pool_meant(&folder, &target)?;
    let running = now.pool.scan.as_ref().and_then(ScanStatus::sync);
    let word = match running {
        _ if args.pause => Some(Word::Pause),
        _ if args.stop => Some(Word::Idle),
        Some(sync) if sync.paused => Some(Word::Resume),
        // It is waited for.
        Some(_) if args.wait => None,
        _ => Some(Word::Repair),
    };
    if let Some(action) = word {
        let order = Ask::Action { action, max_speed: None, min_speed: None };
        let _answer = ask::<Report>(&folder, &server, &order.of(args.name.clone()))?;
    }
    let status = if args.wait {
        let mut waiting = Waiting::new(EVERY);
        scrub::wait_for_pool(&folder, &target, |name, sync| waiting.tell(name, sync))?
    } else {
        scrub::pool_meant(&folder, &target)?
    };
    let scan = status.pool.scan.as_ref();
    if args.json {
        report::print_json(&json!({"name": status.name, "uuid": status.pool.uuid, "scan": scan}))?;
    } else {
        let text = scan.map_or_else(|| "no scrub yet\n".to_owned(), scan::text);
        report::print(&format!("{}: {text}", status.name))?;
    }
    Ok(if args.wait { scan::status(scan) } else { ExitCode::SUCCESS })
}

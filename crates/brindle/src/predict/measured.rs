//! `brindle calibrate DEVICE`: a drive is measured, and becomes the tables that a model is fitted to.

use core::time::Duration;
use std::path::Path;
use std::rc::Rc;

use brindle_io::device::DeviceAccess;
use brindle_lab::drive::{Table, probes, tables};
use brindle_lab::run::{Live, Outcome, Terms, run};
use brindle_volume::LoneMember;
use brindle_volume::Volume;

use crate::cli::Calibrate;
use crate::failure::Failure;
use crate::world::{Opening, World};

/// Most bytes of requests in flight.
const MEMORY: u64 = 128 << 20;
/// A load that was given so long and had no answer has none.
const LONGEST: Duration = Duration::from_secs(60);

/// Measures the drive, and gives its size in bytes too. Without `--force` it is only read.
pub(super) fn measured(path: &Path, args: &Calibrate) -> Result<(u64, Vec<Table>), Failure> {
    let access = if args.force { DeviceAccess::Write } else { DeviceAccess::Read };
    let mut world = World::new(Opening { access, ..Opening::LOOK })?;
    let named = path.display().to_string();
    let measured = measure(&mut world, path, args);
    world.end();
    let (size, outcomes) = measured?;
    if let Some((outcome, trouble)) = outcomes.iter().find_map(|one| Some((one, one.trouble?))) {
        return Err(Failure::Refused(format!("{named}: {}: {trouble}", outcome.job.name)));
    }
    Ok((size, tables(&named, &outcomes)?))
}

fn measure(world: &mut World, path: &Path, args: &Calibrate) -> Result<(u64, Vec<Outcome>), Failure> {
    let set = world.open_each(&[path.to_owned()])?;
    let member = match (set.left_out.first(), set.members.first()) {
        (Some(left_out), _) => return Err(Failure::Refused(left_out.why.clone())),
        (None, member) => member.map(|named| named.id),
    };
    let device = member.and_then(|id| LoneMember::new(&world.io, id, !args.force));
    let targets: Vec<LoneMember> = device.into_iter().collect();
    let size = targets.iter().map(|target| target.limits().size).sum();
    let terms = Terms { chance: 0, memory: MEMORY, hollow: false };
    let live = Rc::new(Live::default());
    let mut runtime = Duration::from_millis(args.runtime.0);
    loop {
        let jobs = probes(args.force, runtime);
        let outcomes = world.io.block_on(run(&world.io, &targets, &jobs, terms, &live))?;
        let idle = |outcome: &Outcome| outcome.trouble.is_none() && outcome.ios() == 0;
        if runtime > LONGEST || !outcomes.iter().any(idle) {
            return Ok((size, outcomes));
        }
        // Nothing was answered in the time that a load had: that tells nothing.
        runtime *= 4;
    }
}

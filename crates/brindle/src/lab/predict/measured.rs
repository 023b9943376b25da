//! `brindle calibrate DEVICE`: a drive is measured, and becomes the tables that a model is fitted to.

use core::time::Duration;
use std::path::Path;
use std::rc::Rc;

use brindle_io::device::DeviceAccess;
use brindle_lab::drive::{Table, probes, tables};
use brindle_lab::run::{Live, Outcome, Terms, run};
use brindle_volume::LoneMember;
use brindle_volume::Volume;

use crate::base::failure::Failure;
use crate::devices::world::{World, WorldOptions};
use crate::flags::cli::Calibrate;
use crate::lab::bench::usage::Meter;

/// Most bytes of requests in flight.
const MEMORY: u64 = 128 << 20;
/// A load that was given so long and had no answer has none.
const LONGEST: Duration = Duration::from_secs(60);

/// Share of a load's time that the processor may be at work: where it is more, the figure is the machine's.
const BUSY: f64 = 90.0;

/// Measures the drive, and gives its size in bytes too, and which figures are not its own. Without `--force` it is only read.
pub(super) fn measured(path: &Path, args: &Calibrate) -> Result<(u64, Vec<Table>, Vec<String>), Failure> {
    let access = if args.force { DeviceAccess::Write } else { DeviceAccess::Read };
    let mut world = World::new(WorldOptions { access, ..WorldOptions::LOOK })?;
    let named = path.display().to_string();
    let measured = measure(&mut world, path, args);
    world.end();
    let (size, outcomes, busy) = measured?;
    if let Some((outcome, trouble)) = outcomes.iter().find_map(|one| Some((one, one.trouble?))) {
        return Err(Failure::Refused(format!("{named}: {}: {trouble}", outcome.job.name)));
    }
    let doubts = busy.iter().map(|(job, share)| {
        format!("{named}: {job}: the processor was at work for {share:.0} % of the time: the figure is the machine's, not the drive's")
    });
    let doubts = doubts.collect();
    Ok((size, tables(&named, &outcomes)?, doubts))
}

/// Bytes of the drive, an outcome of each load, and the loads that kept the processor at work, each with its share of the time.
type Measured = (u64, Vec<Outcome>, Vec<(String, f64)>);

fn measure(world: &mut World, path: &Path, args: &Calibrate) -> Result<Measured, Failure> {
    let set = world.open_each(&[path.to_owned()])?;
    let member = match (set.left_out.first(), set.members.first()) {
        (Some(left_out), _) => return Err(Failure::Refused(left_out.why.clone())),
        (None, member) => member.map(|named| named.id),
    };
    let device = member.and_then(|id| LoneMember::new(&world.io, id, !args.force));
    let targets: Vec<LoneMember> = device.into_iter().collect();
    let size = targets.iter().map(|target| target.limits().size).sum();
    let terms = Terms::new(0, MEMORY);
    let live = Rc::new(Live::default());
    let mut runtime = Duration::from_millis(args.runtime.0);
    loop {
        let (mut outcomes, mut busy) = (Vec::new(), Vec::new());
        for job in probes(args.force, runtime) {
            let meter = Meter::start();
            outcomes.extend(world.io.block_on(run(
                &world.io,
                &targets,
                std::slice::from_ref(&job),
                terms,
                &live,
            ))?);
            let used = meter.stop();
            if used.user + used.system > BUSY {
                busy.push((job.name, used.user + used.system));
            }
        }
        let idle = |outcome: &Outcome| outcome.trouble.is_none() && outcome.ios() == 0;
        if runtime > LONGEST || !outcomes.iter().any(idle) {
            return Ok((size, outcomes, busy));
        }
        // A load without any answer in its time is measured again, longer.
        runtime *= 4;
    }
}

//! `brindle grow`: gives an array something beside its devices or takes it away, running or stopped.

use crate::ask::{Target, ask};
use crate::cli::Grow;
use crate::devices::{change, refuse_both, tell};
use crate::failure::Failure;
use crate::growth::Growth;
use crate::{detail, runtime};

pub(crate) fn grow(args: &Grow) -> Result<(), Failure> {
    let growth = Growth::asked(args)?;
    let members = &args.stopped.members;
    if !members.is_empty() {
        refuse_both(args.array.as_deref())?;
        change(members, |host, array| {
            let given = host.world.io.block_on(growth.give(array));
            given.map_err(|why| Failure::Refused(why.to_string()))
        })?;
        return tell(args.json, &growth.told("the array"), || detail::of(members));
    }
    let folder = runtime::folder(&args.runtime)?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    let answer = ask(&folder, &target.server, &growth.request(target.array))?;
    tell(args.json, &growth.told(answer["name"].as_str().unwrap_or_default()), || Ok(&answer))
}

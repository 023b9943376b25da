//! `brindle grow`: what an array is given or has taken from it beside its devices, running or stopped.

use crate::ask::{Target, ask};
use crate::cli::{Bitmap, Grow};
use crate::control::Request;
use crate::devices::{change, refuse_both, tell};
use crate::failure::Failure;
use crate::{detail, runtime};

pub(crate) fn grow(args: &Grow) -> Result<(), Failure> {
    let internal = args.bitmap == Bitmap::Internal;
    let chunk = args.bitmap_chunk.map(|chunk| chunk.0);
    if !internal && chunk.is_some() {
        return Err(Failure::Usage(
            "--bitmap-chunk says how a bitmap is to be: not with --bitmap none".to_owned(),
        ));
    }
    let text = |array: &str| {
        let done =
            if internal { "has a write-intent bitmap now" } else { "has no write-intent bitmap any more" };
        format!("{array} {done}\n")
    };
    let members = &args.stopped.members;
    if !members.is_empty() {
        refuse_both(args.array.as_deref())?;
        change(members, |host, array| {
            let io = &host.world.io;
            let changed = if internal {
                io.block_on(array.add_bitmap(chunk))
            } else {
                io.block_on(array.remove_bitmap())
            };
            changed.map_err(|why| Failure::Refused(why.to_string()))
        })?;
        return tell(args.json, &text("the array"), || detail::of(members));
    }
    let folder = runtime::folder(&args.runtime)?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    let answer = ask(&folder, &target.server, &Request::Bitmap { internal, chunk, array: target.array })?;
    tell(args.json, &text(answer["name"].as_str().unwrap_or_default()), || Ok(&answer))
}

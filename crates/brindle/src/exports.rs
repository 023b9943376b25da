//! `brindle export`, `unexport` and `disconnect`: who may come to a running array.

use serde_json::Value;

use crate::ask::{Meant, Target, ask};
use crate::cli::{Disconnect, Export, Runtime, Unexport};
use crate::control::Request;
use crate::failure::Failure;
use crate::{report, runtime};

/// Asks for something of an array.
fn asked(
    flags: &Runtime,
    array: &str,
    request: impl FnOnce(Option<String>) -> Request,
) -> Result<Value, Failure> {
    let folder = runtime::folder(flags.folder())?;
    let target = Target::find(&folder, array);
    Meant::of(&folder, &target, Some(array))?;
    let Target { server, array } = target;
    ask(&folder, &server, &request(array))
}

fn tell(json: bool, answer: &Value, words: &str) -> Result<(), Failure> {
    if json { report::print_json(answer) } else { report::print(words) }
}

pub(crate) fn export(args: &Export) -> Result<(), Failure> {
    let limits = args.limits.said();
    let answer = asked(&args.runtime, &args.array, |array| Request::Export { limits, array })?;
    tell(args.json, &answer, &format!("{} is offered to clients\n", args.array))
}

pub(crate) fn unexport(args: &Unexport) -> Result<(), Failure> {
    let answer = asked(&args.runtime, &args.array, |array| Request::Unexport { array })?;
    tell(args.json, &answer, &format!("{} is offered to no client any more; it runs on\n", args.array))
}

pub(crate) fn disconnect(args: &Disconnect) -> Result<(), Failure> {
    let client = args.client.clone();
    let answer = asked(&args.runtime, &args.array, |array| Request::Disconnect { client, array })?;
    let ended = answer["disconnected"].as_u64().unwrap_or(0);
    tell(args.json, &answer, &format!("{}: {ended} connections were ended\n", args.array))
}

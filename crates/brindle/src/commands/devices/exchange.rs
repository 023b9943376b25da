//! Finds the member that `brindle replace` is to replace, the new device, and the array. A user who leaves out
//! `--with` gets the command that was probably meant.

use std::path::PathBuf;

use super::refuse_both;
use crate::base::failure::Failure;
use crate::base::text::shell;
use crate::flags::cli::Replace;

pub(super) struct Exchange<'a> {
    /// `None` for an array that is not served.
    pub(super) array: Option<&'a str>,
    pub(super) old: &'a str,
    pub(super) with: &'a str,
}

impl<'a> Exchange<'a> {
    pub(super) fn asked(args: &'a Replace) -> Result<Self, Failure> {
        let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
        let stopped = &args.stopped.members;
        match (names.as_slice(), args.with.as_deref()) {
            (&[old], Some(with)) => Ok(Self { array: None, old, with }),
            (&[array, old], Some(with)) => {
                refuse_both(Some(array).filter(|_| !stopped.is_empty()))?;
                Ok(Self { array: Some(array), old, with })
            }
            (&[array, old, new], None) if stopped.is_empty() => Err(say(stopped, new, &[array, old])),
            (&[old, new], None) if !stopped.is_empty() => Err(say(stopped, new, &[old])),
            (names, None) => Err(say(stopped, "DEVICE", names)),
            (_, Some(with)) => Err(Failure::Usage(format!(
                "one member is replaced at a time: brindle replace --with {} ARRAY MEMBER",
                shell(with)
            ))),
        }
    }
}

/// The command with the new device behind `--with`.
fn say(stopped: &[PathBuf], with: &str, names: &[&str]) -> Failure {
    let mut command = String::from("brindle replace");
    if !stopped.is_empty() {
        let members = stopped.iter().map(|member| shell(&member.display().to_string()));
        command.push_str(&format!(" --array {}", members.collect::<Vec<_>>().join(" ")));
    }
    command.push_str(&format!(" --with {}", shell(with)));
    names.iter().for_each(|name| command.push_str(&format!(" {}", shell(name))));
    Failure::Usage(format!("the device that takes the member's place stands behind --with: {command}"))
}

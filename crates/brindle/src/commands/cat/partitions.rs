//! Partitions of an array, as they are named: `A+B+C#1` is the first of the array that A, B and C form, and so is `NAME#1 A B C`, of the
//! array of that name.

use std::path::{Path, PathBuf};

use crate::base::failure::Failure;
use crate::devices::host::AssembledArray;
use crate::devices::world::{parts, place};
use crate::flags::cli::Cat;

/// The words of a command line.
pub(super) struct CatWords {
    pub(super) members: Vec<PathBuf>,
    pub(super) partition: Option<u32>,
    /// The name that the array is to have.
    name: Option<String>,
}

impl CatWords {
    /// The members form another array than the one that was named.
    pub(super) fn refuse_other(&self, found: &AssembledArray) -> Result<(), Failure> {
        let own = found.own_name();
        match &self.name {
            Some(name) if *name != own => Err(Failure::Usage(format!(
                "there is no device '{name}', and the members form the array '{own}'"
            ))),
            _ => Ok(()),
        }
    }
}

pub(super) fn of(args: &Cat) -> Result<CatWords, Failure> {
    let whole = CatWords { members: args.members.clone(), partition: args.partition, name: None };
    let Some((name, number)) = args.members.first().and_then(|name| of_array(name)) else { return Ok(whole) };
    let (members, own) = match (parts(Path::new(name)), &args.members[1..]) {
        (Some(members), []) => {
            // The last of them may be meant: a partition of it that is a member.
            if members.last().is_some_and(|last| place::is_member(&place::named(last, number))) {
                return Ok(whole);
            }
            (members, None)
        }
        (None, [_, ..]) => (args.members[1..].to_vec(), Some(name.to_owned())),
        _ => return Ok(whole),
    };
    if args.partition.is_some() {
        return Err(Failure::Usage(format!(
            "{name}#{number} names a partition already: leave out --partition"
        )));
    }
    Ok(CatWords { members, partition: Some(number), name: own })
}

/// Whatever stands before the number of a partition, if that is not a device.
fn of_array(name: &Path) -> Option<(&str, u32)> {
    let (array, number) = name.to_str()?.rsplit_once('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| is_number)?;
    (!name.exists() && !Path::new(array).exists()).then_some((array, number))
}

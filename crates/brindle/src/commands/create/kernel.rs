//! `brindle create /dev/md0 ...`: mdadm's first word is the device under which the kernel shows the array. Here there is none.

use std::path::Path;

use crate::base::failure::Failure;
use crate::base::text::shell;
use crate::flags::cli::Create;

/// Answers with the commands that make the array of the members alone, and show it.
pub(super) fn refuse_kernels(args: &Create) -> Result<(), Failure> {
    let Some(array) = args.members.first().filter(|first| is_kernels(first)) else { return Ok(()) };
    let words = std::env::args_os().skip(1).filter(|word| word != array.as_os_str());
    let words: Vec<String> = words.map(|word| shell(&word.to_string_lossy())).collect();
    let members = args.members[1..].iter().filter(|member| !super::is_missing(member));
    let members: Vec<String> = members.map(|member| shell(&member.display().to_string())).collect();
    Err(Failure::Usage(format!(
        "{array} would be the kernel's device of the array, and is not a member: brindle {words}; then serve it: brindle serve \
         {members}; or have Linux run it: mdadm --assemble {array} {members}",
        array = array.display(),
        words = words.join(" "),
        members = members.join(" "),
    )))
}

/// Whether the path is a name of the kernel's for arrays, such as /dev/md0, and no such array runs. A running one may
/// be a member.
fn is_kernels(path: &Path) -> bool {
    let named = path.strip_prefix("/dev").is_ok_and(|name| name.to_string_lossy().starts_with("md"));
    named && !path.exists()
}

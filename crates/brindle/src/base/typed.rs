//! The command of this process, as it was typed, for histories of pools.

use std::path::Path;

use super::text::shell;

/// The command line, in words that a shell takes. The program stands there by its name alone.
pub(crate) fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name =
        Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    std::iter::once(name).chain(words).map(|word| shell(&word)).collect::<Vec<_>>().join(" ")
}

/// The number of the user who gave it.
pub(crate) fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

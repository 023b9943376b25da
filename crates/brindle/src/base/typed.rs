//! The command of this process, as it was typed, for histories of pools.

use std::path::Path;

use brindle_format::pool::HISTORY_TEXT;

use super::text::shell;

/// Said in the place of the rest of a longer one.
const CUT: &str = "...";

/// The command line, in words that a shell takes; one that is too long for a history is cut, which three dots say. The program stands there by its
/// name alone.
pub(crate) fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name =
        Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    cut(std::iter::once(name).chain(words).map(|word| shell(&word)).collect::<Vec<_>>().join(" "))
}

fn cut(mut line: String) -> String {
    if line.len() > HISTORY_TEXT {
        line.truncate(line.floor_char_boundary(HISTORY_TEXT - CUT.len()));
        line.push_str(CUT);
    }
    line
}

/// The number of the user who gave it.
pub(crate) fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_too_long_is_cut_between_letters_and_says_so() {
        let line = "x".repeat(1024);
        assert_eq!(cut(line.clone()), line);
        assert_eq!(cut(format!("{line}x")), format!("{}...", "x".repeat(1021)));
        let odd = format!("{}\u{20ac}{}", "x".repeat(1019), "y".repeat(9));
        assert_eq!(cut(odd), format!("{}...", "x".repeat(1019)));
    }
}

//! First words of users of mdadm, zpool and other tools, and the command that does it here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other tools, and what is to be said of each.
const WORDS: [(&[&str], &str); 8] = [
    (
        &["import", "start", "run"],
        "arrays are put together whenever they are used: `brindle serve MEMBER...` serves one, `brindle assemble --scan` finds and serves all that \
         are this host's, `brindle detail MEMBER...` only looks",
    ),
    (
        &["mount", "map", "connect"],
        "`brindle serve MEMBER... --background` serves the array, and `brindle attach ARRAY` makes it /dev/nbdN: mount that; or \
         `nbdfuse FILE --unix SOCKET` without root",
    ),
    (
        &["iostat", "top"],
        "`brindle watch` shows running arrays as they change, and `brindle status --test` exits as mdadm does",
    ),
    (
        &["list", "ls"],
        "`brindle status` lists running servers, and `brindle examine DEVICE...` tells what is on devices",
    ),
    (&["scan", "probe"], "`brindle examine DEVICE...` tells what is on devices, md or not"),
    (
        &["scrub"],
        "`brindle check MEMBER...` compares the redundancy of a stopped array, and `brindle action ARRAY check` that of a running one; \
         `repair` in their place makes it true",
    ),
    (
        &["umount", "unmount"],
        "`brindle detach ARRAY` ends its device, and `brindle stop ARRAY` lets go of a running array",
    ),
    (
        &["online", "offline"],
        "`brindle fail ARRAY MEMBER` takes a member out, and `brindle add ARRAY DEVICE` takes it in again",
    ),
];

/// Ends the process over a command line that is none, with an answer to words of other tools.
pub(super) fn end(error: &clap::Error) -> ! {
    let Some(answer) = answer(error) else { error.exit() };
    eprintln!("{answer}");
    std::process::exit(error.exit_code());
}

/// Says which command does what `error` complains that there is none for.
fn answer(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let word = word.to_lowercase();
    let word = word.trim_start_matches('-');
    let (_, answer) = WORDS.iter().find(|(words, _)| words.contains(&word))?;
    Some(format!("brindle: there is no command '{word}': {answer}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn said(word: &str) -> Option<String> {
        answer(&Cli::command().try_get_matches_from(["brindle", word]).unwrap_err())
    }

    #[test]
    fn words_of_other_tools_are_answered_with_a_command_that_is_there() {
        let command = Cli::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(!names.contains(word), "{word} is a command of our own");
            let answer = said(word).unwrap();
            let mut named =
                answer.split('`').skip(1).step_by(2).filter_map(|line| line.strip_prefix("brindle "));
            let first = named.next().unwrap();
            assert!(names.contains(&first.split(' ').next().unwrap()), "{answer}");
            assert!(named.all(|line| names.contains(&line.split(' ').next().unwrap())), "{answer}");
        }
        assert_eq!(said("nonsense"), None);
    }
}

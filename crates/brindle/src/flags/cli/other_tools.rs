//! First words of users of mdadm, zpool and other tools, and the command that does it here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words of other tools, with the answer to each.
const WORDS: [(&[&str], &str); 11] = [
    (
        &["import", "start", "run"],
        "arrays are put together whenever they are used: `brindle serve MEMBER...` serves one, `brindle assemble --scan` finds and serves all that \
         are this host's, `brindle detail MEMBER...` only looks; `brindle pool import` makes a pool this host's",
    ),
    (
        &["map", "connect"],
        "`brindle serve MEMBER... --background` serves the array, and `brindle attach ARRAY` makes it /dev/nbdN; `brindle mount ARRAY FOLDER` \
         shows it as a file, without root, too",
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
        &["unmount"],
        "`brindle umount FOLDER` ends a mount, `brindle detach ARRAY` a device, and `brindle stop ARRAY` lets go of a running array",
    ),
    (
        &["online", "offline"],
        "`brindle pool offline` and `online` do so with a member of a pool; of an array `brindle fail ARRAY MEMBER` takes a member out, and \
         `brindle add ARRAY DEVICE` takes it in again",
    ),
    (
        &["resilver", "rebuild", "recover"],
        "`brindle add ARRAY DEVICE` gives an array a device, on which what is missing is recovered at once; `brindle wait ARRAY` waits for \
         that, `brindle watch` shows it",
    ),
    (
        &["info", "show", "query"],
        "`brindle detail MEMBER...` tells about the array that members form, `brindle status ARRAY` about a running one",
    ),
    (
        &["events", "history"],
        "`brindle monitor --scan` tells of what happens to arrays; what happened to those in the background stands in NAME.log, which \
         `brindle serve --background` named",
    ),
    (&["fio"], "`brindle bench JOBFILE --array MEMBER...` runs fio's job files and options on an array"),
];

/// Words behind `pool` and `volume` that zpool and zfs have, with the answer to each.
const POOL_WORDS: [(&[&str], &str); 5] = [
    (
        &["resilver"],
        "members get what they lack by themselves, and a start goes on with it: `brindle pool status POOL` says how far it is, and `brindle wait POOL` \
         waits for it",
    ),
    (
        &["mount"],
        "`brindle serve MEMBER...` serves a pool, `brindle assemble --scan` finds and serves all that are this host's, and `brindle attach \
         POOL/VOLUME` makes a volume a device of the kernel; `brindle mount POOL/VOLUME FOLDER` shows it as a file",
    ),
    (
        &["unmount", "umount"],
        "`brindle umount FOLDER` ends the mount of a volume, and `brindle stop POOL` lets go of a pool that is served",
    ),
    (
        &["events"],
        "`brindle watch` shows pools as they change, `brindle monitor --scan` tells of what happens to them",
    ),
    (
        &["remove", "upgrade", "reopen", "clear", "snapshot", "rollback"],
        "pools can't do that yet: `brindle pool detach` takes out a copy or a spare, and `brindle pool replace` puts another device in a member's place; a volume can be copied to another pool with \
         `brindle cat POOL/VOLUME MEMBER...`",
    ),
];

/// Modes of mdadm, as its users write them, and the command of each.
const MODES: [(&[&str], &str); 10] = [
    (&["--create", "-C"], "`brindle create --level LEVEL MEMBER...`"),
    (&["--assemble", "-A"], ASSEMBLED),
    (&["--incremental", "-I"], "`brindle incremental DEVICE`"),
    (
        &["--detail", "-D", "--query", "-Q"],
        "`brindle detail MEMBER...` for the array that members form, `brindle status ARRAY` for a running one",
    ),
    (&["--examine", "-E"], "`brindle examine DEVICE...`"),
    (&["--monitor", "--follow", "-F"], "`brindle monitor --scan`"),
    (&["--grow", "-G"], "`brindle grow --bitmap internal ARRAY`; there is no reshape"),
    (&["--stop", "-S"], "`brindle stop ARRAY`"),
    (
        &["--manage", "--fail", "--add", "--re-add", "--remove", "-f", "-a", "-r"],
        "`brindle fail ARRAY MEMBER`, `brindle add ARRAY DEVICE`, `brindle remove ARRAY DEVICE`",
    ),
    (&["--build", "-B"], "`brindle cat --assume ...` reads an array that has no superblocks"),
];

/// Ways to an array that runs.
const ASSEMBLED: &str = "`brindle serve MEMBER...` for the array that members form, `brindle assemble --scan [DEVICE|FOLDER]...` for all that \
                         are found and this host's";

/// Ends the process for a command line that can't be parsed, with an answer to words of other tools.
pub(super) fn end(error: &clap::Error) -> ! {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let Some(answer) = answer(error, &words) else { error.exit() };
    eprintln!("{answer}");
    std::process::exit(error.exit_code());
}

/// Names the command that does here what the user asked for in another tool's words.
fn answer(error: &clap::Error, words: &[String]) -> Option<String> {
    let first = words.first()?;
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
                return None;
            };
            let word = word.to_lowercase();
            let is_of_pools = ["pool", "volume"].contains(&&**first);
            let answers = if is_of_pools { &POOL_WORDS[..] } else { &WORDS[..] };
            let (_, answer) = answers.iter().find(|(words, _)| words.contains(&&*word))?;
            let word = if is_of_pools { format!("{first} {word}") } else { word };
            Some(format!("brindle: there is no command '{word}': {answer}"))
        }
        ErrorKind::UnknownArgument => {
            let flag = first.split('=').next()?;
            let (_, answer) = MODES.iter().find(|(flags, _)| flags.contains(&flag))?;
            Some(format!("brindle: commands are words here, not '{flag}': {answer}"))
        }
        ErrorKind::MissingRequiredArgument if first == "assemble" => {
            Some(format!("brindle: assemble looks for arrays, and wants --scan: {ASSEMBLED}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::flags::cli::Cli;

    fn said(words: &[&str]) -> Option<String> {
        let error = Cli::command().try_get_matches_from(["brindle"].iter().chain(words)).unwrap_err();
        answer(&error, &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    /// Commands that an answer names: there is one at least, and each is there.
    fn named(answer: &str) -> usize {
        let command = Cli::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let quoted = answer.split('`').skip(1).step_by(2);
        let lines: Vec<&str> = quoted.filter_map(|line| line.strip_prefix("brindle ")).collect();
        assert!(lines.iter().all(|line| names.contains(&line.split(' ').next().unwrap())), "{answer}");
        lines.len()
    }

    #[test]
    fn words_of_other_tools_are_answered_with_a_command_that_is_there() {
        let command = Cli::command();
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            assert!(command.find_subcommand(word).is_none(), "{word} is a command of our own");
            assert!(named(&said(&[word]).unwrap()) > 0, "{word}");
        }
        for (first, word) in POOL_WORDS
            .iter()
            .flat_map(|(words, _)| *words)
            .flat_map(|word| [("pool", word), ("volume", word)])
        {
            let answer = said(&[first, word, "tank", "m0"]).unwrap();
            assert!(named(&answer) > 0 && !answer.contains("`brindle add"), "{answer}");
        }
        assert_eq!((said(&["nonsense"]), said(&["pool", "nonsense"])), (None, None));
    }

    #[test]
    fn modes_of_mdadm_are_answered_with_the_command_that_does_it() {
        for mode in MODES.iter().flat_map(|(modes, _)| *modes) {
            for words in [&[*mode][..], &[*mode, "/dev/md0", "a", "b"]] {
                let answer = said(words).unwrap_or_else(|| panic!("{mode} has no answer"));
                assert!(named(&answer) > 0 && answer.contains(mode), "{answer}");
            }
        }
        assert!(said(&["--create=/dev/md0", "a"]).unwrap().contains("`brindle create"));
        assert!(said(&["assemble", "/dev/md0", "a", "b"]).unwrap().contains("`brindle serve MEMBER...`"));
        // A flag that a command of ours does not have is its own error.
        assert_eq!(said(&["detail", "--examine", "a"]), None);
        assert_eq!(said(&["--nonsense"]), None);
    }
}

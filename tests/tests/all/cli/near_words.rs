//! Words that are nearly right are answered with the command that is.

use super::*;

#[test]
fn a_device_of_the_kernels_is_answered_with_the_commands_without_it() {
    let set = Set::sparse(3, 4 * MIB);
    set.unchanged(|| {
        let words = words("create /dev/md4711 --level=5 --raid-devices=3", &set.members);
        let [a, b, c] = [0, 1, 2].map(|n| name(&set.members[n]));
        program::brindle(words).refused(
            2,
            &[
                "/dev/md4711",
                &format!("brindle create --level=5 --raid-devices=3 {a} {b} {c}; "),
                &format!("brindle serve {a} {b} {c}; "),
                &format!("mdadm --assemble /dev/md4711 {a} {b} {c}"),
            ],
        );
    });
}

#[test]
fn a_replacement_without_its_flag_is_answered_with_the_command() {
    let ask = |words: &str| program::brindle(words.split(' '));
    ask("replace data old new").refused(2, &["--with: brindle replace --with new data old"]);
    ask("replace data old").refused(2, &["--with: brindle replace --with DEVICE data old"]);
    ask("replace old new --array a b --json").refused(2, &["brindle replace --array a b --with new old"]);
    ask("replace --with new data old more")
        .refused(2, &["one member", "brindle replace --with new ARRAY MEMBER"]);
}

#[test]
fn drives_that_nobody_described_are_asked_for_by_both_ways_to_do_it() {
    let ask = |words: &str| program::brindle(words.split(' '));
    for words in ["plan --drives 4", "plan --drives 4 --size 2TB", "plan --drives 4 --iops 200"] {
        ask(words).refused(2, &["--drive NAME (", "sata-ssd", "--size and --iops"]);
    }
}

#[test]
fn what_all_commands_take_stands_last_in_their_help() {
    let commands = ["create", "serve", "plan", "fail", "bench", "sweep"].map(Some);
    for command in commands.into_iter().chain([None]) {
        for flag in ["--help", "-h"] {
            let help = program::brindle(command.into_iter().chain([flag])).ok().text();
            let mut flags = help.lines().filter(|line| line.trim_start().starts_with('-'));
            let last = flags.next_back().unwrap_or_default();
            assert!(last.contains("--log"), "{command:?} {flag}: {last}");
        }
    }
}

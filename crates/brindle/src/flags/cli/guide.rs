//! Words of help and man pages beside the flags: the purposes of commands, examples, exit statuses, files.

use clap::{Command, CommandFactory};

use super::Cli;

/// Commands that go together.
struct Group {
    title: &'static str,
    example: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [Group; 7] = [
    Group {
        title: "Arrays",
        example: "brindle create --level 6 --name data /dev/sd[b-g]",
        commands: &["create", "detail", "check", "repair", "advise", "update", "zero-superblock"],
    },
    Group {
        title: "Running servers, and the members of arrays",
        example: "brindle serve /dev/sd[b-g] --nbd unix:data.sock --background",
        commands: &[
            "serve",
            "assemble",
            "daemon",
            "config",
            "reload",
            "incremental",
            "status",
            "watch",
            "console",
            "metrics",
            "monitor",
            "action",
            "wait",
            "scrub",
            "fail",
            "add",
            "replace",
            "remove",
            "flag",
            "grow",
            "attach",
            "detach",
            "mount",
            "umount",
            "export",
            "unexport",
            "disconnect",
            "stop",
        ],
    },
    Group {
        title: "Pools",
        example: "brindle pool create tank raidz2 /dev/sd[a-f]",
        commands: &["pool", "volume"],
    },
    Group {
        title: "Rescue",
        example: "brindle cat -o content.img disk[1-4].img",
        commands: &["examine", "cat"],
    },
    Group {
        title: "Measure and predict",
        example: "brindle simulate --drive nvme --members 4 --level 5 --rw randwrite --bs 4k --iodepth 32",
        commands: &["bench", "calibrate", "simulate", "sweep"],
    },
    Group {
        title: "Choose",
        example: "brindle plan --drives 8 --drive hdd-7200 --size 20TB",
        commands: &["plan", "reliability"],
    },
    Group {
        title: "Brindle itself",
        example: "brindle demo",
        commands: &["demo", "report", "completions", "man", "help"],
    },
];

/// Examples of single commands.
const EXAMPLES: [(&str, &[&str]); 49] = [
    (
        "create",
        &[
            "brindle create --level 6 --name data /dev/sd[b-g]",
            "brindle create -l 10 -p f2 -c 64K m0 m1 m2 m3",
        ],
    ),
    ("examine", &["brindle examine /dev/sd?", "brindle examine --search disk1.img"]),
    ("detail", &["brindle detail disk[1-4].img", "brindle detail --test /dev/sd[b-g]"]),
    ("advise", &["brindle advise /dev/md0"]),
    (
        "cat",
        &[
            "brindle cat -o content.img disk[1-4].img",
            "brindle cat -o data.img disk1.img#3 disk2.img#3 disk4.img#3",
            "brindle cat -o part1.img disk1.img+disk2.img+disk3.img#1",
            "brindle cat --length 1G m0 m1 m2 | sha256sum",
            "brindle cat -o vm1.img tank/vm1 /dev/sd[a-f]",
        ],
    ),
    ("check", &["brindle check m0 m1 m2"]),
    ("repair", &["brindle repair m0 m1 m2", "brindle repair --locate m0 m1 m2 m3"]),
    (
        "serve",
        &[
            "brindle serve m0 m1 m2 --nbd unix:data.sock --background",
            "brindle serve --read-only disk[1-4].img --nbd unix:rescue.sock",
        ],
    ),
    (
        "pool",
        &[
            "brindle pool create tank raidz2 /dev/sd[a-f]",
            "brindle pool status -x",
            "brindle pool list",
            "brindle pool iostat -v tank 5",
            "brindle pool history -il tank",
            "brindle pool export tank",
            "brindle pool import -d /dev/disk/by-id tank",
            "brindle pool scrub --wait tank",
        ],
    ),
    (
        "volume",
        &[
            "brindle volume create tank/vm1 100G",
            "brindle volume create --array /dev/sd[a-f] -- tank/vm1 100G",
            "brindle volume list tank",
        ],
    ),
    ("assemble", &["brindle assemble --scan", "brindle assemble --scan --dry-run /srv/disks"]),
    ("attach", &["brindle attach data", "brindle attach tank/vm1 /dev/nbd3"]),
    ("detach", &["brindle detach data", "brindle detach /dev/nbd3"]),
    (
        "mount",
        &[
            "brindle mount data /mnt/data",
            "brindle mount --write tank/vm1 vm1",
            "brindle mount --members disk[1-4].img -- nas",
        ],
    ),
    ("umount", &["brindle umount /mnt/data"]),
    ("daemon", &["brindle daemon", "brindle daemon --config ./brindle.toml"]),
    ("config", &["brindle config --from-running", "brindle config --check /etc/brindle/brindle.toml"]),
    ("reload", &["brindle reload"]),
    ("incremental", &["brindle incremental /dev/sdb"]),
    ("status", &["brindle status", "brindle status --test data"]),
    ("fail", &["brindle fail data /dev/sdc"]),
    ("add", &["brindle add data /dev/sdh", "brindle add --re-add data missing"]),
    ("replace", &["brindle replace data /dev/sdc --with /dev/sdh"]),
    ("remove", &["brindle remove data failed"]),
    (
        "grow",
        &[
            "brindle grow --size max data",
            "brindle grow --raid-devices 3 --add /dev/sdd data",
            "brindle grow --bitmap internal data",
        ],
    ),
    ("flag", &["brindle flag data /dev/sdc write-mostly"]),
    ("action", &["brindle action data check", "brindle action --max-speed 50M data speed"]),
    ("wait", &["brindle wait data"]),
    ("scrub", &["brindle scrub --window 5h --every 28 data"]),
    ("watch", &["brindle watch", "brindle watch --once data"]),
    ("console", &["brindle console --token", "brindle console --listen 127.0.0.1:8380 --read-only"]),
    (
        "metrics",
        &["brindle metrics", "brindle metrics --textfile /var/lib/prometheus/node-exporter/brindle.prom"],
    ),
    (
        "monitor",
        &[
            "brindle monitor --scan --mail root",
            "brindle monitor --scan --oneshot --test --program /usr/local/sbin/told",
        ],
    ),
    ("export", &["brindle export data"]),
    ("unexport", &["brindle unexport data"]),
    ("disconnect", &["brindle disconnect data", "brindle disconnect data local"]),
    ("stop", &["brindle stop data"]),
    (
        "bench",
        &["brindle bench --rw=randread --bs=4k --iodepth=32 --runtime=10 --time_based --array m0 m1 m2"],
    ),
    ("calibrate", &["brindle calibrate --output model.toml /dev/sdb"]),
    (
        "simulate",
        &[
            "brindle simulate --drive nvme --members 4 --level 5 --rw randwrite --bs 4k --iodepth 32",
            "brindle simulate --drive nvme-tlc --members 8 --level 6 jobs.fio",
        ],
    ),
    (
        "reliability",
        &["brindle reliability --drives 8 --level 6 --class elerath-2007 --repairs 2/12+6 --years 5"],
    ),
    (
        "sweep",
        &[
            "brindle sweep --simulate --drive nvme --level 0,5 --members 4 --rw randread --bs 4k --output report",
        ],
    ),
    ("plan", &["brindle plan --drives 8 --drive hdd-7200 --size 20TB"]),
    (
        "update",
        &[
            "brindle update --update name --name media m0 m1 m2",
            "brindle update --update homehost --homehost nas /dev/sd[b-e]",
        ],
    ),
    ("zero-superblock", &["brindle zero-superblock /dev/sdc", "brindle zero-superblock --dry-run m0 m1"]),
    ("demo", &["brindle demo"]),
    ("report", &["brindle report", "brindle report --serials -o -"]),
    ("completions", &["brindle completions bash"]),
    ("man", &["brindle man man"]),
];

/// Exit statuses that every command may have.
const STATUSES: [(u8, &str); 3] = [
    (0, "done"),
    (1, "it failed; standard error has the reason and the way out"),
    (2, "the command line is wrong"),
];

/// Exit statuses that single commands have beside them.
const MORE_STATUSES: [(&[&str], u8, &str); 7] = [
    (&["check", "wait", "scrub"], 3, "mismatches were found"),
    (&["repair"], 3, "mismatches were left, where the wrong member is not known (--locate)"),
    (
        &["check", "repair", "wait", "scrub"],
        4,
        "members have places that can't be read, and all else agrees; blocks of a pool are lost",
    ),
    (&["cat"], 4, "places of the array or volume can't be read, and are zeroes in the file (--output)"),
    (&["check", "repair", "wait", "scrub"], 5, "not all could be compared, since members are missing"),
    (&["sweep"], 6, "none of the points could be measured or simulated"),
    (&["calibrate"], 7, "a model was made that can't be trusted; the report gives the reason"),
];

/// The status with `--test`.
const TESTED: &str = "With --test it is that of mdadm --detail --test: 0 whole, 1 degraded, 2 unusable, 4 nothing is known; status adds 8 for read errors or wrong \
     blocks that count still, and 16 for lost blocks of a pool.";

const FILES: [(&str, &str); 3] = [
    ("/run/brindle", "control sockets of root's servers, and logs of those in the background"),
    (
        "$XDG_RUNTIME_DIR/brindle",
        "those of other users; without that variable brindle-UID in the folder for temporary files",
    ),
    ("NAME.log", "there: the log of a server that was started with --background"),
];

const ELSEWHERE: [&str; 4] = ["md(4)", "mdadm(8)", "nbd-client(8)", "ddrescue(1)"];

/// All commands and flags, with their help texts.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let examples = examples(&name);
        if !examples.is_empty() {
            let text = format!("Examples:\n  {}", examples.join("\n  "));
            command = command.mut_subcommand(name, |sub| sub.after_long_help(text));
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}",
        groups(&command)
    );
    command.help_template(template)
}

/// The commands by purpose, each with its first line.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for group in &GROUPS {
        text.push_str(&format!("{}:\n", group.title));
        for name in group.commands {
            let about =
                command.find_subcommand(name).and_then(|sub| sub.get_about()).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print this message or the help of a command".to_owned());
            text.push_str(&format!("  {name:<12} {about}\n"));
        }
        text.push_str(&format!("  > {}\n\n", group.example));
    }
    text
}

/// How a command is typed.
pub(crate) fn examples(name: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(of, _)| *of == name).map_or(&[], |(_, lines)| lines)
}

/// The sections of a man page behind the flags, in roff. `name` is a command's, or none for the page of all.
pub(crate) fn sections(name: Option<&str>, command: &Command) -> String {
    let mut roff = String::new();
    let typed: Vec<&str> = match name {
        Some(name) => examples(name).to_vec(),
        None => GROUPS.iter().map(|group| group.example).collect(),
    };
    section(&mut roff, "EXAMPLES");
    for line in typed {
        roff.push_str(&format!(".PP\n.nf\n.RS\n{}\n.RE\n.fi\n", escaped(line)));
    }
    section(&mut roff, "EXIT STATUS");
    let own = MORE_STATUSES.iter().filter(|(of, ..)| name.is_none_or(|name| of.contains(&name)));
    for (status, meaning) in
        STATUSES.iter().copied().chain(own.map(|(_, status, meaning)| (*status, *meaning)))
    {
        item(&mut roff, &status.to_string(), meaning);
    }
    if command.get_arguments().any(|arg| arg.get_long() == Some("test")) {
        roff.push_str(&format!(".PP\n{}\n", escaped(TESTED)));
    }
    section(&mut roff, "FILES");
    FILES.iter().for_each(|(file, what)| item(&mut roff, file, what));
    section(&mut roff, "ENVIRONMENT");
    for arg in command.get_arguments() {
        if let (Some(variable), Some(long)) = (arg.get_env(), arg.get_long()) {
            item(&mut roff, &variable.to_string_lossy(), &format!("the same as --{long}"));
        }
    }
    item(&mut roff, "XDG_RUNTIME_DIR", "folder for the sockets of users other than root");
    section(&mut roff, "SEE ALSO");
    let group = GROUPS.iter().find(|group| name.is_some_and(|name| group.commands.contains(&name)));
    let others = group.map_or(&[][..], |group| group.commands).iter().filter(|other| Some(**other) != name);
    let own = others.filter(|other| **other != "help").map(|other| format!("brindle-{other}(1)"));
    let first = name.map(|_| "brindle(1)".to_owned());
    let all: Vec<String> =
        first.into_iter().chain(own).chain(ELSEWHERE.map(str::to_owned)).map(|page| escaped(&page)).collect();
    roff.push_str(&all.join(",\n"));
    roff.push('\n');
    roff
}

fn section(roff: &mut String, title: &str) {
    roff.push_str(&format!(".SH \"{title}\"\n"));
}

fn item(roff: &mut String, what: &str, meaning: &str) {
    roff.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(what), escaped(meaning)));
}

/// Text that roff prints as it stands.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group_and_has_an_example() {
        let command = Cli::command();
        for sub in command.get_subcommands() {
            let name = sub.get_name();
            assert_eq!(GROUPS.iter().filter(|group| group.commands.contains(&name)).count(), 1, "{name}");
            assert!(!examples(name).is_empty(), "{name}");
        }
        for name in EXAMPLES.iter().map(|(name, _)| name).chain(MORE_STATUSES.iter().flat_map(|(of, ..)| *of))
        {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn examples_are_command_lines() {
        let lines = EXAMPLES.iter().flat_map(|(name, lines)| lines.iter().map(|line| (Some(*name), *line)));
        for (name, line) in lines.chain(GROUPS.iter().map(|group| (None, group.example))) {
            let words: Vec<&str> = line.split(" | ").next().unwrap_or_default().split(' ').collect();
            let parsed = super::command().try_get_matches_from(&words);
            let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(name.is_none() || parsed.subcommand_name() == name, "{line}");
        }
    }

    #[test]
    fn roff_prints_text_as_it_stands() {
        assert_eq!(escaped("a-b\\c"), "a\\-b\\ec");
        assert_eq!(escaped(".x"), "\\&.x");
    }
}

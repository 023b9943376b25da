//! The table of crates in ARCHITECTURE.md says what each crate has of the machine: files, clocks, threads and so on. Its sources name that
//! and nothing else of it.

use std::collections::BTreeSet;
use std::path::Path;

use super::names::{Ban, Rule, check_file, is_test_module};
use crate::Failure;
use crate::report::Offence;
use crate::workspace::{Crate, File, Workspace};

/// The page with the table, and the first line of the table.
pub(super) const PAGE: &str = "ARCHITECTURE.md";
pub(super) const HEAD: &str = "| crate | does | never | has of the machine |";

/// The cell of a crate that may have all of it, and of one that has nothing.
const ALL: &str = "all";
const NOTHING: &str = "nothing";

/// The words of the column, each with the names that it allows.
const WORDS: [Rule; 10] = [
    Rule {
        name: "files",
        bans: &[
            Ban::Path(&["std", "fs"]),
            Ban::Path(&["rustix", "fs"]),
            Ban::Anywhere(&["File", "open"]),
            Ban::Anywhere(&["File", "options"]),
            Ban::Anywhere(&["OpenOptions"]),
            Ban::Crate("tempfile"),
        ],
        way_out: "let the caller open it and hand in the bytes, or ask for it by a trait that the world implements",
    },
    Rule {
        name: "sockets",
        bans: &[Ban::Path(&["std", "net"]), Ban::Path(&["std", "os", "unix", "net"])],
        way_out: "take what is connected, or crate io's SocketId; core::net has addresses",
    },
    Rule {
        name: "polls",
        bans: &[Ban::Path(&["rustix", "event"]), Ban::Path(&["rustix", "io"])],
        way_out: "wait in crate io, by a reactor",
    },
    Rule {
        name: "descriptors",
        bans: &[Ban::Path(&["std", "os", "fd"])],
        way_out: "use crate io's MemberId or SocketId",
    },
    Rule {
        name: "threads",
        bans: &[Ban::Path(&["std", "thread"])],
        way_out: "spawn a task of crate io, or let the caller have the thread",
    },
    Rule {
        name: "clocks",
        bans: &[
            Ban::Path(&["std", "time"]),
            Ban::Path(&["rustix", "time"]),
            Ban::Anywhere(&["Instant", "now"]),
            Ban::Anywhere(&["SystemTime"]),
        ],
        way_out: "let the caller hand in the time, or ask the reactor for it (core::time::Duration is fine)",
    },
    Rule {
        name: "processes",
        bans: &[Ban::Path(&["std", "process"]), Ban::Path(&["rustix", "process"])],
        way_out: "take its number, or its output, as a parameter",
    },
    Rule {
        name: "kernel",
        bans: &[
            Ban::Path(&["rustix", "mm"]),
            Ban::Path(&["rustix", "mount"]),
            Ban::Path(&["rustix", "net"]),
            Ban::Path(&["rustix", "param"]),
            Ban::Path(&["rustix", "pipe"]),
            Ban::Path(&["rustix", "stdio"]),
            Ban::Path(&["rustix", "system"]),
            Ban::Path(&["rustix", "termios"]),
            Ban::Path(&["rustix", "thread"]),
            Ban::Path(&["std", "os", "linux"]),
            Ban::Path(&["std", "os", "unix", "fs"]),
            Ban::Path(&["std", "os", "unix", "process"]),
            Ban::Crate("io_uring"),
            Ban::Crate("libc"),
            Ban::Crate("nix"),
        ],
        way_out: "crate io talks to the kernel, and the world that brindle gives to host (Devices, Attacher)",
    },
    Rule {
        name: "chance",
        bans: &[
            Ban::Anywhere(&["new_v4"]),
            Ban::Crate("fastrand"),
            Ban::Crate("getrandom"),
            Ban::Crate("rand"),
        ],
        way_out: "take the number, or a seed, as a parameter",
    },
    Rule {
        name: "environment",
        bans: &[
            Ban::Path(&["std", "env"]),
            Ban::Path(&["env", "var"]),
            Ban::Path(&["env", "args"]),
            Ban::Crate("clap"),
        ],
        way_out: "only crate brindle reads flags and environment; take the value as a parameter",
    },
];

/// Checks each crate of the product against its row. A workspace without the table has nothing to check.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let Some(page) = workspace.files.iter().find(|file| file.path == Path::new(PAGE)) else {
        return Ok(Vec::new());
    };
    let mut offences = Vec::new();
    for (line, name, words) in rows(&page.text) {
        let dir = format!("crates/{name}");
        let of = workspace.crates.iter().find(|of| of.dir == Path::new(&dir));
        if let Some(of) = of.filter(|_| words != BTreeSet::from([ALL])) {
            offences.extend(check_crate(workspace, of, line, &words)?);
        }
    }
    Ok(offences)
}

fn check_crate(
    workspace: &Workspace,
    of: &Crate,
    line: usize,
    words: &BTreeSet<&str>,
) -> Result<Vec<Offence>, Failure> {
    let on_page = |what: String, way_out: &str| Offence {
        file: PAGE.into(),
        line,
        rule: "machine",
        what,
        way_out: way_out.to_owned(),
    };
    let mut offences = Vec::new();
    let is_known = |word: &&str| *word == NOTHING || WORDS.iter().any(|rule| rule.name == *word);
    for word in words.iter().copied().filter(|word| !is_known(word)) {
        let known = WORDS.iter().map(|rule| rule.name).collect::<Vec<_>>().join(", ");
        offences.push(on_page(
            format!("`{word}` is no word of the column"),
            &format!("it has {known}, {NOTHING}, {ALL}"),
        ));
    }
    let src = of.dir.join("src");
    let is_own = |file: &&File| {
        let inside = file.path.strip_prefix(&src).ok();
        file.is_rust() && inside.is_some_and(|path| !is_test_module(path))
    };
    let rules: Vec<&Rule> = WORDS.iter().collect();
    let mut used: Vec<Offence> = Vec::new();
    for file in workspace.files.iter().filter(is_own) {
        used.extend(check_file(file, &rules)?);
    }
    for rule in rules.iter().filter(|rule| words.contains(rule.name)) {
        if used.iter().all(|found| found.rule != rule.name) {
            let what = format!("{} does not use {}", of.name, rule.name);
            offences.push(on_page(what, "take the word out of its row"));
        }
    }
    offences.extend(used.into_iter().filter(|found| !words.contains(found.rule)));
    Ok(offences)
}

/// The rows of the table: line, name of the crate, words of the last column.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str, BTreeSet<&str>)> {
    let lines = (1..).zip(text.lines()).skip_while(|(_, line)| *line != HEAD).skip(2);
    lines.take_while(|(_, line)| line.starts_with('|')).filter_map(|(number, line)| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        let cell = line.trim_end().strip_suffix('|')?.rsplit('|').next()?;
        Some((number, name, cell.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    fn reported(row: &str, path: &str, source: &str) -> Vec<(&'static str, String)> {
        let page = format!("{HEAD}\n|---|---|---|---|\n{row}\n");
        let offences = check(&with_files(&[(PAGE, &page), (path, source)])).expect("Rust");
        offences.into_iter().map(|offence| (offence.rule, offence.what)).collect()
    }

    fn rules(row: &str, path: &str, source: &str) -> Vec<&'static str> {
        reported(row, path, source).into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn a_crate_has_what_its_row_says_and_nothing_else() {
        for (source, word) in [
            ("use std::fs::File;", "files"),
            ("fn f() { rustix::fs::open(); }", "files"),
            ("use std::{net::TcpStream};", "sockets"),
            ("use std::os::unix::net::UnixStream;", "sockets"),
            ("use std::os::fd::OwnedFd;", "descriptors"),
            ("fn f() { std::thread::yield_now() }", "threads"),
            ("fn f() { let t = Instant::now(); }", "clocks"),
            ("type T = std::time::SystemTime;", "clocks"),
            ("use rustix::net::netlink;", "kernel"),
            ("fn f() -> u8 { rand::random() }", "chance"),
            ("fn f() { std::env::var(\"X\"); }", "environment"),
        ] {
            for name in ["host", "lab", "array", "layout"] {
                let path = format!("crates/{name}/src/a/b.rs");
                let found = rules(&format!("| `{name}` | a | b | nothing |"), &path, source);
                assert!(found.iter().all(|rule| *rule == word) && !found.is_empty(), "{source}: {found:?}");
                assert_eq!(
                    rules(&format!("| `{name}` | a | b | {word} |"), &path, source),
                    [""; 0],
                    "{source}"
                );
            }
            assert_eq!(rules("| `host` | a | b | all |", "crates/host/src/lib.rs", source), [""; 0]);
        }
    }

    #[test]
    fn tests_have_what_they_like() {
        for path in ["crates/host/tests/host.rs", "crates/host/src/tests/mod.rs"] {
            assert_eq!(rules("| `host` | a | b | nothing |", path, "use std::fs;"), [""; 0]);
        }
    }

    #[test]
    fn a_row_that_says_too_much_is_reported() {
        let found =
            reported("| `host` | a | b | files, clocks, rain |", "crates/host/src/lib.rs", "use std::fs;");
        let what: Vec<&str> = found.iter().map(|(_, what)| &**what).collect();
        assert_eq!(what, ["`rain` is no word of the column", "brindle-host does not use clocks"]);
    }
}

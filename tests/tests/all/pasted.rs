//! Commands in the documents are typed: each block runs as it is pasted, in an empty folder.
//!
//! The word behind a block's fence says what it is. `sh` runs as it stands; a `text` block right below shows lines of what it prints.
//! `sh container` does, too, beside disks of Intel's: the module `kept_containers` makes these.
//! `sh placeholders` has names to fill in, `sh destroys` loses what stands on what it names, `sh checkout` is for a clone of this
//! repository: of these the words are held against what there is. `sh server` is for a machine of one's own: the module `server`
//! types these in a guest. `toml settings` is a file of settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Ran};
use brindle_tests::tools::{self, or_skip};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

struct Block {
    /// File and line, for messages.
    place: String,
    kind: String,
    text: String,
    /// Lines of what it prints.
    shown: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README.md and docs/*.md.
fn documents() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    all.sort();
    all.insert(0, root().join("README.md"));
    all
}

/// All blocks between fences, of all documents.
fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().display().to_string();
        let mut lines = text.lines().enumerate();
        let mut right_below = false;
        while let Some((number, line)) = lines.next() {
            let Some(kind) = line.strip_prefix("```") else {
                right_below = false;
                continue;
            };
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            match blocks.last_mut().filter(|above| right_below && kind == "text" && above.kind == "sh") {
                Some(above) => above.shown = body.iter().map(|line| (*line).to_owned()).collect(),
                None => blocks.push(Block {
                    place: format!("{name}:{}", number + 1),
                    kind: kind.to_owned(),
                    text: body.join("\n"),
                    shown: Vec::new(),
                }),
            }
            right_below = true;
        }
    }
    blocks
}

/// The texts of all blocks of a document that are of this kind.
pub(crate) fn blocks_of(document: &str, kind: &str) -> Vec<String> {
    let place = format!("{document}:");
    let meant = |block: &Block| block.place.starts_with(&place) && block.kind == kind;
    blocks().into_iter().filter(meant).map(|block| block.text).collect()
}

/// Where a block runs: an empty folder, and a runtime folder of its own. Servers that it leaves are ended.
pub(crate) struct Folder {
    empty: TempDir,
    runtime: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { empty: tempfile::tempdir().unwrap(), runtime: tempfile::tempdir().unwrap() }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let folder = program::path().parent().expect("a folder").display();
        command.current_dir(self.empty.path()).env("XDG_RUNTIME_DIR", self.runtime.path());
        command.env("PATH", format!("{folder}:/usr/bin:/bin:/usr/sbin:/sbin"));
        command.env_remove("BRINDLE_RUNTIME_DIR").env_remove("BRINDLE_LOG");
        command
    }

    pub(crate) fn path(&self) -> &Path {
        self.empty.path()
    }

    /// Types it into a shell, which ends at the first command that fails.
    pub(crate) fn paste(&self, text: &str) -> Ran {
        let mut shell = self.command("sh");
        shell.args(["-e", "-c", text]);
        Ran::of(shell)
    }

    /// Processes that serve.
    pub(crate) fn servers(&self) -> Vec<Value> {
        let mut status = self.command(program::path());
        status.args(["status", "--json"]);
        let reported = Ran::of(status).report();
        reported.as_array().unwrap().iter().map(|report| report["pid"].clone()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for pid in self.servers() {
            let pid = pid.as_i64().and_then(|pid| Pid::from_raw(pid as i32));
            pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
        }
    }
}

/// Other people's programs that blocks call.
const OTHERS: [&str; 7] = ["nbdcopy", "nbdinfo", "nbdkit", "nbdsh", "qemu-img", "qemu-io", "sfdisk"];

#[test]
fn every_block_of_the_documents_runs_as_it_is_pasted() {
    let blocks: Vec<Block> = blocks().into_iter().filter(|block| block.kind == "sh").collect();
    let of_the_readme = blocks.iter().filter(|block| block.place.starts_with("README.md:")).count();
    assert!(of_the_readme >= 5, "{of_the_readme} blocks of the README");
    for Block { place, text, shown, .. } in blocks {
        for sign in ["/dev/sd", "sdX", "...", "$ ", "--destroy"] {
            assert!(!text.contains(sign), "{place}: '{sign}' does not belong into a block that is pasted");
        }
        let lacks = |name: &&str| text.contains(*name) && or_skip(tools::find(name)).is_none();
        if OTHERS.iter().any(lacks) {
            continue;
        }
        let folder = Folder::new();
        let ran = folder.paste(&text);
        assert_eq!(ran.code, 0, "{place}\n{}{}", ran.text(), ran.err);
        assert_eq!(folder.servers(), Vec::<Value>::new(), "{place} leaves a server behind");
        let said = ran.text();
        for line in shown.iter().filter(|line| *line != "...") {
            assert!(said.lines().any(|own| own.trim_end() == line), "{place}: '{line}' is not in\n{said}");
        }
        let advised: Vec<&str> =
            shown.iter().map(|line| line.trim()).filter(|line| line.starts_with("brindle ")).collect();
        if !advised.is_empty() {
            (1..=12).for_each(|n| files::sparse(&folder.empty.path().join(format!("drive{n}")), 64 * MIB));
            folder.paste(&advised.join("\n")).ended(0);
        }
    }
}

#[test]
fn the_readme_lists_the_commands_that_help_lists() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let rows = readme.lines().skip_while(|line| *line != "| command | |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).filter_map(|row| row.split('|').nth(1));
    let words = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let mut listed: Vec<&str> = words.map(|word| word.strip_prefix("brindle ").unwrap_or(word)).collect();
    let help = program::brindle(["--help"]).ok().text();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
    let lines = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    let mut known: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    listed.sort_unstable();
    known.sort_unstable();
    assert!(known.len() > 20, "{help}");
    assert_eq!(listed, known);
}

/// The commands of a block: of each the words of `brindle` up to a pipe, a redirection or a remark.
fn commands(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let ends = |word: &&str| !["|", ">", "#", "&&", "&"].contains(word);
    text.lines().map(move |line| line.split_whitespace().take_while(ends).collect())
}

#[test]
fn blocks_that_are_not_pasted_say_what_there_is() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    for Block { place, kind, text, .. } in blocks() {
        match kind.as_str() {
            "sh" | "sh container" => continue,
            "sh placeholders" | "sh destroys" | "sh checkout" | "sh server" => {}
            "toml settings" => {
                let file = tempfile::NamedTempFile::new().unwrap();
                std::fs::write(&file, &text).unwrap();
                let checked = program::brindle(["config".as_ref(), "--check".as_ref(), file.path()]);
                assert_eq!(checked.code, 0, "{place}: {}", checked.err);
                continue;
            }
            other => {
                let typed = |line: &str| line.starts_with("$ ") || line.starts_with("brindle ");
                assert!(!text.lines().any(typed), "{place}: commands in a block of kind '{other}'");
                continue;
            }
        }
        let destroys = text.contains("--destroy") || text.contains("--force ");
        assert_eq!(kind == "sh destroys", destroys, "{place}: what destroys stands in blocks of its own");
        for words in commands(&text) {
            match *words.as_slice() {
                ["make", target, ref variables @ ..] => {
                    assert!(makefile.contains(&format!("\n{target}:")), "{place}: {target}");
                    for variable in variables.iter().map(|word| word.split('=').next().unwrap()) {
                        assert!(makefile.contains(&format!("$({variable})")), "{place}: {variable}");
                    }
                }
                ["cargo", "install", "--path", path] => {
                    assert!(root().join(path).join("src/main.rs").exists(), "{place}: {path}");
                }
                ["brindle", command, ref rest @ ..] => knows(&place, command, rest),
                // The guest knows the rest.
                _ if kind == "sh server" => {}
                // A name to fill in.
                [name, ..] if name.contains('=') => {}
                _ => panic!("{place}: nobody knows {words:?}"),
            }
        }
    }
}

/// Each flag is one of the command; those of `bench` may be fio's.
fn knows(place: &str, command: &str, words: &[&str]) {
    let help = program::brindle([command, "--help"]).ok().text();
    let flags =
        words.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap());
    for flag in flags.filter(|_| command != "bench") {
        let is_known = [" ", "\n", "["].iter().any(|end| help.contains(&format!("{flag}{end}")));
        assert!(is_known, "{place}: {flag}");
    }
}

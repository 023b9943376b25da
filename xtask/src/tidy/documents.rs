//! Tables of ARCHITECTURE.md name the crates, their ranks and the reactors that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::dependencies::{self, TESTKIT};
use super::machine::{self, PAGE};
use crate::report::Offence;
use crate::workspace::{Crate, Workspace};

/// The first line of the table of reactors.
const REACTORS: &str = "| reactor | members | time | purpose |";

/// Checks the tables of the page; a workspace without it has nothing to check.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    let Some(page) = workspace.files.iter().find(|file| file.path == Path::new(PAGE)) else {
        return Vec::new();
    };
    let mut offences = Vec::new();
    let mut differ = |line: usize, what: &str, reported: &BTreeSet<String>, there: &BTreeSet<String>| {
        let word =
            |names: Vec<&String>| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        if reported != there {
            let (lacks, extra) =
                (word(there.difference(reported).collect()), word(reported.difference(there).collect()));
            offences.push(Offence {
                file: PAGE.into(),
                line,
                rule: "documents",
                what: format!("the {what} lacks [{lacks}] and names [{extra}], which the code does not have"),
                way_out: "bring it up to date".to_owned(),
            });
        }
    };
    let crates = workspace.crates.iter().map(|of| name(of).to_owned()).collect();
    let (line, reported) = first_column(&page.text, machine::HEAD);
    differ(line, "table of crates", &reported, &crates);
    let (line, reported) = first_column(&page.text, REACTORS);
    differ(line, "table of reactors", &reported, &reactors(workspace));
    let (line, reported) = documented_ranks(&page.text);
    differ(line, "line of ranks", &reported, &ranks(workspace));
    offences
}

/// The name of a crate on the page: its folder.
fn name(of: &Crate) -> &str {
    let dir = of.dir.to_str().unwrap_or_default();
    dir.strip_prefix("crates/").unwrap_or(dir)
}

/// The modules of `io` that implement a reactor, as `io::sim`.
fn reactors(workspace: &Workspace) -> BTreeSet<String> {
    let module = |path: &Path| {
        let inside = path.strip_prefix("crates/io/src").ok()?.components().next()?;
        let name = inside.as_os_str().to_str()?;
        Some(format!("io::{}", name.strip_suffix(".rs").unwrap_or(name)))
    };
    let is_one = |text: &str| text.lines().any(|line| line.starts_with("unsafe impl Reactor for "));
    workspace.files.iter().filter(|file| is_one(&file.text)).filter_map(|file| module(&file.path)).collect()
}

/// The crates of the product, each with the number of ranks below it: `array 3`.
fn ranks(workspace: &Workspace) -> BTreeSet<String> {
    let mut by_rank: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for of in workspace.crates.iter().filter(|of| of.dir.starts_with("crates") && of.name != TESTKIT) {
        if let Some(rank) = dependencies::rank(&of.name) {
            by_rank.entry(rank).or_default().push(name(of));
        }
    }
    let all =
        (0..).zip(by_rank.values()).flat_map(|(rank, names)| names.iter().map(move |name| (name, rank)));
    all.map(|(name, rank): (&&str, u32)| format!("{name} {rank}")).collect()
}

/// The ranks as the page has them: a line such as `    brindle > array > io, layout`, highest first.
fn documented_ranks(text: &str) -> (usize, BTreeSet<String>) {
    let mut lines = (1..).zip(text.lines());
    let is_it = |line: &str| line.starts_with("    brindle") && line.contains(" > ");
    let Some((number, line)) = lines.find(|(_, line)| is_it(line)) else {
        return (0, BTreeSet::new());
    };
    let groups: Vec<&str> = line.trim().rsplit(" > ").collect();
    let named = (0..).zip(groups).flat_map(|(rank, group)| group.split(", ").map(move |name| (name, rank)));
    (number, named.map(|(name, rank): (&str, u32)| format!("{name} {rank}")).collect())
}

/// The line of a table's head, and the words in backticks at the beginning of its rows.
fn first_column(text: &str, head: &str) -> (usize, BTreeSet<String>) {
    let lines = || (1..).zip(text.lines()).skip_while(|(_, line)| *line != head);
    let rows = lines().skip(2).map(|(_, line)| line).take_while(|line| line.starts_with('|'));
    let names = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    (lines().next().map_or(0, |(number, _)| number), names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    const SOUND: &str = "    brindle > array > io, layout\n\n| crate | does | never | has of the machine |\n|---|---|---|---|\n| `array` | a | b | c |\n\
                         | `brindle` | | | |\n| `io` | | | |\n| `layout` | | | |\n\n\
                         | reactor | members | time | purpose |\n|---|---|---|---|\n| `io::sim` | | | |\n";

    fn offences(page: &str) -> Vec<String> {
        let reactor = ("crates/io/src/sim/mod.rs", "unsafe impl Reactor for Sim {\n}\n");
        let others =
            ["array", "brindle", "layout"].map(|name| (format!("crates/{name}/src/lib.rs"), "// a\n"));
        let mut files = vec![(PAGE, page), reactor];
        files.extend(others.iter().map(|(path, text)| (path.as_str(), *text)));
        check(&with_files(&files)).into_iter().map(|offence| offence.what).collect()
    }

    #[test]
    fn a_page_that_names_all_passes() {
        assert_eq!(offences(SOUND), [""; 0]);
    }

    #[test]
    fn a_crate_or_reactor_that_the_page_lacks_is_reported() {
        for (row, lacks) in [("| `io` | | | |\n", "[io] and"), ("| `io::sim` | | | |\n", "[io::sim] and")] {
            let reported = offences(&SOUND.replace(row, ""));
            assert!(reported.len() == 1 && reported[0].contains(lacks), "{reported:?}");
        }
    }

    #[test]
    fn a_crate_that_is_gone_or_stands_at_another_rank_is_reported() {
        let gone = offences(&SOUND.replace("| `io` |", "| `io` | | | |\n| `gone` |"));
        assert!(gone.len() == 1 && gone[0].contains("names [gone]"), "{gone:?}");
        let moved = offences(&SOUND.replace("array > io, layout", "array, io > layout"));
        assert!(moved.len() == 1 && moved[0].contains("lacks [io 0] and names [io 1]"), "{moved:?}");
    }
}

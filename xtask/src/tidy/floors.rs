//! Arrows between the modules of a crate point down only, and nothing goes round.
//!
//! Arrows are what `use` and paths name. A module stands on what it uses: its floor follows, as long as no arrow leads back to where
//! another came from. A table is only there for folders, whose order says which way new arrows may point, and for folders whose parts
//! stand apart. A module's own head (`mod.rs`) and its files are one: who implements a part of a type may name it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::names::is_test_module;
use super::tokens;
use crate::Failure;
use crate::report::Offence;
use crate::workspace::{File, Workspace};

/// Where the sources of a crate are, and its folders from the ground up. The longest name counts; a part of a folder may stand apart.
type Building = (&'static str, Floors);
type Floors = &'static [&'static [&'static str]];

const BUILDINGS: [Building; 12] = [
    (PROGRAM, &[&["base"], &["devices"], &["flags"], &["client"], &["server"], &["commands"], &["lab"]]),
    ("crates/array/src", ARRAY),
    ("crates/export/src", EXPORT),
    ("crates/format/src", &[&["pool"], &["md"], &["signature"]]),
    (
        "crates/host/src",
        &[&["attach"], &["control", "opening", "status"], &["doors", "metrics"], &["content"]],
    ),
    (
        "crates/io/src",
        &[&["device", "table", "threads"], &["memory", "uring"], &["exec"], &["sim"], &["emulated"]],
    ),
    ("crates/lab/src", LAB),
    (
        "crates/md/src",
        &[&["assembly"], &["bitmap"], &["create"], &["ledger", "update"], &["bitmap::superblocks"]],
    ),
    ("crates/members/src", &[&["lock", "process"], &["members"], &["set"], &["door"]]),
    ("crates/planner/src", &[&["reliability"], &["advice"]]),
    ("crates/pool/src", POOL),
    ("crates/testkit/src", TESTKIT),
];

/// The program: each of its files stands in a folder that has a floor.
const PROGRAM: &str = "crates/brindle/src";

const ARRAY: Floors = &[
    &["ledger::limit", "no_space::ranges"],
    &["bitmap"],
    &["bitmap::error"],
    &["ledger"],
    &["keeper"],
    &["bitmap::record", "no_space::record", "recovery::record"],
    &["data", "no_space::settle"],
    &["data::mirrored", "data::parity", "data::striped"],
    &["bitmap::clear", "no_space", "recovery::guided", "sweep"],
    &["recovery::copy", "recovery::rebuild"],
    &["recovery"],
    &["bitmap::change"],
];

const EXPORT: Floors = &[
    &["session"],
    &["scsi"],
    &["iscsi::pdu"],
    // Commands that wait: the task of a connection, and the nexus that a later connection goes on with.
    &["iscsi::connection::task"],
    &["fuse", "iscsi", "nbd"],
];

const LAB: Floors = &[
    &["job", "measure", "page"],
    &["load", "sweep"],
    &["trace"],
    &["run"],
    &["drive", "report", "suite"],
    &["predict"],
    &["points"],
];

const POOL: Floors = &[
    &["store", "opening::labels", "opening::whose"],
    &["opening::look"],
    &["log::queue"],
    // State that `core::Core` holds, whose methods are in the folders above, and `opening::create`, whose capacity a status tells.
    &[
        "log::refusals",
        "log::state",
        "opening::create",
        "record::label",
        "record::state",
        "upkeep::checkpoints",
        "upkeep::cleaner",
        "upkeep::resilvering",
        "upkeep::scrubs",
    ],
    &["log::crew"],
    &["log"],
    &["upkeep", "record"],
    // Orders to a running pool, which its handle passes on.
    &["opening::returned"],
    &["opening"],
];

const TESTKIT: Floors = &[
    &["certificates", "guard", "pair"],
    &["oracle"],
    &["conformance"],
    &["storm"],
    &["hosts", "pools"],
    &["bin"],
];

/// Checks that no arrow between folders points up or sideways, and that none goes round.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for root in roots(workspace) {
        let floors = BUILDINGS.iter().find(|(other, _)| *other == root).map_or(&[][..], |(_, floors)| floors);
        offences.extend(check_crate(workspace, &root, floors)?);
    }
    Ok(offences)
}

/// The folders of sources of all crates.
fn roots(workspace: &Workspace) -> BTreeSet<String> {
    let is_root = |path: &&Path| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let paths = workspace.files.iter().map(|file| file.path.as_path()).filter(is_root);
    paths.filter_map(|path| Some(path.parent()?.to_str()?.to_owned())).collect()
}

/// One module that names another, and where.
struct Arrow<'a> {
    file: &'a File,
    line: usize,
    from: String,
    to: String,
}

fn check_crate(workspace: &Workspace, root: &str, floors: &[&[&str]]) -> Result<Vec<Offence>, Failure> {
    let sources: Vec<(String, &File)> =
        workspace.files.iter().filter_map(|file| Some((module(file, root)?, file))).collect();
    let modules: BTreeSet<&str> = sources.iter().map(|(module, _)| module.as_str()).collect();
    let mut offences = Vec::new();
    let mut between = Vec::new();
    for (from, file) in &sources {
        let floor = entry(floors, from);
        if floor.is_none() && root == PROGRAM {
            offences.push(homeless(file, from));
        }
        for arrow in arrows(file, from, &modules)? {
            match (floor, entry(floors, &arrow.to)) {
                (Some((own, floor)), Some((other, above))) if own != other && above >= floor => {
                    offences.push(not_down(&arrow, above > floor));
                }
                _ => between.extend(parted(floors, &arrow)),
            }
        }
    }
    offences.extend(circles(&between).into_iter().map(round));
    Ok(offences)
}

/// The arrow between what stands side by side: two entries of the table or modules of the crate, else two modules of one folder.
/// There is none from a head to its own files.
fn parted<'a>(floors: &[&[&str]], arrow: &Arrow<'a>) -> Option<Arrow<'a>> {
    let room = |module: &str| {
        let named = entry(floors, module).map(|(name, _)| name.to_owned());
        named.unwrap_or_else(|| module.split("::").next().unwrap_or_default().to_owned())
    };
    let (from, to) = (room(&arrow.from), room(&arrow.to));
    if from != to {
        return Some(Arrow { from, to, file: arrow.file, line: arrow.line });
    }
    let (from, to): (Vec<_>, Vec<_>) = (arrow.from.split("::").collect(), arrow.to.split("::").collect());
    let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let (from, to) = (from.get(..=shared)?.join("::"), to.get(..=shared)?.join("::"));
    Some(Arrow { from, to, file: arrow.file, line: arrow.line })
}

/// The module that a file is; none for the root, for tests, and for what is no part of the crate.
fn module(file: &File, root: &str) -> Option<String> {
    let path = file.path.strip_prefix(root).ok().filter(|path| file.is_rust() && !is_test_module(path))?;
    let is_head = path.file_name().is_some_and(|name| name == "mod.rs");
    let path = if is_head { path.parent()?.to_path_buf() } else { path.with_extension("") };
    let is_root = path == Path::new("lib") || path == Path::new("main");
    let names: Vec<_> = path.iter().filter_map(|name| name.to_str()).collect();
    (!is_root).then(|| names.join("::"))
}

/// The entry of the table that a module belongs to, and its floor.
fn entry<'a>(floors: &[&[&'a str]], module: &str) -> Option<(&'a str, usize)> {
    let named =
        floors.iter().enumerate().flat_map(|(floor, names)| names.iter().map(move |name| (*name, floor)));
    named.filter(|(name, _)| is_in(module, name)).max_by_key(|(name, _)| name.len())
}

/// A module is another, or inside it.
fn is_in(module: &str, other: &str) -> bool {
    let is_within = |rest: &str| rest.is_empty() || rest.starts_with("::");
    other.is_empty() || module.strip_prefix(other).is_some_and(is_within)
}

/// The other modules of its crate that a file names, but for the heads of those that it is in.
fn arrows<'a>(file: &'a File, from: &str, modules: &BTreeSet<&str>) -> Result<Vec<Arrow<'a>>, Failure> {
    let named = tokens::names(tokens::parse(file)?);
    let arrow = |name: tokens::Name| {
        let to = resolve(from, &name.segments, modules)?;
        (!is_in(from, &to)).then(|| Arrow { file, line: name.line, from: from.to_owned(), to })
    };
    Ok(named.into_iter().filter_map(arrow).collect())
}

/// The module that a path leads to, if it is one of this crate.
fn resolve(from: &str, segments: &[String], modules: &BTreeSet<&str>) -> Option<String> {
    let mut at: Vec<&str> = from.split("::").collect();
    let mut rest = segments.iter().map(String::as_str).peekable();
    match rest.peek().copied()? {
        "crate" => {
            at.clear();
            rest.next();
        }
        "super" => {
            while rest.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        // A child of this module; a name alone is a declaration, or means something else.
        child if segments.len() > 1 && modules.contains(format!("{from}::{child}").as_str()) => {}
        _ => return None,
    }
    for segment in rest {
        at.push(segment);
        if !modules.contains(at.join("::").as_str()) {
            at.pop();
            break;
        }
    }
    Some(at.join("::")).filter(|to| !to.is_empty())
}

/// The arrows of the shortest circles. One arrow too many closes many, and the long ones are gone with it.
fn circles<'a, 'b>(arrows: &'b [Arrow<'a>]) -> Vec<&'b Arrow<'a>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        next.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    let lengths: Vec<_> = arrows.iter().map(|arrow| way(&arrow.to, &arrow.from, &next)).collect();
    let Some(shortest) = lengths.iter().flatten().min() else { return Vec::new() };
    let found = arrows.iter().zip(&lengths).filter(|(_, length)| length.as_ref() == Some(shortest));
    found.map(|(arrow, _)| arrow).collect()
}

/// The number of arrows that lead from one module to another, by the shortest way.
fn way(from: &str, to: &str, next: &BTreeMap<&str, BTreeSet<&str>>) -> Option<usize> {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    let mut length = 0;
    while !open.is_empty() {
        if open.contains(&to) {
            return Some(length);
        }
        let further = open.iter().filter_map(|module| next.get(module)).flatten().copied();
        open = further.filter(|module| seen.insert(module)).collect();
        length += 1;
    }
    None
}

fn homeless(file: &File, module: &str) -> Offence {
    Offence {
        file: file.path.clone(),
        line: 0,
        rule: "floor",
        what: format!("module {module} has no floor"),
        way_out: "move it into the lowest folder that stands above all that it uses".to_owned(),
    }
}

fn not_down(arrow: &Arrow<'_>, up: bool) -> Offence {
    let stands = if up { "above it" } else { "beside it" };
    Offence {
        file: arrow.file.path.clone(),
        line: arrow.line,
        rule: "floor",
        what: format!("{} uses {}, which stands {stands}", arrow.from, arrow.to),
        way_out:
            "move what is shared down, or let the module above hand it in (floors: xtask/src/tidy/floors.rs)"
                .to_owned(),
    }
}

fn round(arrow: &Arrow<'_>) -> Offence {
    Offence {
        file: arrow.file.path.clone(),
        line: arrow.line,
        rule: "circle",
        what: format!("{} uses {}, which leads back to it", arrow.from, arrow.to),
        way_out: "move what both use to a file of its own".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    const FLOORS: &[&[&str]] = &[&["ground", "cellar"], &["hall", "hall::stair"], &["roof"]];

    fn offences(files: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let found = check_crate(&with_files(files), "crates/array/src", FLOORS).expect("Rust");
        found.into_iter().map(|offence| (offence.rule, offence.what)).collect()
    }

    /// The findings for this text as module `hall`, or as its file `door`, where the other modules are empty.
    fn found(path: &str, text: &str) -> Vec<(&'static str, String)> {
        let full = format!("crates/array/src/{path}");
        let others = ["ground.rs", "cellar.rs", "roof.rs", "hall/mod.rs", "hall/door.rs", "hall/stair.rs"];
        let others: Vec<String> = others.iter().map(|other| format!("crates/array/src/{other}")).collect();
        let mut files: Vec<(&str, &str)> = vec![(&full, text)];
        files.extend(others.iter().filter(|other| **other != full).map(|other| (other.as_str(), "")));
        offences(&files)
    }

    #[test]
    fn arrows_down_and_to_the_own_head_are_allowed() {
        assert!(found("hall/mod.rs", "use crate::ground::A; use door::B; mod door;").is_empty());
        assert!(
            found("hall/door.rs", "use super::Hall; use crate::{cellar, hall::C}; use std::fs;").is_empty()
        );
        assert!(found("roof.rs", "fn f() { crate::hall::door::open(); self.ground(); }").is_empty());
        assert!(found("ground.rs", "#[cfg(test)] mod tests { use crate::roof::R; }").is_empty());
        assert!(found("lib.rs", "pub use roof::R;").is_empty());
    }

    #[test]
    fn arrows_up_and_sideways_are_reported_with_both_names() {
        let up = |text| found("ground.rs", text);
        let expected = vec![("floor", "ground uses roof, which stands above it".to_owned())];
        assert_eq!(up("use crate::roof::R;"), expected);
        assert_eq!(up("use crate::{roof::{R, S as T}};")[..1], expected);
        assert_eq!(up("fn f(x: &super::roof::R) {}"), expected);
        assert_eq!(up("use crate::cellar;")[0].1, "ground uses cellar, which stands beside it");
        let out = found("hall/mod.rs", "use stair::S;");
        assert_eq!(out[0].1, "hall uses hall::stair, which stands beside it");
    }

    #[test]
    fn nothing_goes_round_within_a_module() {
        let files = [
            ("crates/array/src/hall/a.rs", "use super::b::B;"),
            ("crates/array/src/hall/b.rs", "use crate::hall::c;"),
            ("crates/array/src/hall/c.rs", "use super::a::A; use super::d::D;"),
            ("crates/array/src/hall/d.rs", ""),
            ("crates/array/src/hall/mod.rs", ""),
        ];
        let reported: Vec<String> = offences(&files).into_iter().map(|(_, what)| what).collect();
        let leads = |from, to| format!("hall::{from} uses hall::{to}, which leads back to it");
        assert_eq!(reported, [leads('a', 'b'), leads('b', 'c'), leads('c', 'a')]);
        assert!(offences(&files[1..]).is_empty());
    }

    #[test]
    fn nothing_goes_round_in_a_crate_without_a_table() {
        let files = [
            ("tools/src/main.rs", "mod a; mod b;"),
            ("tools/src/a.rs", "use crate::b::B;"),
            ("tools/src/b.rs", "use crate::a;"),
        ];
        let found = check(&with_files(&files)).expect("Rust");
        let rules: Vec<_> = found.iter().map(|offence| (offence.rule, offence.what.as_str())).collect();
        let expected =
            [("circle", "a uses b, which leads back to it"), ("circle", "b uses a, which leads back to it")];
        assert_eq!(rules, expected);
        assert!(check(&with_files(&files[..2])).expect("Rust").is_empty());
    }

    #[test]
    fn nothing_goes_round_between_folders_and_files_without_a_floor() {
        let files = [
            ("crates/array/src/ground.rs", "use crate::attic::a;"),
            ("crates/array/src/attic/mod.rs", ""),
            ("crates/array/src/attic/a.rs", "use super::b;"),
            ("crates/array/src/attic/b.rs", "use crate::shed;"),
            ("crates/array/src/shed.rs", "use crate::ground;"),
        ];
        let reported: Vec<String> = offences(&files).into_iter().map(|(_, what)| what).collect();
        let leads = |from, to| format!("{from} uses {to}, which leads back to it");
        assert_eq!(reported, [leads("ground", "attic"), leads("attic", "shed"), leads("shed", "ground")]);
        assert!(offences(&files[1..]).is_empty());
    }

    #[test]
    fn nothing_goes_round_between_the_modules_of_a_folder() {
        let files = [
            ("crates/array/src/hall/a/x.rs", "use crate::hall::b::y;"),
            ("crates/array/src/hall/mod.rs", "mod a; mod b;"),
            ("crates/array/src/hall/a/mod.rs", "use crate::cellar; mod x;"),
            ("crates/array/src/hall/b/mod.rs", "mod y; mod z;"),
            ("crates/array/src/hall/b/y.rs", ""),
            ("crates/array/src/hall/b/z.rs", "use crate::hall::a;"),
        ];
        let reported: Vec<String> = offences(&files).into_iter().map(|(_, what)| what).collect();
        let leads = |from, to| format!("hall::{from} uses hall::{to}, which leads back to it");
        assert_eq!(reported, [leads('a', 'b'), leads('b', 'a')]);
        assert!(offences(&files[..5]).is_empty());
    }

    #[test]
    fn the_program_has_its_files_in_folders_that_have_a_floor() {
        let file = |path: &str, text: &str| -> Vec<String> {
            let names = ["main.rs", "base/mod.rs", "lab/mod.rs", "lab/plan.rs"];
            let names = names.map(|name| format!("crates/brindle/src/{name}"));
            let mut files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
            files.push((path, text));
            let found = check(&with_files(&files)).expect("Rust");
            found.into_iter().map(|offence| offence.what).collect()
        };
        assert!(file("crates/brindle/src/base/text.rs", "").is_empty());
        assert_eq!(file("crates/brindle/src/text.rs", ""), ["module text has no floor"]);
        let up = ["base::text uses lab::plan, which stands above it"];
        assert_eq!(file("crates/brindle/src/base/text.rs", "use crate::lab::plan;"), up);
    }
}

//! Arrows between the modules of a crate point down only: each module of a crate that has a table here has a floor.
//!
//! In a crate without a table, nothing goes round among its modules.
//!
//! Arrows are what `use` and paths name. A module's own head (`mod.rs`) and its files are one: who implements a part of
//! a type may name it. Among the files of a module nothing goes round.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::names::is_test_module;
use super::tokens;
use crate::Failure;
use crate::report::Offence;
use crate::workspace::{File, Workspace};

/// Where the sources of a crate are, and its floors from the ground up. The longest name counts.
type Building = (&'static str, &'static [&'static [&'static str]]);

const BUILDINGS: [Building; 15] = [
    ("crates/members/src", MEMBERS),
    ("crates/array/src", ARRAY),
    ("crates/md/src", MD),
    ("crates/brindle/src", BRINDLE),
    ("crates/export/src", EXPORT),
    ("crates/format/src", FORMAT),
    ("crates/host/src", HOST),
    ("crates/io/src", IO),
    ("crates/pool/src", POOL),
    ("crates/lab/src", LAB),
    ("crates/layout/src", LAYOUT),
    ("crates/parity/src", PARITY),
    ("crates/planner/src", PLANNER),
    ("crates/testkit/src", TESTKIT),
    ("crates/volume/src", VOLUME),
];

const MEMBERS: &[&[&str]] = &[
    &[
        "bad_blocks",
        "change",
        "device",
        "errors",
        "events",
        "flushes",
        "append_list",
        "lock",
        "patience",
        "peers",
        "process",
        "scratch",
        "turn",
        "yielding",
    ],
    &["role_devices"],
    &["copies", "members"],
    &["set"],
    &["presence"],
    &["door", "watch", "windows"],
    &["settle", "direct"],
    &["flush"],
    &["spans"],
];

const ARRAY: &[&[&str]] = &[
    &["claims", "events", "ledger::limit", "no_space::ranges", "process", "row_log", "sync_len"],
    &["bitmap", "observer"],
    &["bitmap::error", "config"],
    &["ledger"],
    &["keeper"],
    &["bitmap::record", "intent", "no_space::record", "recovery::record"],
    &["core"],
    &["data", "no_space::settle"],
    &["data::mirrored", "data::parity", "data::striped"],
    &["placement"],
    &["array"],
    &["bitmap::clear", "exchange", "no_space", "recovery::guided", "second_devices", "sweep", "write_behind"],
    &["recovery::copy", "recovery::rebuild"],
    &["detail", "recovery"],
    &["bitmap::change", "devices"],
    &["open", "sharing"],
];

const MD: &[&[&str]] = &[
    &["flags"],
    &["assembly"],
    &["bitmap", "refusal", "reshape_sides"],
    &["create"],
    &["ppl"],
    &["journal", "ledger", "update"],
    &["bitmap::superblocks", "open"],
];

const BRINDLE: &[&[&str]] =
    &[&["base"], &["devices"], &["flags"], &["client"], &["server"], &["commands"], &["lab"]];

const HOST: &[&[&str]] = &[
    &["attach", "written"],
    &["limits"],
    &["any", "control", "mailbox", "opening", "status", "world"],
    &["error", "events", "hosted", "metrics", "orders", "servers"],
    &["absent", "answers", "background", "names", "running"],
    &["exported", "pooled", "snapshot"],
    &["handler", "service"],
    &["admission", "attaching", "policy", "pools", "reports"],
    &["bitmap_file", "devices"],
];

const POOL: &[&[&str]] = &[
    &["damage", "events", "leaf", "look", "owed", "refusals", "space", "stripe", "table"],
    &["map"],
    &["queue"],
    &["core", "create"],
    &["log", "read", "record", "room"],
    &["check", "checkpoint", "replay"],
    &["clean", "returned", "reuse"],
    &["volume"],
    &["pool"],
    &["open"],
];

const IO: &[&[&str]] = &[
    &["class", "pulse", "racing", "ranges", "time", "waker"],
    &["task"],
    &["arena", "patience"],
    &["blocks"],
    &["store"],
    &["buf"],
    &["given", "op", "pool"],
    &["began", "bounce", "device", "reactor", "shortfall", "table", "threads"],
    &["memory", "queues", "uring"],
    &["core"],
    &["group", "served"],
    &["exec"],
    &["map", "sim", "sync", "watch"],
    &["emulated"],
];

const LAYOUT: &[&[&str]] = &[
    &["divide", "error", "layout", "level", "parity_layout", "place", "raid10_layout", "row", "size"],
    &["mirrored", "parity_rows", "striped"],
    &["map"],
    &["build"],
    &["geometry"],
];

const LAB: &[&[&str]] = &[
    &["job", "measure", "page"],
    &["load", "sweep"],
    &["trace"],
    &["run"],
    &["drive", "report", "suite"],
    &["predict"],
    &["points"],
];

const PLANNER: &[&[&str]] = &[
    &["fraction", "load", "queued", "reliability"],
    &["disk"],
    &["configuration", "parse"],
    &["candidates", "lethal_sets", "raidz", "speed", "testing"],
    &["link"],
    &["risk"],
    &["figures"],
    &["advice", "choose", "requirements", "table"],
];

const EXPORT: &[&[&str]] =
    &[&["access", "pieces"], &["rates"], &["gate", "tls"], &["session"], &["scsi"], &["iscsi", "nbd"]];

const FORMAT: &[&[&str]] = &[&["alignment", "kind", "pool"], &["md"], &["signature"], &["table"]];

const PARITY: &[&[&str]] = &[
    &["gf", "reference"],
    &["simd", "solve", "culprit"],
    &["pass"],
    &["kernel", "neon", "portable", "x86"],
    &["select"],
];

const VOLUME: &[&[&str]] = &[&["error", "limits", "slices"], &["volume"], &["lone_member", "nest"]];

const TESTKIT: &[&[&str]] = &[
    &["browser", "certificates", "guard", "pair", "random", "redo", "shape", "skip", "stamp"],
    &["faults", "guest", "hang", "load", "oracle", "ram", "world"],
    &["client", "conformance", "container"],
    &["running", "storm"],
    &["hosts", "pools", "volumes"],
    &["bin"],
];

/// The floors of a crate without a table: all its modules stand on one, and nothing goes round among them.
const ONE_FLOOR: &[&[&str]] = &[&[""]];

/// Checks that no arrow points up or sideways, or goes round.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for (root, floors) in BUILDINGS {
        offences.extend(check_crate(workspace, root, floors)?);
    }
    for root in roots(workspace).iter().filter(|root| BUILDINGS.iter().all(|(other, _)| other != *root)) {
        offences.extend(check_crate(workspace, root, ONE_FLOOR)?);
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
    let mut within = Vec::new();
    for (from, file) in &sources {
        let Some((own, floor)) = entry(floors, from) else {
            offences.push(homeless(file, from));
            continue;
        };
        for arrow in arrows(file, from, &modules)? {
            match entry(floors, &arrow.to) {
                Some((other, _)) if other == own => within.push(arrow),
                Some((_, other)) if other >= floor => offences.push(not_down(&arrow, other > floor)),
                _ => {}
            }
        }
    }
    offences.extend(within.iter().filter(|arrow| goes_round(arrow, &within)).map(round));
    Ok(offences)
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

/// Whether what an arrow leads to leads back to where it came from.
fn goes_round(arrow: &Arrow<'_>, arrows: &[Arrow<'_>]) -> bool {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    arrows.iter().for_each(|arrow| next.entry(&arrow.from).or_default().push(&arrow.to));
    let (mut seen, mut open) = (BTreeSet::new(), vec![arrow.to.as_str()]);
    while let Some(module) = open.pop() {
        if module == arrow.from {
            return true;
        }
        if seen.insert(module) {
            open.extend(next.get(module).into_iter().flatten());
        }
    }
    false
}

fn homeless(file: &File, module: &str) -> Offence {
    Offence {
        file: file.path.clone(),
        line: 0,
        rule: "floor",
        what: format!("module {module} has no floor"),
        way_out: "give it its place in xtask/src/tidy/floors.rs: above all that it uses".to_owned(),
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
    fn a_module_without_a_floor_is_reported() {
        assert_eq!(found("attic.rs", ""), [("floor", "module attic has no floor".to_owned())]);
    }
}

//! Names that a crate may not say: the engine is repeatable, parsers do not read, `unsafe` has two homes. `machine.rs` has names of files,
//! clocks and others that are of the machine.

use std::path::Path;

use super::dependencies::PURE;
use super::tokens::{self, Name};
use crate::Failure;
use crate::report::Offence;
use crate::workspace::{Crate, File, Workspace};

/// How a banned name is recognised.
pub(super) enum Ban {
    /// A path that begins with these segments.
    Path(&'static [&'static str]),
    /// These segments, one after the other, anywhere in a path.
    Anywhere(&'static [&'static str]),
    /// Anything that comes from this crate.
    Crate(&'static str),
}

impl Ban {
    fn matches(&self, name: &Name) -> bool {
        let is = |slice: &[String], wanted: &[&str]| slice.iter().zip(wanted).all(|(a, b)| a == b);
        match self {
            Self::Path(wanted) => name.segments.len() >= wanted.len() && is(&name.segments, wanted),
            Self::Anywhere(wanted) => name.segments.windows(wanted.len()).any(|w| is(w, wanted)),
            Self::Crate(wanted) => name.segments.len() > 1 && name.segments[0] == *wanted,
        }
    }
}

/// A set of bans with one reason and one way out.
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) bans: &'static [Ban],
    pub(super) way_out: &'static str,
}

const PARSERS: Rule = Rule {
    name: "parser",
    bans: &[Ban::Path(&["std", "io"])],
    way_out: "take bytes and return a struct or a typed error; reading is for crate io",
};

const ENGINE: Rule = Rule {
    name: "engine",
    bans: &[
        Ban::Anywhere(&["HashMap"]),
        Ban::Anywhere(&["HashSet"]),
        Ban::Anywhere(&["RandomState"]),
        Ban::Anywhere(&["as_raw_fd"]),
        Ban::Anywhere(&["AsRawFd"]),
        Ban::Anywhere(&["AsFd"]),
        Ban::Anywhere(&["BorrowedFd"]),
        Ban::Anywhere(&["OwnedFd"]),
        Ban::Anywhere(&["RawFd"]),
        Ban::Crate("libc"),
        Ban::Crate("rustix"),
    ],
    way_out: "the same seed must give the same run: use BTreeMap or an indexed table, and member ids for descriptors",
};

const NO_UNSAFE: Rule = Rule {
    name: "unsafe",
    bans: &[Ban::Anywhere(&["unsafe"])],
    way_out: "only crates parity and io may; ask one of them for a safe function",
};

const DOORS: Rule = Rule {
    name: "doors",
    bans: &[
        Ban::Path(&["brindle_export", "nbd"]),
        Ban::Path(&["brindle_export", "iscsi"]),
        Ban::Path(&["brindle_export", "fuse"]),
    ],
    way_out: "a host has doors as a list of one trait: say it in crates/host/src/doors, or by a method of `Door`",
};

/// Files of the host that may name a protocol: its doors, devices of the kernel, which are NBD's, mounts, which are FUSE's, and errors.
const OF_PROTOCOLS: [&str; 5] =
    ["src/doors", "src/attach", "src/attaching.rs", "src/mounting.rs", "src/error.rs"];

const NO_KIND: Rule = Rule {
    name: "kinds of content",
    bans: &[
        Ban::Crate("brindle_array"),
        Ban::Crate("brindle_md"),
        Ban::Crate("brindle_pool"),
        Ban::Anywhere(&["Array"]),
        Ban::Anywhere(&["Pool"]),
        Ban::Anywhere(&["ServedArray"]),
        Ban::Anywhere(&["ServedPool"]),
        Ban::Anywhere(&["HostedPool"]),
    ],
    way_out: "contents of all kinds are served, joined and reported by one trait: say it by a method of `Content`, of `Joining`, or of what the program's `Kind` gives",
};

/// Files that know contents of all kinds by their traits alone.
const OF_ALL_KINDS: [(&str, &str); 11] = [
    ("brindle-host", "src/service.rs"),
    ("brindle-host", "src/reports.rs"),
    ("brindle-host", "src/admission.rs"),
    ("brindle-host", "src/attaching.rs"),
    ("brindle", "src/server/serve/joining.rs"),
    ("brindle", "src/server/serve/announce.rs"),
    ("brindle", "src/server/serve/looked.rs"),
    ("brindle", "src/server/serve/claimed.rs"),
    ("brindle", "src/server/serve/serving.rs"),
    ("brindle", "src/server/serve/kinds/mod.rs"),
    ("brindle", "src/devices/scan/mod.rs"),
];

const DESCRIBED: Rule = Rule {
    name: "md's assembly",
    bans: &[
        Ban::Anywhere(&["Assembly"]),
        Ban::Anywhere(&["AssembledDevice"]),
        Ban::Anywhere(&["AssemblyError"]),
        Ban::Anywhere(&["Limitation"]),
        Ban::Path(&["brindle_md", "assembly", "assemble"]),
        Ban::Path(&["brindle_md", "open"]),
    ],
    way_out: "say it by the array's `ArrayDescription`, by a method of `Assembled`, or by one of `Failure`",
};

/// Files that may get back to md's assembly: in the host the one that describes it, in the program the one that opens arrays by it, and the
/// failures, which know md's errors.
const WITH_ASSEMBLIES: [(&str, &str); 3] = [
    ("brindle-host", "src/content/array/description.rs"),
    ("brindle", "src/devices/world/assembled.rs"),
    ("brindle", "src/base/failure.rs"),
];

const TYPED: Rule = Rule {
    name: "typed answers",
    bans: &[Ban::Path(&["serde_json", "Value"]), Ban::Path(&["Value"])],
    way_out: "read a server's answer as its type in crate host: `ask::<Volumes>(..)`; only files that print JSON are excepted",
};

/// Folders of the program that read answers of servers.
const ASKING: [&str; 4] = ["src/base", "src/client", "src/commands", "src/server"];

/// Files there that handle JSON as such: one reads answers as types, the others print what they have made.
const WITH_JSON: [&str; 5] = [
    "src/client/control/answer.rs",
    "src/client/bundle.rs",
    "src/client/watch/rates.rs",
    "src/commands/pool/volume.rs",
    "src/server/daemon/config.rs",
];

/// Checks the names that each crate's sources use.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for member in &workspace.crates {
        for file in workspace.files.iter().filter(|f| f.is_rust() && f.path.starts_with(&member.dir)) {
            let rules = rules_for(member, file.path.strip_prefix(&member.dir)?);
            if !rules.is_empty() {
                offences.extend(check_file(file, &rules)?);
            }
        }
    }
    Ok(offences)
}

fn rules_for(member: &Crate, path: &Path) -> Vec<&'static Rule> {
    let name = member.name.as_str();
    let mut rules: Vec<&Rule> = Vec::new();
    if !["brindle-parity", "brindle-io"].contains(&name) {
        rules.push(&NO_UNSAFE);
    }
    if !path.starts_with("src") || is_test_module(path) {
        return rules;
    }
    if PURE[..3].contains(&name) {
        rules.push(&PARSERS);
    }
    if ["brindle-members", "brindle-array", "brindle-md", "brindle-pool"].contains(&name) {
        rules.push(&ENGINE);
    }
    if name == "brindle-host" && !OF_PROTOCOLS.iter().any(|own| path.starts_with(own)) {
        rules.push(&DOORS);
    }
    let is_in =
        |files: &[(&str, &str)]| files.iter().any(|&(of, file)| name == of && path == Path::new(file));
    if is_in(&OF_ALL_KINDS) {
        rules.push(&NO_KIND);
    }
    if ["brindle-host", "brindle"].contains(&name) && !is_in(&WITH_ASSEMBLIES) {
        rules.push(&DESCRIBED);
    }
    let is_asking = ASKING.iter().any(|folder| path.starts_with(folder));
    if name == "brindle" && is_asking && !WITH_JSON.iter().any(|file| path == Path::new(file)) {
        rules.push(&TYPED);
    }
    rules
}

/// By convention a module that only tests are built with is called `tests`, in a file or a folder.
pub(super) fn is_test_module(path: &Path) -> bool {
    path.components().any(|c| c.as_os_str() == "tests" || c.as_os_str() == "tests.rs")
}

pub(super) fn check_file(file: &File, rules: &[&Rule]) -> Result<Vec<Offence>, Failure> {
    let mut offences = Vec::new();
    for name in tokens::names(tokens::parse(file)?) {
        for rule in rules {
            if rule.bans.iter().any(|ban| ban.matches(&name)) {
                offences.push(Offence {
                    file: file.path.clone(),
                    line: name.line,
                    rule: rule.name,
                    what: format!("`{}` may not be used here", name.segments.join("::")),
                    way_out: rule.way_out.to_owned(),
                });
            }
        }
    }
    Ok(offences)
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_files;
    use super::*;

    fn rules(path: &str, source: &str) -> Vec<&'static str> {
        let offences = check(&with_files(&[(path, source)])).expect("Rust");
        offences.into_iter().map(|o| o.rule).collect()
    }

    #[test]
    fn parsers_do_not_read() {
        assert_eq!(rules("crates/format/src/lib.rs", "use std::io::Read;"), ["parser"]);
        assert!(rules("crates/export/src/lib.rs", "use std::io::Read;").is_empty());
    }

    #[test]
    fn the_engine_is_repeatable() {
        for source in [
            "use std::collections::HashMap;",
            "use std::collections::{BTreeMap, HashSet};",
            "fn f(m: &M) { m.file.as_raw_fd(); }",
            "fn f() { rustix::fs::sync(); }",
            "struct S(OwnedFd);",
        ] {
            assert_eq!(rules("crates/array/src/lib.rs", source), ["engine"], "{source}");
            assert_eq!(rules("crates/pool/src/lib.rs", source), ["engine"], "{source}");
            assert!(rules("crates/io/src/lib.rs", source).is_empty(), "{source}");
        }
        assert!(rules("crates/array/src/lib.rs", "use std::collections::BTreeMap;").is_empty());
    }

    #[test]
    fn a_host_names_protocols_in_its_doors_alone() {
        for source in ["use brindle_export::nbd::Server;", "use brindle_export::{Gate, iscsi};"] {
            assert_eq!(rules("crates/host/src/service.rs", source), ["doors"], "{source}");
            assert!(rules("crates/host/src/doors/nbd.rs", source).is_empty(), "{source}");
            assert!(rules("crates/brindle/src/server/serve/doors.rs", source).is_empty(), "{source}");
        }
    }

    #[test]
    fn a_service_and_what_joins_it_know_no_kind() {
        for path in [
            "crates/host/src/service.rs",
            "crates/brindle/src/server/serve/joining.rs",
            "crates/brindle/src/server/serve/claimed.rs",
        ] {
            for source in
                ["use brindle_array::Limits;", "fn f(of: &ServedPool) {}", "fn f() -> Scope { Scope::Pool }"]
            {
                assert_eq!(rules(path, source), ["kinds of content"], "{path}: {source}");
            }
        }
        let source = "use brindle_pool::Pool;";
        assert!(rules("crates/host/src/content/pool/mod.rs", source).is_empty());
        assert!(rules("crates/brindle/src/server/serve/kinds/pool/mod.rs", source).is_empty());
    }

    #[test]
    fn md_s_assembly_is_known_where_it_is_described_and_where_it_is_opened() {
        for source in [
            "use brindle_md::assembly::{Assembly, Candidate};",
            "fn f(why: &E) { matches!(why, AssemblyError::Empty); }",
            "fn f(all: &[Candidate]) { brindle_md::assembly::assemble(all, usual()); }",
        ] {
            for path in [
                "crates/host/src/status/facts.rs",
                "crates/host/src/content/array/running.rs",
                "crates/brindle/src/base/report.rs",
                "crates/brindle/src/devices/world.rs",
                "crates/brindle/src/server/serve/kinds/md/mod.rs",
            ] {
                assert_eq!(rules(path, source), ["md's assembly"], "{path}: {source}");
            }
            assert!(rules("crates/host/src/content/array/description.rs", source).is_empty(), "{source}");
            assert!(rules("crates/brindle/src/devices/world/assembled.rs", source).is_empty(), "{source}");
        }
        let source = "fn f(of: &ArrayDescription, by: brindle_md::assembly::Candidate) {}";
        assert!(rules("crates/brindle/src/base/report.rs", source).is_empty());
    }

    #[test]
    fn answers_are_read_as_types() {
        for source in ["use serde_json::{Value, json};", "fn f(v: &serde_json::Value) { v[\"a\"]; }"] {
            for path in ["crates/brindle/src/client/status.rs", "crates/brindle/src/server/serve.rs"] {
                assert_eq!(rules(path, source), ["typed answers"], "{path}: {source}");
            }
            for path in ["crates/brindle/src/client/bundle.rs", "crates/brindle/src/lab/plan/page.rs"] {
                assert!(rules(path, source).is_empty(), "{path}: {source}");
            }
        }
        let test = "#[cfg(test)] mod tests { use serde_json::Value; }";
        assert!(rules("crates/brindle/src/client/status.rs", test).is_empty());
        assert!(rules("crates/brindle/src/client/status.rs", "use serde_json::json;").is_empty());
    }

    #[test]
    fn unsafe_has_two_homes() {
        let source = "fn f() { unsafe { g() } }";
        assert_eq!(rules("crates/array/src/lib.rs", source), ["unsafe"]);
        assert_eq!(rules("crates/array/tests/all.rs", source), ["unsafe"]);
        assert!(rules("crates/parity/src/lib.rs", source).is_empty());
        assert!(rules("crates/io/src/lib.rs", source).is_empty());
        assert!(rules("crates/array/src/lib.rs", "#![forbid(unsafe_code)] // unsafe").is_empty());
    }

    #[test]
    fn tests_may_say_more() {
        let source = "use std::fs; use std::collections::HashMap;";
        assert!(rules("crates/array/tests/all.rs", source).is_empty());
        assert!(rules("crates/array/src/stripe/tests.rs", source).is_empty());
        assert!(rules("crates/array/src/tests/sim.rs", source).is_empty());
        assert!(
            rules("crates/array/src/lib.rs", &format!("#[cfg(test)] mod tests {{ {source} }}")).is_empty()
        );
    }
}

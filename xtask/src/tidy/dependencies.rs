//! Arrows between crates point down only: brindle, console, testkit > host, lab > export, planner, md > array, pool > members > volume > io, layout,
//! parity, format.

use crate::report::Offence;
use crate::workspace::{Crate, Workspace};

/// The crate that tests share. It is no part of the product, so that a test may depend on it from anywhere.
pub(super) const TESTKIT: &str = "brindle-testkit";

/// Rank of a crate; a crate may depend only on crates of a lower rank.
///
/// `None` for a crate that has no place in the order.
pub(super) fn rank(name: &str) -> Option<u8> {
    Some(match name {
        "brindle-io" | "brindle-layout" | "brindle-parity" | "brindle-format" => 0,
        // The contract of served volumes, which knows neither servers nor implementations: above the memory and the
        // errors of `io`.
        "brindle-volume" => 1,
        // Members are asked and waited for: above the errors they fail with, below all their owners.
        "brindle-members" => 2,
        "brindle-array" | "brindle-pool" => 3,
        "brindle-export" | "brindle-md" | "brindle-planner" => 4,
        "brindle-host" | "brindle-lab" => 5,
        // Test support: beside the program, which must not use it. Tests of every crate may.
        "brindle" | "brindle-console" | TESTKIT => 6,
        // Tools stand above the product: they may use all of it and nothing may use them.
        "xtask" | "brindle-tests" | "brindle-bench" | "brindle-hot-paths" | "brindle-fuzz-targets" => 7,
        _ => return None,
    })
}

/// Third-party crates that do I/O, read clocks, start threads or draw random numbers, and so have no place in
/// the pure crates and the engine.
const IMPURE: [&str; 14] = [
    "async-std",
    "crossbeam",
    "fastrand",
    "getrandom",
    "io-uring",
    "libc",
    "mio",
    "nix",
    "rand",
    "rand_core",
    "rayon",
    "rustix",
    "smol",
    "tokio",
];

/// The crate that answers browsers, and what it does that with: no HTTP of theirs is parsed, and no second executor runs, where disks are
/// written.
const CONSOLE: &str = "brindle-console";
const OF_CONSOLE: [&str; 6] = ["askama", "axum", "http-body-util", "hyper", "hyper-util", "tokio"];

/// Crates that must stay pure: the three below the engine, what a volume is, and the engines with the members that they stand on.
pub(super) const PURE: [&str; 8] = [
    "brindle-layout",
    "brindle-parity",
    "brindle-format",
    "brindle-volume",
    "brindle-members",
    "brindle-array",
    "brindle-md",
    "brindle-pool",
];

/// Checks ranks and impure third-party dependencies.
pub(super) fn check(workspace: &Workspace) -> Vec<Offence> {
    workspace.crates.iter().flat_map(check_crate).collect()
}

fn check_crate(of: &Crate) -> Vec<Offence> {
    let offence = |line, rule, what: String, way_out: &str| Offence {
        file: of.dir.join("Cargo.toml"),
        line,
        rule,
        what,
        way_out: way_out.to_owned(),
    };
    let Some(own) = rank(&of.name) else {
        return vec![offence(
            0,
            "rank",
            format!("crate {} has no rank", of.name),
            "give it its place in xtask/src/tidy/dependencies.rs and in ARCHITECTURE.md",
        )];
    };
    let mut offences = Vec::new();
    for dependency in &of.dependencies {
        let line = line_of(&of.manifest, &dependency.name);
        match rank(&dependency.name) {
            _ if dependency.dev && dependency.name == TESTKIT => {}
            Some(other) if other >= own => offences.push(offence(
                line,
                "rank",
                format!(
                    "{} depends on {}, which stands {}",
                    of.name,
                    dependency.name,
                    if other > own { "above it" } else { "beside it" }
                ),
                "move what is shared down, or let the crate above hand it in",
            )),
            None if !dependency.dev
                && PURE.contains(&of.name.as_str())
                && IMPURE.contains(&dependency.name.as_str()) =>
            {
                offences.push(offence(
                    line,
                    "pure",
                    format!("{} depends on {}", of.name, dependency.name),
                    "do it in crate io, behind the reactor, or hand the value in",
                ));
            }
            None if of.name != CONSOLE && OF_CONSOLE.contains(&dependency.name.as_str()) => {
                offences.push(offence(
                    line,
                    "console",
                    format!("{} depends on {}, which is the console's alone", of.name, dependency.name),
                    "do it in crate console, which asks servers by their control sockets",
                ));
            }
            _ => {}
        }
    }
    offences
}

/// Line of a manifest that names the dependency; 0 if it is not named literally.
fn line_of(manifest: &str, name: &str) -> usize {
    manifest
        .lines()
        .position(|l| l.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '=', '.'])))
        .map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_dependencies;
    use super::*;

    fn rules(name: &str, dependencies: &[&str]) -> Vec<&'static str> {
        check_crate(&with_dependencies(name, dependencies)).into_iter().map(|o| o.rule).collect()
    }

    #[test]
    fn arrows_down_are_allowed() {
        assert!(rules("brindle-array", &["brindle-io", "brindle-layout", "thiserror"]).is_empty());
        assert!(rules("brindle-export", &["brindle-volume", "dev:brindle-array"]).is_empty());
        assert!(rules("brindle", &["brindle-export", "brindle-format", "libc"]).is_empty());
        assert!(rules("brindle-tests", &["brindle"]).is_empty());
    }

    #[test]
    fn arrows_up_and_sideways_are_refused() {
        assert_eq!(rules("brindle-layout", &["brindle-array"]), ["rank"]);
        assert_eq!(rules("brindle-export", &["brindle-lab"]), ["rank"]);
        assert_eq!(rules("brindle-format", &["brindle-layout"]), ["rank"]);
        assert_eq!(rules("brindle-io", &["dev:brindle-export"]), ["rank"]);
        assert_eq!(rules("brindle", &["xtask"]), ["rank"]);
        assert_eq!(rules("brindle-volume", &["brindle-array"]), ["rank"]);
        assert_eq!(rules("brindle-members", &["brindle-array"]), ["rank"]);
        assert_eq!(rules("brindle-array", &["brindle-md"]), ["rank"]);
        assert_eq!(rules("brindle-pool", &["brindle-array"]), ["rank"]);
        assert_eq!(rules("brindle-array", &["brindle-pool"]), ["rank"]);
    }

    #[test]
    fn what_tests_share_is_for_tests_only() {
        assert!(rules("brindle-io", &["dev:brindle-testkit"]).is_empty());
        assert!(rules("brindle-testkit", &["brindle-array", "brindle-export"]).is_empty());
        assert!(rules("brindle-fuzz-targets", &["brindle-testkit"]).is_empty());
        assert_eq!(rules("brindle-array", &["brindle-testkit"]), ["rank"]);
        assert_eq!(rules("brindle", &["brindle-testkit"]), ["rank"]);
    }

    #[test]
    fn http_is_the_consoles_alone() {
        assert!(rules("brindle-console", &["axum", "tokio", "brindle-host"]).is_empty());
        assert_eq!(rules("brindle-host", &["axum"]), ["console"]);
        assert_eq!(rules("brindle", &["tokio"]), ["console"]);
        assert_eq!(rules("brindle-pool", &["tokio"]), ["pure"]);
        assert_eq!(rules("brindle", &["brindle-console"]), ["rank"]);
    }

    #[test]
    fn a_crate_without_rank_is_refused() {
        assert_eq!(rules("brindle-newcomer", &[]), ["rank"]);
    }

    #[test]
    fn impure_dependencies_are_for_tests_only() {
        assert_eq!(rules("brindle-array", &["rand"]), ["pure"]);
        assert!(rules("brindle-array", &["dev:rand"]).is_empty());
        assert!(rules("brindle-io", &["rustix"]).is_empty());
    }

    #[test]
    fn the_line_of_the_manifest_is_named() {
        let manifest = "[dependencies]\nbrindle-io-extra = \"1\"\nbrindle-io.workspace = true\n";
        assert_eq!(line_of(manifest, "brindle-io"), 3);
        assert_eq!(line_of(manifest, "absent"), 0);
    }
}

//! `cargo xtask deny`: licences, duplicate versions and origins of everything that is linked in.
//!
//! It reads the part of `deny.toml` that needs no network, in the file format of cargo-deny, so that whoever has
//! that tool can run it on the same file (and gets its check for known vulnerabilities on top).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::semver::{Version, VersionReq};
use cargo_metadata::{DepKindInfo, DependencyKind, MetadataCommand, Package};
use serde::Deserialize;
use spdx::Expression;

use crate::Failure;
use crate::report::Offence;

const FILE: &str = "deny.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Graph {
    /// Target triples that count; what only other platforms pull in is not linked into Brindle.
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    /// SPDX identifiers.
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Level,
    wildcards: Level,
    #[serde(default)]
    deny: Vec<Named>,
    #[serde(default)]
    skip: Vec<Named>,
}

/// cargo-deny knows `warn` and `allow` too; a check that only warns is not one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Deny,
}

/// A crate (`name`) or some versions of it (`name@2`, as in a dependency), with the reason why it stands on a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    /// Packages that may depend on it nevertheless, and no others.
    #[serde(default)]
    wrappers: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
}

/// The facts about one package in the graph that the check needs.
#[derive(Clone, Debug)]
struct Linked {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for a folder of this repository.
    source: Option<String>,
    /// Requirements by name, as written.
    requirements: Vec<(String, String)>,
    /// Packages that it is linked with.
    uses: Vec<String>,
}

impl From<&Package> for Linked {
    fn from(package: &Package) -> Self {
        Self {
            name: package.name.to_string(),
            version: package.version.to_string(),
            license: package.license.clone(),
            source: package.source.as_ref().map(ToString::to_string),
            requirements: package
                .dependencies
                .iter()
                .filter(|d| d.path.is_none())
                .map(|d| (d.name.clone(), d.req.to_string()))
                .collect(),
            uses: Vec::new(),
        }
    }
}

/// Checks all dependencies of the workspace at `root`.
///
/// # Errors
/// `deny.toml` missing or not understood; cargo cannot resolve the graph.
pub(crate) fn check(root: &Path) -> Result<Vec<Offence>, Failure> {
    let text = std::fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    let policy: Policy = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    let mut linked = BTreeMap::new();
    for target in &policy.graph.targets {
        let metadata = MetadataCommand::new()
            .current_dir(root)
            .other_options(["--filter-platform".to_owned(), target.clone()])
            .exec()?;
        let resolved = metadata.resolve.as_ref().ok_or("cargo metadata resolved nothing")?;
        for node in &resolved.nodes {
            let is_linked =
                |kinds: &[DepKindInfo]| kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            let used = node.deps.iter().filter(|dependency| is_linked(&dependency.dep_kinds));
            let uses = used.map(|dependency| metadata[&dependency.pkg].name.to_string()).collect();
            linked.insert(node.id.clone(), Linked { uses, ..Linked::from(&metadata[&node.id]) });
        }
    }
    Ok(judge(&policy, &linked.into_values().collect::<Vec<_>>()))
}

fn judge(policy: &Policy, linked: &[Linked]) -> Vec<Offence> {
    let mut offences = licences(policy, linked);
    offences.extend(duplicates(policy, linked));
    offences.extend(banned(policy, linked));
    offences.extend(origins(policy, linked));
    offences
}

fn offence(rule: &'static str, what: String, way_out: &str) -> Offence {
    Offence { file: PathBuf::from(FILE), line: 0, rule, what, way_out: way_out.to_owned() }
}

fn licences(policy: &Policy, linked: &[Linked]) -> Vec<Offence> {
    let allowed = |text: &str| {
        // Old manifests say `MIT/Apache-2.0`.
        Expression::parse_mode(text, spdx::ParseMode::LAX).is_ok_and(|expression| {
            expression.evaluate(|requirement| policy.licenses.allow.contains(&requirement.to_string()))
        })
    };
    linked
        .iter()
        .filter(|l| !l.license.as_deref().is_some_and(allowed))
        .map(|l| {
            let license = l.license.as_deref().unwrap_or("none stated");
            offence(
                "licence",
                format!("{} {} has licence {license}", l.name, l.version),
                "do without it, or allow the licence if it is as free as Brindle's own",
            )
        })
        .collect()
}

fn duplicates(policy: &Policy, linked: &[Linked]) -> Vec<Offence> {
    let Level::Deny = policy.bans.multiple_versions;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for l in linked {
        versions.entry(&l.name).or_default().insert(&l.version);
    }
    let mut offences = Vec::new();
    for (name, versions) in &versions {
        let left: Vec<&str> = versions
            .iter()
            .copied()
            .filter(|version| !policy.bans.skip.iter().any(|skip| names(skip, name, version)))
            .collect();
        if left.len() > 1 {
            offences.push(offence(
                "duplicate",
                format!("{name} is linked in versions {}", left.join(" and ")),
                "bring its users to one version, or list one under [bans] skip with the reason",
            ));
        }
    }
    for skip in &policy.bans.skip {
        if !linked.iter().any(|l| names(skip, &l.name, &l.version)) {
            offences.push(offence(
                "duplicate",
                format!("{} is skipped but not used", skip.name),
                "take it off [bans] skip",
            ));
        }
    }
    offences
}

fn names(listed: &Named, name: &str, version: &str) -> bool {
    match listed.name.split_once('@') {
        Some((n, requirement)) => {
            n == name
                && match (VersionReq::parse(requirement), Version::parse(version)) {
                    (Ok(requirement), Ok(version)) => requirement.matches(&version),
                    _ => false,
                }
        }
        None => listed.name == name,
    }
}

fn banned(policy: &Policy, linked: &[Linked]) -> Vec<Offence> {
    let Level::Deny = policy.bans.wildcards;
    let mut offences = Vec::new();
    for l in linked {
        for ban in policy.bans.deny.iter().filter(|ban| names(ban, &l.name, &l.version)) {
            let has = |user: &&Linked| user.uses.contains(&l.name);
            let users: Vec<&str> = linked.iter().filter(has).map(|user| &*user.name).collect();
            let others =
                users.iter().copied().filter(|user| !ban.wrappers.contains(*user)).collect::<Vec<_>>();
            if ban.wrappers.is_empty() || !others.is_empty() {
                let by = if others.is_empty() { String::new() } else { format!(" by {}", others.join(", ")) };
                offences.push(offence("banned", format!("{} is linked in{by}", l.name), &ban.reason));
            }
        }
        if l.source.is_none() {
            for (name, _) in l.requirements.iter().filter(|(_, requirement)| requirement == "*") {
                offences.push(offence(
                    "wildcard",
                    format!("{} takes any version of {name}", l.name),
                    "name the oldest version that works",
                ));
            }
        }
    }
    offences
}

fn origins(policy: &Policy, linked: &[Linked]) -> Vec<Offence> {
    let Sources { unknown_registry: Level::Deny, unknown_git: Level::Deny } = policy.sources;
    linked
        .iter()
        .filter(|l| l.source.as_deref().is_some_and(|s| !s.contains("github.com/rust-lang/crates.io-index")))
        .map(|l| {
            offence(
                "origin",
                format!("{} comes from {}", l.name, l.source.as_deref().unwrap_or_default()),
                "take it from crates.io",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

    const POLICY: &str = r#"
        [graph]
        targets = []
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        deny = [{ crate = "openssl", reason = "no" }, { crate = "tokio", reason = "no", wrappers = ["console", "hyper"] }]
        skip = [{ crate = "old@1", reason = "two users" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn linked(name: &str, version: &str, license: &str) -> Linked {
        Linked {
            name: name.to_owned(),
            version: version.to_owned(),
            license: (!license.is_empty()).then(|| license.to_owned()),
            source: Some(CRATES_IO.to_owned()),
            requirements: Vec::new(),
            uses: Vec::new(),
        }
    }

    /// Rules broken by these packages beside the one that the policy skips.
    fn rules(mut packages: Vec<Linked>) -> Vec<&'static str> {
        packages.push(linked("old", "1.0.0", "MIT"));
        let policy: Policy = toml::from_str(POLICY).expect("a policy");
        judge(&policy, &packages).into_iter().map(|o| o.rule).collect()
    }

    #[test]
    fn licences_are_judged_as_expressions() {
        assert!(rules(vec![linked("a", "1.0.0", "MIT OR GPL-3.0-only")]).is_empty());
        assert!(rules(vec![linked("a", "1.0.0", "MIT/Apache-2.0")]).is_empty());
        assert_eq!(rules(vec![linked("a", "1.0.0", "MIT AND GPL-3.0-only")]), ["licence"]);
        assert_eq!(rules(vec![linked("a", "1.0.0", "GPL-2.0-only")]), ["licence"]);
        assert_eq!(rules(vec![linked("a", "1.0.0", "")]), ["licence"]);
    }

    #[test]
    fn duplicates_need_a_reason() {
        assert_eq!(rules(vec![linked("a", "1.0.0", "MIT"), linked("a", "2.0.0", "MIT")]), ["duplicate"]);
        assert!(rules(vec![linked("old", "2.0.0", "MIT")]).is_empty());
    }

    #[test]
    fn a_skip_that_skips_nothing_is_refused() {
        let policy: Policy = toml::from_str(POLICY).expect("a policy");
        assert_eq!(judge(&policy, &[]).len(), 1);
    }

    #[test]
    fn bans_origins_and_wildcards() {
        assert_eq!(rules(vec![linked("openssl", "1.0.0", "MIT")]), ["banned"]);
        let using = |name: &str, of: &str| {
            let mut user = linked(name, "1.0.0", "MIT");
            user.uses = vec![of.to_owned()];
            user
        };
        let tokio = || linked("tokio", "1.0.0", "MIT");
        assert!(rules(vec![tokio(), using("console", "tokio"), using("hyper", "tokio")]).is_empty());
        assert_eq!(rules(vec![tokio(), using("console", "tokio"), using("engine", "tokio")]), ["banned"]);
        let mut fork = linked("a", "1.0.0", "MIT");
        fork.source = Some("git+https://example.org/a".to_owned());
        assert_eq!(rules(vec![fork]), ["origin"]);
        let mut own = linked("brindle", "0.1.0", "MIT");
        own.source = None;
        own.requirements = vec![("a".to_owned(), "*".to_owned())];
        assert_eq!(rules(vec![own]), ["wildcard"]);
    }
}

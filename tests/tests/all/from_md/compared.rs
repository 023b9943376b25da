//! `brindle cat`, `detail` and `examine` against what md and mdadm say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brindle_tests::files;
use brindle_tests::program;
use brindle_tests::states::{Left, State};
use brindle_tests::tools::{self, or_skip};
use serde_json::Value;

use super::each;

/// Compares everything of each array.
///
/// # Panics
/// If Brindle says anything else than md.
pub(super) fn as_md_does(all: &[Left]) {
    let Some(mdadm) = or_skip(tools::find("mdadm")) else { return };
    each(all, |left| {
        let name = left.case.name();
        // The order never matters.
        let mut paths = left.paths.clone();
        paths.reverse();
        let content = tempfile::NamedTempFile::new().unwrap();
        if left.case.is_refused() {
            refused(&name, &paths);
            program::cat_with(&["--force"], &paths, content.path());
        } else {
            program::cat(&paths, content.path());
        }
        assert_eq!(files::sha256(content.path()), left.sha256, "{name}: content");
        detail(left, &name, &report("detail", &paths));
        let examined = report("examine", &left.paths);
        let problem = examined["problem"].as_str();
        assert_eq!(problem.is_some(), left.case.is_refused(), "{name}: {problem:?}");
        assert!(problem.is_none_or(|text| text.contains("--force")), "{name}: {problem:?}");
        for (path, ours) in left.paths.iter().zip(examined["members"].as_array().unwrap()) {
            examine(&format!("{name}, {}", path.display()), &ours["superblock"], &by_mdadm(&mdadm, path));
        }
    });
}

/// Without force not one byte is given.
fn refused(name: &str, paths: &[PathBuf]) {
    let words = std::iter::once("cat".into()).chain(paths.iter().map(|path| path.as_os_str().to_owned()));
    let ran = program::brindle::<std::ffi::OsString>(words);
    assert!(ran.code != 0 && ran.out.is_empty(), "{name}: ended with {}", ran.code);
    assert!(
        ran.err.contains("was not stopped cleanly") && ran.err.contains("--force"),
        "{name}: {}",
        ran.err
    );
}

fn report(command: &str, paths: &[PathBuf]) -> Value {
    let words = [command, "--json"].map(Into::into).into_iter();
    program::brindle(words.chain(paths.iter().map(|path| path.as_os_str().to_owned()))).json()
}

/// The array: its size, and the state of it and of each device.
fn detail(left: &Left, name: &str, ours: &Value) {
    assert_eq!(ours["size"], left.size, "{name}");
    let md: Vec<&str> = left.state.split(", ").collect();
    let words: Vec<&str> =
        ours["state"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let has = |word| words.contains(&word);
    assert_eq!(has("degraded"), md.contains(&"degraded"), "{name}: {words:?}, md: {md:?}");
    assert_eq!(has("needs resync"), left.resync.is_some(), "{name}: {words:?}");
    assert_eq!(words[0] == "clean", left.resync.is_none(), "{name}: {words:?}");
    assert_eq!(ours["resync_offset"].as_u64(), left.resync, "{name}");
    assert_eq!(ours["limits"].to_string().contains("not stopped cleanly"), left.case.is_refused(), "{name}");
    // With a write-intent bitmap, too.
    assert!(!has("read-only"), "{name}: {words:?}, {}", ours["limits"]);

    let devices = ours["devices"].as_array().unwrap();
    let mut whole = 0;
    for (path, md) in left.paths.iter().zip(&left.members) {
        let device = devices.iter().find(|device| device["path"] == path.to_str().unwrap()).unwrap();
        let state = device["state"].as_str().unwrap();
        let seen = format!("{name}, {}: {device}, md: {md:?}", path.display());
        let Some(md) = md else {
            assert!(matches!(state, "stale" | "faulty"), "{seen}");
            continue;
        };
        assert_eq!(device["role"].as_u64(), md.role.map(u64::from), "{seen}");
        assert_eq!(device["recovered"].as_u64(), md.recovered.filter(|_| md.role.is_some()), "{seen}");
        let expected = match (md.state.as_str(), md.role) {
            ("in_sync", Some(_)) => "in-sync",
            ("spare", Some(_)) => "recovering",
            ("spare", None) => "spare",
            other => panic!("{seen}: {other:?}"),
        };
        assert_eq!(state, expected, "{seen}");
        whole += usize::from(state == "in-sync");
    }
    assert_eq!(left.case.recipe.members.len() - whole, left.degraded, "{name}: degraded");
    check_of(left, name);
}

/// The state that was asked for is the one that md made: a test of the test.
fn check_of(left: &Left, name: &str) {
    let recovering =
        left.members.iter().flatten().filter(|m| m.role.is_some() && m.recovered.is_some()).count();
    let spares = left.members.iter().flatten().filter(|m| m.role.is_none()).count();
    let gone = left.members.iter().filter(|m| m.is_none()).count();
    match &left.case.state {
        State::Whole => assert_eq!((left.degraded, left.resync, spares, gone), (0, None, 0, 0), "{name}"),
        State::Missing(roles) => assert_eq!((left.degraded, gone), (roles.len(), 0), "{name}"),
        State::Spares(count) => assert_eq!((left.degraded, spares), (0, *count), "{name}"),
        State::Stale(roles) => assert_eq!((left.degraded, gone), (roles.len(), roles.len()), "{name}"),
        State::HalfResynced => assert!(left.resync.is_some_and(|at| at > 0), "{name}: {:?}", left.resync),
        State::LostInResync(_) => {
            assert_eq!((left.degraded, gone), (1, 1), "{name}");
            // The last copy of all is true.
            let last = left.case.recipe.level == "1" && left.members.len() == 2;
            assert_eq!(left.resync.is_none(), last, "{name}");
        }
        // 0.90 has no room for how far it came: the member begins anew, as a spare.
        State::HalfRecovered(_) if left.case.recipe.metadata == "0.90" => {
            assert_eq!((left.degraded, spares), (1, 1), "{name}");
        }
        State::HalfRecovered(_) => assert_eq!((left.degraded, recovering), (1, 1), "{name}"),
    }
}

/// The fields of `mdadm --examine`; for 0.90 also what the line of the device itself says, as `this`.
fn by_mdadm(mdadm: &Path, path: &Path) -> BTreeMap<String, String> {
    let text = tools::run(mdadm, ["--examine".as_ref(), path.as_os_str()]);
    let mut fields: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(" : "))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let this = text.lines().find_map(|line| line.strip_prefix("this "));
    fields.extend(this.map(|line| ("this".to_owned(), line.to_owned())));
    fields
}

/// One member's superblock.
fn examine(name: &str, ours: &Value, mdadm: &BTreeMap<String, String>) {
    let theirs = |key: &str| mdadm.get(key).map(String::as_str);
    assert_eq!(ours["state"].as_str(), theirs("State"), "{name}");
    assert_eq!(Some(ours["events"].to_string().as_str()), theirs("Events"), "{name}");
    let uuid = theirs("Array UUID").or_else(|| theirs("UUID")).unwrap();
    assert_eq!(Some(ours["array_uuid"].as_str().unwrap()), uuid.split(' ').next(), "{name}");
    let role = ours["role"].as_str().unwrap();
    if let Some(this) = theirs("this") {
        // Number, major, minor, role, state.
        let words: Vec<&str> = this.split_whitespace().collect();
        match role.strip_prefix("active ") {
            Some(number) => assert_eq!((words[3], words[4]), (number, "active"), "{name}"),
            None => assert!(this.contains(role), "{name}: {role}, mdadm: {this}"),
        }
        return;
    }
    let expected = theirs("Device Role").unwrap().to_lowercase().replace("active device", "active");
    assert_eq!(role, expected, "{name}");
    let letters = theirs("Array State").unwrap().split(' ').next();
    assert_eq!(ours["array_state"].as_str(), letters, "{name}");
    // It does not print how far a resync came; md did, and detail was compared with that.
    let sectors =
        theirs("Recovery Offset").map(|text| text.trim_end_matches(" sectors").parse::<u64>().unwrap());
    assert_eq!(ours["recovery_offset"].as_u64(), sectors.map(|count| count * 512), "{name}");
}

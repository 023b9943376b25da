//! `cargo xtask mutants`: engines that are broken on purpose, each of which a storm must find.
//!
//! A mutant is a file in `scripts/mutants`. Its first line says what is broken. A line may name its storms (`only: text in their plan`), or the test
//! that finds what no storm can (`test: package target`). Edits follow: each a file, and the text in it that is replaced by another.
//! They are made in a copy of the sources under the target folder, so that nothing in the product knows of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Failure;

/// Where the mutants are, from the root.
const FOLDER: &str = "scripts/mutants";
/// Seeds between the searches for one mutant: more than a search gets through.
const STRIDE: u64 = 1_000_000;

/// One text for another in one file.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    file: PathBuf,
    find: String,
    replace: String,
}

/// An engine broken on purpose.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    name: String,
    why: String,
    /// In the plan of each storm that is tried; empty: any storm.
    only: String,
    /// The package and the target of the test that has to fail, in place of storms.
    test: Option<(String, String)>,
    edits: Vec<Edit>,
}

/// How the search goes.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Only the mutant of this name.
    pub(crate) only: Option<String>,
    /// Seconds for each seed at most.
    pub(crate) seconds: u64,
    /// Seeds for each mutant.
    pub(crate) seeds: u64,
    /// The first seed.
    pub(crate) seed: u64,
}

impl Mutant {
    fn parse(name: &str, text: &str) -> Option<Self> {
        let (why, rest) = text.split_once('\n')?;
        let head = rest.lines().next().unwrap_or_default();
        let only = head.strip_prefix("only: ").unwrap_or_default();
        let test = head.strip_prefix("test: ").and_then(|test| test.split_once(' '));
        let test = test.map(|(package, target)| (package.to_owned(), target.to_owned()));
        let edit = |part: &str| {
            let (file, rest) = part.split_once("\n<<<<\n")?;
            let (find, rest) = rest.split_once("\n====\n")?;
            let (replace, _) = rest.split_once("\n>>>>")?;
            Some(Edit { file: file.into(), find: find.into(), replace: replace.into() })
        };
        let edits: Option<Vec<Edit>> = rest.split("\n--- ").skip(1).map(edit).collect();
        let edits = edits.filter(|edits| !edits.is_empty())?;
        Some(Self { name: name.into(), why: why.into(), only: only.into(), test, edits })
    }

    /// All of them, by name.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>, Failure> {
        let mut mutants = Vec::new();
        for entry in fs::read_dir(root.join(FOLDER))? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let parsed = Self::parse(&name, &fs::read_to_string(&path)?);
            mutants.push(parsed.ok_or_else(|| format!("{}: no mutant", path.display()))?);
        }
        mutants.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(mutants)
    }

    /// The files that the mutant changes, with their new text.
    pub(crate) fn changed(&self, root: &Path) -> Result<Vec<(PathBuf, String)>, Failure> {
        let mut files: Vec<(PathBuf, String)> = Vec::new();
        for edit in &self.edits {
            let known = files.iter().position(|(file, _)| *file == edit.file);
            let text = match known {
                Some(at) => files.swap_remove(at).1,
                None => fs::read_to_string(root.join(&edit.file))?,
            };
            if text.matches(&edit.find).count() != 1 {
                let (name, file) = (&self.name, edit.file.display());
                return Err(format!(
                    "{name}: what it replaces is not in {file} just once: bring it up to date"
                )
                .into());
            }
            files.push((edit.file.clone(), text.replace(&edit.find, &edit.replace)));
        }
        Ok(files)
    }
}

/// Searches for each mutant; an error if one of them is found by fewer than nine seeds of ten.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Failure> {
    let copy = root.join("target/mutants/tree");
    copy_sources(root, &copy)?;
    let (mut known, mut missed) = (0, 0);
    let wanted = |mutant: &Mutant| options.only.as_ref().is_none_or(|only| *only == mutant.name);
    for mutant in Mutant::all(root)?.into_iter().filter(wanted) {
        // Changes the copy, so that work on the tree does not disturb the search.
        let changed = mutant.changed(&copy)?;
        let files = changed.iter().map(|(file, _)| Ok((file, fs::read_to_string(copy.join(file))?)));
        let sound: Vec<(&PathBuf, String)> = files.collect::<Result<_, Failure>>()?;
        for (file, text) in &changed {
            fs::write(copy.join(file), text)?;
        }
        let tested = mutant.test.as_ref().map(|test| fails(root, &copy, test));
        let built = if tested.is_none() { build(root, &copy).map(Some) } else { Ok(None) };
        for (file, text) in sound {
            fs::write(copy.join(file), text)?;
        }
        let storm = built.map_err(|why| format!("{}: {why}", mutant.name))?;
        let caught = match storm {
            Some(storm) => search(&storm, &mutant.only, options)?,
            None => {
                vec![tested.transpose()?.flatten(); options.seeds as usize].into_iter().flatten().collect()
            }
        };
        if known == 0 {
            println!(
                "| mutant | caught | cuts, median | seconds, most | what is broken |\n|---|---|---|---|---|"
            );
        }
        println!("{}", line(&mutant, &caught, options.seeds));
        known += 1;
        missed += u32::from(caught.len() as u64 * 10 < options.seeds * 9);
    }
    if missed > 0 {
        return Err(format!("{missed} mutants were not found by nine seeds of ten").into());
    }
    if known == 0 { Err("there is no such mutant".into()) } else { Ok(()) }
}

/// Copies what git knows of, where it differs: what stays the same is not built again.
fn copy_sources(root: &Path, copy: &Path) -> Result<(), Failure> {
    let what = ["ls-files", "-z", "crates", "tests", "xtask", "fuzz/targets", "Cargo.toml", "Cargo.lock"];
    let listed = Command::new("git").args(what).current_dir(root).output()?;
    for file in String::from_utf8(listed.stdout)?.split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (root.join(file), copy.join(file));
        let Ok(bytes) = fs::read(&from) else { continue };
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        fs::write(&to, bytes)?;
    }
    Ok(())
}

fn build(root: &Path, copy: &Path) -> Result<PathBuf, Failure> {
    let target = root.join("target/mutants/build");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "-p", "brindle-testkit", "--bin", "storm"]);
    // Each is built once and runs for seconds: what makes the product's build slow is not worth it here.
    cargo.envs([
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
        ("CARGO_INCREMENTAL", "1"),
        ("RUSTFLAGS", "-Awarnings"),
    ]);
    let status = cargo.env("CARGO_TARGET_DIR", &target).current_dir(copy).status()?;
    if status.success() { Ok(target.join("release/storm")) } else { Err("it does not build".into()) }
}

/// Whether the test of a mutant fails. It tries all there is to try, so that it counts for each seed.
fn fails(root: &Path, copy: &Path, (package, target): &(String, String)) -> Result<Option<Caught>, Failure> {
    let began = Instant::now();
    let cargo = |word: &str| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--quiet", "-p", package, "--test", target, word]).current_dir(copy);
        cargo.envs([("CARGO_INCREMENTAL", "1"), ("RUSTFLAGS", "-Awarnings")]);
        cargo.env("CARGO_TARGET_DIR", root.join("target/mutants/build")).output()
    };
    if !cargo("--no-run")?.status.success() {
        return Err(format!("the test {target} of {package} does not build").into());
    }
    let passes = cargo("--no-fail-fast")?.status.success();
    Ok((!passes).then(|| Caught { cuts: Some(0), seconds: began.elapsed().as_secs() }))
}

/// A seed that found a mutant, and the time it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caught {
    /// Power cuts; `None`: it never came back.
    cuts: Option<u64>,
    seconds: u64,
}

/// The seeds that found it.
fn search(storm: &Path, only: &str, options: &Options) -> Result<Vec<Caught>, Failure> {
    let mut caught = Vec::new();
    for n in 0..options.seeds {
        let (seed, seconds) = ((options.seed + n * STRIDE).to_string(), options.seconds.to_string());
        let began = Instant::now();
        // One that never comes back has been found too.
        let mut search = Command::new("timeout");
        search.arg((options.seconds + 30).to_string()).arg(storm);
        search.args(["--seed", &seed, "--seconds", &seconds, "--only", only]);
        search.envs([
            ("MALLOC_MMAP_THRESHOLD_", "1073741824"),
            ("MALLOC_TRIM_THRESHOLD_", "2147483648"),
            ("MALLOC_TOP_PAD_", "67108864"),
        ]);
        let output = search.output()?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stdout);
            if told.contains(", 0 runs, ") {
                return Err(format!("no storm is of '{only}': name marks that plans have").into());
            }
            let cuts = power_cuts(&told);
            caught.push(Caught { cuts, seconds: began.elapsed().as_secs() });
        }
    }
    Ok(caught)
}

/// The power cuts that a search tells of: "..., 24 power cuts (...".
fn power_cuts(output: &str) -> Option<u64> {
    let before = output.split(" power cuts (").next().filter(|before| before.len() < output.len())?;
    before.rsplit(' ').next()?.parse().ok()
}

/// A line of the table.
fn line(mutant: &Mutant, caught: &[Caught], seeds: u64) -> String {
    let mut cuts: Vec<u64> = caught.iter().map(|caught| caught.cuts.unwrap_or(u64::MAX)).collect();
    cuts.sort_unstable();
    let middle = match cuts.get(cuts.len() / 2) {
        None => "-".to_owned(),
        Some(&u64::MAX) => "hangs".to_owned(),
        Some(cuts) => cuts.to_string(),
    };
    let longest = caught.iter().map(|caught| caught.seconds).max().map_or("-".to_owned(), |s| s.to_string());
    let (name, why, count) = (&mutant.name, &mutant.why, caught.len());
    let among = match &mutant.test {
        Some((package, target)) => format!(" (test: {target} of {package})"),
        None if mutant.only.is_empty() => String::new(),
        None => format!(" (storms: {})", mutant.only),
    };
    format!("| {name} | {count} of {seeds} | {middle} | {longest} | {why}{among} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_changes_something() {
        let root = crate::workspace::root().expect("the workspace");
        let mutants = Mutant::all(&root).expect("mutants");
        assert!(mutants.len() >= 10, "{} mutants", mutants.len());
        for mutant in mutants {
            let changed = mutant.changed(&root).unwrap_or_else(|why| panic!("{why}"));
            assert!(
                changed
                    .iter()
                    .all(|(file, text)| fs::read_to_string(root.join(file)).is_ok_and(|old| old != *text))
            );
        }
    }

    #[test]
    fn a_mutant_is_read() {
        let mutant = Mutant::parse(
            "a",
            "why\n\n--- x.rs\n<<<<\nold\nline\n====\nnew\n>>>>\n\n--- y.rs\n<<<<\n1\n====\n2\n>>>>\n",
        );
        let mutant = mutant.expect("two edits");
        assert_eq!((mutant.why.as_str(), mutant.only.as_str(), mutant.edits.len()), ("why", "", 2));
        assert_eq!(mutant.edits[0].find, "old\nline");
        assert_eq!(mutant.edits[1].file, Path::new("y.rs"));
        assert!(Mutant::parse("b", "why\n").is_none());
        let lane = Mutant::parse("c", "why\nonly: in a file\n\n--- x.rs\n<<<<\n1\n====\n2\n>>>>\n");
        assert_eq!(lane.expect("an edit").only, "in a file");
        let tested = Mutant::parse("d", "why\ntest: xtask lanes\n\n--- x.rs\n<<<<\n1\n====\n2\n>>>>\n");
        assert_eq!(tested.expect("an edit").test, Some(("xtask".to_owned(), "lanes".to_owned())));
    }

    #[test]
    fn a_line_tells_the_median_of_the_cuts() {
        let reported =
            "a table\n9 seeds from 1, 216 runs, 301 power cuts (20 starts by force), 1 failures in 2 s";
        assert_eq!(power_cuts(reported), Some(301));
        assert_eq!(power_cuts("FAILED: make storm"), None);
        let mutant = Mutant {
            name: "a".into(),
            why: "why".into(),
            only: String::new(),
            test: None,
            edits: Vec::new(),
        };
        let caught = [(None, 90), (Some(7), 1), (Some(301), 2)];
        let caught = caught.map(|(cuts, seconds)| Caught { cuts, seconds });
        assert_eq!(line(&mutant, &caught, 3), "| a | 3 of 3 | 301 | 90 | why |");
        assert_eq!(line(&mutant, &caught[..1], 3), "| a | 1 of 3 | hangs | 90 | why |");
        assert_eq!(line(&mutant, &[], 3), "| a | 0 of 3 | - | - | why |");
        let lane = Mutant { only: "writes behind".into(), ..mutant };
        assert_eq!(line(&lane, &[], 3), "| a | 0 of 3 | - | - | why (storms: writes behind) |");
        let tested = Mutant { test: Some(("xtask".into(), "lanes".into())), ..lane };
        assert_eq!(line(&tested, &[], 3), "| a | 0 of 3 | - | - | why (test: lanes of xtask) |");
    }
}

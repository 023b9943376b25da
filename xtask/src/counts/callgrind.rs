//! Building the program that does the hot paths, running it under callgrind, and reading what that wrote.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::Failure;

const PROGRAM: &str = "instruction_counts";

/// A crate that has the program.
struct Place {
    package: &'static str,
    /// cargo's flag for programs of its kind.
    kind: &'static str,
    /// The program's sources, from the root.
    folder: &'static str,
    /// Where cargo puts it, from its folder. That is so of profile `bench`, too.
    built: &'static str,
}

/// A crate with no other dependencies than the program has: those of `THEN` take three times as long to build.
const NOW: Place =
    Place { package: "brindle-hot-paths", kind: "--bin", folder: "xtask/hot-paths/src", built: "release" };
/// At commits that have no such crate.
const THEN: Place = Place {
    package: "brindle-export",
    kind: "--example",
    folder: "crates/export/examples/instruction_counts",
    built: "release/examples",
};
/// Its file that makes arrays, for a commit that knew no ledgers.
const MADE_THEN: &str = "
use brindle_array::{Array, Config, Device};
use brindle_io::Io;
use brindle_layout::Geometry;

pub(crate) fn array(io: &Io, geometry: Geometry, devices: Vec<Option<Device>>) -> Array {
    Array::volatile(io, geometry, devices, Config::default())
}
";
/// The function within which instructions count.
const STRETCH: &str = "instruction_counts::hot_stretch";
/// Functions that the clock triggers are not counted: how often they run depends on how busy the machine is.
const BY_THE_CLOCK: [&str; 2] = ["brindle_members::watch::Watch::look", "brindle_members::presence::look"];

/// The instructions of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) name: String,
    /// For each operation.
    pub(crate) instructions: u64,
}

/// Why nothing can be counted here; `kernel` is the parity kernel of the stored counts.
pub(crate) fn missing(kernel: &str) -> Option<String> {
    let found =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return Some("valgrind is not installed; scripts/install-test-deps.sh knows the package".to_owned());
    }
    let own = kernel_here();
    (own != kernel)
        .then(|| format!("the stored counts are of parity kernel {kernel}, callgrind runs {own} here"))
}

/// The parity kernel under callgrind, which knows no AVX-512.
fn kernel_here() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return "avx2";
    }
    if cfg!(target_arch = "aarch64") { "neon" } else { "portable" }
}

/// Counts the instructions of the sources at `root`.
pub(crate) fn count(root: &Path) -> Result<Vec<Count>, Failure> {
    let target = MetadataCommand::new().current_dir(root).no_deps().exec()?.target_directory;
    build_and_count(&NOW, root, target.as_std_path())
}

/// Counts the instructions of `commit`, doing what the program of today does.
pub(crate) fn count_commit(root: &Path, commit: &str) -> Result<Vec<Count>, Failure> {
    let place = root.join("target/counts");
    let tree = place.join("tree");
    check_out(root, commit, &tree)?;
    let program = if tree.join(NOW.folder).exists() { &NOW } else { &THEN };
    let sources = tree.join(program.folder);
    fs::create_dir_all(&sources)?;
    for entry in fs::read_dir(root.join(NOW.folder))? {
        let file = entry?.path();
        fs::copy(&file, sources.join(file.file_name().unwrap_or_default()))?;
    }
    if !tree.join("crates/array/src/ledger").exists() {
        fs::write(sources.join("made.rs"), MADE_THEN)?;
    }
    // Dependencies of the program that the tests of `THEN` did not have at that commit. They are appended to the manifest,
    // which ends with the tests' dependencies.
    let manifest = tree.join("crates/export/Cargo.toml");
    let mut text = fs::read_to_string(&manifest)?;
    if !text.contains("brindle-layout") {
        text += "brindle-layout = { workspace = true }\n";
        fs::write(&manifest, text)?;
    }
    build_and_count(program, &tree, &place.join("build"))
}

/// Puts the sources of `commit`, and nothing else, into `tree`.
fn check_out(root: &Path, commit: &str, tree: &Path) -> Result<(), Failure> {
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    fs::create_dir_all(tree)?;
    let archive = tree.with_extension("tar");
    let mut git = Command::new("git");
    git.args(["archive", "--format=tar", "-o"]).arg(&archive).arg(commit).current_dir(root);
    done(&mut git)?;
    done(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(tree))
}

fn build_and_count(program: &Place, root: &Path, target: &Path) -> Result<Vec<Count>, Failure> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--profile", "bench", "--quiet", "-p", program.package, program.kind, PROGRAM]);
    done(cargo.env("CARGO_TARGET_DIR", target).current_dir(root))?;
    let place = target.join("counts");
    fs::create_dir_all(&place)?;
    measure(&target.join(program.built).join(PROGRAM), &place.join("callgrind.out"))
}

fn done(command: &mut Command) -> Result<(), Failure> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// Runs `program` under callgrind, which writes to `out`.
fn measure(program: &Path, out: &PathBuf) -> Result<Vec<Count>, Failure> {
    if out.exists() {
        fs::remove_file(out)?;
    }
    let option = |name: &str, value: &OsStr| {
        let mut option = std::ffi::OsString::from(format!("--{name}="));
        option.push(value);
        option
    };
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--combine-dumps=yes"])
        .arg(option("callgrind-out-file", out.as_os_str()));
    // Both by the same full name: valgrind 3.19 obeys but one of two options that have the same pattern.
    valgrind.args(["toggle-collect", "dump-after"].map(|name| option(name, STRETCH.as_ref())));
    let output = valgrind.arg(program).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{valgrind:?}: {}\n{said}", output.status).into());
    }
    let reported = String::from_utf8(output.stdout)?;
    per_operation(&reported, &stretches(&fs::read_to_string(out)?)).map_err(Into::into)
}

/// Instructions of each stretch, in order, without those of [`BY_THE_CLOCK`]: callgrind dumps when a stretch has
/// ended, and once more at the end.
fn stretches(dumps: &str) -> Vec<u64> {
    let mut counts = Vec::new();
    // Whether the dump is one of a stretch; what was done by the clock in it.
    let (mut ended, mut apart) = (false, 0);
    // A name is written where it comes first, and is a number from then on.
    let mut numbers: Vec<&str> = Vec::new();
    // Whether the last call named was one of these, and whether the next line says what it took.
    let (mut by_the_clock, mut took) = (false, false);
    for line in dumps.lines() {
        if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            (ended, apart) = (trigger.starts_with("--dump-after="), 0);
        } else if let Some(function) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (number, name) = function.split_once(' ').unwrap_or((function, ""));
            if BY_THE_CLOCK.contains(&name) {
                numbers.push(number);
            }
            by_the_clock = line.starts_with('c') && numbers.contains(&number);
        } else if line.starts_with("calls=") {
            took = by_the_clock;
        } else if core::mem::take(&mut took) {
            apart += line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        } else if let Some(total) = line.strip_prefix("totals: ")
            && ended
        {
            counts.extend(total.trim().parse::<u64>().map(|total| total - apart));
        }
    }
    counts
}

/// Instructions of each operation: `reported` has a line for each stretch (path, tab, operations), two stretches for each
/// path.
fn per_operation(reported: &str, stretches: &[u64]) -> Result<Vec<Count>, String> {
    let lines: Vec<(&str, u64)> = reported
        .lines()
        .map(|line| line.split_once('\t').and_then(|(name, count)| Some((name, count.parse().ok()?))))
        .collect::<Option<_>>()
        .ok_or("the program said what is no path and count")?;
    if lines.is_empty() || lines.len() != stretches.len() {
        return Err(format!("{} stretches were run, {} counted", lines.len(), stretches.len()));
    }
    let pairs = lines.chunks(2).zip(stretches.chunks(2));
    pairs
        .map(|pair| match pair {
            ([(name, few), (again, many)], [less, more]) if name == again && few < many && less < more => {
                let instructions = (more - less + (many - few) / 2) / (many - few);
                Ok(Count { name: (*name).to_owned(), instructions })
            }
            _ => Err(format!("not two stretches of a path: {pair:?}")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMPS: &str = "\
# callgrind format
part: 1
desc: Trigger: --dump-after=instruction_counts::hot_stretch
events: Ir
summary: 1500
fn=(1) instruction_counts::hot_stretch
10 1500
totals: 1500
part: 2
desc: Trigger: --dump-after=instruction_counts::hot_stretch
totals: 2500
part: 3
desc: Trigger: Program termination
totals: 0
";

    #[test]
    fn only_stretches_are_counted() {
        assert_eq!(stretches(DUMPS), [1500, 2500]);
        assert!(stretches("").is_empty());
    }

    #[test]
    fn what_is_done_by_the_clock_is_left_out() {
        let watch = "10 1500\ncfn=(7) brindle_members::watch::Watch::look\ncalls=2 100\n11 400\n12 30\n";
        let dumps = DUMPS.replacen("10 1500\n", watch, 1);
        let dumps = dumps
            .replace("totals: 2500", "cfn=(1)\ncalls=1 9\n9 100\ncfn=(7)\ncalls=1 1\n* 500\ntotals: 2500");
        assert_eq!(stretches(&dumps), [1100, 2000]);
    }

    #[test]
    fn what_a_stretch_costs_to_begin_does_not_count() {
        let counts = per_operation("a path\t10\na path\t20\n", &stretches(DUMPS));
        assert_eq!(counts, Ok(vec![Count { name: "a path".to_owned(), instructions: 100 }]));
        // Rounded to the nearest.
        assert_eq!(per_operation("a\t2\na\t4", &[10, 15]).map(|counts| counts[0].instructions), Ok(3));
    }

    #[test]
    fn counts_that_do_not_fit_their_paths_are_refused() {
        for (reported, counted) in [
            ("", vec![]),
            ("a\t10\na\t20", vec![5]),
            ("a\t10\nb\t20", vec![5, 10]),
            ("a\t10\na\t10", vec![5, 10]),
            ("a\t10\na\t20", vec![10, 5]),
            ("a\t10", vec![5]),
            ("a\nb", vec![5, 10]),
        ] {
            assert!(per_operation(reported, &counted).is_err(), "{reported:?}");
        }
    }
}

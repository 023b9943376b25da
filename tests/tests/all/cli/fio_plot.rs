//! Charts that fio-plot, from the Python registry, draws of our reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brindle_testkit::skip::{Missing, or_skip};
use brindle_tests::files::MIB;
use brindle_tests::program::{self, Ran};

use super::{Set, name};

/// fio-plot, where `scripts/install-test-deps.sh` puts it.
fn fio_plot() -> Result<PathBuf, Missing> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/bin/fio-plot");
    let missing =
        || Missing::new("fio-plot is not in target/python; scripts/install-test-deps.sh installs it");
    program.is_file().then_some(program).ok_or_else(missing)
}

/// Measures into the folder what fio-plot looks for, under the names that it knows.
fn measure(set: &Set, depth: u32) {
    let log = format!("randread-iodepth-{depth}-numjobs-1");
    let mut command = Command::new(program::path());
    command.current_dir(set.dir.path()).args([
        "bench",
        "--name=probe",
        "--rw=randread",
        "--bs=4k",
        "--time_based",
    ]);
    command.args(["--runtime=300ms", "--log_avg_msec=50", "--output-format=json"]);
    command.arg(format!("--iodepth={depth}"));
    command.args(["bw", "iops", "lat"].map(|kind| format!("--write_{kind}_log={log}")));
    let report = Ran::of({
        command.arg("--device").args(&set.members);
        command
    });
    fs::write(set.path(&format!("randread-{depth}-1.json")), report.ok().out).unwrap();
}

#[test]
fn fio_plot_draws_reports_and_logs() {
    let Some(fio_plot) = or_skip(fio_plot()) else { return };
    let set = Set::random(1, MIB);
    [1, 8].into_iter().for_each(|depth| measure(&set, depth));
    for (kind, words) in
        [("bars", "-l -d 1 8"), ("histogram", "-H -d 8"), ("lines", "-g -t iops lat bw -d 8")]
    {
        let picture = set.path(&format!("{kind}.png"));
        let mut command = Command::new(&fio_plot);
        command
            .current_dir(set.dir.path())
            .args(["-i", ".", "-T", kind, "-s", "us", "-n", "1", "-r", "randread"]);
        let ran = Ran::of({
            command.args(words.split(' ')).args(["-o", name(&picture)]);
            command
        });
        let ran = ran.ended(0);
        // It ends well where it finds nothing to draw, too.
        let drawn = fs::read(&picture).unwrap_or_default();
        assert!(drawn.starts_with(b"\x89PNG") && drawn.len() > 20_000, "{kind}: {}{}", ran.text(), ran.err);
    }
    // The depth that it needs is in the report indeed: without it fio-plot finds nothing.
    let report = set.path("randread-8-1.json");
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.contains("\"iodepth\": \"8\""), "{text}");
}

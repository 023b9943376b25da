//! Memory of a server. All of it counts, pages of the program's file included. Peaks are the kernel's own record of
//! them (`VmHWM`), so that nothing depends on the moment of the measurement.

use std::time::{Duration, Instant};

use brindle_tests::tools::{self, or_skip};

use super::*;

/// Bytes that a server may have at rest, and beside `--memory` under load: 25 MiB of it are pages of the program as tests build it.
pub(super) const REST: u64 = 42 * MIB;
/// Bytes that pass through it.
const LOAD: u64 = 256 * MIB;

fn raid6() -> Set {
    let set = Set::sparse(4, 160 * MIB);
    set.create("-l 6 -c 64K -N a").ok();
    set
}

/// Bytes of a figure in the kernel's report on the server.
pub(crate) fn bytes(server: &Server, figure: &str) -> u64 {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let report = std::fs::read_to_string(path).unwrap();
    let line = report.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * KIB
}

#[test]
fn a_server_starts_small_however_much_memory_it_may_have() {
    let set = raid6();
    let peaks = ["32M", "256M", "1G"].map(|memory| {
        let server = set.serve_some(&format!("--memory {memory}"), &set.members);
        let peak = bytes(&server, "VmHWM");
        server.stop();
        peak
    });
    assert!(peaks.iter().all(|&peak| peak <= REST), "{peaks:?}");
    let [least, most] = [peaks.iter().min(), peaks.iter().max()].map(Option::unwrap);
    // Two starts of one program differ by less than this.
    assert!(most - least <= 2 * MIB, "{peaks:?}");
}

#[test]
fn a_server_keeps_to_its_memory_under_load_and_gives_it_back() {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let set = raid6();
    let source = set.path("source");
    files::write_pattern(&source, LOAD, 1);
    for memory in [64, 256] {
        let server = set.serve_some(&format!("--memory {memory}M"), &set.members);
        // Many large requests at a time, so that all that may be had is asked for.
        let flags = ["--requests=128", "--connections=4", "--request-size=4194304"];
        tools::run(&nbdcopy, flags.into_iter().chain([name(&source), &server.uri()]));
        let peak = bytes(&server, "VmHWM");
        assert!(peak <= memory * MIB + REST, "{peak} bytes with --memory {memory}M");
        wait_for_rest(&server);
        server.stop();
    }
}

/// It is ten seconds on an idle machine.
#[track_caller]
fn wait_for_rest(server: &Server) {
    let begun = Instant::now();
    while bytes(server, "VmRSS") > REST {
        let resident = bytes(server, "VmRSS");
        assert!(begun.elapsed() < Duration::from_secs(60), "{resident} bytes stay resident");
        std::thread::sleep(Duration::from_millis(50));
    }
}

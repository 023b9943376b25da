//! A server of which nobody asks anything: it lets the processor sleep.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use brindle_tests::nbd::{Change, Client, Work};

use super::*;

/// How often each thread of a process has begun to wait so far.
fn waits(server: &Server) -> BTreeMap<OsString, u64> {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let of = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let count = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok();
        (task.file_name(), status.lines().find_map(count).unwrap_or(0))
    };
    std::fs::read_dir(tasks).unwrap().map(|task| of(task.unwrap())).collect()
}

#[test]
fn a_server_without_requests_wakes_twice_a_second_at_most() {
    let set = Set::sparse(6, 24 * MIB);
    set.create("-l 6 -c 64K -N a").ok();
    let server = set.serve("");
    let mut client = Client::connect(&server.uri());
    let data = vec![1; 64 << 10];
    client.all_at_once(&[Change { offset: 0, len: 64 << 10, work: Work::Write { data, fua: false } }]);
    client.close();
    // Until the writes are forgotten and the members are marked clean.
    server.wait_for_state("active", false);
    std::thread::sleep(Duration::from_secs(2));
    // The rest of what was done before may end late on a busy machine: an idle server is quiet in the next window.
    let mut counts = Vec::new();
    while counts.len() < 3 && counts.last().is_none_or(|waited| *waited > 32) {
        let before = waits(&server);
        std::thread::sleep(Duration::from_secs(16));
        // Workers of the kernel end meanwhile, and others begin.
        let since = |(thread, count): (OsString, u64)| {
            count.saturating_sub(before.get(&thread).copied().unwrap_or(0))
        };
        counts.push(waits(&server).into_iter().map(since).sum::<u64>());
    }
    assert!(counts.last().is_some_and(|waited| *waited <= 32), "{counts:?} times in 16 seconds");
    server.stop();
}

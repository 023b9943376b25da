//! The bytes that predictions of md move of each member are those that kernels' own md moved.

use crate::made::md_bytes::{Kind, compare_all};

/// Cells that differ, of those that are held.
fn wrong(which: &str, kernel: &str) -> Vec<String> {
    let all = compare_all(which, kernel);
    let held = all.iter().filter(|cell| cell.kind == Kind::Held).count();
    for kind in [Kind::Held, Kind::InOrder, Kind::CacheIsFull, Kind::Chance, Kind::Heads] {
        let these = || all.iter().filter(|cell| cell.kind == kind);
        println!(
            "{which} {kernel} {kind:?}: {} of {} equal",
            these().filter(|cell| cell.is_equal).count(),
            these().count()
        );
    }
    assert!(3 * held > 2 * all.len(), "{held} of {} are held", all.len());
    let wrong = all.iter().filter(|cell| cell.kind == Kind::Held && !cell.is_equal);
    wrong
        .map(|cell| format!("RAID {}: {}\n    predicted {:?}", cell.level, cell.line, cell.predicted))
        .collect()
}

#[test]
fn one_request_at_a_time_moves_the_bytes_that_md_moves() {
    for kernel in ["6.1", "6.12"] {
        let wrong = wrong("bytes", kernel);
        assert!(wrong.is_empty(), "Linux {kernel}, {}:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn many_requests_at_once_move_about_the_bytes_that_md_moves() {
    let wrong = wrong("deep", "6.1");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

//! How close predictions of md arrays come to published figures; all of them stand in docs/bench/accuracy.md.

use brindle_lab::predict::Kernel;

use crate::made::published::{bitmaps, few_jobs, mean_error, raid0, raid6, raid10};

#[test]
fn raid_10_over_four_sata_drives() {
    let points = raid10(Kernel::PUBLISHED, |_, _| true);
    assert_eq!(points.len(), 16);
    let error = mean_error(&points);
    let all: Vec<_> = points.iter().map(|point| format!("{} {:+.1}", point.load, point.error())).collect();
    assert!(error <= 6.0, "{error:.2} %: {all:?}");
}

/// Those of 4K fitted the processor time of a job, those of 512K nothing: docs/bench/accuracy.md.
#[test]
fn four_jobs_over_nvme_drives_are_bound_by_their_own_processors() {
    let points = few_jobs();
    let all: Vec<_> = points.iter().map(|point| format!("{} {:+.1}", point.load, point.error())).collect();
    assert!(points.len() == 4 && points.iter().all(|point| point.error().abs() <= 15.0), "{all:?}");
    assert!(mean_error(&points) <= 6.0, "{all:?}");
}

#[test]
fn raid_0_over_twelve_nvme_drives() {
    let points = raid0(|reads| [0, 50, 65, 100].contains(&reads));
    let all: Vec<_> = points.iter().map(|point| format!("{} {:+.1}", point.load, point.error())).collect();
    assert!(mean_error(&points[..3]) <= 6.0, "{all:?}");
    assert!(points[3].error().abs() <= 12.0, "{all:?}");
}

/// Three of its figures fitted constants (writes alone, reads alone, 95 % reads): docs/bench/accuracy.md.
#[test]
fn raid_6_over_twelve_nvme_drives() {
    let points = raid6(|reads| [0, 35, 65, 95, 100].contains(&reads));
    let all: Vec<_> = points.iter().map(|point| format!("{} {:+.1}", point.load, point.error())).collect();
    assert!(points.iter().all(|point| point.error().abs() <= 7.0), "{all:?}");
    assert!(mean_error(&points) <= 4.0, "{all:?}");
}

/// Two of its rows fitted the time of a flush and of a read: docs/bench/accuracy.md.
#[test]
fn bitmaps_on_consumer_nvme_drives() {
    let points = bitmaps(|_| true);
    let all: Vec<_> = points
        .iter()
        .map(|point| format!("{} {:.0} {:+.1}", point.load, point.predicted, point.error()))
        .collect();
    assert!(points.len() == 5 && points.iter().all(|point| point.error().abs() <= 20.0), "{all:?}");
    assert!(mean_error(&points) <= 8.0, "{all:?}");
}

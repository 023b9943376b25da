//! Scans of pools that are served, as their servers report them: for people, and as exit statuses.

use std::process::ExitCode;

use brindle_host::status::{ScanState, ScanStatus};

use crate::base::exit_status::UNREADABLE;
use crate::base::sync::{SyncReport, span};
use crate::base::units::Bytes;
use crate::client::findings;

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// The scan in a line.
pub(crate) fn text(scan: &ScanStatus) -> String {
    let what = scan.kind();
    match scan.state() {
        ScanState::Running { done, total, .. } => {
            let sync = scan.sync();
            let progress = SyncReport::of(&sync).map(|sync| sync.text()).unwrap_or_default();
            format!("{what} in progress: {progress}; {} of {}\n", Bytes(*done), Bytes(*total))
        }
        ScanState::Finished { began, at, errors, lost, healed, unverified, stopped, action } => {
            let how = match stopped {
                Some(why) => format!("{what} ended early ({why})"),
                None if action == "check" => {
                    format!("{what} that writes nothing, in {}", span(at.saturating_sub(*began)))
                }
                None => format!("{what} healed {healed} blocks in {}", span(at.saturating_sub(*began))),
            };
            let mut text = format!("{how}: {errors} errors left");
            if *lost > 0 {
                text.push_str(&format!(", {lost} blocks of volumes are lost"));
            }
            if *unverified > 0 {
                let bytes = Bytes(unverified.saturating_mul(BLOCK));
                text.push_str(&format!(
                    ", {bytes} not looked at, since members are missing or did not answer"
                ));
            }
            text + "\n"
        }
    }
}

/// The exit status of a scan that has ended, as `check` has it.
pub(crate) fn status(scan: Option<&ScanStatus>) -> ExitCode {
    match scan.map(ScanStatus::state) {
        None | Some(ScanState::Running { .. }) => ExitCode::SUCCESS,
        Some(ScanState::Finished { stopped: Some(_), .. }) => ExitCode::FAILURE,
        Some(ScanState::Finished { lost: 1.., .. }) => ExitCode::from(UNREADABLE),
        Some(ScanState::Finished { errors, unverified, .. }) => findings::status(*errors, 0, *unverified),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(errors: u64, lost: u64, unverified: u64, stopped: Option<&str>) -> ScanStatus {
        let (action, stopped) = ("repair".to_owned(), stopped.map(str::to_owned));
        ScanStatus::Scrub(ScanState::Finished {
            action,
            began: 10,
            at: 75,
            errors,
            lost,
            healed: 3,
            unverified,
            stopped,
        })
    }

    #[test]
    fn the_status_of_a_scrub_tells_what_is_left() {
        let of = |scan: ScanStatus| format!("{:?}", status(Some(&scan)));
        let all = [
            finished(0, 0, 0, None),
            finished(2, 0, 5, None),
            finished(2, 1, 0, None),
            finished(0, 0, 5, None),
        ];
        let want = [0, 3, 4, 5].map(|code| format!("{:?}", ExitCode::from(code)));
        assert_eq!(all.map(of), want);
        assert_eq!(of(finished(0, 0, 0, Some("stopped"))), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn a_scan_is_told_in_a_line() {
        assert_eq!(text(&finished(0, 0, 0, None)), "scrub healed 3 blocks in 0:01:05: 0 errors left\n");
        let lacking = text(&finished(1, 1, 2, None));
        assert!(
            lacking.contains("1 blocks of volumes are lost") && lacking.contains("8 KiB not looked at"),
            "{lacking}"
        );
        let (action, speed, eta) = ("repair".to_owned(), Some(4 << 20), Some(60));
        let running = ScanState::Running { action, done: 1 << 20, total: 2 << 20, paused: false, speed, eta };
        let told = text(&ScanStatus::Scrub(running));
        assert!(told.starts_with("scrub in progress: repair 50.0%, 4.0 MiB/s, 0:01:00 left"), "{told}");
    }
}

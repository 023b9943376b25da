//! A machine that runs.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::output;
use super::report::{self, Failure, Report};
use super::times;

/// Files of a machine, in its folder: what comes over each serial line, and the disk with what `sha` handed over.
pub(super) const CONSOLE: &str = "console";
pub(super) const RESULTS: &str = "results";
pub(super) const OUTPUT: &str = "output";

/// A running machine. Killed when dropped, whatever becomes of the test.
#[derive(Debug)]
pub struct Machine {
    qemu: Child,
    /// Holds its files.
    dir: TempDir,
    started: Instant,
    limit: Duration,
}

impl Machine {
    pub(super) fn start(mut command: Command, dir: TempDir, limit: Duration) -> Self {
        let started = Instant::now();
        Self { qemu: command.spawn().expect("qemu starts"), dir, started, limit }
    }

    /// Waits for the end of the script and of the machine.
    ///
    /// # Errors
    /// The script failed, the kernel panicked or complained, or time ran out; with the log of all that happened.
    ///
    /// # Panics
    /// If the host can't watch QEMU.
    pub fn finish(mut self) -> Result<Report, Failure> {
        let ended = self.wait_until(self.started + self.limit).is_some();
        if !ended {
            let _ = self.qemu.kill();
        }
        let log = format!("{}{}", self.log(), self.complaints(ended));
        let report = report::judge(log, &self.results(), ended, self.started.elapsed());
        if std::env::var_os("BRINDLE_VM_LOG").is_some() {
            match &report {
                Ok(report) => println!("{}", report.log),
                Err(failure) => println!("{failure}"),
            }
        }
        report
    }

    /// Pulls the plug as soon as the script has put enough: what the machine has told its disks is on them, what it
    /// still holds in memory is gone. `enough` is asked with each key's values so far; what `sha` gave is no hash yet.
    ///
    /// # Panics
    /// With the log if the machine ended or time ran out before.
    pub fn kill_when(mut self, enough: impl Fn(&Report) -> bool) -> Report {
        loop {
            let ended = self.qemu.try_wait().expect("a child can be waited for").is_some();
            // Without hashes: to compute them over and over would take the host's time from the machine.
            let report = report::so_far(self.log(), &self.read(RESULTS), self.started.elapsed());
            if enough(&report) && !ended {
                self.qemu.kill().expect("a child can be killed");
                self.qemu.wait().expect("a child can be waited for");
                // Results that it put between the look and its end count too.
                return report::so_far(self.log(), &self.results(), self.started.elapsed());
            }
            let late = self.started.elapsed() > self.limit;
            assert!(!ended && !late, "{}\nthe machine ended or hung before it had put enough", report.log);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        self.read(CONSOLE)
    }

    /// The results that the script put, with hashes for the data that it handed over.
    fn results(&self) -> String {
        output::hashed(&self.read(RESULTS), &self.dir.path().join(OUTPUT))
    }

    /// The bytes that came over the serial line of this name.
    fn read(&self, line: &str) -> String {
        let path: &Path = self.dir.path();
        String::from_utf8_lossy(&std::fs::read(path.join(line)).unwrap_or_default()).into_owned()
    }

    /// Waits for the end; `None` if it did not come before `deadline`.
    fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        while Instant::now() < deadline {
            if let Some(status) = self.qemu.try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// The error output of QEMU itself; none for a machine that did not end, whose pipe may still be open.
    fn complaints(&mut self, ended: bool) -> String {
        let mut text = String::new();
        if let (true, Some(mut stderr)) = (ended, self.qemu.stderr.take()) {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
        }
        text
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        times::keep(&self.log(), self.started.elapsed());
    }
}

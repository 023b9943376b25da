//! How long machines take, for the table of `make test`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

/// The variable that names the file; without it nothing is kept.
const FILE: &str = "BRINDLE_MACHINE_TIMES";

/// The start of the line that a machine writes to its console just before the test's script.
const BOOTED: &str = "booted in ";

/// Adds a line to the file: seconds until the script began (`-` if it never did), seconds until the machine's end, and the test.
pub(super) fn keep(log: &str, took: Duration) {
    let Some(path) = std::env::var_os(FILE) else { return };
    let booted = boot_seconds(log).unwrap_or("-");
    let thread = std::thread::current();
    // One write for each line: machines of several threads end at the same time.
    let line = format!("{booted} {:.1} {}\n", took.as_secs_f64(), thread.name().unwrap_or("?"));
    let _ = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
}

/// The kernel's own seconds at the moment at which the script began.
fn boot_seconds(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.trim_end().split_once(BOOTED)?.1.strip_suffix(" s"))
}

#[cfg(test)]
mod tests {
    use super::boot_seconds;

    #[test]
    fn the_seconds_of_a_boot_are_read_from_the_console() {
        assert_eq!(boot_seconds("loading\r\n[    1.0] x: booted in 3.21 s\r\nmd: done\r\n"), Some("3.21"));
        assert_eq!(boot_seconds("Kernel panic\n"), None);
    }
}

//! fio as a client that verifies what it wrote.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use brindle_tests::files::MIB;
use brindle_tests::tools::{self, or_skip};
use rustix::io::Errno;
use serde_json::Value;

/// Where the half of the array begins that is written to all the time. Bytes, a multiple of the rows.
const SECOND: u64 = 69 * MIB;

/// fio, and what it has found to be right.
pub(super) struct Verifier {
    fio: PathBuf,
    /// MiB of each half.
    mib: u64,
    /// Bytes that were read and were right.
    verified: Arc<AtomicU64>,
    seed: u64,
}

/// fio again and again, until it is told to stop.
pub(super) struct Writing {
    enough: Arc<AtomicBool>,
    /// The server will be killed, or has no room for what is written: what ends with an error then is no fault, unless
    /// it is one of a checksum.
    doomed: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Verifier {
    pub(super) fn new(mib: u64) -> Option<Self> {
        let fio = or_skip(tools::find("fio"))?;
        Some(Self { fio, mib, verified: Arc::default(), seed: 0 })
    }

    pub(super) fn verified_mib(&self) -> u64 {
        self.verified.load(Relaxed) / MIB
    }

    /// Writes the first half, each block with its checksum, and flushes it.
    pub(super) fn write_first(&mut self, uri: &str) {
        self.seed += 1;
        let args = ["--rw=write", "--do_verify=0", "--end_fsync=1"];
        run(&self.fio, uri, 0, self.mib, self.seed, &args).expect("the first half can be written");
    }

    /// Reads back what [`Verifier::write_first`] wrote last.
    pub(super) fn verify_first(&self, uri: &str) {
        let read = run(&self.fio, uri, 0, self.mib, self.seed, &["--rw=read"]);
        self.verified.fetch_add(read.unwrap_or_else(|why| panic!("the first half: {why}")), Relaxed);
    }

    /// Begins to write to the second half and verify it, at random places, each time with other content.
    pub(super) fn keep_writing(&mut self, uri: &str) -> Writing {
        let (enough, doomed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (fio, uri, mib, verified) =
            (self.fio.clone(), uri.to_owned(), self.mib, Arc::clone(&self.verified));
        let (until, killed, mut seed) = (Arc::clone(&enough), Arc::clone(&doomed), self.seed * 1000);
        let wrong = format!("error {}", Errno::ILSEQ.raw_os_error());
        let thread = std::thread::spawn(move || {
            while !until.load(Relaxed) {
                seed += 1;
                let args = ["--rw=randwrite", "--do_verify=1", "--randrepeat=0"];
                match run(&fio, &uri, SECOND, mib, seed, &args) {
                    Ok(read) => _ = verified.fetch_add(read, Relaxed),
                    Err(why) if killed.load(Relaxed) && !why.contains(&wrong) => return,
                    Err(why) => panic!("the second half: {why}"),
                }
            }
        });
        Writing { enough, doomed, thread }
    }
}

impl Writing {
    /// The server is about to be killed, or to have no room.
    pub(super) fn is_doomed(&self) {
        self.doomed.store(true, Relaxed);
    }

    /// Waits for the end of what is under way, which has to be right.
    pub(super) fn end(self) {
        self.enough.store(true, Relaxed);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs fio to its end; bytes that it has read.
fn run(fio: &PathBuf, uri: &str, offset: u64, mib: u64, seed: u64, args: &[&str]) -> Result<u64, String> {
    let mut command = Command::new(fio);
    command
        .args(["--name=soak", "--ioengine=nbd", "--bs=4k", "--iodepth=16", "--verify=crc32c"])
        .args(["--verify_fatal=1", "--verify_state_save=0", "--output-format=json"])
        .args([format!("--uri={uri}"), format!("--offset={offset}"), format!("--size={mib}m")])
        .arg(format!("--randseed={seed}"))
        .args(args);
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Messages may come before the report.
    let report = out.find("\n{").map_or(&*out, |at| &out[at..]);
    let report: Value =
        serde_json::from_str(report).map_err(|error| format!("{command:?}: {error}\n{out}{err}"))?;
    let job = &report["jobs"][0];
    if !output.status.success() || job["error"] != 0 {
        return Err(format!("{command:?}: {}, error {}\n{out}{err}", output.status, job["error"]));
    }
    job["read"]["io_bytes"].as_u64().ok_or_else(|| format!("no count of bytes\n{out}"))
}

//! Every fuzzer, briefly and with any compiler: the stored inputs (seeds, and whatever was once found), then as many
//! random changes to them. What is tried is the same in every run and on every machine, unless `BRINDLE_FUZZ_SECONDS` asks for so many
//! seconds of each, from `BRINDLE_FUZZ_SEED`: a search without libFuzzer's sense of coverage, for machines that can't have that.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brindle_fuzz_targets::mutate::{Chance, mutate};
use brindle_fuzz_targets::{
    assemble, console, control, drive_model, fuse_calls, imsm, imsm_set, iscsi_login, iscsi_session,
    job_file, md_sidecars, md_superblock, nbd_client, nbd_options, nbd_tls, nbd_transmission,
    partition_tables, partitions, plan, pool_members, rights, scsi_commands, signature, trace,
};

/// Longer inputs are cut.
const LONGEST: usize = 4400;

/// The inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable input")).collect()
}

/// A number that a variable of the environment says, if it is there.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|said| said.parse().expect("a number"))
}

/// Runs the stored inputs and `changed` changed ones, or as many as the time allows that was asked for.
fn replay(target: &str, run: fn(&[u8]), changed: usize) {
    let stored = corpus(target);
    assert!(!stored.is_empty(), "no inputs are stored for {target}");
    stored.iter().for_each(|input| run(input));
    let mut chance = Chance::new(number("BRINDLE_FUZZ_SEED").unwrap_or(0x0062_7269_6e64_6c65));
    let (begun, time) = (Instant::now(), number("BRINDLE_FUZZ_SECONDS").map(Duration::from_secs));
    let goes_on = |tried| time.map_or(tried < changed, |time| begun.elapsed() < time);
    let mut tried = 0;
    while goes_on(tried) {
        tried += 1;
        let mut input = stored[chance.below(stored.len())].clone();
        let other = &stored[chance.below(stored.len())];
        mutate(&mut input, other, LONGEST, &mut chance);
        let trial = input.clone();
        let caught = std::panic::catch_unwind(move || run(&trial));
        if caught.is_err() {
            panic!("{target} does not stand this input; store it in fuzz/corpus/{target}:\n{}", hex(&input));
        }
    }
    println!("{target}: {tried} changed inputs in {} s", begun.elapsed().as_secs());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn superblocks() {
    replay("md_superblock", md_superblock::run, 50_000);
}

#[test]
fn what_stands_beside_superblocks() {
    replay("md_sidecars", md_sidecars::run, 50_000);
}

#[test]
fn signatures() {
    replay("signature", signature::run, 3_000);
}

#[test]
fn partitions_of_any_table() {
    replay("partitions", partitions::run, 10_000);
}

#[test]
fn containers_of_intel() {
    replay("imsm", imsm::run, 20_000);
}

#[test]
fn requests_to_the_console() {
    replay("console", console::run, 20_000);
}

#[test]
fn sets_of_disks_of_intel() {
    replay("imsm_set", imsm_set::run, 5_000);
}

#[test]
fn tables_with_their_backups() {
    replay("partition_tables", partition_tables::run, 10_000);
}

#[test]
fn sets_of_hostile_members() {
    replay("assemble", assemble::run, 4_000);
}

#[test]
fn members_of_pools() {
    replay("pool_members", pool_members::run, 120);
}

#[test]
fn nbd_servers() {
    replay("nbd_client", nbd_client::run, 50_000);
}

#[test]
fn nbd_handshakes() {
    replay("nbd_options", nbd_options::run, 4_000);
}

#[test]
fn kernels_of_mounts() {
    replay("fuse_calls", fuse_calls::run, 1_000);
}

#[test]
fn iscsi_logins() {
    replay("iscsi_login", iscsi_login::run, 50_000);
}

#[test]
fn iscsi_sessions() {
    replay("iscsi_session", iscsi_session::run, 2_000);
}

#[test]
fn nbd_with_tls() {
    replay("nbd_tls", nbd_tls::run, 2_000);
}

#[test]
fn rights_and_certificates() {
    replay("rights", rights::run, 20_000);
}

#[test]
fn scsi_disks() {
    replay("scsi_commands", scsi_commands::run, 50_000);
}

#[test]
fn nbd_transmissions() {
    replay("nbd_transmission", nbd_transmission::run, 3_000);
}

#[test]
fn drive_models() {
    replay("drive_model", drive_model::run, 10_000);
}

#[test]
fn plans() {
    replay("plan", plan::run, 20_000);
}

#[test]
fn traces() {
    replay("trace", trace::run, 10_000);
}

#[test]
fn job_files() {
    replay("job_file", job_file::run, 50_000);
}

#[test]
fn texts_and_requests() {
    replay("control", control::run, 50_000);
}

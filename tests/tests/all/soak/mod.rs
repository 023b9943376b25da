//! A server that fio writes to and verifies all the time, while everything happens to its members that can: `make soak`.
//!
//! Rounds follow each other until the time is over: one round in `make test`, in which each fault comes once. The members
//! are files of a file system of ours, which hangs, fills up, can't read, and forgets what it is told to. Two halves of the
//! array are used: one is written once a round and has to be read back whatever happened since; to the other fio writes
//! and verifies all the time. They have no row in common, so that what a killed server leaves of the second says nothing
//! of the first.

mod fio;
mod scene;

use std::time::{Duration, Instant};

use brindle_testkit::random::Random;
use brindle_testkit::skip::is_long;

use fio::Verifier;
use scene::Scene;

/// Minutes to go on for.
const MINUTES: &str = "BRINDLE_SOAK_MINUTES";

#[test]
fn nothing_is_lost_whatever_happens_to_members_and_server() {
    let minutes: u64 = std::env::var(MINUTES).ok().and_then(|minutes| minutes.parse().ok()).unwrap_or(0);
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
    let Some(mut scene) = Scene::new() else { return };
    let Some(mut verifier) = Verifier::new(if minutes == 0 && !is_long() { 8 } else { 64 }) else { return };
    let (mut random, begun) = (Random::new(seed), Instant::now());
    eprintln!("soak: seed {seed}");
    loop {
        scene.round(&mut verifier, &mut random);
        if begun.elapsed() >= Duration::from_secs(60 * minutes) {
            break;
        }
        eprintln!("soak: {} s, {}", begun.elapsed().as_secs(), scene.reported(&verifier));
    }
    scene.ends(&mut verifier);
    println!("soak: {} s, {}", begun.elapsed().as_secs(), scene.reported(&verifier));
}

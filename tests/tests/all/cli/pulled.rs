//! Block devices that become smaller while they serve: a disk that is pulled has no bytes, and takes writes as a full file system does.

use std::fs::File;
use std::process::Command;

use brindle_tests::loops::Loop;
use brindle_tests::tools::or_skip;
use rustix::process::Signal;

use super::full::connect;
use super::*;

const PIECE: u64 = 64 * KIB;
const PIECES: u64 = 64;

fn content(piece: u64, round: u64) -> Vec<u8> {
    (0..PIECE).map(|at| (piece * 37 + round * 11 + at / 509 + at) as u8).collect()
}

/// Gives the loop device's file another length, and tells the device.
fn resize(device: &Loop, file: &Path, len: u64) {
    File::options().write(true).open(file).unwrap().set_len(len).unwrap();
    assert!(Command::new("losetup").arg("--set-capacity").arg(device.path()).status().unwrap().success());
}

#[test]
fn a_device_that_is_pulled_or_cut_fails_and_no_client_sees_an_error() {
    let cases = [
        ("-l 1", "", "--reactor uring", 0),
        ("-l 6 -c 64K", "", "--reactor threads", 0),
        ("-l 10 -c 64K", "emulate:nvme:", "", 0),
        ("-l 5 -c 64K", "", "", 6 * MIB),
    ];
    for (flags, prefix, reactor, left) in cases {
        let mut set = Set::sparse(4, 16 * MIB);
        let mut loops = Vec::new();
        for file in &set.members {
            let Some(device) = or_skip(Loop::over(file, 512)) else { return };
            // Of a loop device whose file has a name that file is looked at. Of a disk there is none.
            let kept = file.with_extension("kept");
            std::fs::hard_link(file, &kept).unwrap();
            std::fs::remove_file(file).unwrap();
            loops.push((device, kept));
        }
        set.members = loops.iter().map(|(device, _)| device.path().into()).collect();
        set.create(&format!("{flags} --assume-clean --force -N a")).ok();
        let served = |member: &PathBuf| PathBuf::from(format!("{prefix}{}", name(member)));
        let served: Vec<PathBuf> = set.members.iter().map(served).collect();
        let server = set.serve_some(&format!("--memory 32M {reactor}"), &served);
        let mut client = connect(&server);
        for piece in 0..PIECES {
            client.write(piece * PIECE, &content(piece, 0)).unwrap();
        }
        resize(&loops[1].0, &loops[1].1, left);
        for piece in 0..PIECES {
            client
                .write(piece * PIECE, &content(piece, 1))
                .unwrap_or_else(|error| panic!("{flags}: {error}"));
        }
        client.flush().unwrap();
        for piece in 0..PIECES {
            let mut bytes = vec![0; PIECE as usize];
            client.read(piece * PIECE, &mut bytes).unwrap();
            assert!(bytes == content(piece, 1), "{flags}: piece {piece}");
        }
        // Where nothing was asked behind the new end a look finds it, within a second or so.
        until("the member has failed", || server.status()["array"]["devices"][1]["state"] == "failed");
        let status = server.status();
        let device = &status["array"]["devices"].as_array().unwrap()[1];
        let why = device["failure"]["why"].as_str().unwrap_or_default();
        assert!(device["state"] == "failed" && !why.contains("no space"), "{flags}: {status}");
        assert!(why.contains("shorter") || left == 0 && why.contains("gone"), "{why}");
        drop(client);
        let (code, said) = server.signal(Signal::TERM);
        assert!(code == 0 && !said.contains("no space"), "{flags}: {said}");
        // On record.
        set.members.remove(1);
        assert!(state(&set.detail()).contains(&"degraded"), "{flags}");
    }
}

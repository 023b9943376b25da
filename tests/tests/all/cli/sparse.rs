//! Holes of members that are files, told to clients.

use std::os::unix::fs::{FileExt, MetadataExt};

use brindle_tests::tools::{self, or_skip};

use super::*;

/// The data stretches that a client is told of, as first byte and length.
fn data(qemu_img: &Path, server: &Server) -> Vec<(u64, u64)> {
    let map = tools::run(qemu_img, ["map", "-f", "raw", "--output=json", &server.uri()]);
    let map: Value = serde_json::from_str(&map).unwrap();
    let field = |part: &Value, name: &str| part[name].as_u64().unwrap();
    let parts = map.as_array().unwrap().iter().filter(|part| part["data"] == true);
    parts.map(|part| (field(part, "start"), field(part, "length"))).collect()
}

fn reported_size(qemu_img: &Path, server: &Server) -> u64 {
    let info = tools::run(qemu_img, ["info", "-f", "raw", "--output=json", &server.uri()]);
    serde_json::from_str::<Value>(&info).unwrap()["virtual-size"].as_u64().unwrap()
}

/// Bytes that clients have read so far.
fn read_bytes(server: &Server) -> u64 {
    server.status()["bytes_read"].as_u64().unwrap()
}

/// Copies all of the array with a client of others' making, and tells how many bytes of it were read for that.
fn copied(server: &Server, to: &Path, copy: impl FnOnce(&Path)) -> u64 {
    let before = read_bytes(server);
    copy(to);
    read_bytes(server) - before
}

#[test]
fn clients_read_only_what_members_hold_and_get_all_of_it() {
    let Some(qemu_img) = or_skip(tools::find("qemu-img")) else { return };
    let Some(qemu_io) = or_skip(tools::find("qemu-io")) else { return };
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    for flags in ["-l 0 -c 64K", "-l 1", "-l 5 -c 64K", "-l 6 -c 512K", "-l 10 -c 64K"] {
        let set = Set::sparse(4, 64 * MIB);
        set.create(&format!("{flags} -N a")).ok();
        let server = set.serve("");
        let write = format!("write -P 0x5a {} 1M", 20 * MIB);
        tools::run(&qemu_io, ["-f", "raw", "-c", &write, &server.uri()]);
        let reported = data(&qemu_img, &server);
        let held: u64 = reported.iter().map(|(_, len)| len).sum();
        assert!(
            reported.iter().all(|&(at, len)| at >= 19 * MIB && at + len <= 22 * MIB),
            "{flags}: {reported:?}"
        );
        assert!((MIB..=2 * MIB).contains(&held), "{flags}: {reported:?}");
        let written = set.path("written");
        files::sparse(&written, reported_size(&qemu_img, &server));
        let file = std::fs::File::options().write(true).open(&written).unwrap();
        file.write_all_at(&vec![0x5a; MIB as usize], 20 * MIB).unwrap();
        let convert = |to: &Path| {
            tools::run(&qemu_img, ["convert", "-f", "raw", "-O", "raw", &server.uri(), name(to)]);
        };
        let copy = |to: &Path| drop(tools::run(&nbdcopy, [&*server.uri(), name(to)]));
        let read = copied(&server, &set.path("a"), convert);
        assert!(read <= 4 * MIB, "{flags}: qemu-img read {read} bytes");
        let read = copied(&server, &set.path("b"), copy);
        assert!(read <= 4 * MIB, "{flags}: nbdcopy read {read} bytes");
        for copy in ["a", "b"].map(|copy| set.path(copy)) {
            assert_eq!(files::sha256(&copy), files::sha256(&written), "{flags}");
            assert!(copy.metadata().unwrap().blocks() * 512 <= 4 * MIB, "{flags}");
        }
        if flags.contains("-l 1") || flags.contains("-l 5") {
            // A range on a member that is missing is data.
            server.fail("1");
            let now: u64 = data(&qemu_img, &server).iter().map(|(_, len)| len).sum();
            assert!(now > 10 * MIB, "{flags}: {now}");
            server.stop_after_failing(1);
        } else {
            server.stop();
        }
    }
}

//! Brindle's turn: a server for each array, one client for all of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use brindle_testkit::random::Random;
use brindle_tests::files;
use brindle_tests::loops::Devices;
use brindle_tests::program::{self, Ran, Server};
use brindle_tests::tools::{self, Missing};
use serde_json::json;

use super::Side;
use super::array::{Array, Piece, Source};

/// Unit of all writes: files of every file system and sectors of every size take it.
const UNIT: u64 = 4096;

/// For each array: hash, write, hash.
const SCRIPT: &str = "
import hashlib, json, sys
source = open(SOURCE, 'rb').read()
def sha(h):
    hash, size = hashlib.sha256(), h.get_size()
    for at in range(0, size, 1 << 20):
        hash.update(h.pread(min(1 << 20, size - at), at))
    return hash.hexdigest()
for uri, pieces in TURNS:
    h = nbd.NBD()
    h.connect_uri(uri)
    before = sha(h)
    for i, (begin, to, length) in enumerate(pieces):
        h.pwrite(source[begin:begin + length], to, nbd.CMD_FLAG_FUA if i % 3 == 0 else 0)
    h.flush()
    print(before, sha(h))
    h.shutdown()
";

/// An NBD client that can be told what to write.
pub(super) struct Client(PathBuf);

impl Client {
    pub(super) fn find() -> Result<Self, Missing> {
        tools::find("nbdsh").map(Self)
    }

    /// Content of each array before and after its pieces were written.
    fn write(&self, source: &Source, turns: &[(String, Vec<Piece>)]) -> Vec<(String, String)> {
        let turns: Vec<_> = turns
            .iter()
            .map(|(uri, pieces)| {
                let pieces: Vec<_> = pieces.iter().map(|p| (p.from, p.to, p.len)).collect();
                (uri, pieces)
            })
            .collect();
        let script = SCRIPT
            .replace("SOURCE", &json!(source.path).to_string())
            .replace("TURNS", &json!(turns).to_string());
        let mut command = Command::new(&self.0);
        // The binding is for the system's Python, which another may hide.
        command.args(["-c", &script]).env("PATH", "/usr/bin:/bin");
        let text = Ran::of(command).ok().text();
        let pair = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        text.lines().map(pair).collect()
    }
}

/// An array while Brindle has it.
struct Served<'a> {
    array: &'a mut Array,
    /// Its members by role, as Brindle is told them.
    devices: Devices,
    server: Server,
    sector: u32,
    /// Hash of its content before anything was written.
    before: String,
}

/// Assembles every array, or makes it; reads, writes, and degrades it if it is Brindle's turn to. `sector` tells the bytes
/// of a sector of its members.
pub(super) fn turn(
    arrays: &mut [Array],
    client: &Client,
    sector: impl Fn(&Array) -> u32,
    source: &Source,
    dir: &Path,
    random: &mut Random,
) {
    let mut turns = Vec::new();
    let mut served = Vec::new();
    for array in arrays.iter_mut().filter(|array| array.made || array.shape.made_by == Side::Brindle) {
        array.rename(dir, random);
        let sector = sector(array);
        let devices = Devices::over(&array.members, sector).unwrap_or_else(|why| panic!("{array}: {why}"));
        if !array.made {
            create(array, &devices.paths);
        }
        let before = array.sha256();
        let server = serve(array, &devices.paths, dir, random);
        turns.push((server.uri(), array.change(source, UNIT, random)));
        served.push(Served { array, devices, server, sector, before });
    }
    let hashes = client.write(source, &turns);
    assert_eq!(hashes.len(), served.len());
    for (served, hashes) in served.into_iter().zip(hashes) {
        let (array, sector) = (&served.array, served.sector);
        assert_eq!(hashes.0, served.before, "{array}: what Brindle reads from sectors of {sector}");
        assert_eq!(hashes.1, array.sha256(), "{array}: what Brindle wrote to sectors of {sector}");
        served.end();
    }
}

fn create(array: &mut Array, members: &[PathBuf]) {
    let shape = array.shape;
    let mut words = vec!["create", "--json", "--level", shape.level, "--metadata", shape.metadata];
    let chunk = format!("{}K", shape.chunk);
    if shape.chunk > 0 {
        words.extend(["--chunk", &chunk]);
    }
    words.extend(shape.layout.iter().flat_map(|&layout| ["--layout", layout]));
    words.extend(members.iter().map(|member| member.to_str().unwrap()));
    let report = program::brindle(words).json();
    array.made(report["size"].as_u64().unwrap() as usize);
}

fn serve(array: &Array, members: &[PathBuf], dir: &Path, random: &mut Random) -> Server {
    let name = format!("swap{}", array.number);
    let mut words = vec!["--memory", "16M", "--name", &name];
    words.extend(array.given(random).iter().map(|&role| members[role].to_str().unwrap()));
    Server::start(&dir.join("run"), words)
}

impl Served<'_> {
    /// Degrades the array or counts the round, and stops it.
    fn end(self) {
        let Self { array, devices, server, .. } = self;
        array.written_by(Side::Brindle);
        let lose = if array.lost.is_empty() { array.to_lose(Side::Brindle) } else { Vec::new() };
        for &role in &lose {
            server.ask("fail", &[devices.paths[role].to_str().unwrap()]).ok();
        }
        let failed = lose.len();
        array.degraded(lose);
        server.stop_after_failing(failed);
        detail(array, &devices.paths);
    }
}

/// The members in `brindle detail`, in order of role.
fn detail(array: &Array, members: &[PathBuf]) {
    let words = ["detail".as_ref(), "--json".as_ref()].into_iter();
    let report = program::brindle(words.chain(members.iter().map(|m| m.as_os_str()))).json();
    let state = if array.lost.is_empty() { json!(["clean"]) } else { json!(["clean", "degraded"]) };
    assert_eq!(report["state"], state, "{array}: {report}");
    assert_eq!(report["missing"], json!(array.lost), "{array}");
}

/// The end: what `cat` and `check` say of a stopped array.
pub(super) fn judge(array: &Array, content: &Path) {
    detail(array, &array.members);
    program::cat(&array.members, content);
    assert_eq!(files::sha256(content), array.sha256(), "{array}");
    if array.tolerance() > 0 {
        let words = ["check", "--json", "--memory", "16M"].map(std::ffi::OsStr::new).into_iter();
        let checked = program::brindle(words.chain(array.members.iter().map(|m| m.as_os_str())));
        // The data of a member that is missing is compared with nothing.
        let lacks = checked.report()["unverified"] != 0;
        let report = checked.ended(if lacks { 5 } else { 0 }).report();
        assert_eq!(report["mismatch_cnt"], 0, "{array}");
    }
}

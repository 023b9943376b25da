//! An NBD client that writes without end, many requests at a time, and tells what it began and what was acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use brindle_testkit::oracle::{Change, Oracle};
use brindle_tests::program::Server;
use brindle_tests::tools::{self, Missing};
use rustix::process::Signal;

/// Says `W number offset length kept` before a write and `A number` after, `f number` before a flush and `F number`
/// after. Writes that overlap are never under way at the same time.
const SCRIPT: &str = "
import os, random, struct
chance = random.Random(NUMBER)
size = h.get_size()
def say(*words):
    os.write(1, (' '.join(str(word) for word in words) + '\\n').encode())
def place():
    length = 512 * chance.randint(1, chance.choice([8, 8, 64, 400]))
    offset = 512 * chance.randrange((size - length) // 512 + 1)
    return offset, length
def free(offset, length):
    return all(offset + length <= at or at + n <= offset for _, at, n in writes.values())
writes, flushes = {}, {}
number = NUMBER
while True:
    while len(writes) < 8:
        offset, length = place()
        if not free(offset, length):
            continue
        number += 1
        sectors = range(offset // 512, (offset + length) // 512)
        data = b''.join(struct.pack('<QQ', number, sector) * 32 for sector in sectors)
        kept = number % 16 == 0
        say('W', number, offset, length, int(kept))
        buf = nbd.Buffer.from_bytearray(bytearray(data))
        cookie = h.aio_pwrite(buf, offset, flags=nbd.CMD_FLAG_FUA if kept else 0)
        writes[cookie] = (number, offset, length)
        if number % 6 == 0:
            say('f', number)
            flushes[h.aio_flush()] = number
    h.poll(-1)
    for cookie in [c for c in writes if h.aio_command_completed(c)]:
        say('A', writes.pop(cookie)[0])
    for cookie in [c for c in flushes if h.aio_command_completed(c)]:
        say('F', flushes.pop(cookie))
";

pub(super) struct Client(PathBuf);

impl Client {
    pub(super) fn find() -> Result<Self, Missing> {
        tools::find("nbdsh").map(Self)
    }

    /// Writes to the array and kills its server after so many acknowledged writes and one acknowledged flush at least.
    pub(super) fn write_until_killed(&self, server: Server, writes: usize, oracle: &mut Oracle) {
        let script = SCRIPT.replace("NUMBER", &(oracle.next_number() - 1).to_string());
        let mut command = Command::new(&self.0);
        // The binding is for the system's Python, which another may hide.
        command.args(["-u", &server.uri(), "-c", &script]).env("PATH", "/usr/bin:/bin");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut log = Log { oracle, acknowledged: 0, flushes: BTreeMap::new(), flushed: 0 };
        while log.acknowledged < writes || log.flushed == 0 {
            log.note(&lines.next().expect("the client writes without end"));
        }
        assert_eq!(server.signal(Signal::KILL).0, -1);
        // Acknowledgements before the end count; then the client has lost its server, and ends.
        lines.for_each(|line| log.note(&line));
        assert!(!child.wait().unwrap().success());
        oracle.power_cut();
    }
}

/// The log that the client printed.
struct Log<'a> {
    oracle: &'a mut Oracle,
    /// Writes.
    acknowledged: usize,
    /// By number of the flush: when it began, and how many writes had been acknowledged by then.
    flushes: BTreeMap<u64, (u64, usize)>,
    /// Writes that a flush has made last.
    flushed: usize,
}

impl Log<'_> {
    fn note(&mut self, line: &str) {
        let mut words = line.split(' ');
        let verb = words.next().unwrap();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        match (verb, &numbers[..]) {
            ("W", &[number, offset, length, _]) => {
                assert_eq!(number, self.oracle.change_begins(Change::Write, offset, length));
            }
            ("A", &[number]) => {
                self.oracle.change_ended(number, true, number % 16 == 0);
                self.acknowledged += 1;
            }
            ("f", &[number]) => {
                let began = self.oracle.flush_begins();
                self.flushes.insert(number, (began, self.acknowledged));
            }
            ("F", &[number]) => {
                let (began, writes) = self.flushes[&number];
                self.oracle.flush_ended(began);
                self.flushed = self.flushed.max(writes);
            }
            _ => panic!("{line}"),
        }
    }
}

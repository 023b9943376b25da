//! Writers that get in each other's way on several connections, and what the content may be afterwards.
//!
//! Requests of one round are all under way at once. A sector that several of them write has the content of one of
//! them; which one it was shows when it is read after the round, and stays.

use brindle_testkit::load::{self, Mix, Request};
use brindle_testkit::oracle::{self, Oracle};
use brindle_testkit::random::Random;
use brindle_testkit::stamp::{self, SECTOR};

use crate::nbd::{Change, Client, Work};

/// Connections that write.
const CONNECTIONS: usize = 4;

/// Requests of one round.
const REQUESTS: usize = 24;

/// An export that is written, and what it may contain.
#[derive(Debug)]
pub struct Load {
    clients: Vec<Client>,
    random: Random,
    load: load::Load,
    oracle: Oracle,
}

impl Load {
    /// Connects to an export of which an oracle knows what it may contain, after a run that ended as it should.
    ///
    /// # Panics
    /// If the export has another size.
    pub fn new(uri: &str, oracle: Oracle, seed: u64) -> Self {
        let clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::connect(uri)).collect();
        assert_eq!(clients[0].size(), oracle.size(), "size of the export");
        // Within a page, within a chunk, of rows.
        let mix = Mix {
            reads: 0,
            writes: 10,
            zeroes: 4,
            discards: 2,
            flushes: 1,
            most: 1 << 20,
            crowd: 256 << 10,
            block: clients[0].block(),
        };
        let load = load::Load::new(Random::stream(seed, 1), oracle.size(), mix);
        Self { clients, random: Random::new(seed), load, oracle }
    }

    /// Connects to an export that is full of zeroes.
    pub fn on_zeroes(uri: &str, seed: u64) -> Self {
        Self::new(uri, Oracle::zeroes(Client::connect(uri).size()), seed)
    }

    /// Writes all of the export, side by side and in pieces of all sizes.
    ///
    /// # Panics
    /// If something else is read afterwards.
    pub fn fill(&mut self) {
        let (size, block) = (self.oracle.size(), self.clients[0].block());
        let mut requests = Vec::new();
        let mut offset = 0;
        while offset < size {
            let most = *self.random.pick(&[4 << 10, 64 << 10, 192 << 10, 1 << 20]);
            let len =
                if self.random.one_in(2) { most } else { block * (1 + self.random.below(most / block)) };
            let len = len.min(size - offset);
            requests.push(Request::Write { offset, len, fua: self.random.one_in(8) });
            offset += len;
        }
        self.round(&requests);
    }

    /// A round of requests anywhere, half of them on top of each other.
    ///
    /// # Panics
    /// If something else is read afterwards than one of them made.
    pub fn storm(&mut self) {
        let requests: Vec<Request> = (0..REQUESTS).map(|_| self.load.next_request()).collect();
        self.round(&requests);
    }

    /// Reads all, says good-bye and tells the content, and what the next load on it goes by.
    ///
    /// # Panics
    /// If anything differs from what was written.
    pub fn end(mut self) -> (Vec<u8>, Oracle) {
        let content = self.judge(0, self.oracle.size());
        self.clients.into_iter().for_each(Client::close);
        (content, self.oracle)
    }

    fn round(&mut self, requests: &[Request]) {
        let (numbers, changes): (Vec<_>, Vec<_>) =
            requests.iter().map(|&request| begin(&mut self.oracle, request)).unzip();
        let changes = &changes;
        std::thread::scope(|scope| {
            for (number, client) in self.clients.iter_mut().enumerate() {
                scope.spawn(move || client.all_at_once(changes.iter().skip(number).step_by(CONNECTIONS)));
            }
        });
        numbers.into_iter().flatten().for_each(|number| self.oracle.change_ended(number, true, false));
        // From here on what is read once is read again.
        self.oracle.stopped();
        for change in changes {
            self.judge(change.offset, change.len);
        }
    }

    /// Reads a range, which must hold what it may.
    fn judge(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let began = self.oracle.read_begins();
        let content = self.clients[0].read(offset, len);
        let judged = self.oracle.judge(began, offset, &content);
        judged.unwrap_or_else(|wrong| panic!("{len} bytes at {offset}: {wrong}"));
        content
    }
}

/// A request as it goes over the wire, and the number of the change that it is, if it is one.
fn begin(oracle: &mut Oracle, request: Request) -> (Option<u64>, Change) {
    use oracle::Change as Kind;
    let (kind, offset, len) = match request {
        Request::Read { .. } | Request::Flush => {
            return (None, Change { offset: 0, len: 0, work: Work::Flush });
        }
        Request::Write { offset, len, .. } => (Kind::Write, offset, len),
        Request::Zeroes { offset, len, .. } => (Kind::Zeroes, offset, len),
        Request::Discard { offset, len } => (Kind::Discard, offset, len),
    };
    let number = oracle.change_begins(kind, offset, len);
    let work = match request {
        Request::Write { fua, .. } => {
            let mut data = vec![0; len as usize];
            stamp::stamp(&mut data, offset / SECTOR as u64, number);
            Work::Write { data, fua }
        }
        Request::Zeroes { keep, .. } => Work::Zeroes { no_hole: keep },
        _ => Work::Trim,
    };
    (Some(number), Change { offset, len, work })
}

//! A client that does what others cannot be told to: several connections, each with many requests under way, whose
//! ranges overlap as the test wants. Others' clients prove the protocol (`cli`, crate `export`); this one, which is the product's, proves content.

use std::os::unix::net::UnixStream;

use brindle_export::nbd;
use brindle_export::nbd::client::Answer;
use brindle_export::nbd::proto::{Request, command_code, command_flags};

/// Requests that a connection has under way at most.
const DEPTH: usize = 16;

/// The effect of a request on its range.
#[derive(Debug, Clone)]
pub enum Work {
    /// These bytes.
    Write {
        /// The bytes.
        data: Vec<u8>,
        /// Reply when stable.
        fua: bool,
    },
    /// Zeroes.
    Zeroes {
        /// Keep the range allocated.
        no_hole: bool,
    },
    /// Nothing that counts: zeroes or what was there.
    Trim,
    /// A flush: all that was acknowledged before becomes stable.
    Flush,
}

/// A request that changes content.
#[derive(Debug, Clone)]
pub struct Change {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// The effect of the requests.
    pub work: Work,
}

impl Change {
    fn request(&self) -> Request {
        let (command, flags) = match &self.work {
            Work::Write { fua, .. } => (command_code::WRITE, if *fua { command_flags::FUA } else { 0 }),
            Work::Zeroes { no_hole: true } => (command_code::WRITE_ZEROES, command_flags::NO_HOLE),
            Work::Zeroes { no_hole: false } => (command_code::WRITE_ZEROES, 0),
            Work::Trim => (command_code::TRIM, 0),
            Work::Flush => return Request { command: command_code::FLUSH, ..Request::default() },
        };
        Request { flags, command, cookie: 0, offset: self.offset, len: self.len as u32 }
    }
}

/// A connection in its transmission phase.
#[derive(Debug)]
pub struct Client(nbd::client::Client<UnixStream>);

impl Client {
    /// Connects to an export at an address of the form `nbd+unix:///EXPORT?socket=PATH`; without a name to the default one.
    ///
    /// # Panics
    /// If the server refuses or does not speak the protocol.
    pub fn connect(uri: &str) -> Self {
        let (export, path) = uri.split_once("?socket=").unwrap_or_else(|| panic!("{uri} names no socket"));
        let export = export.trim_start_matches("nbd+unix:///");
        let stream = UnixStream::connect(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        Self(nbd::client::Client::connect(stream, export).unwrap_or_else(|e| panic!("{uri}: {e}")))
    }

    /// Bytes of the export.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// The unit of offsets and lengths.
    pub fn block(&self) -> u64 {
        u64::from(self.0.agreed().block)
    }

    /// Sends all changes, not waiting for one before the next, and takes all replies.
    ///
    /// # Panics
    /// If one fails.
    pub fn all_at_once<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) {
        for change in changes {
            if self.0.under_way() == DEPTH {
                let (cookie, answer) = self.0.receive(|_| None).expect("the server answers");
                assert_eq!(answer, Answer::Done, "request {cookie}");
            }
            let data = if let Work::Write { data, .. } = &change.work { data.as_slice() } else { &[] };
            self.0.send(change.request(), data).expect("the server takes requests");
        }
        self.0.finish().expect("the server does what it is asked");
    }

    /// Reads.
    ///
    /// # Panics
    /// If that fails.
    pub fn read(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let mut content = vec![0; len as usize];
        self.0.read(offset, &mut content).expect("the server reads");
        content
    }

    /// Reads; none if the server answers with an error.
    pub fn try_read(&mut self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let mut content = vec![0; len as usize];
        self.0.read(offset, &mut content).ok().map(|()| content)
    }

    /// Says good-bye.
    ///
    /// # Panics
    /// If the server has gone.
    pub fn close(self) {
        self.0.close().expect("the server is there");
    }
}

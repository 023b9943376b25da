//! Lines of a trace, one at a time.

use std::io::{BufRead, Read};

use super::error::{TraceError, TraceErrorKind};

/// Longest line. Bytes.
const LONGEST: usize = 64 << 10;

/// The lines of a file, with their numbers.
pub(super) struct Lines<R> {
    file: String,
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(file: &str, from: R) -> Self {
        Self { file: file.to_owned(), from, line: Vec::new(), number: 0 }
    }

    /// The next line without white space around it; none at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<&str>, TraceError> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.from).take(LONGEST as u64 + 1).read_until(b'\n', &mut self.line);
        match read {
            Err(error) => return Err(self.wrong(TraceErrorKind::Unreadable(error.to_string()))),
            Ok(0) => return Ok(None),
            Ok(count) if count > LONGEST => return Err(self.wrong(TraceErrorKind::LongLine(LONGEST))),
            Ok(_) => {}
        }
        match core::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(self.wrong(TraceErrorKind::NoText)),
        }
    }

    /// An error in the line that was read last.
    pub(super) fn wrong(&self, kind: TraceErrorKind) -> TraceError {
        TraceError { file: self.file.clone(), place: self.number, kind }
    }

    /// Goes through lines until one has an entry in it.
    pub(super) fn find<T>(
        &mut self,
        mut entry: impl FnMut(&str) -> Result<Option<T>, TraceErrorKind>,
    ) -> Option<Result<T, TraceError>> {
        loop {
            let found = match self.next_line() {
                Err(error) => return Some(Err(error)),
                Ok(None) => return None,
                Ok(Some(line)) => entry(line),
            };
            match found {
                Ok(None) => {}
                Ok(Some(entry)) => return Some(Ok(entry)),
                Err(kind) => return Some(Err(self.wrong(kind))),
            }
        }
    }
}

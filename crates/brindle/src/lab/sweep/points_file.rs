//! `points.jsonl`: the finished points of a sweep, so that an interrupted sweep can go on.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use brindle_lab::sweep::Finished;
use serde_json::Value;

use crate::base::failure::Failure;

/// The key of a sweep's own choices, which are left out when two sweeps are compared.
pub(super) const OWN: &str = "array";

/// The file, and the points that were in it.
pub(super) struct PointsFile {
    path: PathBuf,
    file: Mutex<File>,
    /// The parameters that all points have in common.
    pub(super) head: Value,
    /// The points finished in earlier runs.
    pub(super) before: Vec<Finished>,
}

impl PointsFile {
    /// Half a line at the end was being written when the sweep was interrupted: its point is run again.
    pub(super) fn open(path: &Path, head: Value) -> Result<Self, Failure> {
        let failed = |source| Failure::output(path.display(), source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let (mut head, mut before, mut whole) = (head, Vec::new(), 0);
        let mut lines = BufReader::new(&file);
        let mut line = String::new();
        while lines.read_line(&mut line).map_err(failed)? > 0 && line.ends_with('\n') {
            let number = before.len() + 2;
            if whole == 0 {
                head = same(path, &line, &head)?;
            } else {
                let read = serde_json::from_str(&line);
                before
                    .push(read.map_err(|why| Failure::Usage(format!("{}:{number}: {why}", path.display())))?);
            }
            whole += line.len() as u64;
            line.clear();
        }
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        if whole == 0 {
            writeln!(file, "{head}").map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), head, before })
    }

    /// Keeps a point that is finished.
    pub(super) fn keep(&self, finished: &Finished) -> Result<(), Failure> {
        let text = serde_json::to_string(finished).map_err(|why| Failure::output("a point", why.into()))?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(format!("{text}\n").as_bytes());
        written.map_err(|source| Failure::output(self.path.display(), source))
    }
}

/// The first line, if it is of a sweep like this one.
fn same(path: &Path, line: &str, head: &Value) -> Result<Value, Failure> {
    let shared = |mut head: Value| {
        if let Some(keys) = head.as_object_mut() {
            keys.remove(OWN);
        }
        head
    };
    let read: Option<Value> = serde_json::from_str(line).ok();
    read.filter(|read| shared(read.clone()) == shared(head.clone())).ok_or_else(|| {
        let why = "holds another sweep (what it runs on, how, or the version differs); name another folder";
        Failure::Usage(format!("{}: {why}", path.display()))
    })
}

//! An array that the program made and served, whole or without some members, while a load wrote to it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use brindle_tests::files;
use brindle_tests::load::Load;
use brindle_tests::loops::Devices;
use brindle_tests::program::{self, Server};
use brindle_tests::tools::Missing;
use serde_json::Value;

use super::matrix::Shape;

/// Rounds of overlapping requests while the array is whole, and after each loss.
const ROUNDS: usize = 3;

/// An array that was made and written to.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) shape: Shape,
    /// Files of the members in order of role.
    pub(super) members: Vec<PathBuf>,
    /// Roles that the array lost on the way.
    pub(super) lost: Vec<usize>,
    /// Of the content at the end.
    pub(super) sha256: String,
    /// The output of `brindle detail` on the members that are left at the end.
    pub(super) detail: Value,
}

/// How members are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Under load, by `brindle fail`.
    Failed,
    /// Not named when the array is served anew.
    LeftOut,
}

impl Written {
    /// The members that were not lost.
    pub(super) fn left(&self) -> Vec<PathBuf> {
        (0..self.members.len())
            .filter(|role| !self.lost.contains(role))
            .map(|role| self.members[role].clone())
            .collect()
    }

    /// Creates the array and writes to it. If `losing`, the second write lacks as many members as the array may lose.
    pub(super) fn new(shape: &Shape, number: usize, dir: &Path, losing: bool) -> Result<Self, Missing> {
        let prefix = format!("{number}-{losing}-");
        let members: Vec<PathBuf> = shape
            .members
            .iter()
            .enumerate()
            .map(|(role, &size)| files::members(dir, &format!("{prefix}{role}-"), 1, size).remove(0))
            .collect();
        let devices = Devices::over(&members, shape.sector)?;
        create(shape, &devices.paths);
        let serve = |paths: &[PathBuf]| {
            let mut words = vec!["--memory".into(), "32M".into()];
            words.extend(paths.iter().map(|path| path.as_os_str().to_owned()));
            Server::start(&dir.join(format!("{prefix}run")), words)
        };
        let seed = number as u64;
        let server = serve(&devices.paths);
        let mut load = Load::on_zeroes(&server.uri(), seed);
        load.fill();
        (0..ROUNDS).for_each(|_| load.storm());
        let (mut content, oracle) = load.end();
        server.stop();
        let mut lost = Vec::new();
        if losing {
            // Neighbours, beginning at another role in each array.
            let count = members.len();
            lost = (0..shape.tolerance()).map(|i| (number + i) % count).collect();
            let loss = if number.is_multiple_of(2) { Loss::Failed } else { Loss::LeftOut };
            let left: Vec<PathBuf> = (0..count)
                .filter(|role| loss == Loss::Failed || !lost.contains(role))
                .map(|role| devices.paths[role].clone())
                .collect();
            let server = serve(&left);
            let mut load = Load::new(&server.uri(), oracle, seed + 1000);
            for role in lost.iter().filter(|_| loss == Loss::Failed) {
                load.storm();
                server.fail(&role.to_string());
            }
            (0..ROUNDS).for_each(|_| load.storm());
            content = load.end().0;
            server.stop_after_failing(if loss == Loss::Failed { lost.len() } else { 0 });
        }
        let left = (0..members.len()).filter(|role| !lost.contains(role)).map(|role| &devices.paths[role]);
        let words = ["detail", "--json"].map(OsString::from).into_iter().chain(left.map(OsString::from));
        let detail = program::brindle(words).json();
        Ok(Self { shape: shape.clone(), members, lost, sha256: files::sha256_of(&content), detail })
    }
}

fn create(shape: &Shape, members: &[PathBuf]) {
    let mut words = vec!["create".to_owned(), "--level".to_owned(), shape.level.to_owned()];
    let mut add = |flag: &str, value: &str| words.extend([flag.to_owned(), value.to_owned()]);
    add("--metadata", shape.metadata);
    if let Some(layout) = shape.layout {
        add("--layout", layout);
    }
    if let Some(chunk) = shape.chunk {
        add("--chunk", &format!("{}K", chunk >> 10));
    }
    if shape.metadata != "0.90" {
        add("--name", "maker:tomd");
    }
    words.extend(members.iter().map(|member| member.display().to_string()));
    program::brindle(words).ok();
}

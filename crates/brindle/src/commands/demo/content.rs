//! Something worth keeping: an ext4 image of a real file tree, or an archive of one, or where neither can be had this program.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Trouble;
use crate::base::executable;

/// Trees that a machine is likely to have, best first.
const TREES: [&str; 4] = ["/usr/share/doc", "/usr/share/perl", "/usr/include", "/etc"];

/// The content stored on the array, and its source.
pub(super) struct DemoContent {
    pub(super) bytes: Vec<u8>,
    pub(super) what: String,
    pub(super) is_ext4: bool,
}

/// Makes content of about `size` bytes, with files from this machine in it; as in an empty chroot there may be none but `program`.
pub(super) fn make(folder: &Path, size: u64, program: &Path) -> Result<DemoContent, Trouble> {
    let tree = TREES.iter().map(Path::new).find(|tree| tree.is_dir());
    let packed = tree.map(|tree| packed(tree, folder, size)).transpose()?.flatten();
    // The demo compares blocks of the content under load of the content: a tree of hardly any files gives too few.
    match packed.filter(|content| content.bytes.len() as u64 >= size / 4) {
        Some(content) => Ok(content),
        None => copies(program, size),
    }
}

/// A file tree; `None` if nothing here can pack one.
fn packed(tree: &Path, folder: &Path, size: u64) -> Result<Option<DemoContent>, Trouble> {
    let staging = folder.join("tree");
    let files = stage(tree, &staging, size / 2)?;
    let image = folder.join("content");
    let is_ext4 = ext4(&staging, &image, size);
    let bytes = if is_ext4 || archive(&staging, &image) {
        Some(fs::read(&image).map_err(|e| Trouble::new(format!("{}: {e}", image.display())))?)
    } else {
        None
    };
    for path in [&staging, &image] {
        remove(path);
    }
    Ok(bytes.map(|mut bytes| {
        bytes.truncate(size as usize);
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        let kind = if is_ext4 { "an ext4 image" } else { "a tar archive" };
        let what = format!("{kind} with {files} files of {}", tree.display());
        DemoContent { bytes, what, is_ext4 }
    }))
}

/// Copies of this program, as many as fit.
fn copies(program: &Path, size: u64) -> Result<DemoContent, Trouble> {
    let fails = |e| Trouble::new(format!("{}: {e}", program.display()));
    let mut bytes = Vec::new();
    File::open(program).and_then(|file| file.take(size).read_to_end(&mut bytes)).map_err(fails)?;
    let all = bytes.iter().copied().cycle().take(size as usize).collect();
    Ok(DemoContent { bytes: all, what: "copies of this program".to_owned(), is_ext4: false })
}

/// Copies files of `tree`, at most `budget` bytes; gives their number. Unreadable ones are skipped.
fn stage(tree: &Path, into: &Path, budget: u64) -> Result<usize, Trouble> {
    let mut left = budget;
    let mut files = 0;
    let mut folders = vec![(tree.to_owned(), into.to_owned())];
    while let Some((from, to)) = folders.pop() {
        fs::create_dir_all(&to).map_err(|e| Trouble::new(format!("{}: {e}", to.display())))?;
        let Ok(entries) = fs::read_dir(&from) else { continue };
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            let Some(target) = path.file_name().map(|name| to.join(name)) else { continue };
            if kind.is_dir() {
                folders.push((path, target));
            } else if kind.is_file() && kind.len() < left && fs::copy(&path, &target).is_ok() {
                left -= kind.len();
                files += 1;
            }
        }
    }
    Ok(files)
}

/// An ext4 image, if this machine has e2fsprogs (Debian's base has).
fn ext4(tree: &Path, image: &Path, size: u64) -> bool {
    let blocks = (size / 4096).to_string();
    tool("mke2fs")
        .args(["-q", "-t", "ext4", "-b", "4096", "-d"])
        .arg(tree)
        .arg(image)
        .arg(blocks)
        .status()
        .is_ok_and(|s| s.success())
}

fn archive(tree: &Path, image: &Path) -> bool {
    let status = tool("tar").arg("-cf").arg(image).arg("-C").arg(tree).arg(".").status();
    status.is_ok_and(|status| status.success())
}

/// Says whether the file system in the image is whole; `None` if nothing here can tell.
pub(super) fn fsck(image: &Path) -> Option<bool> {
    tool("e2fsck").arg("-fn").arg(image).status().ok().map(|status| status.success())
}

/// A system tool, quiet; the sbin folders are searched too.
fn tool(name: &str) -> Command {
    let place =
        ["/usr/sbin", "/sbin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let mut command = Command::new(place.unwrap_or_else(|| name.into()));
    command.stdin(executable::nothing()).stdout(executable::nothing()).stderr(executable::nothing());
    command
}

pub(super) fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

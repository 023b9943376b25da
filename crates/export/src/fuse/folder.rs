//! The files of a mount: the volume, and one for each of its partitions.

use core::ops::Range;

use super::proto::{Attributes, ROOT, kinds};

/// Bytes of a name at most.
const LONGEST_NAME: usize = 200;

/// A file: a part of the volume under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountedFile {
    pub(super) name: String,
    /// Bytes of the volume.
    pub(super) bytes: Range<u64>,
}

impl MountedFile {
    pub(super) fn size(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}

/// All files, in the order in which they are listed.
#[derive(Debug)]
pub(super) struct Folder {
    files: Vec<MountedFile>,
    owner: (u32, u32),
    writable: bool,
    block: u32,
}

/// A node of the mount.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    /// The folder itself.
    Root,
    /// A file in it.
    File(&'a MountedFile),
}

/// The name of a volume's file: what its export is called in its pool, without anything that a file's name can't have.
pub(super) fn file_name(export: &str) -> String {
    let own = export.rsplit('/').next().unwrap_or_default();
    let safe: String = own.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    let mut end = safe.len().min(LONGEST_NAME);
    while !safe.is_char_boundary(end) {
        end -= 1;
    }
    match &safe[..end] {
        "" => "volume".to_owned(),
        name if name.starts_with('.') => format!("_{name}"),
        name => name.to_owned(),
    }
}

impl Folder {
    /// The folder of a volume of `size` bytes with these partitions, by number.
    pub(super) fn new(
        export: &str,
        size: u64,
        partitions: impl IntoIterator<Item = (u32, Range<u64>)>,
        (owner, writable, block): ((u32, u32), bool, u32),
    ) -> Self {
        let name = file_name(export);
        let within = partitions.into_iter().filter(|(_, bytes)| bytes.start < bytes.end && bytes.end <= size);
        let parts = within
            .map(|(number, bytes)| MountedFile { name: format!("{name}-part{number}"), bytes })
            .collect();
        let parts: Vec<_> = parts;
        let whole = MountedFile { name, bytes: 0..size };
        Self { files: core::iter::once(whole).chain(parts).collect(), owner, writable, block }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Bytes of the volume.
    pub(super) fn size(&self) -> u64 {
        self.files[0].size()
    }

    /// The number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The node of that number.
    pub(super) fn node(&self, number: u64) -> Option<Node<'_>> {
        if number == ROOT {
            return Some(Node::Root);
        }
        let at = usize::try_from(number.checked_sub(ROOT + 1)?).ok()?;
        self.files.get(at).map(Node::File)
    }

    /// The number of the node of that name.
    pub(super) fn named(&self, name: &[u8]) -> Option<u64> {
        let at = self.files.iter().position(|file| file.name.as_bytes() == name)?;
        Some(ROOT + 1 + at as u64)
    }

    /// The attributes of a node.
    pub(super) fn attributes(&self, number: u64) -> Option<Attributes> {
        let (size, mode) = match self.node(number)? {
            Node::Root => (0, kinds::FOLDER | 0o500),
            Node::File(file) => (file.size(), kinds::FILE | if self.writable { 0o600 } else { 0o400 }),
        };
        Some(Attributes { node: number, size, mode, owner: self.owner, block: self.block })
    }

    /// The entries of the folder from one on: number of the node, kind and name.
    pub(super) fn entries(&self, from: u64) -> impl Iterator<Item = (u64, u32, &[u8])> {
        let own = [&b"."[..], b".."].map(|name| (ROOT, kinds::FOLDER, name));
        let files = self.files.iter().enumerate();
        let files = files.map(|(at, file)| (ROOT + 1 + at as u64, kinds::FILE, file.name.as_bytes()));
        own.into_iter().chain(files).skip(usize::try_from(from).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        for (export, name) in
            [("data", "data"), ("tank/vm 1", "vm 1"), ("", "volume"), ("a/..", "_.."), ("a\nb", "a_b")]
        {
            assert_eq!(file_name(export), name);
        }
        assert_eq!(file_name(&"ä".repeat(300)).len(), LONGEST_NAME);
    }

    #[test]
    fn a_folder_has_a_file_for_the_volume_and_each_partition_that_is_there() {
        let parts = [(1, 512..1024), (2, 1024..9000), (5, 2048..2048)];
        let folder = Folder::new("pool/v", 8192, parts, ((7, 8), false, 4096));
        let names: Vec<_> = folder.entries(0).map(|(node, _, name)| (node, name)).collect();
        assert_eq!(names, [(1, &b"."[..]), (1, b".."), (2, b"v"), (3, b"v-part1")]);
        assert_eq!(folder.entries(3).count(), 1);
        assert_eq!(folder.named(b"v-part1"), Some(3));
        assert_eq!(folder.named(b"v-part2"), None);
        let of = folder.attributes(3).unwrap();
        assert_eq!((of.size, of.mode, of.owner), (512, kinds::FILE | 0o400, (7, 8)));
        assert!(folder.node(0).is_none() && folder.node(4).is_none() && folder.node(u64::MAX).is_none());
    }
}

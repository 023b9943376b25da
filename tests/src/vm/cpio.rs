//! Archives in the `newc` form of cpio, the one that the kernel unpacks as initramfs (kernel documentation,
//! `driver-api/early-userspace/buffer-format.rst`). Written here since the tools of that name differ, and making
//! device nodes with them takes root.

/// An archive under construction.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Archive {
    /// Adds a folder; its parents must have been added before.
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// Adds a file that may be run.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    /// The finished archive. Another may be put behind it: the kernel unpacks all of them.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let path = path.trim_start_matches('/');
        let length = |n: usize| u32::try_from(n).expect("an entry below 4 GiB");
        // inode, mode, uid, gid, links, mtime, size, device, device of a node, length of the name, checksum
        let fields =
            [self.entries, mode, 0, 0, 1, 0, length(content.len()), 0, 0, 0, 0, length(path.len() + 1), 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents each end on a multiple of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_laid_out_as_documented() {
        let mut archive = Archive::default();
        archive.file("/init", b"hello");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081ed", "mode");
        assert_eq!(&bytes[54..62], b"00000005", "size");
        assert_eq!(&bytes[94..102], b"00000005", "length of the name with its zero");
        assert_eq!(&bytes[110..115], b"init\0");
        assert_eq!(&bytes[116..121], b"hello");
        assert_eq!(&bytes[124..130], b"070701", "the trailer begins on a multiple of four");
        assert_eq!(bytes.len() % 4, 0);
    }
}

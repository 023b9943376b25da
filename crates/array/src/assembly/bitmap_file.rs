//! A write-intent bitmap in a file.

use brindle_io::MemberId;

/// A file that holds an array's write-intent bitmap, from its first byte on. No superblock names it: it is given with the members,
/// as mdadm has it (`--assemble --bitmap=FILE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitmapFile {
    /// How messages name it.
    pub label: String,
    /// The reactor's number, if it is open.
    pub id: Option<MemberId>,
}

impl BitmapFile {
    /// A file that is open.
    pub fn open(label: impl Into<String>, id: MemberId) -> Self {
        Self { label: label.into(), id: Some(id) }
    }

    /// It is that one.
    pub(crate) fn is(&self, id: MemberId) -> bool {
        self.id == Some(id)
    }
}

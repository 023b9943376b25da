//! A file that is a write-intent bitmap: its fields as in mdadm's `--examine-bitmap`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapState, BitmapSuper, BitmapVersion};
use brindle_format::md::display_uuid;
use serde::Serialize;

use crate::base::units::Bytes;

/// Bytes of bits that are counted at most: more than any bitmap has that is kept.
const MOST: u64 = 64 << 20;

/// The fields of a bitmap file.
#[derive(Debug, Serialize)]
pub(super) struct BitmapReport {
    version: u32,
    /// The array's UUID by its superblocks.
    array_uuid: String,
    events: u64,
    events_cleared: u64,
    stale: bool,
    write_error: bool,
    chunk: u64,
    /// Seconds.
    daemon_sleep: u32,
    write_behind: u32,
    /// Bytes that the bits cover.
    sync_size: u64,
    bits: u64,
    /// Bits that are set; null where they can't be counted: of other versions, and of a file that is cut short.
    dirty: Option<u64>,
}

impl BitmapReport {
    /// The report of a regular file that begins with a bitmap's superblock.
    pub(super) fn look(path: &Path) -> Option<Self> {
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        let mut head = [0; BITMAP_SUPER_BYTES];
        file.read_exact(&mut head).ok()?;
        let own = BitmapSuper::parse(&head).ok()?;
        Some(Self {
            version: own.version.number(),
            array_uuid: display_uuid(own.uuid).to_string(),
            events: own.events,
            events_cleared: own.events_cleared,
            stale: own.state.contains(BitmapState::STALE),
            write_error: own.state.contains(BitmapState::WRITE_ERROR),
            chunk: own.chunk,
            daemon_sleep: own.daemon_sleep,
            write_behind: own.write_behind,
            sync_size: own.sync_bytes,
            bits: own.bits(),
            dirty: dirty(&mut file, &own),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: &str| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Bitmap", &format!("version {}", self.version));
        row("Array UUID", &self.array_uuid);
        row("Events", &self.events.to_string());
        row("Events cleared", &self.events_cleared.to_string());
        let state = match (self.stale, self.write_error) {
            (true, _) => "stale: all bits count as set",
            (false, true) => "a write has failed",
            (false, false) => "kept",
        };
        row("State", state);
        row("Chunk", &Bytes(self.chunk).to_string());
        row("Cleared every", &format!("{} s", self.daemon_sleep));
        if self.write_behind > 0 {
            row("Write-behind", &format!("{} writes", self.write_behind));
        }
        row("Covers", &format!("{} sectors", self.sync_size / 512));
        match self.dirty {
            Some(dirty) => {
                let percent = dirty as f64 * 100.0 / self.bits.max(1) as f64;
                row("Bits", &format!("{}, {dirty} set ({percent:.1} %)", self.bits));
            }
            None => row("Bits", &format!("{}, not all of them here or none that can be counted", self.bits)),
        }
        text
    }
}

fn dirty(file: &mut File, own: &BitmapSuper) -> Option<u64> {
    let bits = own.bits();
    let bytes = bits.div_ceil(8);
    if own.version != BitmapVersion::LittleEndian || bytes > MOST {
        return None;
    }
    let mut set = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(BITMAP_SUPER_BYTES as u64)).ok()?;
    file.read_exact(&mut set).ok()?;
    if let (Some(last), over @ 1..) = (set.last_mut(), bytes * 8 - bits) {
        *last &= 0xff >> over;
    }
    Some(set.iter().map(|byte| u64::from(byte.count_ones())).sum())
}

//! Where members of 0.90 begin: no superblock of that version says it.

use std::path::Path;

use brindle_md::assembly::Candidate;

use super::notes::note;
use super::place;

/// 0.90 leaves fewer bytes than this between the part of a member that it uses, in whole chunks, and its superblock.
pub(super) const AREA_0_90: u64 = 128 << 10;

/// Tells of a member of 0.90 that is a part of a device by hand, or by a search: no superblock of that version says where its member
/// begins.
pub(super) fn tell_of_beginning(name: &Path, candidate: &Candidate) {
    let Some(start) = place::by_hand(name) else { return };
    let Ok((superblock, at)) = candidate.superblock() else { return };
    if superblock.version.is_v1() {
        return;
    }
    let (name, used) = (name.display(), superblock.component_size);
    let behind = at.saturating_sub(used);
    if used == 0 {
        note(format!(
            "{name}: its superblock (metadata 0.90) does not say how much it uses: that it begins at byte {start} is not proved"
        ));
    } else if behind >= superblock.chunk.max(AREA_0_90) {
        note(format!(
            "{name}: its superblock (metadata 0.90) says that it uses {used} bytes, and stands {at} bytes behind its beginning: it may begin at byte \
             {} of the disk, and what is read be other bytes than the array has",
            start + behind
        ));
    } else if start > 0 {
        note(format!(
            "{name}: that it begins at byte {start} is worked out from the size that its superblock (metadata 0.90) uses: nothing else says so"
        ));
    }
}

//! Mode pages: MODE SENSE and MODE SELECT (SPC-4, 6.11, 6.13 and 7.5; SBC-3, 6.4).

use super::sense::Sense;
use super::unit_sizes::Shape;

/// Settings that MODE SELECT can change, for all nexuses, until the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// WCE: writes may stay in volatile memory until they are flushed.
    pub caches: bool,
    /// D_SENSE: sense comes in the format of descriptors.
    pub descriptors: bool,
    /// SWP: nothing may be written.
    pub protected: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self { caches: true, descriptors: false, protected: false }
    }
}

/// Page control: what values of pages are asked for.
const CHANGEABLE: u8 = 1;
const DEFAULT: u8 = 2;
const SAVED: u8 = 3;

/// The supported pages, in order.
const PAGES: [u8; 4] = [0x01, 0x08, 0x0a, 0x1c];
const ALL: u8 = 0x3f;

impl Modes {
    /// A page's bytes.
    fn page(self, page: u8) -> Vec<u8> {
        match page {
            // Read-write error recovery: nothing of it is asked for.
            0x01 => vec![0x01, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            0x08 => {
                let mut bytes = vec![0; 20];
                (bytes[0], bytes[1], bytes[2]) = (0x08, 0x12, u8::from(self.caches) << 2);
                bytes
            }
            0x0a => {
                let mut bytes = vec![0; 12];
                (bytes[0], bytes[1]) = (0x0a, 0x0a);
                bytes[2] = u8::from(self.descriptors) << 2;
                // Commands may be reordered (QUEUE ALGORITHM MODIFIER 1): initiators that need an order wait for
                // completions.
                bytes[3] = 0x10;
                bytes[4] = u8::from(self.protected) << 3;
                bytes[5] = 0x40; // TAS: who loses commands to another is told
                bytes[8..10].copy_from_slice(&[0xff, 0xff]);
                bytes
            }
            // Informational exceptions: none are reported.
            _ => vec![0x1c, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }

    /// A page with the bits set that can be changed.
    fn changeable(page: u8) -> Vec<u8> {
        let (on, off) = (
            Self { caches: true, descriptors: true, protected: true },
            Self { caches: false, descriptors: false, protected: false },
        );
        let mut bits: Vec<u8> =
            on.page(page).into_iter().zip(off.page(page)).map(|(one, zero)| one ^ zero).collect();
        bits[..2].copy_from_slice(&on.page(page)[..2]);
        bits
    }

    /// The answer to MODE SENSE.
    ///
    /// # Errors
    /// There is no such page, or values are asked for that are not kept.
    pub(super) fn sense(
        self,
        shape: &Shape,
        ten: bool,
        no_descriptors: bool,
        control: u8,
        page: u8,
        subpage: u8,
    ) -> Result<Vec<u8>, Sense> {
        if control == SAVED {
            return Err(Sense { code: (0x39, 0x00), ..Sense::cdb(2) });
        }
        if page != ALL && !PAGES.contains(&page) {
            return Err(Sense::cdb(2));
        }
        if !(subpage == 0 || subpage == 0xff) {
            return Err(Sense::cdb(3));
        }
        let values = |page: u8| match control {
            CHANGEABLE => Self::changeable(page),
            DEFAULT => Self::default().page(page),
            _ => self.page(page),
        };
        let wanted = PAGES.into_iter().filter(|&one| page == ALL || page == one);
        let pages: Vec<u8> = wanted.flat_map(values).collect();
        let descriptor = if no_descriptors { Vec::new() } else { descriptor(shape) };
        // WP, DPOFUA.
        let device = u8::from(self.protected || shape.read_only) << 7 | 0x10;
        let len = descriptor.len() + pages.len();
        let head = if ten {
            let [high, low] = ((len + 6) as u16).to_be_bytes();
            vec![high, low, 0, device, 0, 0, 0, descriptor.len() as u8]
        } else {
            vec![(len + 3) as u8, 0, device, descriptor.len() as u8]
        };
        Ok([head, descriptor, pages].concat())
    }

    /// The modes after a MODE SELECT.
    ///
    /// # Errors
    /// The list is cut short, or changes what can't be.
    pub(super) fn select(mut self, ten: bool, list: &[u8]) -> Result<Self, Sense> {
        let (head, descriptors) = if ten { (8, 6..8) } else { (4, 3..4) };
        if list.is_empty() {
            return Ok(self);
        }
        let descriptors = list.get(descriptors).ok_or(Sense::PARAMETER_LENGTH)?;
        let descriptors = descriptors.iter().fold(0, |all, &byte| all << 8 | usize::from(byte));
        // A descriptor is of 8 bytes; what it says of sizes has no effect.
        if descriptors != 0 && descriptors != 8 {
            return Err(Sense::parameter(head as u16 - 1));
        }
        let mut at = head + descriptors;
        if at > list.len() {
            return Err(Sense::PARAMETER_LENGTH);
        }
        while at < list.len() {
            let page = list[at] & 0x3f;
            if list[at] & 0x40 != 0 || !PAGES.contains(&page) {
                return Err(Sense::parameter(at as u16));
            }
            let len = self.page(page).len();
            let given = list.get(at..at + len).ok_or(Sense::PARAMETER_LENGTH)?;
            self.take(page, given).map_err(|byte| Sense::parameter((at + byte) as u16))?;
            at += len;
        }
        Ok(self)
    }

    /// Takes a page; `Err` is the byte that can't be so.
    fn take(&mut self, page: u8, given: &[u8]) -> Result<(), usize> {
        let (now, mask) = (self.page(page), Self::changeable(page));
        let wrong = |at: &usize| match at {
            0 => false, // PS is reserved here
            1 => given[1] != now[1],
            &at => (given[at] ^ now[at]) & !mask[at] != 0,
        };
        if let Some(at) = (0..given.len()).find(wrong) {
            return Err(at);
        }
        match page {
            0x08 => self.caches = given[2] & 0x04 != 0,
            0x0a => {
                self.descriptors = given[2] & 0x04 != 0;
                self.protected = given[4] & 0x08 != 0;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The block descriptor for short LBAs.
fn descriptor(shape: &Shape) -> Vec<u8> {
    let blocks = u32::try_from(shape.blocks()).unwrap_or(u32::MAX);
    [blocks.to_be_bytes(), shape.block.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        size: 1 << 20,
        block: 512,
        preferred: 4096,
        optimal: 0,
        most: 1 << 20,
        read_only: false,
        unmaps: true,
        rotates: true,
    };

    #[test]
    fn what_is_told_can_be_given_back_and_changed_where_it_says_so() {
        let modes = Modes::default();
        for ten in [false, true] {
            let mut reported = modes.sense(&SHAPE, ten, false, 0, ALL, 0).unwrap();
            assert_eq!(modes.select(ten, &reported), Ok(modes));
            let caching = reported.iter().position(|&byte| byte == 0x08).unwrap();
            let caching = if reported[caching + 1] == 0x12 { caching } else { reported.len() - 12 - 12 - 20 };
            reported[caching + 2] ^= 0x04;
            assert_eq!(modes.select(ten, &reported), Ok(Modes { caches: false, ..modes }));
            reported[caching + 2] ^= 0x01; // RCD can't be
            assert!(modes.select(ten, &reported).is_err());
        }
    }

    #[test]
    fn lists_that_are_cut_short_are_refused() {
        let reported = Modes::default().sense(&SHAPE, false, true, 0, ALL, 0).unwrap();
        let whole = |len: usize| len == 0 || len == 4 || len == 16 || len == 36 || len == 48 || len == 60;
        for len in 0..=reported.len() {
            let selected = Modes::default().select(false, &reported[..len]);
            assert_eq!(selected.is_ok(), whole(len), "{len}: {selected:?}");
        }
    }
}

//! The UUIDs of containers and volumes: no disk has them, mdadm makes them of what is there.

use core::fmt;

use super::{Container, SIGNATURE};

/// A UUID as mdadm makes and writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImsmUuid(pub [u8; 16]);

impl fmt::Display for ImsmUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.0.chunks_exact(4).enumerate() {
            let word = word.try_into().map_or(0, u32::from_le_bytes);
            write!(f, "{}{word:08x}", if at > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

impl Container {
    /// The UUID of the container.
    pub fn uuid(&self) -> ImsmUuid {
        self.hashed(&[])
    }

    /// The UUID of its volume of that number; `None` if there is none.
    pub fn volume_uuid(&self, number: usize) -> Option<ImsmUuid> {
        let volume = self.volumes.get(number)?;
        let mut more = u32::try_from(number).ok()?.to_le_bytes().to_vec();
        more.extend_from_slice(&volume.name);
        Some(self.hashed(&more))
    }

    fn hashed(&self, more: &[u8]) -> ImsmUuid {
        let family = if self.original_family == 0 { self.family } else { self.original_family };
        let mut text = SIGNATURE.to_vec();
        text.extend_from_slice(&family.to_le_bytes());
        text.extend_from_slice(more);
        let mut uuid = [0; 16];
        uuid.iter_mut().zip(sha1(&text)).for_each(|(to, byte)| *to = byte);
        ImsmUuid(uuid)
    }
}

/// SHA-1 (FIPS 180-4) of a short text: nothing relies on it but names.
fn sha1(text: &[u8]) -> [u8; 20] {
    let mut padded = text.to_vec();
    padded.push(0x80);
    while padded.len().checked_rem(64) != Some(56) {
        padded.push(0);
    }
    padded.extend_from_slice(&(text.len() as u64).wrapping_mul(8).to_be_bytes());
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words: Vec<u32> = Vec::with_capacity(80);
        words.extend(block.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_be_bytes)));
        for at in 16usize..80 {
            let back = |by: usize| at.checked_sub(by).and_then(|at| words.get(at)).copied().unwrap_or(0);
            words.push((back(3) ^ back(8) ^ back(14) ^ back(16)).rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999u32),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
            let next = next.wrapping_add(constant).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        state.iter_mut().zip([a, b, c, d, e]).for_each(|(sum, one)| *sum = sum.wrapping_add(one));
    }
    let mut hash = [0; 20];
    let bytes = state.iter().flat_map(|word| word.to_be_bytes());
    hash.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let hex = |text: &[u8]| sha1(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&[b'a'; 64]), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    }
}

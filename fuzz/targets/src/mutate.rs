//! Random changes to stored inputs, the same in every run: what libFuzzer does, without its sense of coverage.

/// Chance from a seed (xorshift64*).
pub struct Chance(u64);

impl Chance {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() >> 16) as usize % end.max(1)
    }
}

/// Changes an input in one to eight ways; `other` is one to take parts from.
pub fn mutate(input: &mut Vec<u8>, other: &[u8], most: usize, chance: &mut Chance) {
    for _ in 0..1 + chance.below(8) {
        change(input, other, chance);
    }
    input.truncate(most);
}

fn change(input: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    match chance.below(7) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = chance.draw() as u8;
            }
        }
        2 => number(&mut input[at..], chance),
        3 => input.insert(at, chance.draw() as u8),
        4 => {
            let end = (at + 1 + chance.below(16)).min(input.len());
            input.drain(at..end);
        }
        5 => {
            let from = chance.below(other.len() + 1);
            let end = (from + 1 + chance.below(32)).min(other.len());
            input.splice(at..at, other[from..end].iter().copied());
        }
        _ => {
            let from = chance.below(input.len() + 1);
            let len = 1 + chance.below(16);
            let part: Vec<u8> = input.iter().skip(from).take(len).copied().collect();
            let end = (at + part.len()).min(input.len());
            input[at..end].copy_from_slice(&part[..end - at]);
        }
    }
}

/// Writes a number over the first 1, 2, 4 or 8 bytes, most likely one that arithmetic stumbles over.
fn number(bytes: &mut [u8], chance: &mut Chance) {
    let width = 1 << chance.below(4);
    let bit = 1u64 << chance.below(64);
    let value = match chance.below(4) {
        0 => bit,
        1 => bit.wrapping_sub(1),
        2 => u64::MAX << chance.below(64),
        _ => chance.draw(),
    };
    let value = if chance.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
    for (to, from) in bytes.iter_mut().zip(&value[..width]) {
        *to = *from;
    }
}

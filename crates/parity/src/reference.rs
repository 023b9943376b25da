//! The oracle of every kernel: one byte at a time, by tables of logarithms, straight from the
//! definition in H. P. Anvin, "The mathematics of RAID-6". Slow, and used by tests only. It shares
//! no code with the kernels.

/// Powers of the generator 2 and their logarithms.
#[derive(Debug)]
pub struct Tables {
    exp: [u8; 255],
    log: [u8; 256],
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Fills the tables.
    pub fn new() -> Self {
        let mut tables = Self { exp: [0; 255], log: [0; 256] };
        let mut value = 1u32;
        for i in 0..255u8 {
            tables.exp[usize::from(i)] = value as u8;
            tables.log[value as usize] = i;
            value *= 2;
            if value >= 256 {
                value ^= 0x11d;
            }
        }
        tables
    }

    /// 2^`exponent`.
    pub fn power(&self, exponent: usize) -> u8 {
        self.exp[exponent % 255]
    }

    /// The product of `a` and `b`.
    pub fn multiply(&self, a: u8, b: u8) -> u8 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.power(usize::from(self.log[usize::from(a)]) + usize::from(self.log[usize::from(b)]))
    }

    /// The sum over i of 2^(`step` * i) times byte `at` of slot i: a byte of P for `step` 0, of Q
    /// for 1, of R for 2. A slot that is too short counts as zero.
    pub fn parity(&self, slots: &[&[u8]], step: usize, at: usize) -> u8 {
        let byte = |slot: &&[u8]| slot.get(at).copied().unwrap_or(0);
        slots
            .iter()
            .enumerate()
            .fold(0, |sum, (i, slot)| sum ^ self.multiply(self.power(step * i), byte(slot)))
    }
}

//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), at compile time
//! or once per call, never per byte. H. P. Anvin, "The mathematics of RAID-6", sections 1 and 2.

/// The low byte of the field polynomial 0x11d: what x^8 is congruent to.
pub(crate) const POLYNOMIAL: u8 = 0x1d;

/// The number of distinct powers of the generator 2.
pub(crate) const ORDER: usize = 255;

/// `a` times `b`, bit by bit.
pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut shifted = a;
    let mut rest = b;
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= shifted;
        }
        let carry = shifted & 0x80 != 0;
        shifted <<= 1;
        if carry {
            shifted ^= POLYNOMIAL;
        }
        rest >>= 1;
    }
    product
}

/// The generator 2 to the power of `exponent`.
pub(crate) const fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// The inverse of `a`, which must not be 0: a^254, since a^255 = 1.
pub(crate) fn invert(a: u8) -> u8 {
    debug_assert_ne!(a, 0, "0 has no inverse");
    let mut result = 1;
    let mut square = a;
    // 254 is 0b1111_1110: the product of a^2, a^4, ... a^128.
    for _ in 1..8 {
        square = multiply(square, square);
        result = multiply(result, square);
    }
    result
}

static POWERS: [u8; ORDER] = {
    let mut table = [0; ORDER];
    let mut value = 1;
    let mut i = 0;
    while i < ORDER {
        table[i] = value;
        value = multiply(value, 2);
        i += 1;
    }
    table
};

/// Horner's rule starts from this where each doubling adds the polynomial: n of them come to zero
/// with this.
///
/// Let e be the byte that such a doubling keeps: 2 * e ^ 0x1d = e. It takes x to 2 * (x ^ e) ^ e, and n of them
/// take it to 2^n * (x ^ e) ^ e. That is zero for x = 2^-n * e ^ e.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn start(doublings: usize) -> u8 {
    static TABLE: [u8; ORDER] = {
        let mut kept = 0;
        while multiply(kept, 2) ^ POLYNOMIAL != kept {
            kept += 1;
        }
        let mut table = [0; ORDER];
        let mut n = 0;
        while n < ORDER {
            table[n] = multiply(power(ORDER - n), kept) ^ kept;
            n += 1;
        }
        table
    };
    TABLE[doublings % ORDER]
}

/// The products of a constant with all low halves of a byte, and with all high halves: the sum of
/// one of each is the product with any byte.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
pub(crate) fn nibbles(constant: u8) -> &'static [[u8; 16]; 2] {
    static TABLE: [[[u8; 16]; 2]; 256] = {
        let mut table = [[[0; 16]; 2]; 256];
        let mut constant = 0;
        while constant < 256 {
            let mut half = 0;
            while half < 16 {
                table[constant][0][half] = multiply(constant as u8, half as u8);
                table[constant][1][half] = multiply(constant as u8, (half as u8) << 4);
                half += 1;
            }
            constant += 1;
        }
        table
    };
    &TABLE[usize::from(constant)]
}

/// Multiplication by a constant as a matrix over GF(2), in the form that GFNI's affine map wants:
/// byte 7 - i of the word has the bits of the argument that add up to bit i of the product.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) const fn affine(constant: u8) -> u64 {
    AFFINE[constant as usize]
}

#[cfg(target_arch = "x86_64")]
static AFFINE: [u64; 256] = {
    let mut table = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        // The product of the constant with each single bit is a column of the matrix.
        let mut from = 0;
        while from < 8 {
            let column = multiply(constant as u8, 1 << from);
            let mut to = 0;
            while to < 8 {
                table[constant] |= ((column >> to & 1) as u64) << (8 * (7 - to) + from);
                to += 1;
            }
            from += 1;
        }
        constant += 1;
    }
    table
};

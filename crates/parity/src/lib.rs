//! Pure arithmetic: XOR, P+Q, P+Q+R and recovery; the only SIMD in Brindle.

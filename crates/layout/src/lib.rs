//! Pure arithmetic: where each byte of an array lives. No I/O, no clock, no allocation per call.

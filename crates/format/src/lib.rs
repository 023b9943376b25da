//! Bytes to structs and back: md superblocks, bitmaps, bad blocks, PPL, journal. No I/O.

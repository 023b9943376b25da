//! Every number of a superblock at its extremes, singly and in pairs, in one member and in all: nothing overflows, and
//! no array reaches beyond its members. These are builds in which an overflow panics.

use brindle_format::md::{Endian, Version};
use brindle_fuzz_targets::assemble::{check, within_members};
use brindle_fuzz_targets::sets::{EXTREMES, FIELDS_0, FIELDS_1, Set, Shape};
use brindle_md::assembly::{AssembleOptions, assemble};

/// Fewer for pairs: one for each way in which arithmetic goes wrong.
const PAIRED: [u64; 7] = [0, 1, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX];

fn shape(version: Version, level: i32, layout: u32) -> Shape {
    Shape { version, level, layout, members: 4, chunk: 4096, chunks: 2, growth: u64::from(level == 0) }
}

fn fields(version: Version) -> &'static [(usize, usize)] {
    if version.is_v1() { &FIELDS_1 } else { &FIELDS_0 }
}

/// The values that a field of so many bytes can hold, each once.
fn held(values: &[u64], (_, len): (usize, usize)) -> Vec<u64> {
    let mut held: Vec<u64> = values.iter().map(|value| value & u64::MAX >> (64 - 8 * len)).collect();
    held.sort_unstable();
    held.dedup();
    held
}

#[test]
fn singly() {
    let shapes = [
        shape(Version::V1_2, 0, 2),
        shape(Version::V1_2, 5, 2),
        shape(Version::V1_1, 6, 8),
        shape(Version::V1_0, 10, 0x201),
        shape(Version::V0_90(Endian::Little), 5, 2),
        shape(Version::V0_90(Endian::Big), 1, 0),
    ];
    for shape in shapes {
        let sound = Set::new(&shape);
        for &field in fields(shape.version) {
            for value in held(&EXTREMES, field) {
                for changed in [0..1, 0..4] {
                    let mut set = sound.clone();
                    changed.for_each(|member| set.set(member, field, value));
                    set.seal();
                    check(&set, AssembleOptions { force: value % 2 == 0, partial: false });
                }
            }
        }
    }
}

#[test]
fn in_pairs() {
    let shapes = [shape(Version::V1_2, 5, 2), shape(Version::V0_90(Endian::Little), 10, 0x102)];
    for shape in shapes {
        let sound = Set::new(&shape);
        let mut set = sound.clone();
        let fields = fields(shape.version);
        for (n, &one) in fields.iter().enumerate() {
            for &other in &fields[n + 1..] {
                let (first, second) = (held(&PAIRED, one), held(&PAIRED, other));
                for (a, b) in first.iter().flat_map(|&a| second.iter().map(move |&b| (a, b))) {
                    set.restore(&sound);
                    for member in 0..4 {
                        set.set(member, one, a);
                        set.set(member, other, b);
                    }
                    set.seal();
                    if let Ok(array) =
                        assemble(&set.candidates(), AssembleOptions { force: true, partial: false })
                    {
                        within_members(&array);
                    }
                }
            }
        }
    }
}

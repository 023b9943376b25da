//! Every level and layout on every small number of members.

use brindle_layout::{
    FarSets, Geometry, GeometryError, Layout, Level, ParityLayout, Raid0Layout, Raid10Layout,
};

/// Levels and layouts, with those of RAID 10 of up to `copies` copies near or far.
pub(crate) fn layouts(copies: u8) -> Vec<(Level, Layout)> {
    let mut all =
        vec![(Level::Linear, Layout::None), (Level::Raid1, Layout::None), (Level::Raid4, Layout::None)];
    all.extend([Raid0Layout::Original, Raid0Layout::Alternate].map(|l| (Level::Raid0, Layout::Raid0(l))));
    for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
        let own = ParityLayout::ALL.into_iter().filter(|l| l.belongs_to(level));
        all.extend(own.map(|l| (level, Layout::Parity(l))));
    }
    for (near, far) in (1..=copies).flat_map(|near| (1..=copies).map(move |far| (near, far))) {
        for far_sets in [FarSets::Off, FarSets::Broken, FarSets::On] {
            for offset in [false, true] {
                let layout = Raid10Layout { near, far, offset, far_sets };
                all.push((Level::Raid10, Layout::Raid10(layout)));
            }
        }
    }
    all
}

/// Calls `check` with each geometry that exists on 1 to `members` equal members, which are long enough for
/// more than a whole turn of any rotation and no multiple of the chunk. Returns how many there were.
pub(crate) fn for_each(members: usize, copies: u8, chunk: u64, mut check: impl FnMut(&Geometry)) -> usize {
    let mut count = 0;
    for (level, layout) in layouts(copies) {
        for members in 1..=members {
            let rows = match layout {
                Layout::Raid10(l) => (2 * members as u64 + 1) * u64::from(l.far) + 1,
                _ => 2 * members as u64 + 1,
            };
            match Geometry::new(level, layout, chunk, &vec![rows * chunk + 512; members]) {
                Ok(geometry) => {
                    check(&geometry);
                    count += 1;
                }
                Err(GeometryError::TooFewMembers { .. } | GeometryError::Copies { .. }) => {}
                Err(GeometryError::CopiesCollide { .. }) => assert_eq!(level, Level::Raid10),
                Err(error) => panic!("{level} {layout} on {members}: {error}"),
            }
        }
    }
    count
}

//! Devices that join an array are laid out as those that it was created with; and arrays whose devices are not, as an older
//! release left them, are given a bitmap all the same.

use brindle_array::{Array, BitmapSpec, OpenConfig, Recovery};
use brindle_format::md::badblocks::{self, BadRange};
use brindle_format::md::{BadBlockLog, Features, Superblock, Uuid, Version};
use brindle_io::sim::{Model, Sim, When};
use brindle_layout::Level;
use brindle_md::create::{NewBitmap, plan};

use crate::common::*;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
/// Around the sizes at which more is kept free for a bitmap, and between them; two that are of no round size.
const SIZES: [u64; 8] = [
    2 * MIB,
    3 * MIB + 512,
    100 * MIB + 4 * KIB,
    8 * GIB,
    8 * GIB + 8 * MIB,
    77 * GIB + 12_345 * 512,
    201 * GIB,
    220 * GIB,
];
const BITMAPS: [NewBitmap; 4] = [
    NewBitmap::None,
    NewBitmap::Usual,
    NewBitmap::Internal { chunk: None },
    NewBitmap::Internal { chunk: Some(128 << 20) },
];

/// Where everything stands on a device.
fn places(sb: &Superblock) -> impl PartialEq + core::fmt::Debug + use<> {
    (sb.super_offset, sb.data_offset, sb.data_size, sb.bad_block_log, sb.bitmap_offset)
}

fn internal() -> BitmapSpec {
    BitmapSpec::default()
}

#[test]
fn devices_that_join_are_laid_out_as_those_that_were_created() {
    let mut random = Random::new(11);
    let mut made = 0;
    for version in VERSIONS {
        for size in SIZES {
            for bitmap in BITMAPS {
                // A spare may be larger than the members.
                let larger = size + *random.pick(&[0, 512, 64 * KIB, 5 * MIB]);
                let (level, members) =
                    *random.pick(&[(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid10, 2)]);
                let mut spec = spec(level, members, version);
                spec.roles = (0..members).map(|n| Some(new_member(n, size))).collect();
                spec.spares = vec![new_member(members, larger)];
                spec.bitmap = bitmap;
                let who = format!("{level}, {version}, {size} and {larger} bytes, {bitmap:?}");
                // Not each is large enough.
                let Ok(plan) = plan(&spec) else { continue };
                made += 1;
                let sim = Sim::new(7);
                let drive = |member| sim.add_blank_drive(Model::nvme(), member);
                let ids: Vec<_> = given(&spec).iter().map(|member| drive(member.info.size)).collect();
                plan.writes().for_each(|write| sim.poke(ids[write.device], write.offset, &write.bytes));
                let mut world = World::over(sim, ids, version);
                let new = world.bench.add_blank_drive(Model::nvme(), larger);
                let array = world.open();
                let uuid = Uuid::from_u128(9);
                world.io.block_on(array.add(new, "new", uuid, false)).unwrap();
                world.ids.push(new);
                let (created, joined) = (world.superblock(members), world.superblock(members + 1));
                assert_eq!(places(&joined), places(&created), "{who}");
                // A bitmap may go and come.
                if array.detail().bitmap.is_some() {
                    world.io.block_on(array.remove_bitmap()).unwrap();
                }
                let given = world.io.block_on(array.set_bitmap(internal()));
                assert_eq!(given, Ok(()), "{who}");
                world.stop(&array);
            }
        }
    }
    assert!(made > 80, "{made} arrays");
}

/// The role whose log stands straight behind the bitmap's bytes.
const ROLE: usize = 1;

/// An array with a bitmap, of which one member joined under an older release: its log of bad blocks stands straight behind
/// the bitmap's bytes, and names as many places.
fn left_by_an_older_release(version: Version, offset: i64, bad: usize) -> World<Sim> {
    let shape = Shape { bitmap: Some(64 * KIB), ..Shape::new(Level::Raid1, 2).metadata(version, 0) };
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let mut sb = world.superblock(ROLE);
    sb.bad_block_log = Some(BadBlockLog { offset, size: 4 * KIB, shift: 0 });
    let range = |n: usize| BadRange { offset: sb.data_offset + n as u64 * 1024, len: 512 };
    let ranges: Vec<BadRange> = (0..bad).map(range).collect();
    let mut log = vec![0; 4096];
    assert!(badblocks::write(&mut log, &ranges));
    sb.features = sb.features.with(Features::BAD_BLOCKS, bad > 0);
    let (member, place) = (world.ids[ROLE], sb.super_offset.checked_add_signed(offset).unwrap());
    world.bench.poke(member, place, &log);
    world.bench.poke(member, sb.super_offset, &encoded(&sb));
    world
}

fn opened(world: &World<Sim>) -> Array {
    let config = OpenConfig { recovery: Recovery::Manual, ..patient() };
    world.try_open(world.assembly().unwrap(), config).unwrap()
}

#[test]
fn a_log_that_stands_in_the_way_of_a_bitmap_moves() {
    for version in [Version::V1_1, Version::V1_2] {
        // Of so many entries some stand where the log goes by itself; then it goes further.
        for (offset, bad) in [(4608, 0), (4608, 3), (5120, 40), (4608, 510)] {
            let who = format!("{version}, log at {offset} with {bad} entries");
            let world = left_by_an_older_release(version, offset, bad);
            let array = opened(&world);
            let known = array.bad_blocks(ROLE as u16);
            assert_eq!(known.len(), bad, "{who}");
            world.io.block_on(array.remove_bitmap()).unwrap();
            let from = world.bench.steps();
            world.io.block_on(array.set_bitmap(internal())).unwrap_or_else(|why| panic!("{who}: {why}"));
            let upto = world.bench.steps();
            world.stop(&array);
            let log = world.superblock(ROLE).bad_block_log.unwrap();
            assert_eq!(log.offset, if bad == 510 { 12_288 } else { 8192 }, "{who}");
            drop(array);
            let world = world.restart(8);
            let array = opened(&world);
            assert_eq!(array.bad_blocks(ROLE as u16), known, "{who}");
            assert!(array.detail().bitmap.is_some(), "{who}");
            for cut in from..upto {
                let world = left_by_an_older_release(version, offset, bad);
                let array = opened(&world);
                world.bench.cut_power_at(When::Step(cut));
                let changed = async {
                    array.remove_bitmap().await.unwrap();
                    array.set_bitmap(internal()).await.unwrap();
                };
                assert!(world.io.block_on(world.bench.until_end(&world.io, changed)).is_none(), "{who}");
                drop(array);
                let world = world.restart(8);
                let array = opened(&world);
                assert_eq!(array.bad_blocks(ROLE as u16), known, "{who}, cut before step {cut}");
                if array.detail().bitmap.is_none() {
                    world.io.block_on(array.set_bitmap(internal())).unwrap();
                }
                assert_eq!(array.bad_blocks(ROLE as u16), known, "{who}, cut before step {cut}");
                world.stop(&array);
            }
        }
    }
}

#[test]
fn a_log_that_can_not_move_is_left_where_it_is() {
    let world = left_by_an_older_release(Version::V1_2, 4608, 2);
    // Counted in units that this program does not change.
    let mut sb = world.superblock(ROLE);
    sb.bad_block_log = Some(BadBlockLog { offset: 4608, size: 4 * KIB, shift: 3 });
    world.bench.poke(world.ids[ROLE], sb.super_offset, &encoded(&sb));
    let array = opened(&world);
    world.io.block_on(array.remove_bitmap()).unwrap();
    let before = world.superblock(ROLE);
    let refused = world.io.block_on(array.set_bitmap(internal()));
    assert!(matches!(refused, Err(brindle_array::BitmapError::Room { .. })), "{refused:?}");
    assert_eq!(world.superblock(ROLE), before);
}

//! Arrays in the middle of a reshape: what their superblocks make of them, and which byte comes from where.

use brindle_array::{Access, Array, Device, OpenConfig, RoleState, SyncMode};
use brindle_format::md::{DeviceRole, Features, Reshape, Superblock, Version};
use brindle_layout::{Geometry, Level};
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, AssemblyError, Limitation, ReshapeError, assemble};
use brindle_volume::VolumeError;

use crate::common::*;

const CHUNK: u64 = 64 << 10;

/// A reshape of a RAID 5 with chunks of 64 KiB.
#[derive(Clone, Copy)]
struct Case {
    from: u32,
    to: u32,
    backwards: bool,
    new_chunk: u64,
    shift: i64,
    position: u64,
}

const GROW: Case =
    Case { from: 4, to: 5, backwards: false, new_chunk: CHUNK, shift: -(256 << 10), position: 32 * CHUNK };
const SHRINK: Case = Case { from: 5, to: 4, backwards: true, shift: 256 << 10, position: 48 * CHUNK, ..GROW };
const CHUNKS: Case = Case { from: 4, to: 4, new_chunk: 2 * CHUNK, position: 36 * CHUNK, ..GROW };
const BACK: Case = Case { backwards: true, shift: 256 << 10, ..CHUNKS };

impl Case {
    fn members(&self) -> usize {
        self.from.max(self.to) as usize
    }

    fn edit(&self, n: usize, sb: &mut Superblock) {
        sb.raid_disks = self.to;
        sb.component_size = 4 * MIB;
        sb.features = sb.features.with(Features::RESHAPE_BACKWARDS, self.backwards && self.from == self.to);
        sb.reshape = Some(Reshape {
            position: self.position,
            new_level: sb.level,
            new_layout: sb.layout,
            new_chunk: self.new_chunk,
            delta_disks: self.to as i32 - self.from as i32,
            new_offset: (self.shift != 0).then_some(self.shift),
        });
        sb.features =
            sb.features.with(Features::RESHAPE_ACTIVE, true).with(Features::NEW_OFFSET, self.shift != 0);
        assert_eq!(sb.role(), DeviceRole::Active(n as u16));
    }

    fn assemble(&self, force: bool) -> Result<brindle_md::assembly::Assembly, AssemblyError> {
        let spec = spec(Level::Raid5, self.members(), Version::V1_2);
        assemble(&edited(&spec, |n, sb| self.edit(n, sb)), AssembleOptions { force, partial: false })
    }
}

fn in_doubt(case: Case) -> bool {
    let refused = matches!(case.assemble(false), Err(AssemblyError::Reshape(ReshapeError::InDoubt)));
    assert_eq!(refused, case.assemble(false).is_err());
    assert!(case.assemble(true).is_ok(), "forced, what is there is read");
    refused
}

#[test]
fn a_reshape_is_named_and_forbids_writes() {
    for case in [GROW, SHRINK, CHUNKS, BACK] {
        let array = case.assemble(case.from == case.to).unwrap();
        assert_eq!(
            array.limits,
            [Limitation::Reshape {
                position: case.position,
                in_doubt: case.from == case.to,
                can_go_on: case.from < case.to
            }]
        );
        assert!(!array.writable());
        assert_eq!(array.geometry.members(), case.from as u16);
        let reshaping = array.reshaping.as_ref().unwrap();
        assert_eq!(reshaping.geometry.members(), case.to as u16);
        assert_eq!((reshaping.position, reshaping.backwards), (case.position, case.backwards));
        assert_eq!(array.roles.len(), case.members());
        assert_eq!(array.size(), (u64::from(case.from.min(case.to)) - 1) * 4 * MIB);
    }
}

#[test]
fn what_was_being_moved_over_itself_is_in_doubt() {
    // Far enough from the start, more members need no shift at all.
    assert!(!in_doubt(Case { shift: 0, ..GROW }));
    assert!(in_doubt(Case { shift: 0, position: 0, ..GROW }), "at the start they do");
    assert!(!in_doubt(Case { position: 0, ..GROW }));
    assert!(in_doubt(Case { position: 0, ..SHRINK }.with_shift(0)));
    for shift in [0, CHUNKS.shift, -CHUNKS.shift] {
        assert!(in_doubt(CHUNKS.with_shift(shift)), "as many data members as before");
        assert!(in_doubt(BACK.with_shift(shift)));
    }
    assert!(in_doubt(Case { position: GROW.position + CHUNK, ..GROW }), "not at the border of two rows");
    // At chunk 48 the border of the one side is four chunks of each member from that of the other.
    for (case, away) in [(GROW, 1), (SHRINK, -1)] {
        let case = Case { position: 48 * CHUNK, ..case };
        assert!(
            !in_doubt(case.with_shift(away * 3 * CHUNK as i64)),
            "data move the other way, but not so far"
        );
        assert!(in_doubt(case.with_shift(away * 4 * CHUNK as i64)));
    }
}

#[test]
fn a_raid10_that_grows_is_in_doubt_unless_its_data_move_by_a_stripe() {
    let doubt = |layout: &str, backwards: bool, shift: u64| {
        let mut spec = spec(Level::Raid10, 5, Version::V1_2);
        spec.layout = Some(brindle_layout::Layout::parse(Level::Raid10, layout).unwrap());
        let shift = if backwards { shift as i64 } else { -(shift as i64) };
        let (from, to) = if backwards { (5, 4) } else { (4, 5) };
        let case = Case { from, to, backwards, shift, position: 40 * CHUNK, new_chunk: CHUNK };
        let found = edited(&spec, |n, sb| case.edit(n, sb));
        match assemble(&found, AssembleOptions::default()) {
            Ok(_) => false,
            Err(AssemblyError::Reshape(ReshapeError::InDoubt)) => true,
            Err(error) => panic!("{error}"),
        }
    };
    for backwards in [false, true] {
        assert!(!doubt("n2", backwards, CHUNK) && doubt("n2", backwards, CHUNK - 512));
        // The copies of a stripe stand in two.
        assert!(!doubt("o2", backwards, 2 * CHUNK) && doubt("o2", backwards, 2 * CHUNK - 512));
    }
}

#[test]
fn of_each_member_whole_chunks_of_either_size_are_used() {
    let spec = spec(Level::Raid5, 4, Version::V1_2);
    let found = edited(&spec, |n, sb| {
        CHUNKS.edit(n, sb);
        sb.component_size = 4 * MIB + CHUNK;
    });
    let array = assemble(&found, AssembleOptions { force: true, partial: false }).unwrap();
    assert_eq!(array.size(), 3 * 4 * MIB);
}

impl Case {
    fn with_shift(self, shift: i64) -> Self {
        Self { shift, ..self }
    }
}

#[test]
fn what_md_never_does_is_refused() {
    let candidates = |edit: fn(&mut Superblock)| {
        edited(&spec(Level::Raid5, 5, Version::V1_2), |n, sb| {
            GROW.edit(n, sb);
            edit(sb);
        })
    };
    let refusal = |edit| assemble(&candidates(edit), AssembleOptions::default()).unwrap_err();
    let other_level = refusal(|sb| sb.reshape.as_mut().unwrap().new_level = 6);
    assert_eq!(other_level, ReshapeError::OtherLevel { from: 5, to: 6 }.into());
    assert!(other_level.to_string().contains("feature reshape"));
    let layout = refusal(|sb| sb.reshape.as_mut().unwrap().new_layout = 77);
    assert!(matches!(layout, AssemblyError::Layout(_)));
    let chunk = refusal(|sb| sb.reshape.as_mut().unwrap().new_chunk = 512);
    assert!(matches!(chunk, AssemblyError::Geometry(_)));
    for (level, members) in [(Level::Raid0, 5), (Level::Raid1, 5)] {
        let found = edited(&spec(level, members, Version::V1_2), |n, sb| GROW.edit(n, sb));
        let error = assemble(&found, AssembleOptions { force: true, partial: false }).unwrap_err();
        assert_eq!(error, ReshapeError::Level { level }.into());
    }
    // One member that knows nothing of the reshape: its data may be elsewhere.
    let one = refusal(|sb| {
        if sb.device_number == 2 {
            sb.reshape = None;
            sb.features = sb.features.without(Features::RESHAPE);
        }
    });
    assert!(matches!(one, AssemblyError::Inconsistent { field: "reshape", .. }), "{one}");
}

/// As a reshape leaves them: all of the content in the old place, and over it what has moved in the new one.
fn lay_out(world: &World, case: Case, content: &[u8]) {
    let side = |members: u32, chunk, shift: i64| {
        let offset = world.superblock(0).data_offset.strict_add_signed(shift);
        let device = |n: usize| Some(Device { id: world.ids[n], data_offset: offset });
        let layout = brindle_layout::Layout::default_for(Level::Raid5);
        let geometry = Geometry::new(Level::Raid5, layout, chunk, &vec![4 * MIB; members as usize]).unwrap();
        in_memory(&world.io, geometry, (0..members as usize).map(device).collect())
    };
    // Whole rows: parity must be recomputed of what lay there before.
    let write = |array: &Array, from: usize, to: usize| {
        let row = array.geometry().row_bytes() as usize;
        for at in (from..to).step_by(row) {
            world.write(array, at as u64, &content[at..at + row]).unwrap();
        }
    };
    write(&side(case.from, CHUNK, 0), 0, content.len());
    let position = case.position as usize;
    let moved = if case.backwards { position..content.len() } else { 0..position };
    write(&side(case.to, case.new_chunk, case.shift), moved.start, moved.end);
    for n in 0..case.members() {
        let mut sb = world.superblock(n);
        case.edit(n, &mut sb);
        let mut bytes = vec![0; brindle_format::md::SUPERBLOCK_BYTES];
        sb.encode(&mut bytes).unwrap();
        world.bench.poke(world.ids[n], sb.super_offset, &bytes);
    }
}

#[test]
fn each_side_of_the_border_is_read_where_it_is() {
    for case in [GROW, SHRINK, CHUNKS, BACK] {
        let whole = World::create(&spec(Level::Raid5, case.members(), Version::V1_2));
        let options = AssembleOptions { force: case.from == case.to, partial: false };
        let size = case.assemble(options.force).unwrap().size() as usize;
        let content = pattern(7, size);
        lay_out(&whole, case, &content);
        let before: Vec<_> = (0..case.members()).map(|n| whole.image(n)).collect();
        let border = case.position as usize;
        let mut ranges: Vec<_> =
            (0..size).step_by(MIB as usize).map(|at| at..(at + MIB as usize).min(size)).collect();
        ranges.extend([border - 512..border + 512, border - 200_704..border + 300_032, border - 512..border]);
        let read_only = || OpenConfig::new(Access::ReadOnly, || NOW);
        for lost in std::iter::once(None).chain((0..case.members()).map(Some)) {
            let world = whole.reboot().without(&Vec::from_iter(lost));
            let array = world.try_open(world.assembly_with(options).unwrap(), read_only()).unwrap();
            for range in ranges.clone() {
                let read = world.read(&array, range.start as u64, range.len()).unwrap();
                assert!(
                    read == content[range.clone()],
                    "{} to {} members, {range:?} without {lost:?}",
                    case.from,
                    case.to
                );
            }
            let beyond = world.read(&array, size as u64 - 512, 1024);
            assert_eq!(beyond, Err(VolumeError::OutOfRange));
            assert_eq!(world.write(&array, 0, &[0; 512]), Err(VolumeError::ReadOnly));
            let check = world.io.block_on(array.check(SyncMode::Check, |_| ()));
            assert_eq!(check.unwrap_err(), VolumeError::Reshaping.into());
            let refused = world.try_open(world.assembly_with(options).unwrap(), patient());
            assert!(matches!(refused, Err(OpenError::ReadOnly { .. })));
        }
        let after: Vec<_> = (0..case.members()).map(|n| whole.image(n)).collect();
        assert!(before == after, "nothing is written");
        assert!(whole.without(&[0, 1]).assembly_with(options).is_err(), "one member too many");
    }
}

#[test]
fn a_member_that_fails_on_one_side_of_the_border_has_failed_on_both() {
    for case in [GROW, SHRINK, CHUNKS, BACK] {
        let whole = World::create(&spec(Level::Raid5, case.members(), Version::V1_2));
        let options = AssembleOptions { force: case.from == case.to, partial: false };
        let content = pattern(7, case.assemble(options.force).unwrap().size() as usize);
        lay_out(&whole, case, &content);
        let border = case.position as usize;
        let sides = [0..border, border..content.len()];
        for (hit, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let world = whole.reboot();
            let config = OpenConfig::new(Access::ReadOnly, || NOW);
            let array = world.try_open(world.assembly_with(options).unwrap(), config).unwrap();
            let check = |side: &std::ops::Range<usize>| {
                for at in side.clone().step_by(MIB as usize) {
                    let end = (at + MIB as usize).min(side.end);
                    assert!(world.read(&array, at as u64, end - at).unwrap() == content[at..end], "{side:?}");
                }
            };
            world.bench.kill(world.ids[0]);
            check(hit);
            assert_eq!(array.state(0), RoleState::Failed, "{hit:?}");
            check(other);
            assert_eq!((array.detail().degraded, array.events_since(0).len()), (1, 1), "told once");
        }
    }
}

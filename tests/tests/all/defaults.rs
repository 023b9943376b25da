//! Where mdadm puts things on members of every size, and how large it makes them, Brindle does too: data offset, bad-block
//! log, bitmap and its chunk, chunk, and what is used of each member.
//!
//! The members are sparse files in the machine's memory, so that they may be as large as no disk of the host.

use std::time::Duration;

use brindle_format::md::bitmap::bytes_needed;
use brindle_format::md::defaults::{self, BitmapPlan, Consistency};
use brindle_format::md::{Superblock, Uuid, Version};
use brindle_io::MemberInfo;
use brindle_layout::Level;
use brindle_md::create::{CreateError, CreateSpec, NewBitmap, NewMember, plan};
use brindle_testkit::skip::is_long;
use brindle_tests::mdadm::{Fields, number};
use brindle_tests::tools::or_skip;
use brindle_tests::vm::{Report, Vm};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Around every border that the rules have, and between them.
const SIZES: [u64; 24] = [
    MIB,
    2 * MIB,
    3 * MIB + 512,
    4 * MIB + 60 * KIB,
    64 * MIB,
    100 * MIB + 4 * KIB,
    300 * MIB,
    GIB,
    4 * GIB,
    8 * GIB,
    8 * GIB + 8 * MIB,
    32 * GIB,
    100 * GIB,
    101 * GIB,
    128 * GIB - 512,
    200 * GIB,
    201 * GIB,
    TIB,
    2 * TIB + MIB,
    4 * TIB,
    5 * TIB,
    16 * TIB - 4 * KIB,
    20 * TIB,
    90 * TIB,
];

const VERSIONS: [&str; 4] = ["0.90", "1.0", "1.1", "1.2"];

/// Levels with the fewest members that they can have.
const LEVELS: [(&str, usize); 6] = [("1", 2), ("5", 3), ("10", 2), ("6", 4), ("4", 3), ("0", 2)];

/// The bitmap asked of mdadm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bitmap {
    None,
    Internal,
    Unsaid,
}

/// An array to be made with nothing said that mdadm can choose.
#[derive(Debug)]
struct Case {
    size: u64,
    version: &'static str,
    level: &'static str,
    members: usize,
    bitmap: Bitmap,
}

/// Each size with each version and two levels, once without a bitmap, once with one or with nothing said; by turns one of
/// the two, unless `make test-long` asks.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (row, &size) in SIZES.iter().enumerate() {
        for (column, version) in VERSIONS.into_iter().enumerate() {
            let bitmap = if (row + column) % 2 == 0 { Bitmap::Internal } else { Bitmap::Unsaid };
            let both = [(0, Bitmap::None), (3, bitmap)];
            let taken = if is_long() { &both[..] } else { &both[(row + column / 2) % 2..][..1] };
            for &(shift, bitmap) in taken {
                let (level, members) = LEVELS[(row + column + shift) % LEVELS.len()];
                // Without redundancy no bitmap; and mdadm 4.2 makes no RAID 0 of 0.90.
                let striped = level == "0";
                if !(striped && (bitmap == Bitmap::Internal || version == "0.90")) {
                    all.push(Case { size, version, level, members, bitmap });
                }
            }
        }
    }
    all
}

const MAKE: &str = "
    attach() { # NUMBER
        rm -f /tmp/file$1
        truncate -s $size /tmp/file$1
        [ -e /dev/loop$1 ] || mknod /dev/loop$1 b 7 $1
        losetup /dev/loop$1 /tmp/file$1
    }
    make() { # KEY SIZE MEMBERS JOINS ARGUMENTS...
        key=$1 size=$2 count=$3 joins=$4
        shift 4
        devices=
        for n in $(seq 0 $((count - 1))); do
            attach $n
            devices=\"$devices /dev/loop$n\"
        done
        if mdadm --create /dev/md9 --run --assume-clean --raid-devices=$count \"$@\" $devices >/tmp/said 2>&1; then
            mdadm --examine /dev/loop0 >/tmp/examined
            put examined$key \"$(flat /tmp/examined)\"
            case $(cat /tmp/examined) in *Bitmap*)
                mdadm --examine-bitmap /dev/loop0 >/tmp/bitmap
                put bitmap$key \"$(flat /tmp/bitmap)\"
            esac
            if [ -n \"$joins\" ]; then
                attach $count
                step \"add to array $key\" mdadm /dev/md9 --add /dev/loop$count
                mdadm --examine /dev/loop$count >/tmp/joined
                put joined$key \"$(flat /tmp/joined)\"
                devices=\"$devices /dev/loop$count\"
            fi
            step \"stop array $key\" mdadm --stop /dev/md9
        else
            put refused$key \"$(flat /tmp/said)\"
        fi
        for device in $devices; do
            until losetup -d $device; do sleep 0.1; done
        done
    }
    mkdir -p /tmp
";

fn command(index: usize, case: &Case) -> String {
    let bitmap = match case.bitmap {
        // Of levels without redundancy mdadm does not even want to hear that there shall be none.
        Bitmap::None if case.level != "0" => "--bitmap=none",
        Bitmap::Internal => "--bitmap=internal",
        Bitmap::None | Bitmap::Unsaid => "",
    };
    let Case { size, members, level, version, .. } = case;
    let joins = if *level == "0" { "''" } else { "another" };
    format!("make {index} {size} {members} {joins} --level={level} --metadata={version} {bitmap}\n")
}

/// The superblock that Brindle would write on the first member.
fn ours(case: &Case) -> Result<Superblock, CreateError> {
    let info = MemberInfo {
        size: case.size,
        logical_block: 512,
        physical_block: 512,
        rotational: false,
        discard: false,
        write_zeroes: false,
    };
    let member = NewMember {
        label: "member".into(),
        info,
        uuid: Uuid::from_u128(1),
        old_superblocks: Vec::new(),
        flags: Default::default(),
    };
    let version: Version = case.version.parse().expect("a version");
    let plan = plan(&CreateSpec {
        version,
        level: case.level.parse::<Level>().expect("a level"),
        layout: None,
        chunk: None,
        size: None,
        data_offset: None,
        bitmap: NewBitmap::None,
        write_behind: 0,
        name: String::new(),
        homehost: None,
        roles: vec![Some(member); case.members],
        spares: Vec::new(),
        assume_clean: true,
        uuid: Uuid::from_u128(2),
        now: 0,
    })?;
    Ok(Superblock::parse(version, &plan.superblocks[0].bytes, case.size).expect("our own superblock"))
}

/// With the bitmap that mdadm gives it, if it gives it one.
fn with_bitmap(case: &Case, sb: &mut Superblock) -> Option<BitmapPlan> {
    let by_itself = sb.level > 0 && sb.component_size >= defaults::BITMAP_FROM;
    if case.bitmap == Bitmap::None || (case.bitmap == Bitmap::Unsaid && !by_itself) {
        return None;
    }
    // RAID 10 of two: both are copies.
    let plan = defaults::default_bitmap(sb.version, sb.component_size, sb.component_size).expect("room");
    let consistency = Consistency::Bitmap { bytes: plan.bytes };
    let offset = defaults::data_offset(sb.version, case.size, sb.chunk, consistency);
    let placement = defaults::place(sb.version, case.size, offset, sb.component_size, consistency);
    placement.expect("a place for all").apply(sb);
    Some(plan)
}

/// Where things stand on a device that joins.
fn compare_joined(case: &Case, theirs: &Fields) {
    let mut sb = ours(case).expect("ours was made");
    let plan = with_bitmap(case, &mut sb);
    // As it is found on a member, to the byte.
    let bytes = plan.and_then(|plan| bytes_needed(sb.component_size, plan.chunk));
    let placement = defaults::place_joining(&sb, case.size, bytes);
    placement.unwrap_or_else(|| panic!("{case:?}: a place for all")).apply(&mut sb);
    compare_places(&sb, theirs, &format!("{case:?}, joined: {theirs:?}\n{sb:?}"));
}

fn compare_places(sb: &Superblock, theirs: &Fields, context: &str) {
    if !sb.version.is_v1() {
        return assert_eq!(theirs.get("Internal Bitmap").is_some(), sb.bitmap_offset.is_some(), "{context}");
    }
    let sectors = |key: &str| theirs.get(key).map(|value| number(value) * 512);
    assert_eq!(sectors("Data Offset").unwrap_or(0), sb.data_offset, "{context}");
    assert_eq!(sectors("Super Offset"), Some(sb.super_offset), "{context}");
    assert_eq!(sectors("Avail Dev Size"), Some(sb.data_size), "{context}");
    let log = sb
        .bad_block_log
        .map(|log| format!("{} entries available at offset {} sectors", log.size / 8, log.offset / 512));
    assert_eq!(theirs.get("Bad Block Log"), log.as_deref(), "{context}");
    let place = sb.bitmap_offset.map(|at| format!("{} sectors from superblock", at / 512));
    assert_eq!(theirs.get("Internal Bitmap"), place.as_deref(), "{context}");
}

fn compare(case: &Case, theirs: &Fields, bitmap: &Fields) {
    let mut sb = ours(case).unwrap_or_else(|e| panic!("{case:?}: Brindle refuses, mdadm does not: {e}"));
    let plan = with_bitmap(case, &mut sb);
    let context = format!("{case:?}: {theirs:?}\n{bitmap:?}\n{sb:?}");
    assert_eq!(theirs.get("Chunk Size").map(|size| number(size) * KIB).unwrap_or(0), sb.chunk, "{context}");
    compare_places(&sb, theirs, &context);
    if sb.version.is_v1() {
        let sectors = |key: &str| theirs.get(key).map(|value| number(value) * 512);
        let used = if sb.component_size == 0 { None } else { Some(sb.component_size) };
        let all = used.and(sectors("Avail Dev Size"));
        assert_eq!(sectors("Used Dev Size").or(all), used, "{context}");
    } else {
        // mdadm takes the 32 bits for signed.
        let used = theirs["Used Dev Size"].split(' ').next().and_then(|n| n.parse::<i32>().ok());
        assert_eq!(used.map(|n| u64::from(n as u32) * KIB), Some(sb.component_size), "{context}");
        assert_eq!(sb.bitmap_offset.is_some(), plan.is_some(), "{context}");
    }
    if let Some(plan) = plan {
        assert_eq!(&bitmap["Chunksize"], format!("{} MB", plan.chunk / MIB), "{context}");
        assert_eq!(bitmap.number("Sync Size") * KIB, sb.component_size, "{context}");
        let bits = sb.component_size.div_ceil(plan.chunk);
        assert_eq!(bitmap.number("Bitmap"), bits, "{context}");
    }
}

fn judge(index: usize, case: &Case, report: &Report) {
    let value = |key: &str| report.results.get(&format!("{key}{index}"));
    match value("examined") {
        Some(examined) => {
            let bitmap = value("bitmap").map_or("", |fields| fields);
            compare(case, &Fields::of(examined, '|'), &Fields::of(bitmap, '|'));
            if let Some(joined) = value("joined") {
                compare_joined(case, &Fields::of(joined, '|'));
            }
        }
        None => {
            let why = value("refused").expect("made or refused");
            let ours = ours(case);
            let refused = matches!(ours, Err(CreateError::Small(_) | CreateError::SizeIn090 { .. }));
            assert!(refused, "{case:?}: mdadm says {why}\n{ours:?}");
        }
    }
}

#[test]
fn arrays_of_all_sizes_are_laid_out_as_by_mdadm() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let cases = cases();
    let commands: String = cases.iter().enumerate().map(|(index, case)| command(index, case)).collect();
    let report = vm.limit(Duration::from_secs(1800)).run(&format!("{MAKE}{commands}")).unwrap();
    for (index, case) in cases.iter().enumerate() {
        judge(index, case, &report);
    }
}

//! Signatures on devices: real file systems and partition tables made by their own tools, and hand-made blocks where
//! no tool works on plain files.
//!
//! A tool that is missing is said to be SKIPPED, and fails the test with `CI=true`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use brindle_format::md::{DeviceRole, Superblock, Uuid, Version};
use brindle_format::signature::{Found, Sample, Signature, detect, needed};
use brindle_testkit::skip::{find, or_skip};
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const DEVICE: u64 = 300 * MIB;
const UUID: &str = "01234567-89ab-cdef-fedc-ba9876543210";

/// The findings of `detect` on a device of which only the wanted parts are read.
fn detect_with(device_bytes: u64, mut read: impl FnMut(u64, &mut [u8])) -> Vec<Found> {
    let mut parts = Vec::new();
    for (offset, len) in needed(device_bytes) {
        let mut bytes = vec![0; len];
        read(offset, &mut bytes);
        parts.push((offset, bytes));
    }
    let samples: Vec<Sample<'_>> =
        parts.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
    detect(device_bytes, &samples)
}

fn detect_file(path: &Path) -> Vec<Found> {
    let mut file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    detect_with(len, |offset, bytes| {
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.read_exact(bytes).unwrap();
    })
}

/// A device of zeroes with some blocks written to it.
fn detect_blocks(device_bytes: u64, blocks: &[(u64, &[u8])]) -> Vec<Found> {
    detect_with(device_bytes, |offset, bytes| {
        for (at, block) in blocks {
            for (n, byte) in (*at..).zip(*block) {
                if let Some(to) = n.checked_sub(offset).and_then(|i| bytes.get_mut(i as usize)) {
                    *to = *byte;
                }
            }
        }
    })
}

fn kinds(found: &[Found]) -> Vec<Signature> {
    found.iter().map(|f| f.signature).collect()
}

/// Runs a tool on the file: `None` (said aloud) if it is not installed.
fn run(tool: &str, args: &[&str], path: &Path, input: &str) -> Option<()> {
    let mut child = Command::new(or_skip(find(tool))?)
        .args(args)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{tool}: {}", String::from_utf8_lossy(&out.stderr));
    Some(())
}

/// Tool, arguments, standard input; then signature, label and UUID to find.
type Case<'a> = (&'a str, &'a [&'a str], &'a str, Signature, Option<&'a str>, Option<&'a str>);

#[test]
fn real_file_systems_and_partition_tables_are_known() {
    let luks = ["luksFormat", "-q", "--pbkdf-force-iterations", "1000", "--uuid", UUID];
    let luks1 = [&luks[..], &["--type", "luks1"]].concat();
    let luks2 = [&luks[..], &["--type", "luks2", "--pbkdf", "pbkdf2", "--label", "data"]].concat();
    let gpt = format!("label: gpt\nlabel-id: {UUID}\n2048,,L\n");
    let dos = "label: dos\nlabel-id: 0xfeedbeef\n2048,,L\n";
    let cases: &[Case<'_>] = &[
        ("mkfs.ext4", &["-q", "-L", "data", "-U", UUID], "", Signature::Ext, Some("data"), Some(UUID)),
        ("mkfs.ext2", &["-q", "-b", "4096", "-U", UUID], "", Signature::Ext, None, Some(UUID)),
        (
            "mkfs.xfs",
            &["-q", "-L", "data", "-m", &format!("uuid={UUID}")],
            "",
            Signature::Xfs,
            Some("data"),
            Some(UUID),
        ),
        ("mkfs.btrfs", &["-q", "-L", "data", "-U", UUID], "", Signature::Btrfs, Some("data"), Some(UUID)),
        ("mkswap", &["-L", "data", "-U", UUID], "", Signature::Swap, Some("data"), Some(UUID)),
        (
            "mkfs.vfat",
            &["-F", "32", "-n", "DATA", "-i", "01234567"],
            "",
            Signature::Vfat,
            Some("DATA"),
            Some("0123-4567"),
        ),
        (
            "mkfs.vfat",
            &["-F", "16", "-n", "DATA", "-i", "01234567"],
            "",
            Signature::Vfat,
            Some("DATA"),
            Some("0123-4567"),
        ),
        ("mkfs.f2fs", &["-q", "-l", "data", "-U", UUID], "", Signature::F2fs, Some("data"), Some(UUID)),
        ("cryptsetup", &luks1, "key", Signature::Luks, None, Some(UUID)),
        ("cryptsetup", &luks2, "key", Signature::Luks, Some("data"), Some(UUID)),
        ("sfdisk", &["-q"], &gpt, Signature::Gpt, None, Some(UUID)),
        ("sfdisk", &["-q"], dos, Signature::Mbr, None, Some("feedbeef")),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    for (tool, args, input, signature, label, uuid) in cases {
        let file = File::create(&path).unwrap();
        file.set_len(DEVICE).unwrap();
        if run(tool, args, &path, input).is_none() {
            continue;
        }
        let found = detect_file(&path);
        let first =
            found.iter().find(|f| f.signature == *signature).unwrap_or_else(|| panic!("{tool}: {found:?}"));
        assert_eq!((first.label.as_deref(), first.uuid.as_deref()), (*label, *uuid), "{tool}");
        let mut others = kinds(&found);
        others.dedup();
        let wanted = if *signature == Signature::Gpt {
            vec![Signature::Mbr, Signature::Gpt]
        } else {
            vec![*signature]
        };
        others.sort_by_key(|s| wanted.iter().position(|w| w == s));
        assert_eq!(others, wanted, "{tool}: {found:?}");
    }
}

#[test]
fn serial_numbers_are_those_of_the_boot_sector() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    File::create(&path).unwrap().set_len(DEVICE).unwrap();
    let read = |at: usize| std::fs::read(&path).unwrap()[at..at + 8].to_vec();
    if run("mkntfs", &["-F", "-Q", "-q"], &path, "").is_some() {
        let found = detect_file(&path);
        assert_eq!(kinds(&found), [Signature::Ntfs]);
        let serial = u64::from_le_bytes(read(72).try_into().unwrap());
        assert_eq!(found[0].uuid, Some(format!("{serial:016X}")));
    }
    File::create(&path).unwrap().set_len(DEVICE).unwrap();
    if run("mkfs.exfat", &[], &path, "").is_some() {
        let found = detect_file(&path);
        assert_eq!(kinds(&found), [Signature::ExFat]);
        let serial = get32(&read(100), 0);
        assert_eq!(found[0].uuid, Some(format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)));
    }
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn images_made_from_files_are_known() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("content"), "content").unwrap();
    let source = dir.path().join("content");
    let source = source.to_str().unwrap();
    let image = dir.path().join("image");
    if run("mksquashfs", &[source], &image, "").is_some() {
        assert_eq!(kinds(&detect_file(&image)), [Signature::Squashfs]);
        std::fs::remove_file(&image).unwrap();
    }
    let target = image.to_str().unwrap();
    let options = ["-as", "mkisofs", "-quiet", "-V", "data", "-o", target];
    if run("xorriso", &options, Path::new(source), "").is_some() {
        let found = detect_file(&image);
        assert_eq!(kinds(&found), [Signature::Iso9660]);
        assert_eq!(found[0].label.as_deref(), Some("data"));
    }
}

#[test]
fn other_signatures_are_known_at_both_ends() {
    let last = |back: u64| DEVICE - back;
    let zfs = 0x00ba_b10c_u64.to_le_bytes();
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    let bcachefs = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    let cases: &[(u64, &[u8], Signature)] = &[
        (last(1024), b"Intel Raid ISM Cfg Sig. 1.3.00", Signature::Imsm),
        (last(8192), b"Intel Raid ISM Cfg Sig. 1.3.00", Signature::Imsm),
        (last(512), &[0xde, 0x11, 0xde, 0x11], Signature::Ddf),
        (last(4096), &[0xde, 0x11, 0xde, 0x11], Signature::Ddf),
        (last(257 * 512), &[0x11, 0xde, 0x11, 0xde], Signature::Ddf),
        (last(4096 - 60), &[0x83, 0x74, 0x02, 0x6d], Signature::Drbd),
        (last(512), b"$XIDE$", Signature::BiosRaid),
        (last(1024), b"NVIDIA  ", Signature::BiosRaid),
        (last(991 * 512), b"Promise Technology, Inc.", Signature::BiosRaid),
        (last(5632), &[0xf3, 0x16, 0x78, 0x5a], Signature::BiosRaid),
        (4640, &[0xf0, 0x16, 0x78, 0x5a], Signature::BiosRaid),
        (last(512), b"EFI PART", Signature::Gpt),
        (last(4096), b"EFI PART", Signature::Gpt),
        (4096, b"EFI PART", Signature::Gpt),
        (128 * KIB, &zfs, Signature::Zfs),
        (255 * KIB, &zfs, Signature::Zfs),
        (DEVICE - 256 * KIB + 131 * KIB, &zfs, Signature::Zfs),
        (DEVICE - 512 * KIB + 255 * KIB, &zfs, Signature::Zfs),
        (4096 + 24, bcache, Signature::Bcache),
        (4096 + 24, bcachefs, Signature::Bcachefs),
        (516, b"!Stra0tis\x86\xff\x02^\x41rh", Signature::Stratis),
        (0, b"bluestore block device\n", Signature::BlueStore),
        (0, b"integrt\0", Signature::DmIntegrity),
        (0, b"dmvdo001", Signature::Vdo),
        (3, b"-FVE-FS-", Signature::BitLocker),
        (3, b"EXFAT   ", Signature::ExFat),
        (32, b"NXSB", Signature::Apfs),
        (1024, b"H+\0\x04", Signature::Hfs),
        (1024, b"\xe2\xe1\xf5\xe0", Signature::Erofs),
        (32768, b"JFS1", Signature::Jfs),
        (65536 + 52, b"ReIsEr2Fs", Signature::Reiserfs),
        (65536, b"ReIsEr4\0", Signature::Reiserfs),
        (65536, &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1], Signature::Gfs2),
        (8192, b"OCFSV2", Signature::Ocfs2),
        (1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34], Signature::Nilfs2),
        (66908, &[0x19, 0x01, 0x54, 0x19], Signature::Ufs),
        (32769, b"BEA01", Signature::Udf),
        (0, b"\0\0\0ReFS\0", Signature::Refs),
        (0, b"verity\0\0", Signature::DmVerity),
        (32, b"ORCLDISK", Signature::OracleAsm),
        (MIB, &[0x0d, 0xd0, 0x01, 0xc0], Signature::Vmfs),
    ];
    for (offset, magic, signature) in cases {
        let found = detect_blocks(DEVICE, &[(*offset, magic)]);
        assert_eq!(kinds(&found), [*signature], "at {offset}");
        assert!(found[0].to_string().starts_with(signature.name()));
    }
}

#[test]
fn an_lvm_label_names_its_volume_in_any_of_the_first_sectors() {
    for sector in 0..4 {
        let mut label = b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001".to_vec();
        label.extend(b"AbCdEfGhIjKlMnOpQrStUvWxYz012345");
        let found = detect_blocks(DEVICE, &[(sector * 512, &label)]);
        assert_eq!(kinds(&found), [Signature::LvmPv]);
        assert_eq!(found[0].uuid.as_deref(), Some("AbCdEf-GhIj-KlMn-OpQr-StUv-WxYz-012345"));
    }
}

/// Places of label and UUID, as `mkfs.nilfs2` 2.2.9, `mkfs.gfs2` 3.5.0 and `make-bcache` 1.0.8 fill them.
#[test]
fn rarer_formats_tell_label_and_uuid_too() {
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    let cases: [(u64, &[u8], Option<u64>, u64); 3] = [
        (1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34], Some(1024 + 168), 1024 + 152),
        (65536, &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1], None, 65536 + 256),
        (4096 + 24, bcache, Some(4096 + 72), 4096 + 40),
    ];
    let uuid = Uuid::parse_str(UUID).unwrap();
    for (offset, magic, label, id) in cases {
        let mut blocks = vec![(offset, magic), (id, &uuid.as_bytes()[..])];
        blocks.extend(label.map(|label| (label, &b"data"[..])));
        let found = detect_blocks(DEVICE, &blocks);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].label.as_deref(), found[0].uuid.as_deref()),
            (label.map(|_| "data"), Some(UUID))
        );
    }
}

/// A name, a type and a value as the list of a ZFS label keeps them (XDR, RFC 4506).
fn zfs_pair(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    let mut pair = (name.len() as u32).to_be_bytes().to_vec();
    pair.extend(name.as_bytes());
    pair.resize(pair.len().next_multiple_of(4), 0);
    pair.extend(kind.to_be_bytes());
    pair.extend(1u32.to_be_bytes());
    pair.extend(value);
    pair.resize(pair.len().next_multiple_of(4), 0);
    let size = (pair.len() as u32 + 8).to_be_bytes();
    [&size, &size, &pair[..]].concat()
}

/// Bytes 16384 to 17920 of a member of a pool that zfs-fuse 0.7.0 made (`zpool create tank raidz`) and exported.
#[test]
fn a_label_that_zfs_wrote_names_its_pool() {
    let list = include_bytes!("../samples/zfs-nvlist.bin");
    let found = detect_blocks(DEVICE, &[(16 * KIB, list)]);
    assert_eq!((kinds(&found), found[0].offset), (vec![Signature::Zfs], 16 * KIB));
    assert_eq!(found[0].label.as_deref(), Some("tank"));
    assert_eq!(found[0].uuid.as_deref(), Some("14410233479893862333"));
}

/// Labels with parts missing or wrong, put together as the ZFS On-Disk Specification draws them.
#[test]
fn a_zfs_label_names_its_pool_even_without_uberblocks() {
    let pool = 0x0123_4567_89ab_cdefu64;
    let mut list = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    list.extend(zfs_pair("version", 8, &5000u64.to_be_bytes()));
    list.extend(zfs_pair("name", 9, &[&4u32.to_be_bytes()[..], b"tank"].concat()));
    list.extend(zfs_pair("pool_guid", 8, &pool.to_be_bytes()));
    list.extend([0; 8]);
    for label in [0, DEVICE - 512 * KIB, DEVICE - 256 * KIB] {
        let blocks = [(label + 16 * KIB, &list[..]), (label + 128 * KIB, &0x00ba_b10c_u64.to_le_bytes()[..])];
        for blocks in [&blocks[..], &blocks[..1]] {
            let found = detect_blocks(DEVICE, blocks);
            assert_eq!(kinds(&found), [Signature::Zfs]);
            assert_eq!((found[0].offset, found[0].label.as_deref()), (label + 16 * KIB, Some("tank")));
            assert_eq!(found[0].uuid, Some(pool.to_string()));
        }
    }
    // Sizes that lead nowhere; one good pair is proof enough.
    let first = 12 + zfs_pair("version", 8, &[0; 8]).len();
    for at in 12..list.len() {
        let mut broken = list.clone();
        broken[at] = 0xff;
        let found = detect_blocks(DEVICE, &[(16 * KIB, &broken)]);
        assert!(found.len() == 1 || at < first, "byte {at}");
    }
    list[3] = 1;
    assert_eq!(detect_blocks(DEVICE, &[(16 * KIB, &list)]), []);
}

#[test]
fn md_members_are_known_even_when_damaged() {
    for version in Version::ALL {
        let mut sb = Superblock::new(version, DEVICE).unwrap();
        sb.set_uuid = Uuid::parse_str(UUID).unwrap();
        (sb.level, sb.raid_disks) = (1, 2);
        sb.data_size = if version.is_v1() { 64 * MIB } else { sb.super_offset };
        if version.is_v1() {
            sb.name = "host:data".into();
            sb.data_offset = if version == Version::V1_0 { 0 } else { MIB };
        } else {
            sb.roles = vec![DeviceRole::Active(0), DeviceRole::Active(1)];
        }
        let mut bytes = vec![0; version.superblock_bytes()];
        sb.encode(&mut bytes).unwrap();
        let found = detect_blocks(DEVICE, &[(sb.super_offset, &bytes)]);
        assert_eq!(kinds(&found), [Signature::MdRaid], "{version}");
        assert_eq!(found[0].uuid.as_deref(), Some("01234567:89abcdef:fedcba98:76543210"));
        assert_eq!(found[0].label.as_deref(), version.is_v1().then_some("host:data"));
        bytes[100] ^= 1;
        let found = detect_blocks(DEVICE, &[(sb.super_offset, &bytes)]);
        assert_eq!((kinds(&found), &found[0].uuid), (vec![Signature::MdRaid], &None), "{version}");
    }
}

#[test]
fn boot_code_alone_is_no_partition_table() {
    let mut sector = [0u8; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(detect_blocks(DEVICE, &[(0, &sector)]), []);
    sector[446] = 0x80;
    sector[450] = 0x83;
    assert_eq!(kinds(&detect_blocks(DEVICE, &[(0, &sector)])), [Signature::Mbr]);
    sector[446] = 0x33;
    assert_eq!(detect_blocks(DEVICE, &[(0, &sector)]), []);
}

#[test]
fn blank_and_tiny_devices_hold_nothing() {
    for bytes in [0, 1, 511, 512, 513, 4096, 5000, 65536, MIB, MIB + 1, DEVICE, u64::MAX] {
        let wanted = needed(bytes);
        assert!(
            wanted.iter().all(|(offset, len)| offset % 4096 == 0 && *len <= (2 * MIB as usize)),
            "{bytes}"
        );
        assert!(
            wanted.iter().all(|(offset, len)| offset.checked_add(*len as u64).unwrap() <= bytes),
            "{bytes}"
        );
        assert_eq!(detect_blocks(bytes, &[]), [], "{bytes}");
        assert_eq!(detect(bytes, &[]), [], "{bytes}: nothing known, nothing found");
    }
}

proptest! {
    #[test]
    fn noise_never_panics(
        device_bytes in prop_oneof![0u64..4 * MIB, any::<u64>()],
        offset in 0u64..140_000,
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        cut in 0usize..600_000,
    ) {
        let blocks = [(offset, &bytes[..]), (device_bytes.saturating_sub(offset), &bytes[..])];
        // An LVM label that points far away.
        let label = b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xffLVM2 001";
        detect_blocks(device_bytes, &blocks);
        detect_blocks(device_bytes, &[(0, label)]);
        // A sample shorter than was asked for, or elsewhere.
        let samples = [Sample { offset, bytes: &bytes[..bytes.len().min(cut)] }];
        detect(device_bytes, &samples);
    }
}

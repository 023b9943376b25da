//! Containers of Intel's that mdadm has made, from what is kept of their disks (`brindle_tests::imsm`): the metadata, and what the kernel wrote
//! to each disk as hashes. Every third is tried, all with `BRINDLE_EXAMPLES=all`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brindle_format::imsm::{Container, anchor, extended, serial_text};
use brindle_tests::files;
use brindle_tests::imsm::{self, DISK, Example, KeptDisk, Maker, State, TAIL};
use brindle_tests::program;
use brindle_tests::tools::{self, Missing, or_skip};
use serde_json::json;

use super::pasted;

/// Makes the disks of an example, each called by its serial number.
fn disks(maker: Maker, example: &Example, dir: &Path) -> Vec<PathBuf> {
    let kept = fs::read_to_string(maker.folder().join(format!("{}.json", example.name()))).unwrap();
    let (disks, offsets) = imsm::read(&kept);
    assert_eq!(disks.len(), example.disks());
    let contents = example.contents();
    let parts: Vec<Vec<Vec<u8>>> =
        contents.iter().enumerate().map(|(volume, content)| example.parts(volume, content)).collect();
    let made = |(at, disk): (usize, &KeptDisk)| {
        let path = dir.join(format!("{}.img", disk.serial));
        files::sparse(&path, DISK);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&disk.tail, DISK - TAIL).unwrap();
        for ((parts, offset), hash) in parts.iter().zip(&offsets).zip(&disk.parts) {
            // Bytes that are out of date are not kept: none of them may be read.
            let of = parts.get(at).filter(|part| imsm::hash(part) == *hash);
            let garbage = || vec![0x5a; parts[0].len()];
            file.write_all_at(&of.cloned().unwrap_or_else(garbage), *offset).unwrap();
            let has_failed =
                matches!(example.state, State::Degraded | State::Stale | State::Rebuilding) && at == 1;
            assert!(of.is_some() || has_failed || at >= example.members, "{}: {at}", example.name());
        }
        path
    };
    disks.iter().enumerate().map(made).collect()
}

fn is_read(maker: Maker, number: usize, example: &Example) {
    let (dir, name) = (tempfile::tempdir().unwrap(), example.name());
    let mut images = disks(maker, example, dir.path());
    if example.state == State::Rebuilding {
        // A container is another one from a spare's coming on: the disk that had failed before is of neither.
        let mut cat = std::process::Command::new(program::path());
        cat.args(["cat", "--volume", "0"]).args(&images);
        program::Ran::of(cat).refused(1, &["different containers", "give those of one"]);
    }
    match example.state {
        State::Degraded | State::Rebuilding => drop(images.remove(1)),
        State::Missing => drop(images.remove(example.members - 1)),
        _ => {}
    }
    let turn = number % images.len();
    images.rotate_left(turn);
    if number % 2 == 1 {
        images.reverse();
    }
    let stamps = || -> Vec<_> {
        images.iter().map(|image| fs::metadata(image).unwrap().modified().unwrap()).collect()
    };
    let before = stamps();
    for (volume, content) in example.contents().iter().enumerate() {
        let to = dir.path().join("read");
        program::cat_with(&["--volume", &volume.to_string()], &images, &to);
        let read = fs::read(&to).unwrap();
        assert!(read == *content, "{name}: volume {volume} is not as it was written");
    }
    assert_eq!(before, stamps(), "{name}");
}

fn wants_all() -> bool {
    std::env::var_os("BRINDLE_EXAMPLES").is_some_and(|which| which == "all")
}

#[test]
fn what_mdadm_has_made_is_read_with_equal_content_in_any_order() {
    let all = imsm::all();
    assert!(all.len() >= 60, "{}", all.len());
    let every = if wants_all() { 1 } else { 3 };
    let tried: Vec<(usize, &Example)> = all.iter().enumerate().step_by(every).collect();
    assert!(tried.len() >= 20);
    for (number, example) in tried {
        is_read(Maker::Release, number, example);
    }
}

#[test]
fn what_a_newer_mdadm_has_made_is_read_as_well() {
    let is_kept = |one: &Example| Maker::Newer.folder().join(format!("{}.json", one.name())).is_file();
    let kept: Vec<Example> = imsm::all().into_iter().filter(is_kept).collect();
    assert!(kept.len() >= 40, "{}", kept.len());
    let every = if wants_all() { 1 } else { 4 };
    let tried = kept.iter().enumerate().step_by(every);
    tried.for_each(|(number, example)| is_read(Maker::Newer, number, example));
}

/// Names of disks and of their volume in docs/rescue.md.
const SERIALS: [&str; 2] = ["WD-WCC4N1234567", "WD-WCC4N7654321"];
const VOLUME: &str = "Volume0";

/// Text as the metadata have it.
fn field(text: &str) -> [u8; 16] {
    let mut field = [0; 16];
    field[..text.len()].copy_from_slice(text.as_bytes());
    field
}

/// Gives disks the page's names, in their metadata, too.
fn rename(images: &[PathBuf]) {
    let stem = |image: &Path| image.file_stem().unwrap().to_str().unwrap().to_owned();
    for (image, name) in images.iter().zip(SERIALS) {
        let file = File::options().read(true).write(true).open(image).unwrap();
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, at).unwrap();
            bytes
        };
        let first = anchor(DISK, 512).unwrap().start;
        let mut bytes = read(first, 512);
        let rest = extended(DISK, 512, Container::bytes(&bytes).unwrap()).unwrap();
        bytes.extend(read(rest.start, (rest.end - rest.start) as usize));
        let mut container = Container::parse(&bytes, 512).unwrap();
        for disk in &mut container.disks {
            let known =
                images.iter().position(|one| serial_text(&disk.serial).trim_end_matches(":0") == stem(one));
            disk.serial = field(SERIALS[known.unwrap()]);
        }
        container.volumes[0].name = field(VOLUME);
        let bytes = container.encode(512).unwrap();
        let (head, rest) = bytes.split_at(bytes.len().min(512));
        file.write_all_at(head, first).unwrap();
        file.write_all_at(rest, extended(DISK, 512, bytes.len()).unwrap().start).unwrap();
        fs::rename(image, image.with_file_name(format!("{name}.img"))).unwrap();
    }
}

fn has_what_the_page_takes() -> Result<(), Missing> {
    tools::find("nbdcopy")?;
    if Path::new("/dev/fuse").exists() { Ok(()) } else { Err(Missing::new("/dev/fuse is not there")) }
}

#[test]
fn the_volume_of_a_board_that_died_is_rescued_by_the_commands_of_the_page() {
    let Some(()) = or_skip(has_what_the_page_takes()) else { return };
    let blocks = pasted::blocks_of("rescue.md", "sh container");
    assert_eq!(blocks.len(), 1);
    let example = imsm::all().into_iter().find(|one| one.name() == "2-r0-64k-512-clean").unwrap();
    let folder = pasted::Folder::new();
    rename(&disks(Maker::Release, &example, folder.path()));
    let sums = || SERIALS.map(|name| files::sha256(&folder.path().join(format!("{name}.img"))));
    let before = sums();
    let ran = folder.paste(&blocks[0]);
    assert_eq!(ran.code, 0, "{}{}", ran.text(), ran.err);
    assert_eq!(json!(folder.servers()), json!([]), "the page leaves a server");
    let volume = fs::read(folder.path().join("volume0.img")).unwrap();
    assert!(volume[..] == example.contents()[0][..], "the content is another");
    assert_eq!(sums(), before, "nothing is written to disks");
}

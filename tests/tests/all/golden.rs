//! md's own arrays: the pure crates understand every superblock, find every byte and agree with every parity that the
//! kernel wrote.

use brindle_format::md::probe_offsets;
use brindle_io::MemberInfo;
use brindle_layout::{Family, Geometry, Mirrored, ParityRows};
use brindle_md::assembly::{AssembleOptions, Assembly, Candidate, assemble};
use brindle_parity::kernel;
use brindle_tests::files;
use brindle_tests::golden::{self, Made};
use brindle_tests::tools::or_skip;

/// A member in a file as the reactor describes it.
fn file(size: u64) -> MemberInfo {
    MemberInfo {
        size,
        logical_block: 512,
        physical_block: 4096,
        rotational: false,
        discard: true,
        write_zeroes: true,
    }
}

/// A member's superblocks, wherever they may stand.
fn candidate(label: &str, image: &[u8]) -> Candidate {
    let blocks = probe_offsets(image.len() as u64).map(|probe| {
        let at = probe.offset as usize;
        (probe, &image[at..at + probe.len])
    });
    Candidate::from_blocks(label, file(image.len() as u64), blocks)
}

/// Bytes of the array, read from copy `copy` of each where there are several.
fn content(geometry: &Geometry, areas: &[&[u8]], copy: u16) -> Vec<u8> {
    let mut content = Vec::new();
    while (content.len() as u64) < geometry.size() {
        let at = content.len() as u64;
        let extent = match geometry.family() {
            Family::Striped(stripes) => stripes.locate(at),
            Family::Mirrored(copies) => copies.locate(at, copy),
            Family::Parity(rows) => {
                let position = rows.position(at);
                let start = (rows.row_offset(position.row) + position.column) as usize;
                let chunk = (rows.chunk() - position.column) as usize;
                let member = rows.row(position.row).data_member(position.data_index);
                content.extend_from_slice(&areas[usize::from(member)][start..start + chunk]);
                continue;
            }
        };
        let start = extent.offset as usize;
        let len = extent.len.min(geometry.size() - at) as usize;
        content.extend_from_slice(&areas[usize::from(extent.member)][start..start + len]);
    }
    content
}

/// P and Q that the kernel wrote are P and Q that our kernels compute, in every row.
fn check_parity(name: &str, rows: &ParityRows, areas: &[&[u8]]) {
    let chunk = rows.chunk() as usize;
    let zeroes = vec![0; chunk];
    let (mut p, mut q) = (vec![0; chunk], vec![0; chunk]);
    for number in 0..rows.rows() {
        let row = rows.row(number);
        let start = rows.row_offset(number) as usize;
        let of = |member: u16| &areas[usize::from(member)][start..start + chunk];
        let mut slots = vec![zeroes.as_slice(); usize::from(row.slots())];
        for index in 0..row.data_members() {
            slots[usize::from(row.data_slot(index))] = of(row.data_member(index));
        }
        kernel().pq(&slots, &mut p, &mut q);
        assert!(p == of(row.p()), "{name}: P of row {number}");
        if let Some(member) = row.q() {
            assert!(q == of(member), "{name}: Q of row {number}");
        }
    }
}

fn check(array: &Made) {
    let name = array.recipe.name();
    let images: Vec<Vec<u8>> = array.members.iter().map(|m| std::fs::read(m).unwrap()).collect();
    let mut candidates: Vec<Candidate> =
        images.iter().enumerate().map(|(role, image)| candidate(&format!("member {role}"), image)).collect();
    // The order of arguments never matters.
    candidates.reverse();
    let assembly: Assembly =
        assemble(&candidates, AssembleOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(assembly.is_clean(), "{name}: md stopped it cleanly");
    assert!(assembly.writable(), "{name}: {:?}", assembly.limits);
    assert_eq!(assembly.missing(), [0u16; 0], "{name}");
    let geometry = &assembly.geometry;
    assert_eq!(geometry.size(), array.size, "{name}: size");

    // Roles are as mdadm was told, so that role and image go by the same number.
    let areas: Vec<&[u8]> = images
        .iter()
        .enumerate()
        .map(|(role, image)| {
            let device = &assembly.devices[assembly.roles[role].unwrap()];
            assert_eq!(device.label, format!("member {role}"), "{name}");
            &image[device.superblock.data_offset as usize..]
        })
        .collect();
    let copies = if let Family::Mirrored(copies) = geometry.family() { Mirrored::copies(copies) } else { 1 };
    for copy in 0..copies {
        let hash = files::sha256_of(&content(geometry, &areas, copy));
        assert_eq!(hash, array.sha256, "{name}: content in copy {copy}");
    }
    if let Family::Parity(rows) = geometry.family() {
        check_parity(&name, rows, &areas);
    }
}

#[test]
fn every_array_that_md_makes_is_understood_to_the_byte() {
    let recipes = golden::usual();
    let Some(made) = or_skip(golden::md_made(&recipes)) else { return };
    assert_eq!(made.len(), recipes.len());
    for array in &made {
        check(array);
    }
}

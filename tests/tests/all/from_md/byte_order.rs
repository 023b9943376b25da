//! Metadata 0.90 is written in the byte order of the machine that wrote it. Arrays of big-endian machines are read, and
//! md agrees that they are such arrays.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use brindle_tests::files;
use brindle_tests::golden::{self, Made};
use brindle_tests::program;
use brindle_tests::tools::or_skip;
use brindle_tests::vm::Vm;

/// Bytes of the superblock, which begins at the last multiple of 64 KiB that leaves it 64 KiB (md(4)).
const LEN: usize = 4096;

/// Numbers of 64 bits, as places of their 32-bit words: events, and events at the last checkpoint. The more
/// significant half comes first on big-endian machines and second on the others (`md_p.h`).
const WIDE: [usize; 2] = [39, 41];

/// Rewrites the superblock as a machine of the other byte order would have written it.
fn swap(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let at = file.metadata().unwrap().len() / 65536 * 65536 - 65536;
    let mut block = vec![0; LEN];
    file.read_exact_at(&mut block, at).unwrap();
    for word in block.chunks_exact_mut(4) {
        word.reverse();
    }
    for first in WIDE {
        let (low, high) = block.split_at_mut(first * 4 + 4);
        low[first * 4..].swap_with_slice(&mut high[..4]);
    }
    file.write_all_at(&block, at).unwrap();
}

/// A copy of an array with its byte order changed.
fn swapped(array: &Made, dir: &Path) -> Vec<PathBuf> {
    let copy = |(role, from): (usize, &PathBuf)| {
        let to = dir.join(format!("{}-{role}", array.recipe.name()));
        std::fs::copy(from, &to).unwrap();
        swap(&to);
        to
    };
    array.members.iter().enumerate().map(copy).collect()
}

#[test]
fn arrays_of_big_endian_machines_are_read_and_md_takes_them_for_such() {
    let Some(vm) = or_skip(Vm::new()) else { return };
    let Some(made) = or_skip(golden::md_made(&golden::usual())) else { return };
    let old: Vec<&Made> = made.iter().filter(|array| array.recipe.metadata == "0.90").collect();
    let dir = tempfile::tempdir().unwrap();
    let content = dir.path().join("content");
    let (mut script, mut disks) = (String::new(), Vec::new());
    for (index, array) in old.iter().enumerate() {
        let name = array.recipe.name();
        let paths = swapped(array, dir.path());
        program::cat(&paths, &content);
        assert_eq!(files::sha256(&content), array.sha256, "{name}");
        if array.recipe.level != "linear" && array.recipe.level != "0" {
            program::cat(&paths[1..], &content);
            assert_eq!(files::sha256(&content), array.sha256, "{name}, without the first member");
        }
        let words = ["detail", "--json"].map(Into::into).into_iter();
        let detail = program::brindle(words.chain(paths.iter().map(|p| p.as_os_str().to_owned()))).json();
        assert_eq!(detail["state"], serde_json::json!(["clean"]), "{name}");
        assert_eq!(detail["metadata"], "0.90", "{name}");

        let numbers = disks.len()..disks.len() + paths.len();
        let members: String = numbers.map(|number| format!(" /dev/member/{number}")).collect();
        script += &format!(
            "if mdadm --assemble /dev/md{index} {members}; then put native{index} 1; mdadm --stop /dev/md{index}; fi
             step 'assemble {name}' mdadm --assemble --update=byteorder /dev/md{index} {members}
             put sha{index} $(sha /dev/md{index})
             step 'stop {name}' mdadm --stop /dev/md{index}\n"
        );
        disks.extend(paths);
    }
    let report = vm.disks(&disks).run(&script).unwrap();
    for (index, array) in old.iter().enumerate() {
        let name = array.recipe.name();
        assert!(!report.results.contains_key(&format!("native{index}")), "{name}: of another byte order");
        assert_eq!(&report[format!("sha{index}").as_str()], array.sha256, "{name}: read by md");
    }
}

//! From Brindle to md: arrays that the program makes, serves, loses members of and rewrites. A stock kernel assembles
//! them without a warning, reads the same content, finds all redundancy true, and takes the lost members back. mdadm
//! reports the same as Brindle.

mod bitmap_added;
mod bitmap_files;
mod continued;
mod fields;
mod grown;
mod levelled;
mod matrix;
mod numbers;
mod readd;
mod widened;
mod write_behind;
mod written;

use std::ffi::OsString;
use std::time::Duration;

use brindle_testkit::skip::is_long;
use brindle_tests::files::{self, MIB};
use brindle_tests::golden::{self, Recipe};
use brindle_tests::mdadm::{self, Fields};
use brindle_tests::program;
use brindle_tests::tools::{self, Missing, or_skip};
use brindle_tests::vm::{Kernel, MAX_DISKS, Report, Vm};

use matrix::Shape;
use written::Written;

/// Has md assemble the array from the members that were not lost, read and compare all, and take the lost ones back.
fn script(index: usize, array: &Written, first: usize) -> String {
    let device = |role: usize| format!(" /dev/member/{}", first + role);
    let (lost, left): (Vec<usize>, Vec<usize>) =
        (0..array.members.len()).partition(|role| array.lost.contains(role));
    let list = |roles: &[usize]| roles.iter().map(|&role| device(role)).collect::<String>();
    let (name, left, lost) = (array.shape.name(), list(&left), list(&lost));
    let check = |key: &str| {
        format!(
            "echo check >$sys/sync_action
             idle $md
             put {key}{index} $(cat $sys/mismatch_cnt)\n"
        )
    };
    let mut script = format!(
        "md=/dev/md{index} sys=/sys/block/md{index}/md
         dmesg -c >/dev/null
         mdadm --assemble --run $md{left} >/tmp/said 2>&1 || {{ cat /tmp/said; step 'assemble {name}' false; }}
         put said{index} \"$(flat /tmp/said)\"
         mdadm --detail $md >/tmp/detail
         put detail{index} \"$(flat /tmp/detail)\"
         mdadm --detail --export $md >/tmp/exported
         put exported{index} \"$(flat /tmp/exported)\"
         for member in{left}; do readlink -f $member; done >/tmp/disks
         put disks{index} \"$(flat /tmp/disks)\"
         put sha{index} $(sha $md)\n"
    );
    if array.shape.tolerance() > 0 {
        script += &format!("put action{index} $(cat $sys/sync_action)\n{}", check("mismatches"));
    }
    script += &format!("dmesg -c >/tmp/log\nput log{index} \"$(flat /tmp/log)\"\n");
    if !lost.is_empty() {
        script += &format!(
            "mdadm --zero-superblock {lost}
             step 'take members back into {name}' mdadm --add $md{lost}
             idle $md
             put degraded{index} $(cat $sys/degraded)
             put again{index} $(sha $md)\n{}",
            check("remaining")
        );
    }
    script + &format!("step 'stop {name}' mdadm --stop $md\n")
}

fn judge(index: usize, array: &Written, report: &Report) {
    let value = |key: &str| &report[format!("{key}{index}").as_str()];
    let (name, count, lost) = (array.shape.name(), array.members.len(), array.lost.len());
    let drives = |n: usize| if n == 1 { "1 drive".to_owned() } else { format!("{n} drives") };
    let out_of = if lost > 0 { format!(" (out of {count})") } else { String::new() };
    let said = format!("mdadm: /dev/md{index} has been started with {}{out_of}.", drives(count - lost));
    assert_eq!(value("said").trim_end_matches('|'), said, "{name}");
    assert_eq!(value("sha"), array.sha256, "{name}: content");
    fields::same_of_array(&Fields::of(value("detail"), '|'), &array.detail, &name);
    let disks: Vec<&str> = value("disks").split_terminator('|').collect();
    let exported = mdadm::exported(value("exported"), '|');
    fields::same_of_exported_array(&exported, &array.detail, &disks, &name);
    for trouble in ["kicking", "non-fresh", "not clean", "resync", "error", "invalid", "bad", "WARN"] {
        let log = value("log").replace('|', "\n");
        assert!(!log.contains(trouble), "{name}: the kernel is troubled ({trouble})\n{log}");
    }
    if array.shape.tolerance() > 0 {
        assert_eq!(value("action"), "idle", "{name}: md saw no need to resync");
        assert_eq!(value("mismatches"), "0", "{name}");
    }
    if lost > 0 {
        assert_eq!(value("degraded"), "0", "{name}: members missing after recovery");
        assert_eq!(value("again"), array.sha256, "{name}: content after recovery");
        assert_eq!(value("remaining"), "0", "{name}: after recovery");
    }
}

/// Whole arrays beside those with losses, which were whole at first: of every so many, unless `make test-long` asks for all.
const WHOLE: usize = 5;

/// Makes arrays of one sector size, every `step`th of the matrix, with losses and some of them whole too, and has md judge
/// all of them in one boot.
fn made_for_md(kernel: Kernel, sector: u32, step: usize) -> Result<(), Missing> {
    let vm = Vm::on(kernel)?.limit(Duration::from_secs(1800));
    let dir = tempfile::tempdir().unwrap();
    let known = |shape: &Shape| shape.level != "linear" || vm.has_linear();
    let shapes = matrix::all().into_iter().filter(|shape| shape.sector == sector && known(shape));
    let shapes: Vec<Shape> = shapes.step_by(step).collect();
    let mut arrays = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        if shape.tolerance() == 0 || number % WHOLE == 0 || is_long() {
            arrays.push(Written::new(shape, number, dir.path(), false)?);
        }
        if shape.tolerance() > 0 {
            arrays.push(Written::new(shape, number, dir.path(), true)?);
        }
    }
    let mdadm = tools::find("mdadm")?;
    for array in &arrays {
        fields::same_of_members(&mdadm, &array.shape.name(), &array.left());
    }
    // One kernel, once, will do: it does all the work.
    let halves = if sector == 512 && step == 1 { continued::all(dir.path()) } else { Vec::new() };
    let members = arrays.iter().flat_map(|array| &array.members);
    let members: Vec<_> = members.chain(halves.iter().flat_map(|half| &half.members)).collect();
    assert!(members.len() <= MAX_DISKS);
    let mut first = 0;
    let mut all = String::new();
    for (index, array) in arrays.iter().enumerate() {
        all += &script(index, array, first);
        first += array.members.len();
    }
    for (index, half) in (arrays.len()..).zip(&halves) {
        all += &half.script(index, first);
        first += half.members.len();
    }
    let report = vm.disks(members).sector(sector).run(&all).unwrap();
    for (index, array) in arrays.iter().enumerate() {
        judge(index, array, &report);
    }
    for (index, half) in (arrays.len()..).zip(&halves) {
        half.judge(index, &report);
    }
    Ok(())
}

#[test]
fn md_takes_over_arrays_of_512_byte_sectors() {
    let _ = or_skip(made_for_md(Kernel::Release, 512, 1));
}

#[test]
fn md_takes_over_arrays_of_4096_byte_sectors() {
    let _ = or_skip(made_for_md(Kernel::Release, 4096, 1));
}

#[test]
fn a_newer_kernel_takes_over_some_of_them() {
    let _ = or_skip(made_for_md(Kernel::Newer, 512, 9));
}

/// Arrays of md with what Brindle's have not: write-intent bitmaps.
fn with_bitmaps() -> Vec<Recipe> {
    const BITMAP: &[&str] = &["--bitmap=internal"];
    let mut all = Vec::new();
    for (level, members) in [("1", 2), ("5", 3), ("10", 4)] {
        for metadata in ["0.90", "1.0", "1.1", "1.2"] {
            all.push(Recipe::new(level, members).metadata(metadata).extra(BITMAP));
        }
    }
    all
}

#[test]
fn mdadm_and_brindle_say_the_same_of_members_that_md_made() {
    let Some(mdadm) = or_skip(tools::find("mdadm")) else { return };
    for recipes in [golden::usual(), with_bitmaps()] {
        let Some(made) = or_skip(golden::md_made(&recipes)) else { return };
        for array in made {
            fields::same_of_members(&mdadm, &array.recipe.name(), &array.members);
        }
    }
}

#[test]
fn mdadm_and_brindle_say_the_same_of_new_members() {
    let Some(mdadm) = or_skip(tools::find("mdadm")) else { return };
    // Of this host, of another, of none; spares and empty places; write-mostly and the like only md can make.
    for (metadata, flags, count) in [
        ("1.2", "--name ours -l 5 -x 1", 4),
        ("1.1", "--name theirs:x -l 6 missing missing", 3),
        ("1.0", "-l 10 -x 2 --layout f2", 5),
        ("0.90", "-l 4 -x 1 missing", 4),
        ("1.2", "-l 1 --data-offset 2M missing", 1),
        ("1.1", "-l 0 --name a:b:c", 2),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "m", count, 8 * MIB);
        let words = format!("create --assume-clean -e {metadata} {flags}");
        let words = words.split(' ').map(OsString::from).chain(members.iter().map(OsString::from));
        program::brindle(words).ok();
        fields::same_of_members(&mdadm, flags, &members);
    }
}

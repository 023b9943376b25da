//! Makes the examples of `brindle_tests::imsm` anew: mdadm makes each container in a guest, and their metadata go to `tests/imsm`. Words are
//! those that the names of examples begin with; `BRINDLE_MDADM` names the folder of another mdadm.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_format::imsm::{Container, anchor, extended, serial_text};
use brindle_tests::files;
use brindle_tests::imsm::{DISK, Example, KeptDisk, Maker, PART, State, TAIL, all, hash, text};
use brindle_tests::vm::{Report, Vm};

/// Functions of the script.
const FUNCTIONS: &str = include_str!("imsm_examples.sh");

/// Examples of one machine.
const MOST: usize = 24;

fn main() {
    let newer = std::env::var_os("BRINDLE_MDADM").map(PathBuf::from);
    let folder = if newer.is_some() { Maker::Newer } else { Maker::Release }.folder();
    fs::create_dir_all(&folder).expect("a folder");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted =
        |one: &Example| wanted.is_empty() || wanted.iter().any(|word| one.name().starts_with(word));
    for sector in [512, 4096] {
        let of: Vec<Example> =
            all().into_iter().filter(|one| one.sector == sector && is_wanted(one)).collect();
        for some in of.chunks(MOST) {
            make(some, sector, newer.as_deref(), &folder);
        }
    }
}

/// An example with its disks, and the places of its contents in the pattern, in MiB.
struct Made {
    example: Example,
    disks: Vec<PathBuf>,
    first: usize,
    places: Vec<(usize, usize)>,
}

fn make(examples: &[Example], sector: u32, newer: Option<&Path>, folder: &Path) {
    let dir = tempfile::tempdir().expect("a folder");
    let pattern = dir.path().join("pattern");
    let mut file = File::create(&pattern).expect("a pattern");
    // The content of a disk before.
    file.write_all(&vec![0x5a; 32 << 20]).expect("a pattern");
    let (mut at, mut first) = (32, 1);
    let mut made = Vec::new();
    for (number, example) in examples.iter().enumerate() {
        let disks = files::members(dir.path(), &format!("d{number}-"), example.disks(), DISK);
        let mut places = Vec::new();
        for content in example.contents() {
            file.write_all(&content).expect("a pattern");
            places.push((at, content.len() >> 20));
            at += content.len() >> 20;
        }
        let count = disks.len();
        made.push(Made { example: *example, disks, first, places });
        first += count;
    }
    drop(file);
    // Work that goes on while the power goes comes last.
    let rank = |made: &&Made| match made.example.state {
        State::Rebuilding | State::Verifying => 1,
        State::Dirty => 2,
        _ => 0,
    };
    let mut order: Vec<&Made> = made.iter().collect();
    order.sort_by_key(rank);
    let script: String = order.into_iter().map(script).collect();
    let last: String =
        made.iter().filter(|made| made.example.state == State::Dirty).map(write_again).collect();
    let vm = Vm::new().unwrap_or_else(|missing| panic!("{missing}"));
    let vm = match newer {
        Some(unpacked) => vm.programs_of(unpacked, &["mdadm", "mdmon"]),
        None => vm,
    };
    let vm = vm.disks([&pattern]).disks(made.iter().flat_map(|made| &made.disks));
    let report = vm
        .sector(sector)
        .limit(Duration::from_secs(1500))
        .run(&format!("{FUNCTIONS}\n{script}\n{last}\nsync\n"));
    let report = report.unwrap_or_else(|why| panic!("{why}"));
    println!("{}", &report["version"]);
    made.iter().for_each(|made| keep(made, &report, u64::from(sector), folder));
}

fn script(made: &Made) -> String {
    let Made { example, first, places, .. } = made;
    let (name, state, count) = (example.name(), example.state, example.members);
    let mut script = format!(
        "put version \"$(mdadm --version 2>&1 | tr '\\n' ' ')\"\nexample={name} count={count}\nmembers=$(named {first} {count})\nspare=$(named {} 1)\n\
         at=0; for disk in $(named {first} {}); do put {name}.$at ${{disk##*/}}; at=$((at + 1)); done\n\
         step '{name} container' mdadm --create /dev/md/c{first} --metadata imsm --raid-devices {count} --run $members\n",
        first + count,
        example.disks()
    );
    let volumes = example.volumes.iter().flatten().zip(['v', 'w']);
    let mut names = Vec::new();
    for ((level, strip), volume) in volumes {
        let chunk = if *level == 1 { String::new() } else { format!(" --chunk {strip}") };
        script += &format!("volume {volume}{first} '--level {level}{chunk}{}'\n", state.flags());
        names.push(format!("{volume}{first}"));
    }
    let fill: String = names
        .iter()
        .zip(places)
        .map(|(name, (at, mib))| format!("step '{name} is filled' fill {name} {at} {mib}\n"))
        .collect();
    let one = &names[0];
    let fail = format!(
        "fill {one} 0 {}\nset -- $members\nstep '{name} fails' mdadm --fail /dev/md/{one} $2\n{fill}",
        places[0].1
    );
    script += &match state {
        State::Clean | State::Missing | State::Dirty | State::Ppl | State::Bitmap => fill,
        State::Degraded | State::Stale => fail,
        State::Rebuilding => {
            format!(
                "{fail}slow {one}\nstep '{name} gets a spare' mdadm --add /dev/md/c{first} $spare\nstep '{name} recovers' acts {one} recover\nsleep 2\n"
            )
        }
        State::Verifying => {
            format!(
                "{fill}slow {one}\necho check >$(of {one})/sync_action\nstep '{name} is checked' acts {one} check\nsleep 2\n"
            )
        }
        State::Spare => {
            format!("{fill}step '{name} gets a spare' mdadm --add /dev/md/c{first} $spare\nsleep 1\n")
        }
        State::BadBlocks => format!(
            "{fill}set -- $members\necho '64 8' >$(of {one})/dev-${{1##*/}}/unacknowledged_bad_blocks || true\nsleep 1\nput {name}.bad \"$(cat $(of {one})/dev-${{1##*/}}/bad_blocks | tr '\\n' ' ')\"\n"
        ),
    };
    if !matches!(state, State::Dirty | State::Rebuilding | State::Verifying) {
        let all: Vec<&str> = names.iter().rev().map(String::as_str).collect();
        script += &format!("step '{name} is stopped' stopped {} c{first}\n", all.join(" "));
    }
    script
}

/// The same bytes once more, so that the power goes while it is dirty.
fn write_again(made: &Made) -> String {
    format!("fill v{} {} 1\n", made.first, made.places[0].0)
}

/// Keeps the metadata of all disks, and how their parts were written.
fn keep(made: &Made, report: &Report, sector: u64, folder: &Path) {
    let (example, name) = (&made.example, made.example.name());
    let mut newest: Option<Container> = None;
    let mut disks = Vec::new();
    for (at, path) in made.disks.iter().enumerate() {
        let file = File::open(path).expect("a disk");
        let mut tail = vec![0; TAIL as usize];
        file.read_exact_at(&mut tail, DISK - TAIL).expect("a tail");
        if let Some(read) = container(&file, sector)
            && newest
                .as_ref()
                .is_none_or(|newest| newest.volumes.is_empty() || newest.generation < read.generation)
            && !read.volumes.is_empty()
        {
            newest = Some(read);
        }
        let (device, drive) =
            (&report[format!("{name}.{at}").as_str()], format!("BRINDLE-{}", made.first + at));
        // mdadm takes the serial number of a SCSI disk, and the name of a virtio disk, which it can't ask.
        let has_drive = container(&file, sector).is_some_and(|read| {
            read.disks.iter().any(|disk| serial_text(&disk.serial).trim_end_matches(":0") == drive)
        });
        let serial = if has_drive { drive } else { device.to_owned() };
        disks.push(KeptDisk { serial, tail, parts: Vec::new() });
    }
    let newest = newest.unwrap_or_else(|| panic!("{name}: no metadata"));
    let offsets: Vec<u64> = newest.volumes.iter().map(|volume| volume.map.offset).collect();
    let contents = example.contents();
    let mut unlike = Vec::new();
    for (disk, path) in disks.iter_mut().zip(&made.disks) {
        disk.parts = offsets.iter().map(|offset| hash(&part(path, *offset))).collect();
    }
    for (volume, content) in contents.iter().enumerate() {
        let expected = example.parts(volume, content);
        let is =
            |(at, part): (usize, &Vec<u8>)| (disks[at].parts[volume] != hash(part)).then_some((volume, at));
        unlike.extend(expected.iter().enumerate().filter_map(is));
    }
    let maps: Vec<String> = newest
        .volumes
        .iter()
        .map(|volume| {
            format!(
                "{:?} {:?} dirty {}",
                volume.map.state,
                volume.migration.as_ref().map(|change| change.kind),
                volume.dirty
            )
        })
        .collect();
    println!("{name}: {maps:?}, defects {:?}, unlike {unlike:?}", newest.defects.as_ref().map(Vec::len));
    fs::write(folder.join(format!("{name}.json")), text(&disks, &offsets)).expect("a file");
}

fn part(path: &Path, offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; PART as usize];
    File::open(path).expect("a disk").read_exact_at(&mut bytes, offset).expect("a part");
    bytes
}

/// The metadata of a disk.
fn container(file: &File, sector: u64) -> Option<Container> {
    let place = anchor(DISK, sector)?;
    let mut bytes = vec![0; sector as usize];
    file.read_exact_at(&mut bytes, place.start).ok()?;
    let len = Container::bytes(&bytes).ok()?;
    if let Some(rest) = extended(DISK, sector, len) {
        let mut more = vec![0; (rest.end - rest.start) as usize];
        file.read_exact_at(&mut more, rest.start).ok()?;
        bytes.extend(more);
    }
    Container::parse(&bytes, sector).ok()
}

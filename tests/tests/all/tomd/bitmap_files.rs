//! Write-intent bitmaps in files, shared by md and Brindle. The bitmap that md kept when its machine was killed tells
//! Brindle what to resync, and the other way round. Either accepts as up to date a file that the other has left in
//! order.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_tests::files::{self, KIB, MIB};
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{self, Missing, or_skip};
use brindle_tests::vm::{Kernel, Report, Vm};
use rustix::process::Signal;
use serde_json::Value;

/// Of each member.
const SIZE: u64 = 12 * MIB;
const CHUNK: u64 = 64 * KIB;
/// A chunk of the bitmap in which nothing is written.
const QUIET: u64 = 40;

/// In all of them a chunk of the bitmap is a row of the array.
const ARRAYS: [(&str, usize, &str); 4] =
    [("1", 2, "1.2"), ("5", 3, "1.0"), ("6", 4, "1.1"), ("1", 3, "0.90")];

struct Filed {
    what: String,
    level: &'static str,
    metadata: &'static str,
    /// Tells it from others, in names too.
    number: usize,
    dir: PathBuf,
    members: Vec<PathBuf>,
}

fn all(dir: &Path, prefix: &str) -> Vec<Filed> {
    let array = |(number, (level, count, metadata))| Filed {
        what: format!("level {level}, metadata {metadata}"),
        level,
        metadata,
        number,
        dir: dir.to_path_buf(),
        members: files::members(dir, &format!("{prefix}{number}-"), count, SIZE),
    };
    ARRAYS.into_iter().enumerate().map(array).collect()
}

impl Filed {
    /// As it is called in the file system of the machine, and beside the members.
    fn name(&self) -> String {
        format!("bits{}", self.number)
    }

    fn file(&self) -> PathBuf {
        self.dir.join(self.name())
    }

    fn brindle(&self, words: &str) -> program::Ran {
        let words = words.split(' ').map(PathBuf::from);
        program::brindle(words.chain(self.members.iter().cloned()))
    }

    /// A command, with the file given.
    fn with_file(&self, command: &str) -> Value {
        self.brindle(&format!("{command} --json --bitmap {}", self.file().display())).json()
    }

    fn serve(&self) -> Server {
        let words = ["--memory", "32M", "--bitmap"].map(PathBuf::from).into_iter();
        let runtime = self.dir.join(format!("run{}", self.number));
        Server::start(&runtime, words.chain([self.file()]).chain(self.members.iter().cloned()))
    }

    fn devices(&self, first: usize) -> String {
        (0..self.members.len()).map(|at| format!(" /dev/member/{}", first + at)).collect()
    }

    /// The numbers of the bits that are set.
    fn set(&self) -> Vec<u64> {
        let bytes = std::fs::read(self.file()).unwrap();
        let bits = self.with_file("detail")["bitmap"]["bits"].as_u64().unwrap();
        (0..bits).filter(|bit| bytes[256 + (bit / 8) as usize] >> (bit % 8) & 1 == 1).collect()
    }

    /// Something is wrong in a chunk that is marked, and in one that is not.
    fn spoil(&self) {
        let set = self.set();
        assert!(!set.is_empty() && set.len() < 8 && !set.contains(&QUIET), "{}: {set:?}", self.what);
        let member = std::slice::from_ref(&self.members[1]);
        let examined = program::brindle(["examine", "--json"].map(PathBuf::from).iter().chain(member)).json();
        let data = examined["members"][0]["superblock"]["data_offset"].as_u64().unwrap();
        let member = std::fs::File::options().read(true).write(true).open(&self.members[1]).unwrap();
        for chunk in [set[0], QUIET] {
            let (at, mut byte) = (data + chunk * CHUNK + 5000, [0]);
            member.read_exact_at(&mut byte, at).unwrap();
            member.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
        }
    }

    /// The marked chunks have been resynced, and no others.
    fn judge_spoiled(&self, by: &str) {
        let checked = self.brindle("check --json").report();
        let places = checked["places"].as_array().unwrap_or_else(|| panic!("{}: {checked}", self.what));
        let of = |place: &Value| place["offset"].as_u64().unwrap() / CHUNK;
        assert!(!places.is_empty(), "{}: {by} has looked at what was not marked", self.what);
        assert!(places.iter().all(|place| of(place) == QUIET), "{}: {by}: {checked}", self.what);
    }
}

/// A file system with these files on it.
fn file_system(dir: &Path, files: &[PathBuf]) -> Result<PathBuf, Missing> {
    let (image, content) = (dir.join("fs"), dir.join("content"));
    let _ = std::fs::remove_dir_all(&content);
    std::fs::create_dir(&content).unwrap();
    for file in files {
        std::fs::copy(file, content.join(file.file_name().unwrap())).unwrap();
    }
    files::sparse(&image, 32 * MIB);
    let words = ["-q", "-F", "-O", "^has_journal", "-d", content.to_str().unwrap(), image.to_str().unwrap()];
    tools::run(&tools::find("mkfs.ext4")?, words);
    Ok(image)
}

/// Gets files back from it.
fn get(image: &Path, arrays: &[Filed]) -> Result<(), Missing> {
    let debugfs = tools::find("debugfs")?;
    for array in arrays {
        let _ = std::fs::remove_file(array.file());
        let dump = format!("dump /{} {}", array.name(), array.file().display());
        tools::run(&debugfs, ["-R", &dump, image.to_str().unwrap()]);
    }
    Ok(())
}

/// Mounts the file system, and tells whether the kernel keeps bitmaps in files.
fn mount(disk: usize) -> String {
    format!(
        "mkdir -p /fs
         step mount mount -t ext4 /dev/member/{disk} /fs
         # busybox shows what has changed on the disk only then
         fresh() {{ sync; echo 3 >/proc/sys/vm/drop_caches; }}\n"
    )
}

fn machine(kernel: Kernel) -> Result<Vm, Missing> {
    Ok(Vm::on(kernel)?.file_system()?.limit(Duration::from_secs(900)))
}

/// Whether the kernel has such bitmaps (`CONFIG_MD_BITMAP_FILE`, from Linux 6.5 on a choice).
fn keeps_files(kernel: Kernel, dir: &Path) -> Result<bool, Missing> {
    let members = files::members(dir, "try-", 2, SIZE);
    let image = file_system(dir, &[])?;
    let script = format!(
        "{}
         mdadm --create /dev/md0 --run --assume-clean -e 1.2 -l 1 -n 2 --bitmap=/fs/bits /dev/member/0 /dev/member/1 || true
         put location \"$(cat /sys/block/md0/md/bitmap/location 2>/dev/null)\"\n",
        mount(2)
    );
    let vm = machine(kernel)?;
    let version = vm.version();
    let report = vm.disks(members.iter().chain([&image])).run(&script).unwrap();
    let has = report["location"].starts_with("file");
    if !has {
        println!("SKIPPED: Linux {version:?} keeps no bitmaps in files: {}", &report["location"]);
    }
    Ok(has)
}

/// md makes the array, and waits until no bit is set; then it is written to, and the machine is killed.
fn made_by_md(array: &Filed, first: usize) -> String {
    let Filed { level, metadata, number, what, .. } = array;
    let chunk = if *level == "1" { "" } else { "--chunk=64" };
    format!(
        "md=/dev/md{number}
         step 'create {what}' mdadm --create $md --run --assume-clean -e {metadata} -l {level} -n {count} {chunk} \
             --bitmap=/fs/{name} --bitmap-chunk=64K --delay=1{devices}
         put length{number} $(stat -c %s /fs/{name})
         echo 600 >/sys/block/md{number}/md/safe_mode_delay
         fresh
         until mdadm -X /fs/{name} | grep -q ', 0 dirty'; do sleep 0.5; fresh; done
         # No bit is cleared from now on before the plug is pulled.
         echo 600 >/sys/block/md{number}/md/bitmap/time_base
         step 'write {what}' dd if=/dev/urandom of=$md bs=64k count=2 seek=3 oflag=direct conv=notrunc
         put written{number} yes\n",
        count = array.members.len(),
        name = array.name(),
        devices = array.devices(first)
    )
}

fn disks<'a>(arrays: &'a [Filed], image: &'a PathBuf) -> impl Iterator<Item = &'a PathBuf> {
    arrays.iter().flat_map(|array| &array.members).chain([image])
}

fn from_md(kernel: Kernel, dir: &Path) -> Result<(), Missing> {
    let arrays = all(dir, "md");
    let image = file_system(dir, &[])?;
    let (mut script, mut first) = (String::new(), 0);
    for array in &arrays {
        script += &made_by_md(array, first);
        first += array.members.len();
    }
    let script = format!("{}{script}sleep 1000\n", mount(first));
    let written = |report: &Report| {
        arrays.iter().all(|array| report.results.contains_key(&format!("written{}", array.number)))
    };
    let report = machine(kernel)?.disks(disks(&arrays, &image)).start(&script).kill_when(written);
    get(&image, &arrays)?;
    for array in &arrays {
        let what = &array.what;
        let detail = array.with_file("detail");
        // A file ends with its last bit.
        let bits = detail["bitmap"]["bits"].as_u64().unwrap();
        assert_eq!(report.results[&format!("length{}", array.number)], (256 + bits.div_ceil(8)).to_string());
        assert_eq!(
            (&detail["bitmap"]["stale"], &detail["consistency_policy"]),
            (&false.into(), &"bitmap".into())
        );
        assert_eq!(detail["state"], serde_json::json!(["active", "needs resync"]), "{what}");
        array.spoil();
        let server = array.serve();
        server.wait_for_state("needs resync", false);
        server.wait_for_state("resyncing", false);
        server.stop();
        array.judge_spoiled("Brindle");
        assert_eq!(array.set(), [0; 0], "{what}");
    }
    Ok(())
}

/// Writes to an array that Brindle serves, and kills it before it is marked clean.
fn kill_under(array: &Filed) {
    for _ in 0..20 {
        let server = array.serve();
        let mut client = Client::connect(&server.uri());
        let work = Work::Write { data: vec![7; CHUNK as usize], fua: true };
        client.all_at_once([&Change { offset: 3 * CHUNK, len: CHUNK, work }]);
        assert_eq!(server.signal(Signal::KILL).0, -1);
        if array.with_file("detail")["state"][0] == "active" {
            return;
        }
    }
    panic!("{}: it is marked clean however soon it is killed", array.what);
}

fn to_md(kernel: Kernel, dir: &Path) -> Result<(), Missing> {
    let arrays = all(dir, "br");
    for array in &arrays {
        let Filed { level, metadata, .. } = array;
        let chunk = if *level == "1" { "" } else { " -c 64K" };
        let file = array.file();
        let _ = std::fs::remove_file(&file);
        array
            .brindle(&format!(
                "create -l {level} -e {metadata}{chunk} --bitmap {} --bitmap-chunk 64K",
                file.display()
            ))
            .ok();
        // One in order, the others are killed.
        if array.number > 0 {
            kill_under(array);
            array.spoil();
        } else {
            array.serve().stop();
        }
    }
    let image = file_system(dir, &arrays.iter().map(Filed::file).collect::<Vec<_>>())?;
    let (mut script, mut first) = (String::new(), 0);
    for array in &arrays {
        let Filed { number, what, .. } = array;
        script += &format!(
            "md=/dev/md{number}
             dmesg -c >/dev/null
             put bits{number} \"$(mdadm -X /fs/{name} | grep Bitmap)\"
             step 'assemble {what}' mdadm --assemble --bitmap=/fs/{name} $md{devices}
             idle $md
             put location{number} $(cat /sys/block/md{number}/md/bitmap/location)
             dmesg -c >/tmp/log
             put log{number} \"$(flat /tmp/log)\"
             step 'write {what}' dd if=/dev/urandom of=$md bs=64k count=1 seek=3 oflag=direct conv=notrunc
             step 'stop {what}' mdadm --stop $md\n",
            name = array.name(),
            devices = array.devices(first)
        );
        first += array.members.len();
    }
    let script = format!("{}{script}step unmount umount /fs\n", mount(first));
    let report = machine(kernel)?.disks(disks(&arrays, &image)).run(&script).unwrap();
    get(&image, &arrays)?;
    for array in &arrays {
        let value = |key: &str| &report[format!("{key}{}", array.number).as_str()];
        let (what, log) = (&array.what, value("log").replace('|', "\n"));
        assert!(value("location").starts_with("file"), "{what}: {}", value("location"));
        assert!(!log.contains("out of date") && !log.contains("forcing full recovery"), "{what}\n{log}");
        let resynced = log.contains("resync of RAID array");
        assert_eq!(resynced, array.number > 0, "{what}\n{log}");
        match resynced {
            true => array.judge_spoiled("md"),
            false => assert!(value("bits").contains(", 0 dirty (0.0%)"), "{what}: {}", value("bits")),
        }
        // md has kept it, and left it in order.
        let detail = array.with_file("detail");
        assert_eq!(
            (&detail["bitmap"]["stale"], &detail["state"]),
            (&false.into(), &serde_json::json!(["clean"]))
        );
    }
    Ok(())
}

/// The chunk that mdadm takes for a bitmap in a file, which is Brindle's choice too.
fn chunks(dir: &Path) -> Result<(), Missing> {
    const SIZES: [u64; 4] = [64 * MIB, 4000 * MIB, 5000 * MIB, 9000 * MIB];
    let (mut script, mut all) = (String::new(), Vec::new());
    for (number, size) in SIZES.into_iter().enumerate() {
        all.push(files::members(dir, &format!("large{number}-"), 2, size));
        let at = number * 2;
        script += &format!(
            "mdadm --create /dev/md{number} --run --assume-clean -e 1.2 -l 1 -n 2 --bitmap=/fs/large{number} \
                 /dev/member/{at} /dev/member/{}
             put chunk{number} \"$(mdadm -X /fs/large{number} | grep Chunksize)\"\n",
            at + 1
        );
    }
    let image = file_system(dir, &[])?;
    let disks = all.iter().flatten().chain([&image]);
    let script = format!("{}{script}", mount(SIZES.len() * 2));
    let report = machine(Kernel::Release)?.disks(disks).run(&script).unwrap();
    for (number, members) in all.iter().enumerate() {
        let words = format!("create -f -l 1 --assume-clean --json --bitmap {}/ours{number}", dir.display());
        let words = words.split(' ').map(PathBuf::from);
        let ours = program::brindle(words.chain(members.iter().cloned())).json();
        let theirs = &report[format!("chunk{number}").as_str()];
        let kib = ours["bitmap"]["chunk"].as_u64().unwrap() / KIB;
        assert!(theirs.contains(&format!(": {kib} KB")), "{kib}: {theirs}");
    }
    Ok(())
}

fn both_ways() -> Result<(), Missing> {
    for kernel in Kernel::ALL {
        let dir = tempfile::tempdir().unwrap();
        if keeps_files(kernel, dir.path())? {
            from_md(kernel, dir.path())?;
            to_md(kernel, dir.path())?;
        } else {
            assert_ne!(kernel, Kernel::Release, "Debian's own keeps them");
        }
    }
    Ok(())
}

#[test]
fn a_bitmap_in_a_file_goes_from_md_to_brindle_and_from_brindle_to_md() {
    let _ = or_skip(both_ways());
}

#[test]
fn a_bitmap_in_a_file_has_the_chunk_that_mdadm_takes() {
    let dir = tempfile::tempdir().unwrap();
    let _ = or_skip(chunks(dir.path()));
}

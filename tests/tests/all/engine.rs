//! md's verdict on arrays that the engine wrote. Arrays of every layout are written in pieces of all sizes, on real
//! files through io_uring, whole and with members failed on the way. Then a stock kernel assembles, reads and checks
//! them.

use std::path::{Path, PathBuf};

use brindle_array::{Access, Array, OpenConfig};
use brindle_io::device::{self, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId, Pool};
use brindle_md::assembly::{AssembleOptions, Candidate, assemble};
use brindle_testkit::load::{Load, Mix, Request};
use brindle_testkit::random::Random;
use brindle_testkit::skip::is_long;
use brindle_tests::files;
use brindle_tests::golden::{self, Made};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{MAX_DISKS, Vm};
use brindle_volume::{Volume, VolumeError};

/// Writes to each array.
const WRITES: usize = 60;

/// The time of the last change in the superblocks.
const NOW: u64 = 1_900_000_000;

/// An array that md made and the engine wrote to.
struct Written {
    name: String,
    members: Vec<PathBuf>,
    sha256: String,
    redundant: bool,
    lost: usize,
}

/// How many members to fail: as many as may be lost wherever they stand, but never all copies of a mirror.
fn tolerance(array: &Made) -> usize {
    match (array.recipe.level, array.recipe.layout) {
        ("1", _) => array.members.len() - 1,
        ("10", Some(layout)) if layout.ends_with('3') => 2,
        ("6", _) => 2,
        ("4" | "5" | "10", _) => 1,
        _ => 0,
    }
}

#[test]
fn an_array_opens_on_descriptors_and_its_files_are_in_use_under_every_name() {
    use std::fs::{self, File};

    use brindle_io::device::{DeviceAccess, DeviceErrorKind};
    use brindle_testkit::shape::{given, planned, spec};
    use std::os::unix::fs::FileExt as _;

    let dir = tempfile::TempDir::new().unwrap();
    let spec = spec(brindle_layout::Level::Raid5, 3, brindle_format::md::Version::V1_2);
    let open = |number: usize, create| {
        let path = dir.path().join(number.to_string());
        (File::options().read(true).write(true).create(create).truncate(false).open(&path).unwrap(), path)
    };
    for (number, member) in given(&spec).iter().enumerate() {
        let (file, path) = open(number, true);
        file.set_len(member.info.size).unwrap();
        fs::hard_link(path, dir.path().join(format!("{number}-too"))).unwrap();
    }
    for write in planned(&spec).writes() {
        open(write.device, false).0.write_all_at(&write.bytes, write.offset).unwrap();
    }
    let devices = (0..3).map(|number| {
        OpenDevice::given(open(number, false).0, format!("given {number}"), DeviceAccess::Write).unwrap()
    });
    let bytes: Vec<u8> = (0..200_704u32).map(|at| (at % 251) as u8).collect();
    let paths: Vec<PathBuf> = (0..3).map(|number| dir.path().join(format!("{number}-too"))).collect();
    let first = Open::on(devices.collect());
    assert_eq!(first.array.detail().devices[0].label, "given 0");
    for other in &paths {
        let why = OpenDevice::open(other, DeviceAccess::Write).expect_err("the array has it");
        assert_eq!(why.kind, DeviceErrorKind::Busy);
    }
    first.io.block_on(async {
        brindle_testkit::world::write(&first.pool, &first.array, 4096, &bytes).await.unwrap();
    });
    first.stop();
    let again = Open::new(&paths);
    let read = again.io.block_on(brindle_testkit::world::read(&again.pool, &again.array, 4096, bytes.len()));
    assert!(read.unwrap() == bytes, "by name it holds what was written to descriptors");
    again.stop();
}

/// One array, open on real files.
struct Open {
    io: Io,
    pool: Pool,
    array: Array,
}

impl Open {
    fn new(members: &[PathBuf]) -> Self {
        let open = |path: &PathBuf| OpenDevice::open(path, device::DeviceAccess::Write).unwrap();
        Self::on(members.iter().map(open).collect())
    }

    fn on(devices: Vec<OpenDevice>) -> Self {
        let uring = Uring::new().unwrap();
        let io = Io::new(Box::new(uring.clone()));
        let pool = io.pool(8 << 20);
        let labels: Vec<String> = devices.iter().map(|device| device.path().display().to_string()).collect();
        let ids: Vec<MemberId> = devices.into_iter().map(|device| uring.add_member(device)).collect();
        let array = io.block_on(async {
            let mut candidates = Vec::new();
            for (label, &id) in labels.into_iter().zip(&ids) {
                candidates.push(Candidate::read(&io, &pool, id, label).await.unwrap());
            }
            let assembly = assemble(&candidates, AssembleOptions::default()).unwrap();
            brindle_md::open(&io, assembly, &ids, OpenConfig::new(Access::ReadWrite, || NOW)).await.unwrap()
        });
        Self { io, pool, array }
    }

    /// Writes random pieces to the array and to `model`, and fails one member after each so many.
    fn exercise(&self, model: &mut [u8], random: &mut Random, lost: &[u16]) {
        let mix = Mix { reads: 0, writes: 1, zeroes: 0, flushes: 0, most: 1 << 20, ..Mix::default() };
        let mut load = Load::new(random.clone(), model.len() as u64, mix);
        self.io.block_on(async {
            let mut lost = lost.iter();
            for number in 0..WRITES {
                if number % (WRITES / 3) == WRITES / 6
                    && let Some(&role) = lost.next()
                {
                    self.array.fail(role).await.unwrap();
                }
                let Request::Write { offset, len, .. } = load.next_request() else {
                    unreachable!("writes only")
                };
                let range = offset as usize..(offset + len) as usize;
                random.fill(&mut model[range.clone()]);
                let buf = self.pool.alloc(len as usize).await;
                buf.bytes_mut().copy_from_slice(&model[range]);
                self.array.write(offset, buf.all(), number % 7 == 0).await.unwrap();
            }
        });
    }

    /// The whole content.
    fn read(&self, size: u64) -> Vec<u8> {
        self.io.block_on(async {
            let mut content = Vec::new();
            while (content.len() as u64) < size {
                let at = content.len() as u64;
                let buf = self.pool.alloc((size - at).min(1 << 20) as usize).await;
                match self.array.read(at, buf.all()).await {
                    // A member has that memory still.
                    Err(VolumeError::Again) => continue,
                    read => read.unwrap(),
                }
                content.extend_from_slice(&buf.bytes());
            }
            content
        })
    }

    fn stop(self) {
        self.io.block_on(self.array.stop()).unwrap();
        drop((self.array, self.pool));
        self.io.shutdown();
    }
}

/// Copies the array's members and writes to the copies; fails members on the way if `failing`.
fn write(array: &Made, number: usize, dir: &Path, failing: bool) -> Written {
    let name = array.recipe.name();
    let members: Vec<PathBuf> =
        (0..array.members.len()).map(|r| dir.join(format!("{number}-{r}.img"))).collect();
    for (from, to) in array.members.iter().zip(&members) {
        std::fs::copy(from, to).unwrap();
    }
    let lost = if failing { tolerance(array) } else { 0 };
    // Neighbours, beginning at another role in each array.
    let roles: Vec<u16> = (0..lost).map(|i| ((number + i) % members.len()) as u16).collect();
    let open = Open::new(&members);
    let mut model = open.read(array.size);
    assert_eq!(files::sha256_of(&model), array.sha256, "{name}: before the first write");
    let mut random = Random::new(number as u64);
    open.exercise(&mut model, &mut random, &roles);
    assert!(open.read(array.size) == model, "{name}: after the last write, lost {roles:?}");
    open.stop();
    let redundant = tolerance(array) > 0;
    Written { name, members, sha256: files::sha256_of(&model), redundant, lost }
}

/// Has md assemble the arrays of one boot, with all members in the order of the files.
fn judge(vm: Vm, arrays: &[Written]) {
    let mut script = String::new();
    let mut first = 0;
    for (i, array) in arrays.iter().enumerate() {
        let (name, next) = (&array.name, first + array.members.len());
        let members: String = (first..next).map(|m| format!(" /dev/member/{m}")).collect();
        first = next;
        script += &format!(
            "step 'assemble {name}' mdadm --assemble --run /dev/md{i} {members}
             sys=/sys/block/md{i}/md
             put state{i} \"$(mdadm --detail /dev/md{i} | sed -n 's/^ *State : *\\([^ ].*[^ ]\\) *$/\\1/p')\"
             put degraded{i} $(cat $sys/degraded 2>/dev/null || echo 0)
             put sha{i} $(sha /dev/md{i})
             if [ -e $sys/sync_action ]; then
                 put action{i} $(cat $sys/sync_action)
                 echo check >$sys/sync_action
                 idle /dev/md{i}
                 put mismatches{i} $(cat $sys/mismatch_cnt)
             fi
             step 'stop {name}' mdadm --stop /dev/md{i}\n"
        );
    }
    let report = vm.disks(arrays.iter().flat_map(|a| &a.members)).run(&script).unwrap();
    for (i, array) in arrays.iter().enumerate() {
        let value = |key: &str| &report[format!("{key}{i}").as_str()];
        let name = &array.name;
        assert_eq!(value("sha"), array.sha256, "{name}: content");
        assert_eq!(value("degraded"), array.lost.to_string(), "{name}: members that md misses");
        assert_eq!(value("state"), if array.lost > 0 { "clean, degraded" } else { "clean" }, "{name}");
        if array.redundant {
            assert_eq!(value("action"), "idle", "{name}: md saw no need to resync");
            assert_eq!(value("mismatches"), "0", "{name}");
        }
    }
}

/// Whether members of an array are failed: of those that differ from others in their metadata alone, only in `make test-long`.
fn is_to_fail(array: &Made) -> bool {
    tolerance(array) > 0 && (array.recipe.metadata == "1.2" || is_long())
}

/// Writes to every array and has md judge all of them, in two boots side by side.
fn write_and_judge(failing: bool) -> Result<(), Missing> {
    Vm::new().map(drop)?;
    Uring::new().map_err(|e| Missing::new(e.to_string()))?;
    let made: Vec<Made> = golden::md_made(&golden::usual())?
        .into_iter()
        .filter(|array| !failing || is_to_fail(array))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let half = made.len().div_ceil(2);
    std::thread::scope(|scope| {
        for (batch, arrays) in made.chunks(half).enumerate() {
            let dir = dir.path();
            scope.spawn(move || {
                let written: Vec<Written> = arrays
                    .iter()
                    .enumerate()
                    .map(|(i, array)| write(array, batch * half + i, dir, failing))
                    .collect();
                assert!(written.iter().map(|w| w.members.len()).sum::<usize>() <= MAX_DISKS);
                judge(Vm::new().unwrap(), &written);
            });
        }
    });
    Ok(())
}

#[test]
fn md_agrees_with_every_byte_and_parity_that_the_engine_wrote() {
    let _ = or_skip(write_and_judge(false));
}

#[test]
fn md_agrees_with_arrays_that_lost_members_under_the_engine() {
    let _ = or_skip(write_and_judge(true));
}

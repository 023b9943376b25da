//! Arrays that md made with what few arrays have: bitmaps, journals, logs, work that it has not finished. Some were stopped,
//! some lost their power. All in one boot, and kept as [`golden`](crate::golden) arrays are.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::{self, MIB};
use crate::tools::{self, Missing};
use crate::vm::Vm;

/// Size of each device. A chunk of source is left between the contents of two arrays.
const DEVICE: u64 = 5 * MIB;
const CHUNK: u64 = 64 << 10;

/// A library that makes mdadm believe in a cluster.
const LOCKS: &str = include_str!("locks.c");

/// Devices of an array, in the order of the script's `$1`, `$2` and so on, and what md is told to do with them.
struct Recipe {
    name: &'static str,
    devices: usize,
    script: &'static str,
}

/// Arrays that md stopped.
const STOPPED: [Recipe; 10] = [
    Recipe {
        name: "bitmap",
        devices: 3,
        script: "create --level=5 --raid-devices=3 --bitmap=internal $1 $2 $3
                 fill; idle $md; digest",
    },
    Recipe {
        name: "bitmap-0.90",
        devices: 2,
        script: "create --level=1 --raid-devices=2 --bitmap=internal --metadata=0.90 $1 $2
                 fill; idle $md; digest",
    },
    Recipe {
        // Writes made without the third member stay marked in the bitmap.
        name: "bitmap-degraded",
        devices: 3,
        script: "create --level=5 --raid-devices=3 --bitmap=internal $1 $2 $3
                 fill; idle $md
                 mdadm $md --fail $3 --remove $3
                 change; digest",
    },
    Recipe {
        // The fourth device holds the file, and the fifth gets a copy of it.
        name: "bitmap-file",
        devices: 5,
        script: "mke2fs $4; mkdir /tmp/files; mount -t ext2 $4 /tmp/files
                 if create --level=5 --raid-devices=3 --bitmap=/tmp/files/bitmap $1 $2 $3; then
                     fill; idle $md; digest
                     mdadm --stop $md
                     cat /tmp/files/bitmap >$5
                 fi
                 umount /tmp/files",
    },
    Recipe {
        // The array's content was written before it was made clustered. No kernel runs it without a cluster, but by
        // then mdadm has written superblocks and bitmaps.
        name: "clustered",
        devices: 2,
        script: "create --level=1 --raid-devices=2 $1 $2
                 fill; idle $md; digest
                 mdadm --stop $md
                 cat $locks >/lib/libdlm_lt.so.3; ln -s libdlm_lt.so.3 /lib/libcmap.so.4
                 if create --level=1 --raid-devices=2 --assume-clean \\
                     --bitmap=clustered --nodes=2 --home-cluster=herd $1 $2; then mdadm --stop $md; fi
                 while [ -e $sys ]; do sleep 0.1; done
                 rm /lib/libdlm_lt.so.3 /lib/libcmap.so.4",
    },
    Recipe {
        name: "ppl",
        devices: 3,
        script: "create --level=5 --raid-devices=3 --consistency-policy=ppl $1 $2 $3
                 fill; idle $md; digest",
    },
    Recipe {
        name: "journal",
        devices: 4,
        script: "create --level=5 --raid-devices=3 --write-journal=$4 $1 $2 $3
                 fill; idle $md; digest",
    },
    Recipe {
        // A block becomes known as bad when the superblock is written next.
        name: "bad-blocks",
        devices: 3,
        script: "create --level=5 --raid-devices=3 $1 $2 $3
                 fill; idle $md; digest
                 echo 4096 16 >$sys/dev-$(basename $(readlink -f $2))/bad_blocks
                 dd if=$md of=$md bs=4k count=1 conv=notrunc,fsync iflag=direct oflag=direct",
    },
    Recipe {
        name: "replacing",
        devices: 4,
        script: "create --level=5 --raid-devices=3 $1 $2 $3
                 fill; idle $md; digest
                 mdadm $md --add $4
                 echo 4096 >$sys/sync_max
                 mdadm $md --replace $2 --with $4
                 synced 4096",
    },
    Recipe {
        name: "recovering",
        devices: 4,
        script: "create --level=5 --raid-devices=3 $1 $2 $3
                 fill; idle $md
                 mdadm $md --fail $2 --remove $2
                 change; digest
                 echo 4096 >$sys/sync_max
                 mdadm $md --add $4
                 synced 4096",
    },
];

/// Arrays that were written to until the power went off.
const DIRTY: [Recipe; 5] = [
    Recipe {
        name: "bitmap-dirty",
        devices: 3,
        script: "create --level=5 --raid-devices=3 --bitmap=internal --bitmap-chunk=64 --delay=600 $1 $2 $3
                 fill; idle $md",
    },
    Recipe {
        name: "ppl-dirty",
        devices: 3,
        script: "create --level=5 --raid-devices=3 --consistency-policy=ppl $1 $2 $3
                 fill; idle $md",
    },
    Recipe {
        name: "journal-dirty",
        devices: 4,
        script: "create --level=5 --raid-devices=3 --write-journal=$4 $1 $2 $3
                 fill; idle $md",
    },
    Recipe {
        // Assembled once more, so that its superblocks say clean while it runs. Nothing is ever stopped in write-back
        // mode: kernels 6.1 and 6.12 can hang in that for good, and 6.12 may panic if told to write through before.
        name: "journal-pending",
        devices: 4,
        script: "create --level=5 --raid-devices=3 --write-journal=$4 $1 $2 $3
                 fill; idle $md
                 mdadm --stop $md
                 mdadm --assemble $md $1 $2 $3 $4
                 echo write-back >$sys/journal_mode",
    },
    Recipe {
        // The power goes off when a write has reached the log and the parity, but not the data.
        name: "ppl-torn",
        devices: 3,
        script: "create --level=5 --raid-devices=3 --consistency-policy=ppl $1 $2 $3
                 fill; idle $md",
    },
];

/// Tears the first row of the last array, and lets md run it without its second member. md gets copies of the
/// members, without mdadm, which runs no array a second time.
//
// The first member is throttled to a byte per second: writes to it get nowhere, and no emulated machine is too slow or too
// fast for that.
const TEAR: &str = "
number() { cat /sys/class/block/$(basename $(readlink -f $1))/dev; }
at=$(cat $sys/dev-$(basename $(readlink -f $3))/offset)
parity() { dd if=$3 bs=512 skip=$at count=8 iflag=direct 2>/dev/null | sha256sum; }
mkdir /tmp/blkio; mount -t cgroup -o blkio none /tmp/blkio
before=$(parity $@)
echo \"$(number $1) 1\" >/tmp/blkio/blkio.throttle.write_bps_device
dd if=$source of=$md bs=4k skip=2000 count=1 conv=notrunc oflag=direct &
while [ \"$(parity $@)\" = \"$before\" ]; do sleep 0.1; done
md=/dev/md90 sys=/sys/block/md90/md
echo md90 >/sys/module/md_mod/parameters/new_array
echo 1.2 >$sys/metadata_version
for member in $1 $3; do
    copy=/tmp/$(basename $member)
    dd if=$member of=$copy bs=1M iflag=direct
    loop=$(losetup -f); losetup $loop $copy
    number $loop >$sys/new_dev
done
echo active >$sys/array_state
put $name.recovered $(sha $md)
";

/// Functions that the recipes call.
const HELPERS: &str = "
create() { mdadm --create $md --run --force $chunk \"$@\"; }
blocks() { echo $(($(blockdev --getsize64 $md) / 65536)); }
fill() { dd if=$source of=$md bs=64k skip=$index count=$(blocks) conv=fsync; }
# Whole blocks, parts of rows, never in order.
change() { for at in 9 2 77 300 301 40; do
    dd if=$source of=$md bs=4k skip=$((at + 50)) seek=$at count=3 conv=notrunc oflag=direct
done; }
digest() { put $name $(sha $md); }
synced() { until grep -q \"^$1 \" $sys/sync_completed; do sleep 0.1; done; }
";

/// An array that md made.
#[derive(Debug, Clone)]
pub struct Featured {
    /// Its name in the list above.
    pub name: &'static str,
    /// Its devices. To be read only: other tests have them too.
    pub devices: Vec<PathBuf>,
    /// Hash of its content, as the machine read it from `/dev/mdX`; `None` if this kernel can't make such an array.
    pub sha256: Option<String>,
    /// Hash of its content after its log was replayed without the second member, where the machine did so.
    pub recovered: Option<String>,
}

/// Has md make all of them, or takes them from the cache.
///
/// # Errors
/// Names what this machine lacks to run the kernel.
///
/// # Panics
/// If md refuses, with the log of the machine.
pub fn md_made() -> Result<Vec<Featured>, Missing> {
    let dir = tools::cached("features", &format!("{}{LOCKS}", script()), |dir| make(dir, Vm::new()?))?;
    let mut first = 0;
    let featured = |recipe: &Recipe| {
        let devices = (first..first + recipe.devices).map(|n| device(&dir, n)).collect();
        first += recipe.devices;
        let put = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        let (sha256, recovered) = (put(recipe.name), put(&format!("{}.recovered", recipe.name)));
        Featured { name: recipe.name, devices, sha256, recovered }
    };
    Ok(recipes().map(featured).collect())
}

fn recipes() -> impl Iterator<Item = &'static Recipe> {
    STOPPED.iter().chain(&DIRTY)
}

fn device(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("device{number}.img"))
}

fn make(dir: &Path, vm: Vm) -> Result<(), Missing> {
    let count: usize = recipes().map(|recipe| recipe.devices).sum();
    let mut disks: Vec<PathBuf> = (0..count).map(|number| device(dir, number)).collect();
    for path in &disks {
        File::create(path)
            .and_then(|file| file.set_len(DEVICE))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let source = dir.join("source.img");
    files::write_pattern(&source, 3 * DEVICE + recipes().count() as u64 * CHUNK, 1);
    let locks = dir.join("locks.img");
    build_locks(&locks)?;
    disks.extend([source.clone(), locks.clone()]);
    let machine = vm.disks(&disks).limit(Duration::from_secs(900)).start(&script());
    let report = machine.kill_when(|report| report.results.contains_key("ready"));
    for (name, sha256) in &report.results {
        std::fs::write(dir.join(name), sha256).expect("the cache can be written");
    }
    for file in [source, locks] {
        std::fs::remove_file(file).expect("a file in the cache can be removed");
    }
    Ok(())
}

/// Makes a shared library of [`LOCKS`], which a machine finds as a disk.
fn build_locks(library: &Path) -> Result<(), Missing> {
    let source = library.with_extension("c");
    std::fs::write(&source, LOCKS).expect("the cache can be written");
    let options = ["-shared", "-fPIC", "-nostdlib", "-o"].map(OsStr::new);
    tools::run(&tools::find("cc")?, options.into_iter().chain([library.as_os_str(), source.as_os_str()]));
    std::fs::remove_file(source).expect("a file in the cache can be removed");
    let file = File::options().write(true).open(library).expect("the library was made");
    file.set_len(MIB).expect("the cache can be written");
    Ok(())
}

fn script() -> String {
    let source: usize = recipes().map(|recipe| recipe.devices).sum();
    let mut script = format!("{HELPERS}source=/dev/member/{source} locks=/dev/member/{}\n", source + 1);
    let mut first = 0;
    for (index, recipe) in recipes().enumerate() {
        let devices: String = (first..first + recipe.devices).map(|n| format!(" /dev/member/{n}")).collect();
        first += recipe.devices;
        let Recipe { name, script: steps, .. } = recipe;
        let chunk = if steps.contains("--level=1") { "" } else { "--chunk=64" };
        let _ = write!(
            script,
            "name={name} index={index} chunk={chunk} md=/dev/md{index} sys=/sys/block/md{index}/md
             set -- {devices}
             echo '=== {name}'
             {steps}\n"
        );
        if index < STOPPED.len() {
            script += "if [ -e $sys/array_state ]; then mdadm --stop $md; fi\n";
        }
    }
    // md marks an array clean when it was not written to for a while: never, here.
    for (index, Recipe { name, .. }) in recipes().enumerate().skip(STOPPED.len()) {
        let _ = write!(
            script,
            "name={name} md=/dev/md{index} sys=/sys/block/md{index}/md
             echo 1000 >$sys/safe_mode_delay
             change; digest\n"
        );
    }
    // The last array's devices are the last that were named.
    script + TEAR + "put ready 1; sleep 1000\n"
}

//! Arrays that md made with what few arrays have: bitmaps, journals, logs, work that it has not finished. Some were stopped,
//! some lost their power. All in one boot, and kept as [`golden`](crate::golden) arrays are.

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

/// Devices of an array, in the order of the script's `$1`, `$2` and so on, and what md is told to do with them.
struct Recipe {
    name: &'static str,
    devices: usize,
    script: &'static str,
}

/// Arrays that md stopped.
const STOPPED: [Recipe; 9] = [
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
        // What was written without the third member stays marked in the bitmap.
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
const DIRTY: [Recipe; 4] = [
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
        // mode: kernel 6.1 can hang in that for good.
        name: "journal-pending",
        devices: 4,
        script: "create --level=5 --raid-devices=3 --write-journal=$4 $1 $2 $3
                 fill; idle $md
                 mdadm --stop $md
                 mdadm --assemble $md $1 $2 $3 $4
                 echo write-back >$sys/journal_mode",
    },
];

/// What the recipes call.
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
}

/// Has md make all of them, or takes them from the cache.
///
/// # Errors
/// Names what this machine lacks to run the kernel.
///
/// # Panics
/// If md refuses, with the log of the machine.
pub fn md_made() -> Result<Vec<Featured>, Missing> {
    let dir = tools::cached("features", &script(), |dir| make(dir, Vm::new()?))?;
    let mut first = 0;
    let featured = |recipe: &Recipe| {
        let devices = (first..first + recipe.devices).map(|n| device(&dir, n)).collect();
        first += recipe.devices;
        let sha256 = std::fs::read_to_string(dir.join(recipe.name)).ok();
        Featured { name: recipe.name, devices, sha256 }
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
    disks.push(source.clone());
    let machine = vm.disks(&disks).limit(Duration::from_secs(900)).start(&script());
    let report = machine.kill_when(|report| report.results.contains_key("ready"));
    for (name, sha256) in &report.results {
        std::fs::write(dir.join(name), sha256).expect("the cache can be written");
    }
    std::fs::remove_file(source).expect("a file in the cache can be removed");
    Ok(())
}

fn script() -> String {
    let source: usize = recipes().map(|recipe| recipe.devices).sum();
    let mut script = format!("{HELPERS}source=/dev/member/{source}\n");
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
    script + "put ready 1; sleep 1000\n"
}

//! Arrays that md itself made and wrote: what the format and the layouts are measured by.
//!
//! The arrays that a test asks for are made in as few boots as they fit in, and kept under cargo's target folder, so
//! that they cost their time once. Each is created by mdadm, filled by the kernel, resynced, hashed by the machine and stopped.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::files::{self, MIB};
use crate::tools::{self, Missing};
use crate::vm::Vm;

/// An array to be made, in mdadm's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// `linear`, `0`, `1`, `4`, `5`, `6` or `10`.
    pub level: &'static str,
    /// `left-symmetric`, `f2` and so on; mdadm's choice if not said.
    pub layout: Option<&'static str>,
    /// `0.90`, `1.0`, `1.1` or `1.2`.
    pub metadata: &'static str,
    /// Bytes; mdadm's choice if not said.
    pub chunk: Option<u64>,
    /// Size of each member in bytes.
    pub members: Vec<u64>,
    /// Further arguments of `mdadm --create`.
    pub extra: &'static [&'static str],
}

impl Recipe {
    /// `members` members of 8 MiB, metadata 1.2, chunk 64 KiB where the level has chunks.
    pub fn new(level: &'static str, members: usize) -> Self {
        let chunk = (level != "1" && level != "linear").then_some(64 << 10);
        Self { level, layout: None, metadata: "1.2", chunk, members: vec![8 * MIB; members], extra: &[] }
    }

    /// With this layout.
    #[must_use]
    pub fn layout(mut self, layout: &'static str) -> Self {
        self.layout = Some(layout);
        self
    }

    /// With this metadata version.
    #[must_use]
    pub fn metadata(mut self, version: &'static str) -> Self {
        self.metadata = version;
        self
    }

    /// With this chunk size in bytes.
    #[must_use]
    pub fn chunk(mut self, bytes: u64) -> Self {
        self.chunk = Some(bytes);
        self
    }

    /// With members of these sizes in bytes.
    #[must_use]
    pub fn members(mut self, sizes: &[u64]) -> Self {
        self.members = sizes.to_vec();
        self
    }

    /// With further arguments of `mdadm --create`.
    #[must_use]
    pub fn extra(mut self, arguments: &'static [&'static str]) -> Self {
        self.extra = arguments;
        self
    }

    /// A short name that tells recipes of the usual list apart.
    pub fn name(&self) -> String {
        let mut name = format!("raid{}-{}x{}", self.level, self.metadata, self.members.len());
        if let Some(layout) = self.layout {
            let _ = write!(name, "-{layout}");
        }
        name
    }

    /// The command that makes it as `/dev/mdINDEX` of these devices.
    pub(crate) fn command(&self, index: usize, devices: &[String]) -> String {
        let count = self.members.len();
        let mut command = format!(
            "mdadm --create /dev/md{index} --run --force --level={} --metadata={} --raid-devices={count}",
            self.level, self.metadata
        );
        if let Some(layout) = self.layout {
            let _ = write!(command, " --layout={layout}");
        }
        if let Some(chunk) = self.chunk {
            let _ = write!(command, " --chunk={}", chunk >> 10);
        }
        for argument in self.extra {
            let _ = write!(command, " {argument}");
        }
        for device in devices {
            let _ = write!(command, " {device}");
        }
        command
    }
}

/// An array that md made, stopped cleanly.
#[derive(Debug, Clone)]
pub struct Made {
    /// How it was made.
    pub recipe: Recipe,
    /// Its members in order of role. To be read only: other tests have them too.
    pub members: Vec<PathBuf>,
    /// Size of its content in bytes.
    pub size: u64,
    /// Hash of its content, as the machine read it from `/dev/mdX`.
    pub sha256: String,
}

/// Layouts of RAID 5 and 6, as mdadm names them.
pub const PARITY_LAYOUTS: [&str; 6] = [
    "left-asymmetric",
    "right-asymmetric",
    "left-symmetric",
    "right-symmetric",
    "parity-first",
    "parity-last",
];

/// Layouts of RAID 6 alone.
pub const RAID6_LAYOUTS: [&str; 8] = [
    "ddf-zero-restart",
    "ddf-N-restart",
    "ddf-N-continue",
    "left-asymmetric-6",
    "right-asymmetric-6",
    "left-symmetric-6",
    "right-symmetric-6",
    "parity-first-6",
];

/// One array for every level, layout and metadata version that md knows, all small.
pub fn usual() -> Vec<Recipe> {
    let mut all = Vec::new();
    for metadata in ["0.90", "1.0", "1.1", "1.2"] {
        for (level, members) in [("linear", 3), ("0", 3), ("1", 2), ("5", 4), ("6", 5), ("10", 4)] {
            // mdadm 4.2 refuses to make this one: 0.90 has no room for RAID 0's layout, though md assembles it.
            if (metadata, level) != ("0.90", "0") {
                all.push(Recipe::new(level, members).metadata(metadata));
            }
        }
    }
    for layout in ["original", "alternate"] {
        all.push(Recipe::new("0", 3).layout(layout).members(&[4 * MIB, 8 * MIB, 6 * MIB]));
    }
    all.push(Recipe::new("1", 3));
    all.push(Recipe::new("4", 4));
    for layout in PARITY_LAYOUTS {
        all.push(Recipe::new("5", 4).layout(layout));
        all.push(Recipe::new("6", 5).layout(layout));
    }
    for layout in RAID6_LAYOUTS {
        all.push(Recipe::new("6", 5).layout(layout));
    }
    for layout in ["n2", "n3", "f2", "f3", "o2", "o3"] {
        for members in [4, 5] {
            all.push(Recipe::new("10", members).layout(layout));
        }
    }
    all
}

/// Disks per boot; a machine has places for more, but two machines side by side are done sooner.
const DISKS: usize = 125;

/// Has md make all of `recipes`, or takes them from the cache.
///
/// # Errors
/// Names what this machine lacks to run the kernel.
///
/// # Panics
/// If md refuses a recipe, with the log of the machine.
pub fn md_made(recipes: &[Recipe]) -> Result<Vec<Made>, Missing> {
    in_boots(recipes, |recipe| recipe.members.len(), one_boot)
}

/// Does `boot` for parts of `items`, each with as many disks as one machine takes, side by side.
pub(crate) fn in_boots<I: Sync, M: Send>(
    items: &[I],
    disks: impl Fn(&I) -> usize,
    boot: impl Fn(&[I]) -> Result<Vec<M>, Missing> + Sync,
) -> Result<Vec<M>, Missing> {
    let mut batches: Vec<&[I]> = Vec::new();
    let mut left = items;
    while !left.is_empty() {
        let mut taken = 0;
        let fits = left.iter().take_while(|item| {
            taken += disks(item);
            taken <= DISKS
        });
        let (batch, rest) = left.split_at(fits.count().max(1));
        batches.push(batch);
        left = rest;
    }
    let boot = &boot;
    std::thread::scope(|scope| {
        let threads: Vec<_> = batches.into_iter().map(|batch| scope.spawn(move || boot(batch))).collect();
        let mut made = Vec::new();
        for thread in threads {
            made.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(made)
    })
}

fn one_boot(recipes: &[Recipe]) -> Result<Vec<Made>, Missing> {
    // The script is part of the key: what is made in another way is another array.
    let key = format!("{recipes:?}{}", script(recipes));
    let dir = tools::cached("golden", &key, |dir| {
        make(recipes, Vm::new()?, dir);
        Ok(())
    })?;
    Ok(load(recipes, &dir))
}

fn make(recipes: &[Recipe], vm: Vm, dir: &Path) {
    let mut disks = Vec::new();
    for (index, recipe) in recipes.iter().enumerate() {
        for (role, &size) in recipe.members.iter().enumerate() {
            let path = member_path(dir, index, role);
            files::sparse(&path, size);
            disks.push(path);
        }
    }
    let source = dir.join("source.img");
    let most = recipes.iter().map(|r| r.members.iter().sum::<u64>()).max().unwrap_or_default();
    files::write_pattern(&source, most + MIB, 1);
    disks.push(source.clone());
    let report = vm.disks(&disks).limit(std::time::Duration::from_secs(900)).run(&script(recipes)).unwrap();
    std::fs::remove_file(source).expect("a file in the cache can be removed");
    let mut manifest = String::new();
    for index in 0..recipes.len() {
        let key = format!("array{index}");
        let _ = writeln!(manifest, "{}", &report[key.as_str()]);
    }
    std::fs::write(dir.join("manifest"), manifest).expect("the cache can be written");
}

fn script(recipes: &[Recipe]) -> String {
    let source: usize = recipes.iter().map(|r| r.members.len()).sum();
    let mut script = String::new();
    let mut first = 0;
    // Each array gets another content: it begins one block further into the source.
    for (index, recipe) in recipes.iter().enumerate() {
        let next = first + recipe.members.len();
        let devices: Vec<String> = (first..next).map(|disk| format!("/dev/member/{disk}")).collect();
        let (name, create) = (recipe.name(), recipe.command(index, &devices));
        first = next;
        let _ = write!(
            script,
            "step 'create {name}' {create}
             md=/dev/md{index}
             size=$(blockdev --getsize64 $md)
             step 'fill {name}' dd if=/dev/member/{source} of=$md bs=4k skip={index} count=$((size / 4096)) conv=fsync
             if [ -e /sys/block/md{index}/md/sync_action ]; then idle $md; fi
             step 'detail of {name}' mdadm --detail $md
             put array{index} \"$size $(sha $md)\"
             step 'stop {name}' mdadm --stop $md\n"
        );
    }
    script
}

fn load(recipes: &[Recipe], dir: &Path) -> Vec<Made> {
    let manifest = std::fs::read_to_string(dir.join("manifest")).expect("the manifest is there");
    let made = |(index, (recipe, line)): (usize, (&Recipe, &str))| {
        let (size, sha256) = line.split_once(' ').expect("size and hash");
        Made {
            recipe: recipe.clone(),
            members: (0..recipe.members.len()).map(|role| member_path(dir, index, role)).collect(),
            size: size.parse().expect("a size"),
            sha256: sha256.to_owned(),
        }
    };
    recipes.iter().zip(manifest.lines()).enumerate().map(made).collect()
}

fn member_path(dir: &Path, array: usize, role: usize) -> PathBuf {
    dir.join(format!("array{array}-member{role}.img"))
}

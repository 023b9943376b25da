//! Changes to an array besides its devices: requested, carried out, and reported.

use std::path::{Path, PathBuf};

use brindle_array::{Array, BitmapError, BitmapFile, BitmapSpec, GrowError, GrowSpec};
use brindle_host::status::GrowthStatus;
use brindle_io::device::Identity;
use brindle_layout::{Level, Size};

use crate::base::failure::Failure;
use crate::base::sync::span;
use crate::client::control::{Ask, BitmapPlace};
use crate::devices::world::Make;
use crate::flags::cli::{Bitmap, Grow};

/// The change to an array.
#[derive(Clone, Debug)]
pub(crate) enum Growth {
    /// A bitmap beside each superblock.
    Bitmap(BitmapSpec),
    NoBitmap,
    /// A bitmap in a file, which is to be made.
    Filed(Filed),
    /// A new limit of write-behind for the present bitmap.
    WriteBehind(u32),
    /// Another shape.
    Shape(GrowSpec),
}

/// A bitmap that is to be in a file.
#[derive(Clone, Debug)]
pub(crate) struct Filed {
    /// From the root, if a server is to make it.
    pub(crate) path: PathBuf,
    pub(crate) chunk: Option<u64>,
    pub(crate) write_behind: Option<u32>,
    /// Existing content of the file may be overwritten.
    pub(crate) force: bool,
}

impl Filed {
    /// Makes the bitmap's file for an array, unless its path is in use already.
    pub(crate) fn make(&self, array: &Array, known: Vec<(Identity, String)>) -> Result<Make, BitmapError> {
        let bytes = array.bitmap_file_bytes(self.chunk, &self.path.display().to_string())?;
        Ok(Make { path: self.path.clone(), bytes, force: self.force, known })
    }

    /// The bitmap to be added, in a file that exists by now.
    pub(crate) fn spec(&self, file: BitmapFile) -> BitmapSpec {
        BitmapSpec { file: Some(file), chunk: self.chunk, write_behind: self.write_behind }
    }
}

impl Growth {
    pub(crate) fn asked(args: &Grow) -> Result<Self, Failure> {
        let chunk = args.bitmap_chunk.map(|chunk| chunk.0);
        let wrong = |why: &str| Err(Failure::Usage(why.to_owned()));
        if let Some(size) = args.size {
            let (assume_clean, force) = (args.assume_clean, args.force);
            return Ok(Self::Shape(GrowSpec::Size { component: size.bytes(), assume_clean, force }));
        }
        match (args.raid_devices, args.level) {
            (Some(count), _) => return Ok(Self::Shape(GrowSpec::Members { count, coming: 0 })),
            (_, Some(level)) => return Ok(Self::Shape(GrowSpec::Level { level, coming: 0 })),
            _ if !args.add.is_empty() => {
                return wrong(
                    "--add is for new members: only with --raid-devices or --level 6; else `brindle add` adds a spare",
                );
            }
            _ if args.dry_run => {
                return wrong("-n shows another shape: only with --size, --raid-devices or --level");
            }
            _ => {}
        }
        match (&args.bitmap, args.write_behind) {
            (Some(Bitmap::File(path)), write_behind) => {
                Ok(Self::Filed(Filed { path: path.clone(), chunk, write_behind, force: args.force }))
            }
            (_, _) if args.force => wrong(
                "--force is for a file that is there already, or a smaller size: only with --bitmap FILE or --size",
            ),
            (Some(Bitmap::Internal), write_behind) => {
                Ok(Self::Bitmap(BitmapSpec { file: None, chunk, write_behind }))
            }
            (_, _) if chunk.is_some() => {
                wrong("--bitmap-chunk says how a bitmap is to be: only with --bitmap internal or a file")
            }
            (Some(Bitmap::None), Some(_)) => wrong(
                "--write-behind needs a bitmap, which tells what members lack that lag: not with --bitmap none",
            ),
            (Some(Bitmap::None), None) => Ok(Self::NoBitmap),
            (None, Some(count)) => Ok(Self::WriteBehind(count)),
            (None, None) => wrong(
                "give what the array is to be given: --size, --raid-devices, --level, --bitmap internal, --bitmap none, --bitmap FILE or --write-behind",
            ),
        }
    }

    /// Returns when the array has it. A file is none of its own affair.
    pub(crate) async fn give(&self, array: &Array) -> Result<Option<GrowthStatus>, Refused> {
        let bitmap = match self {
            Self::Shape(spec) => return Ok(Some(GrowthStatus::of(&array.grow(*spec).await?, None))),
            Self::Bitmap(spec) => array.set_bitmap(spec.clone()).await,
            Self::Filed(filed) => {
                let label = filed.path.display().to_string();
                array.set_bitmap(filed.spec(BitmapFile { label, id: None })).await
            }
            Self::NoBitmap => array.remove_bitmap().await,
            Self::WriteBehind(count) => array.set_write_behind(*count).await,
        };
        bitmap?;
        Ok(None)
    }

    pub(crate) fn request(&self, args: &Grow) -> Result<Ask, Failure> {
        let (dry_run, force) = (args.dry_run, args.force);
        let shape = |raid_devices, level: Option<Level>| -> Result<Ask, Failure> {
            let absolute = |path: &PathBuf| std::path::absolute(path);
            let add = args.add.iter().map(absolute).collect::<Result<_, _>>();
            let add = add.map_err(|source| Failure::system("the folder of the devices", source))?;
            Ok(Ask::Reshape { raid_devices, level: level.map(Level::md_number), add, force, dry_run })
        };
        Ok(match self {
            Self::Shape(GrowSpec::Members { count, .. }) => shape(Some(*count), None)?,
            Self::Shape(GrowSpec::Level { level, .. }) => shape(None, Some(*level))?,
            Self::Shape(GrowSpec::Size { component, assume_clean, force }) => {
                Ask::Resize { size: *component, assume_clean: *assume_clean, force: *force, dry_run }
            }
            Self::Bitmap(BitmapSpec { chunk, write_behind, .. }) => Ask::Bitmap {
                place: BitmapPlace::Internal,
                chunk: *chunk,
                write_behind: *write_behind,
                force: false,
            },
            Self::Filed(Filed { path, chunk, write_behind, force }) => {
                // The server may run in another folder.
                let path = std::path::absolute(path);
                let path = path.map_err(|source| Failure::system("the folder of the file", source))?;
                Ask::Bitmap {
                    place: BitmapPlace::File { path },
                    chunk: *chunk,
                    write_behind: *write_behind,
                    force: *force,
                }
            }
            Self::NoBitmap => {
                Ask::Bitmap { place: BitmapPlace::None, chunk: None, write_behind: None, force: false }
            }
            Self::WriteBehind(count) => Ask::WriteBehind { count: *count },
        })
    }

    /// The text about the change, for an array of this name.
    pub(crate) fn described(&self, array: &str, growth: Option<&GrowthStatus>, dry_run: bool) -> String {
        let has = |at: &str, behind: Option<u32>| match behind {
            None | Some(0) => format!("{array} has a write-intent bitmap now{at}\n"),
            Some(count) => {
                format!("{array} has a write-intent bitmap now{at}, and lets {count} writes lag behind\n")
            }
        };
        match self {
            Self::Bitmap(spec) => has("", spec.write_behind),
            Self::Filed(filed) => has(&in_file(&filed.path), filed.write_behind),
            Self::Shape(_) => growth.map_or_else(String::new, |growth| shape_text(array, growth, dry_run)),
            Self::NoBitmap => format!("{array} has no write-intent bitmap any more\n"),
            Self::WriteBehind(0) => format!("{array} lets no writes lag behind any more\n"),
            Self::WriteBehind(count) => format!("{array} lets {count} writes lag behind now\n"),
        }
    }
}

/// The text about another shape.
fn shape_text(array: &str, growth: &GrowthStatus, dry_run: bool) -> String {
    if growth.moved > 0 {
        return moves_text(array, growth, dry_run);
    }
    if growth.raid_devices != growth.new_raid_devices || growth.level != growth.new_level {
        return roles_text(array, growth, dry_run);
    }
    let (from, to) = (Size(growth.size), Size(growth.new_size));
    let members = format!(
        "{} of each member in the place of {}",
        Size(growth.new_component_size),
        Size(growth.component_size)
    );
    let resync = match (growth.resync, dry_run) {
        (0, _) => "nothing is resynced".to_owned(),
        (bytes, true) => format!("{} would be resynced, while it is used", Size(bytes)),
        (bytes, false) => format!("{} are to be resynced: `brindle wait` waits for that", Size(bytes)),
    };
    if dry_run {
        return format!(
            "{array} would have {to} in the place of {from}: {members}; no byte moves, and {resync}\n\
             a power cut on the way leaves it with either size, and its content; a member that dies is one that dies\n"
        );
    }
    let next = if growth.new_size > growth.size {
        "next: what stands on it takes the new room by its own tool, as resize2fs, xfs_growfs or pvresize; NBD clients see it when they connect again\n"
    } else {
        ""
    };
    format!("{array} has {to} now in the place of {from}: {members}; {resync}\n{next}")
}

/// The text about data that have moved.
pub(crate) fn moved_text(array: &str, growth: &GrowthStatus) -> String {
    let (from, to) = (Size(growth.size), Size(growth.new_size));
    format!(
        "{array} has {to} on {} members now in the place of {from} on {}\n\
         next: what stands on it takes the new room by its own tool, as resize2fs, xfs_growfs or pvresize\n",
        growth.new_raid_devices, growth.raid_devices
    )
}

/// The text about rows of more members, into which data move.
fn moves_text(array: &str, growth: &GrowthStatus, dry_run: bool) -> String {
    let (old, new) = (growth.raid_devices, growth.new_raid_devices);
    let (from, to) = (Size(growth.size), Size(growth.new_size));
    let moved = Size(growth.moved);
    if dry_run {
        let time = growth.seconds.map(span);
        let time =
            time.map_or_else(String::new, |time| format!("; at the present pace that takes about {time}"));
        return format!(
            "{array} would have {to} on {new} members in the place of {from} on {old}: {moved} move, while it is used, without a backup file{time}\n\
             a power cut or a dead disk on the way loses nothing; mdadm goes on with it, and so does `brindle serve --continue`\n"
        );
    }
    format!(
        "{array} is reshaped from {old} members to {new}: {moved} move, while it is used, and it has {to} then in the place of {from}\n\
         `brindle wait` waits for that; if this server ends before, `brindle serve --continue` goes on with it, and so does mdadm\n\
         next, once all have moved: what stands on it takes the new room by its own tool, as resize2fs, xfs_growfs or pvresize\n"
    )
}

/// The text about another number of members or another level.
fn roles_text(array: &str, growth: &GrowthStatus, dry_run: bool) -> String {
    let layout = growth.new_layout.as_ref().map_or_else(String::new, |layout| format!(", {layout}"));
    let new = format!("{} of {} members{layout}", growth.new_level, growth.new_raid_devices);
    let old = format!("{} of {} members", growth.level, growth.raid_devices);
    let next = match growth.new_raid_devices.cmp(&growth.raid_devices) {
        std::cmp::Ordering::Greater if dry_run => "new members would be rebuilt on spares, while it is used",
        std::cmp::Ordering::Greater => "new members are rebuilt on spares: `brindle wait` waits for that",
        std::cmp::Ordering::Less => {
            "members that it has no role for are spares: `brindle remove` lets them go"
        }
        std::cmp::Ordering::Equal => "it is as redundant as before",
    };
    let costs = if growth.level == "raid5" && growth.new_level == "raid6" {
        "Q stays on one member, which takes each write and answers no read\n"
    } else {
        ""
    };
    let is = if dry_run { "would be" } else { "is" };
    format!("{array} {is} {new} in the place of {old}: no byte moves, {next}\n{costs}")
}

/// Why an array is not given what was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Bitmap(#[from] BitmapError),
    #[error(transparent)]
    Shape(#[from] GrowError),
}

fn in_file(path: &Path) -> String {
    format!(", in {}: give it with the members from now on (--bitmap)", path.display())
}

//! Changes to an array besides its devices: requested, carried out, and reported.

use std::path::{Path, PathBuf};

use brindle_array::{Array, BitmapError, BitmapFile, BitmapSpec};
use brindle_io::device::Identity;

use crate::base::failure::Failure;
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
        match (&args.bitmap, args.write_behind) {
            (Some(Bitmap::File(path)), write_behind) => {
                Ok(Self::Filed(Filed { path: path.clone(), chunk, write_behind, force: args.force }))
            }
            (_, _) if args.force => {
                wrong("--force is for a file that is there already: only with --bitmap FILE")
            }
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
                "give what the array is to be given: --bitmap internal, --bitmap none, --bitmap FILE or --write-behind",
            ),
        }
    }

    /// Returns when the array has it. A file is none of its own affair.
    pub(crate) async fn give(&self, array: &Array) -> Result<(), BitmapError> {
        match self {
            Self::Bitmap(spec) => array.set_bitmap(spec.clone()).await,
            Self::Filed(filed) => {
                let label = filed.path.display().to_string();
                array.set_bitmap(filed.spec(BitmapFile { label, id: None })).await
            }
            Self::NoBitmap => array.remove_bitmap().await,
            Self::WriteBehind(count) => array.set_write_behind(*count).await,
        }
    }

    pub(crate) fn request(&self) -> Result<Ask, Failure> {
        Ok(match self {
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
    pub(crate) fn described(&self, array: &str) -> String {
        let has = |at: &str, behind: Option<u32>| match behind {
            None | Some(0) => format!("{array} has a write-intent bitmap now{at}\n"),
            Some(count) => {
                format!("{array} has a write-intent bitmap now{at}, and lets {count} writes lag behind\n")
            }
        };
        match self {
            Self::Bitmap(spec) => has("", spec.write_behind),
            Self::Filed(filed) => has(&in_file(&filed.path), filed.write_behind),
            Self::NoBitmap => format!("{array} has no write-intent bitmap any more\n"),
            Self::WriteBehind(0) => format!("{array} lets no writes lag behind any more\n"),
            Self::WriteBehind(count) => format!("{array} lets {count} writes lag behind now\n"),
        }
    }
}

fn in_file(path: &Path) -> String {
    format!(", in {}: give it with the members from now on (--bitmap)", path.display())
}

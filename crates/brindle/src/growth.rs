//! What an array is given or has taken from it beside its devices: as it is asked for, carried out, and told.

use brindle_array::{Array, BitmapError, BitmapSpec};

use crate::cli::{Bitmap, Grow};
use crate::control::Request;
use crate::failure::Failure;

/// What an array is to have from now on.
#[derive(Clone, Debug)]
pub(crate) enum Growth {
    /// A bitmap beside each superblock.
    Bitmap(BitmapSpec),
    NoBitmap,
    /// So many writes that may lag behind, by the bitmap that it has.
    WriteBehind(u32),
}

impl Growth {
    pub(crate) fn asked(args: &Grow) -> Result<Self, Failure> {
        let chunk = args.bitmap_chunk.map(|chunk| chunk.0);
        let wrong = |why: &str| Err(Failure::Usage(why.to_owned()));
        match (args.bitmap, args.write_behind) {
            (Some(Bitmap::Internal), count) => {
                Ok(Self::Bitmap(BitmapSpec { file: None, chunk, write_behind: count }))
            }
            (_, _) if chunk.is_some() => {
                wrong("--bitmap-chunk says how a bitmap is to be: only with --bitmap internal")
            }
            (Some(Bitmap::None), Some(_)) => wrong(
                "--write-behind needs a bitmap, which tells what members lack that lag: not with --bitmap none",
            ),
            (Some(Bitmap::None), None) => Ok(Self::NoBitmap),
            (None, Some(count)) => Ok(Self::WriteBehind(count)),
            (None, None) => {
                wrong("say what the array is to be given: --bitmap internal, --bitmap none or --write-behind")
            }
        }
    }

    /// Returns when the array has it.
    pub(crate) async fn give(&self, array: &Array) -> Result<(), BitmapError> {
        match self {
            Self::Bitmap(spec) => array.set_bitmap(spec.clone()).await,
            Self::NoBitmap => array.remove_bitmap().await,
            Self::WriteBehind(count) => array.set_write_behind(*count).await,
        }
    }

    pub(crate) fn request(&self, array: Option<String>) -> Request {
        match self {
            Self::Bitmap(BitmapSpec { chunk, write_behind, .. }) => {
                Request::Bitmap { internal: true, chunk: *chunk, write_behind: *write_behind, array }
            }
            Self::NoBitmap => Request::Bitmap { internal: false, chunk: None, write_behind: None, array },
            Self::WriteBehind(count) => Request::WriteBehind { count: *count, array },
        }
    }

    /// What it is told as, of an array that is named so.
    pub(crate) fn told(&self, array: &str) -> String {
        match self {
            Self::Bitmap(BitmapSpec { write_behind: None | Some(0), .. }) => {
                format!("{array} has a write-intent bitmap now\n")
            }
            Self::Bitmap(BitmapSpec { write_behind: Some(write_behind), .. }) => {
                format!("{array} has a write-intent bitmap now, and lets {write_behind} writes lag behind\n")
            }
            Self::NoBitmap => format!("{array} has no write-intent bitmap any more\n"),
            Self::WriteBehind(0) => format!("{array} lets no writes lag behind any more\n"),
            Self::WriteBehind(count) => format!("{array} lets {count} writes lag behind now\n"),
        }
    }
}

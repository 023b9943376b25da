//! Where a write-intent bitmap is to be, and files that have one.

use std::path::PathBuf;

use clap::Args;

/// Where a bitmap can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bitmap {
    /// Beside each superblock.
    Internal,
    /// No bitmap.
    None,
    /// In a file.
    File(PathBuf),
}

impl std::str::FromStr for Bitmap {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "internal" => Ok(Self::Internal),
            "none" => Ok(Self::None),
            // As with mdadm, so that a word that was mistyped makes no file.
            path if path.contains('/') && !path.ends_with('/') => Ok(Self::File(path.into())),
            word => Err(format!("give internal, none, or a file with a '/' in its name, as in ./{word}")),
        }
    }
}

/// Write-intent bitmaps in files.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// The file that has the array's write-intent bitmap, if one does: no superblock names it. Without it all of an array is resynced that
    /// was not stopped cleanly, and the file is out of date once something was written. Of several arrays each file says which it is of
    #[arg(long = "bitmap", id = "given_bitmap", value_name = "FILE", value_parser = given_file)]
    pub(crate) bitmaps: Vec<PathBuf>,
}

fn given_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "internal" | "none" => Err(format!(
            "here it names the file of a bitmap; a file of that name is ./{text}, and what an array has beside its superblocks is found"
        )),
        path => Ok(path.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_no_file() {
        assert_eq!("internal".parse(), Ok(Bitmap::Internal));
        assert_eq!("none".parse(), Ok(Bitmap::None));
        for path in ["./none", "/run/bits", "a/b"] {
            assert_eq!(path.parse(), Ok(Bitmap::File(path.into())));
        }
        for wrong in ["", "bits", "Internal", "lockless", "folder/"] {
            assert!(wrong.parse::<Bitmap>().is_err(), "{wrong}");
        }
        assert!(given_file("bits").is_ok() && given_file("internal").is_err() && given_file("none").is_err());
    }
}

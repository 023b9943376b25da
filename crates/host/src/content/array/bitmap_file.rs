//! Moves a bitmap to a file. The file is made first, in a thread, since its file system may hang.

use std::path::PathBuf;

use brindle_array::{Array, BitmapError, BitmapSpec};
use brindle_io::MemberId;

use super::ServedArray;
use crate::content::Host;
use crate::error::HostError;
use crate::world::NewBitmapFile;

/// The file that has an array's bitmap.
fn bitmap_file(array: &Array) -> Option<MemberId> {
    array.detail().bitmap?.file?.id
}

impl ServedArray {
    /// Makes a file, and has the array keep its bitmap there.
    pub(super) async fn file_bitmap(
        &self,
        host: &dyn Host,
        path: PathBuf,
        spec: BitmapSpec,
        force: bool,
    ) -> Result<(), HostError> {
        let name = self.name().to_owned();
        let refused = |source| HostError::Bitmap { name: name.clone(), source };
        let engine = self.array().clone();
        let bytes = engine.bitmap_file_bytes(spec.chunk, &path.display().to_string()).map_err(refused)?;
        let made = host.devices().make_bitmap(NewBitmapFile { path, bytes, force, known: host.known() });
        let made = made.await?;
        if !host.has(self) {
            host.devices().unmake_bitmap(made).await;
            return Err(HostError::Stopped(name));
        }
        let before = bitmap_file(&engine);
        let spec = BitmapSpec { file: Some(made.file.clone()), ..spec };
        match self.grow(async move { engine.set_bitmap(spec).await }).await {
            Ok(()) => host.devices().close(before.as_slice()).await,
            // It may go there yet.
            Err(why @ HostError::Busy(_)) => return Err(why),
            Err(why) => {
                host.devices().unmake_bitmap(made).await;
                return Err(why);
            }
        }
        Ok(())
    }

    /// Gives the array something beside its devices, and closes the file that had its bitmap, if none does now.
    pub(super) async fn grow_and_close(
        &self,
        host: &dyn Host,
        work: impl Future<Output = Result<(), BitmapError>> + 'static,
    ) -> Result<(), HostError> {
        let before = bitmap_file(self.array());
        self.grow(work).await?;
        if bitmap_file(self.array()) != before {
            // The file is closed in the background.
            drop(host.io().spawn(host.devices().close(before.as_slice())));
        }
        Ok(())
    }
}

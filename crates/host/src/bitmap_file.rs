//! Moves a bitmap to a file. The file is made first, in a thread, since its file system may hang.

use std::path::PathBuf;
use std::rc::Rc;

use brindle_array::{Array, BitmapError, BitmapSpec};
use brindle_io::MemberId;

use crate::error::HostError;
use crate::exported::Exported;
use crate::service::Service;
use crate::world::NewBitmapFile;

/// The file that has an array's bitmap.
fn bitmap_file(array: &Array) -> Option<MemberId> {
    array.detail().bitmap?.file?.id
}

impl Service {
    /// Makes a file, and has an array keep its bitmap there.
    pub(crate) async fn file_bitmap(
        &self,
        array: &Rc<Exported>,
        path: PathBuf,
        spec: BitmapSpec,
        force: bool,
    ) -> Result<(), HostError> {
        let name = array.name().to_owned();
        let refused = |source| HostError::Bitmap { name: name.clone(), source };
        let engine = array.array().clone();
        let bytes = engine.bitmap_file_bytes(spec.chunk, &path.display().to_string()).map_err(refused)?;
        let made = self.devices.make_bitmap(NewBitmapFile { path, bytes, force, known: self.known() });
        let made = made.await?;
        if self.array(&name).is_none() {
            self.devices.unmake_bitmap(made).await;
            return Err(HostError::Stopped(name));
        }
        let before = bitmap_file(&engine);
        let spec = BitmapSpec { file: Some(made.file.clone()), ..spec };
        match array.grow(async move { engine.set_bitmap(spec).await }).await {
            Ok(()) => self.devices.close(before.as_slice()).await,
            // It may go there yet.
            Err(why @ HostError::Busy(_)) => return Err(why),
            Err(why) => {
                self.devices.unmake_bitmap(made).await;
                return Err(why);
            }
        }
        Ok(())
    }

    /// Gives an array something beside its devices, and lets the file go that had its bitmap, if none does now.
    pub(crate) async fn grow(
        &self,
        array: &Exported,
        work: impl Future<Output = Result<(), BitmapError>> + 'static,
    ) -> Result<(), HostError> {
        let before = bitmap_file(array.array());
        array.grow(work).await?;
        if bitmap_file(array.array()) != before {
            // The file is closed in the background.
            drop(self.io.spawn(self.devices.close(before.as_slice())));
        }
        Ok(())
    }
}

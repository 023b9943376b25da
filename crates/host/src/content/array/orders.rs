//! The orders that an array carries out.

use std::rc::Rc;

use brindle_array::BitmapSpec;

use super::ServedArray;
use super::background::Speeds;
use crate::answers::{Effects, RequestOutcome};
use crate::content::{Host, not_for};
use crate::control::{Ask, BitmapPlace};
use crate::error::HostError;
use crate::world::Coming;

impl ServedArray {
    /// Carries out an order, and gives the status after it.
    pub(super) async fn obey(
        self: &Rc<Self>,
        ask: Ask,
        host: &dyn Host,
    ) -> Result<RequestOutcome, HostError> {
        let done = match ask {
            Ask::Fail { member } => {
                let failed = self.fail(&member).await;
                host.publish();
                failed?;
                Effects::default()
            }
            Ask::Flag { member, flag, clear } => {
                self.flag(&member, flag, clear).await?;
                Effects::default()
            }
            Ask::Action { action, max_speed, min_speed } => {
                self.act(action, Speeds { max: max_speed, min: min_speed }).await?;
                Effects::default()
            }
            Ask::Add { devices, force, re_add } => self.add(host, devices, Coming { force, re_add }).await?,
            Ask::Replace { member, with, force } => self.replace(host, &member, with, force).await?,
            Ask::Remove { devices } => return self.remove(host, &devices).await,
            Ask::Bitmap { place, chunk, write_behind, force } => {
                let spec = BitmapSpec { file: None, chunk, write_behind };
                self.set_bitmap(host, place, spec, force).await?;
                Effects::default()
            }
            Ask::WriteBehind { count } => {
                let engine = self.array().clone();
                self.grow(async move { engine.set_write_behind(count).await }).await?;
                Effects::default()
            }
            ask => return Err(not_for(&**self, &ask)),
        };
        Ok(host.done(&**self, done))
    }

    async fn set_bitmap(
        &self,
        host: &dyn Host,
        place: BitmapPlace,
        spec: BitmapSpec,
        force: bool,
    ) -> Result<(), HostError> {
        let engine = self.array().clone();
        match place {
            BitmapPlace::File { path } => self.file_bitmap(host, path, spec, force).await,
            BitmapPlace::None => self.grow_and_close(host, async move { engine.remove_bitmap().await }).await,
            BitmapPlace::Internal => {
                self.grow_and_close(host, async move { engine.set_bitmap(spec).await }).await
            }
        }
    }
}

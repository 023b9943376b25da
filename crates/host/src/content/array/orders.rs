//! The orders that an array carries out.

use std::rc::Rc;

use brindle_array::{BitmapSpec, GrowSpec};

use brindle_layout::Level;

use super::ServedArray;
use super::background::Speeds;
use crate::answers::{Effects, RequestOutcome};
use crate::content::{Host, not_for};
use crate::control::{Ask, BitmapPlace};
use crate::error::HostError;
use crate::world::Coming;

/// The shape that is asked for.
fn shape(raid_devices: Option<u16>, level: Option<i32>, coming: usize) -> Result<GrowSpec, String> {
    match (raid_devices, level) {
        (Some(count), None) => Ok(GrowSpec::Members { count, coming }),
        (None, Some(level)) => {
            let level = Level::from_md(level).map_err(|why| why.to_string())?;
            Ok(GrowSpec::Level { level, coming })
        }
        _ => Err("another number of members or another level has to be asked for, and not both".to_owned()),
    }
}

impl ServedArray {
    /// Carries out an order, and gives the status after it.
    pub(super) async fn obey(
        self: &Rc<Self>,
        ask: Ask,
        shared: &Rc<dyn Host>,
    ) -> Result<RequestOutcome, HostError> {
        let host = &**shared;
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
            Ask::Resize { size, assume_clean, force, dry_run } => {
                let spec = GrowSpec::Size { component: size, assume_clean, force };
                self.regrow(shared, spec, dry_run).await?
            }
            Ask::Reshape { raid_devices, level, add, force, dry_run } => {
                let spec = |coming| {
                    let spec = shape(raid_devices, level, coming);
                    spec.map_err(|why| HostError::Refused { name: self.name().to_owned(), why })
                };
                // Nothing is added for what is refused.
                self.planned(spec(add.len())?)?;
                match (dry_run, add.is_empty()) {
                    (true, _) => self.regrow(shared, spec(add.len())?, true).await?,
                    (false, true) => self.regrow(shared, spec(0)?, false).await?,
                    (false, false) => {
                        let joined = self.add(host, add, Coming { force, re_add: false }).await?.joined;
                        Effects { joined, ..self.regrow(shared, spec(0)?, false).await? }
                    }
                }
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

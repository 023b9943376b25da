//! A write-intent bitmap comes to a running array, or goes: in what order that is on record. The rules stand at the head of
//! [`crate::bitmap`].

use std::rc::Rc;

use brindle_layout::Geometry;
use brindle_volume::VolumeError;

use super::change::Changing;
use super::{Keeper, StateChange};
use crate::bitmap::Bitmap;
use crate::events::{EventKind, Note, Operation};
use crate::ledger::{BitmapError, BitmapSpec};

/// From now on changes are put on record in this bitmap, or in none; so many are under way.
pub(crate) type Install = Box<dyn Fn(Option<Rc<Bitmap>>, u32)>;

impl Keeper {
    /// The array has a write-intent bitmap when this returns, and that is on record. It is `install`ed once it stands on all
    /// members, before a record names it.
    ///
    /// # Errors
    /// A [`BitmapError`]. Where the array could not record it, the next record of this run may.
    pub(crate) async fn add_bitmap(
        &self,
        geometry: Geometry,
        spec: BitmapSpec,
        install: Install,
    ) -> Result<(), BitmapError> {
        let added = self.change(async move |keeper| {
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
            keeper.settle_others().await?;
            let bitmap = match keeper.ledger.make_bitmap(&geometry, spec) {
                Ok(bitmap) => bitmap,
                Err(why) => return Ok(Some(why)),
            };
            if let Err(why) = keeper.spread(&bitmap).await {
                keeper.ledger.forget_bitmap();
                bitmap.retire().await;
                return Err(why);
            }
            // Whoever begins to write from here on is on record in it.
            install(Some(bitmap), keeper.writes.get());
            keeper.ledger.name_bitmap(true);
            keeper.commit().await?;
            keeper.note(Note::array(EventKind::BitmapAdded));
            Ok(None)
        });
        added.await?.map_or(Ok(()), Err)
    }

    /// The array has no write-intent bitmap when this returns, and that is on record: until then it is kept up to date.
    ///
    /// # Errors
    /// A [`BitmapError`]: then the bitmap is kept.
    pub(crate) async fn remove_bitmap(&self, install: Install) -> Result<(), BitmapError> {
        let removed = self.change(async move |keeper| {
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
            keeper.settle_others().await?;
            if let Some(label) = keeper.guided() {
                return Ok(Some(BitmapError::Guides { label }));
            }
            let Some(bitmap) = keeper.ledger.name_bitmap(false) else {
                return Ok(Some(BitmapError::Absent));
            };
            if let Err(why) = keeper.commit().await {
                keeper.ledger.name_bitmap(true);
                return Err(why);
            }
            install(None, keeper.writes.get());
            keeper.ledger.forget_bitmap();
            bitmap.retire().await;
            keeper.note(Note::array(EventKind::BitmapRemoved));
            Ok(None)
        });
        removed.await?.map_or(Ok(()), Err)
    }

    /// So many writes may lag behind on write-mostly members when this returns, and all of those say so: `changed` is told once that
    /// is so.
    ///
    /// # Errors
    /// A [`BitmapError`]. After that of a member some members may say so already, and the next record of this run tells the others.
    pub(crate) async fn set_write_behind(
        &self,
        count: u32,
        changed: impl Fn() + 'static,
    ) -> Result<(), BitmapError> {
        let set = self.change(async move |keeper| {
            let _changing = Changing::begin(&keeper.changing, StateChange::Recovery);
            keeper.settle_others().await?;
            let Some(bitmap) = keeper.ledger.bitmap() else { return Ok(Some(BitmapError::Absent)) };
            if bitmap.write_behind() != count {
                bitmap.set_write_behind(count);
                keeper.spread(&bitmap).await?;
                keeper.note(Note::array(EventKind::WriteBehindSet));
            }
            changed();
            Ok(None)
        });
        set.await?.map_or(Ok(()), Err)
    }

    /// What else is to be recorded is, and nothing that was given up may still land on a member. Whoever calls has the turn.
    async fn settle_others(&self) -> Result<(), VolumeError> {
        self.refuse_if_closed()?;
        self.bring_up().await?;
        self.check_held()?;
        if self.unrecorded.get() || !self.ledger.is_settled() { self.commit().await } else { Ok(()) }
    }

    /// Writes all of a new bitmap to all members, or what is to be written of another. Who refuses it is out of use, and on record
    /// as that. Whoever calls has the turn.
    async fn spread(&self, bitmap: &Rc<Bitmap>) -> Result<(), VolumeError> {
        loop {
            let refused = bitmap.fly().await;
            self.lose_devices(&refused, Operation::Superblock)?;
            let still = refused.iter().find_map(|&(id, error)| Some((self.role_in_use(id)?, error)));
            if let Some((role, error)) = still {
                return Err(VolumeError::of_member(role, error));
            }
            if self.unrecorded.get() || !self.ledger.is_settled() {
                // Nothing was taken by all while somebody's loss was not on record.
                self.commit().await?;
            } else if refused.is_empty() && bitmap.is_whole() {
                return Ok(());
            }
        }
    }

    /// How messages name a member that is being given only what the bitmap says that it missed.
    fn guided(&self) -> Option<String> {
        let device = |role| self.members.device(role).map(|device| device.id);
        let mut devices = (0..self.members.len()).filter_map(device);
        let guided = devices.find(|&id| self.ledger.is_guided(id))?;
        Some(self.ledger.label(guided).unwrap_or_else(|| guided.to_string()))
    }
}

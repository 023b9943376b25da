//! Records that a write-intent bitmap is added to a running array, moved or removed, in an order that survives
//! crashes. The rules stand at the head of [`super`].

use std::rc::Rc;

use crate::events::{EventKind, Note};
use brindle_io::MemberId;
use brindle_layout::Geometry;
use brindle_members::events::{Cause, Operation};
use brindle_volume::VolumeError;

use super::IntentBitmap;
use crate::keeper::{Keeper, StateChange};
use crate::ledger::{BitmapError, BitmapSpec, Named};

/// Makes this bitmap the array's, or none. The number is that of the changes under way.
pub(crate) type Install = Box<dyn Fn(Option<Rc<dyn IntentBitmap>>, u32)>;

impl Keeper {
    /// The array has such a write-intent bitmap when this returns, in the place of the one that it had, and that is on record. It is
    /// `install`ed then.
    ///
    /// # Errors
    /// A [`BitmapError`]: then the array has the bitmap that it had, or none where that stood in the same place. Where the array could
    /// not record it, superblocks may name the new one, whose bits are all set, until the next record.
    pub(crate) async fn give_bitmap(
        &self,
        geometry: Geometry,
        spec: BitmapSpec,
        install: Install,
    ) -> Result<(), BitmapError> {
        let given = self.change(async move |keeper| {
            let _changing = keeper.begin_change(StateChange::Recovery);
            keeper.settle_others().await?;
            if keeper.ledger.make_room_for_bitmap(&geometry, &spec) {
                keeper.commit().await?;
            }
            let mut given = keeper.make_way(&geometry, &spec, &install).await;
            if given.is_ok() {
                given = keeper.put_in_place(&geometry, &spec, &install).await;
            }
            Ok(given.err())
        });
        given.await?.map_or(Ok(()), Err)
    }

    /// Two bitmaps can't stand in one place: where the array's own does, it goes first.
    async fn make_way(
        &self,
        geometry: &Geometry,
        spec: &BitmapSpec,
        install: &Install,
    ) -> Result<(), BitmapError> {
        let Some(old) = self.ledger.bitmap() else { return Ok(()) };
        let ids = (spec.file.as_ref().map(|file| file.id), old.file().map(|file| file.id));
        if ids.0 != ids.1 {
            return Ok(());
        }
        let file = old.file().map(|file| file.label.clone());
        match (file, spec.chunk) {
            (file, None) => Err(BitmapError::Present { file }),
            (file, Some(chunk)) if chunk == old.tell().0 => Err(BitmapError::Present { file }),
            (Some(label), _) => Err(BitmapError::SameFile { label }),
            (None, _) => {
                // Before anything is given up for it.
                self.ledger.make_bitmap(geometry, spec)?;
                self.ledger.settle_bitmap();
                self.take_away(&old, install).await
            }
        }
    }

    async fn put_in_place(
        &self,
        geometry: &Geometry,
        spec: &BitmapSpec,
        install: &Install,
    ) -> Result<(), BitmapError> {
        let bitmap = self.ledger.make_bitmap(geometry, spec)?;
        if let Err(why) = self.put_on_record(&bitmap).await {
            self.ledger.name_bitmap(Named::Present);
            self.ledger.settle_bitmap();
            bitmap.retire().await;
            return Err(why);
        }
        let old = self.ledger.bitmap();
        self.ledger.settle_bitmap();
        let kind = if old.is_some() { EventKind::BitmapMoved } else { EventKind::BitmapAdded };
        // Writes that begin from here on are recorded in the new bitmap.
        install(Some(bitmap), self.writes.get());
        if let Some(old) = old {
            old.retire().await;
        }
        self.note(Note::of(kind));
        Ok(())
    }

    /// Writes all of a bitmap to its new place, and then superblocks that name it. If the bitmap fails meanwhile,
    /// superblocks name the present one again.
    async fn put_on_record(&self, bitmap: &Rc<dyn IntentBitmap>) -> Result<(), BitmapError> {
        self.spread(bitmap).await?;
        self.ledger.name_bitmap(Named::Next);
        self.commit().await?;
        if !bitmap.has_failed() {
            return Ok(());
        }
        self.ledger.name_bitmap(Named::Present);
        self.commit().await?;
        Err(unusable(&**bitmap))
    }

    /// The array has no write-intent bitmap when this returns, and that is on record: until then it is kept up to date.
    ///
    /// # Errors
    /// A [`BitmapError`]: then the bitmap is kept.
    pub(crate) async fn remove_bitmap(&self, install: Install) -> Result<(), BitmapError> {
        let removed = self.change(async move |keeper| {
            let _changing = keeper.begin_change(StateChange::Recovery);
            keeper.settle_others().await?;
            match keeper.ledger.bitmap() {
                Some(bitmap) => Ok(keeper.take_away(&bitmap, &install).await.err()),
                None => Ok(Some(BitmapError::Absent)),
            }
        });
        removed.await?.map_or(Ok(()), Err)
    }

    /// The array does without its bitmap.
    async fn take_away(&self, bitmap: &Rc<dyn IntentBitmap>, install: &Install) -> Result<(), BitmapError> {
        if let Some(label) = self.guided() {
            return Err(BitmapError::Guides { label });
        }
        self.ledger.name_bitmap(Named::Next);
        if let Err(why) = self.commit().await {
            self.ledger.name_bitmap(Named::Present);
            return Err(why.into());
        }
        install(None, self.writes.get());
        self.ledger.settle_bitmap();
        bitmap.retire().await;
        self.note(Note::of(EventKind::BitmapRemoved));
        Ok(())
    }

    /// The file that has the bitmap is out of use: the array goes on without, once that is on record.
    pub(crate) fn bitmap_file_failed(&self, id: MemberId, why: Cause) {
        let kept = self.ledger.bitmap().filter(|bitmap| bitmap.is_file(id));
        let label = kept.as_ref().and_then(|bitmap| bitmap.file()).map(|file| file.label.clone());
        self.lose_device(id, why);
        self.members.set_change_pending(self.recorded);
        if label.is_some() {
            self.note(Note { label, cause: Some(why), ..Note::of(EventKind::BitmapFailed) });
        }
    }

    /// Sets the limit of write-behind, and returns when all members record it; `changed` is called once then.
    ///
    /// # Errors
    /// A [`BitmapError`]. After that of a member some members may say so already, and the next record of this run tells the others.
    pub(crate) async fn set_write_behind(
        &self,
        count: u32,
        changed: impl Fn() + 'static,
    ) -> Result<(), BitmapError> {
        let set = self.change(async move |keeper| {
            let _changing = keeper.begin_change(StateChange::Recovery);
            keeper.settle_others().await?;
            let Some(bitmap) = keeper.ledger.bitmap() else { return Ok(Some(BitmapError::Absent)) };
            if bitmap.write_behind() != count {
                bitmap.set_write_behind(count);
                if let Err(why) = keeper.spread(&bitmap).await {
                    return Ok(Some(why));
                }
                keeper.note(Note::of(EventKind::WriteBehindSet));
            }
            changed();
            Ok(None)
        });
        set.await?.map_or(Ok(()), Err)
    }

    /// Returns once all other changes are recorded, and no write that was given up may still land on a member. The
    /// caller has the turn.
    async fn settle_others(&self) -> Result<(), VolumeError> {
        self.refuse_if_closed()?;
        self.bring_up().await?;
        self.check_orphans()?;
        if self.members.is_change_pending() || !self.ledger.is_settled() {
            self.commit().await
        } else {
            Ok(())
        }
    }

    /// Writes all of a new bitmap to all members or to its file, or the dirty pages of another. A member that refuses
    /// it is out of use, and on record as that. The caller has the turn.
    async fn spread(&self, bitmap: &Rc<dyn IntentBitmap>) -> Result<(), BitmapError> {
        let is_kept = self.ledger.bitmap().is_some_and(|kept| Rc::ptr_eq(&kept, bitmap));
        loop {
            let refused = bitmap.fly().await;
            if !is_kept && refused.iter().any(|(id, _)| bitmap.is_file(*id)) {
                return Err(unusable(&**bitmap));
            }
            self.lose_devices(&refused, Operation::Superblock)?;
            let still = refused.iter().find_map(|&(id, error)| Some((self.role_in_use(id)?, error)));
            if let Some((role, error)) = still {
                return Err(VolumeError::of_member(role, error).into());
            }
            if self.members.is_change_pending() || !self.ledger.is_settled() {
                // Pages did not count as taken by all while a member's loss was not on record.
                self.commit().await?;
            } else if !is_kept && bitmap.has_failed() {
                return Err(unusable(&**bitmap));
            } else if refused.is_empty() && bitmap.is_whole() {
                return Ok(());
            }
        }
    }

    /// The name in messages of a member that is being recovered by the bitmap.
    fn guided(&self) -> Option<String> {
        let device = |role| self.members.device(role).map(|device| device.id);
        let mut devices = (0..self.members.len()).filter_map(device);
        let guided = devices.find(|&id| self.ledger.is_guided(id))?;
        Some(self.ledger.label(guided).unwrap_or_else(|| guided.to_string()))
    }
}

/// The error for a file that could not take the bitmap.
fn unusable(bitmap: &dyn IntentBitmap) -> BitmapError {
    let label = bitmap.file().map(|file| file.label.clone()).unwrap_or_default();
    BitmapError::File { label, error: bitmap.refusal() }
}

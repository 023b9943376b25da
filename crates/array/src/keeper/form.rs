//! Puts another shape of the array on record, between two of its requests.
//!
//! Nothing is under way meanwhile, and all members hold the same: so whichever of the two shapes a cut leaves on a member, its bytes are
//! where they were. The new one counts as soon as it stands on one member; the others are then one record behind, and are
//! brought up to it by the next run before that changes a byte.

use brindle_io::Duration;
use brindle_layout::Geometry;
use brindle_volume::VolumeError;

use super::{Keeper, StateChange};
use crate::events::{EventKind, Note};
use crate::ledger::{Begin, Form, GrowError, Ledger, State};

/// Pause before a record is tried again that members did not take.
const PAUSE: Duration = Duration::from_secs(1);

/// A shape, and from where on redundancy is in doubt in it.
pub(crate) struct Recast {
    pub(crate) form: Form,
    pub(crate) geometry: Geometry,
    pub(crate) in_doubt: Option<u64>,
    /// Data are to be moved into it; else they are where it says.
    pub(crate) begin: Option<Begin>,
}

impl Keeper {
    /// The array has another shape when this returns, and that is on record. `check` is asked once nothing else is about to change,
    /// `install` as soon as it is on record: from then on another keeper has the record. The caller sees to it that nothing is
    /// written meanwhile.
    ///
    /// # Errors
    /// That of `check`: then nothing has changed. [`GrowError::Volume`]: the array breaks or stops meanwhile; the record may be made by
    /// its end.
    pub(crate) async fn recast(
        &self,
        check: impl Fn() -> Result<Recast, GrowError> + 'static,
        install: impl FnOnce(Recast) + 'static,
    ) -> Result<(), GrowError> {
        let done = self.change(async move |keeper| {
            let _changing = keeper.begin_change(StateChange::Recovery);
            Ok(keeper.recast_in_turn(check, install).await.err())
        });
        done.await?.map_or(Ok(()), Err)
    }

    /// All bytes of the array before a position stand in their new rows, and nothing has gone to them elsewhere since: that is stable and
    /// on record when this returns. It is tried until it is, since a later record says so in any case.
    ///
    /// # Errors
    /// The array breaks, or its run has ended.
    pub(crate) async fn moved_to(&self, position: u64) -> Result<(), VolumeError> {
        self.record_move(move |ledger| ledger.reshaped_to(position)).await
    }

    /// All data have moved: members are on record as having them there.
    ///
    /// # Errors
    /// As of [`Keeper::moved_to`].
    pub(crate) async fn began_at_moved(&self) -> Result<(), VolumeError> {
        self.record_move(|ledger| ledger.begin_at_moved()).await
    }

    async fn record_move(&self, change: impl Fn(&dyn Ledger) + 'static) -> Result<(), VolumeError> {
        let done = self.change(async move |keeper| {
            let _changing = keeper.begin_change(StateChange::Recovery);
            // Before members have it stable, nothing may be staged: any record would say it.
            keeper.flush().await?;
            change(keeper.ledger());
            while let Err(why) = keeper.commit().await {
                if keeper.is_broken() || keeper.is_stopping() || matches!(why, VolumeError::TooManyLost) {
                    return Err(why);
                }
                keeper.io.sleep(PAUSE).await;
            }
            Ok(())
        });
        done.await
    }

    async fn recast_in_turn(
        &self,
        check: impl Fn() -> Result<Recast, GrowError>,
        install: impl FnOnce(Recast),
    ) -> Result<(), GrowError> {
        self.refuse_if_closed()?;
        check()?;
        self.ready.set(false);
        // All that was written is stable and in sync, and on record as that.
        self.settle(self.resync_offset()).await?;
        let recast = check()?;
        if let Some(bitmap) = self.ledger.bitmap() {
            bitmap.retire().await;
        }
        match &recast.begin {
            Some(begin) => self.ledger.begin_reshape(&recast.form, begin),
            None => self.ledger.take_form(&recast.form, &recast.geometry, recast.in_doubt),
        }
        self.state.set(State { dirty: false, resync_offset: recast.in_doubt });
        while let Err(why) = self.commit().await {
            // Some may have it: it is the only shape that is recorded from here on.
            if self.refuse_if_closed().is_err() || matches!(why, VolumeError::TooManyLost) {
                return Err(why.into());
            }
            self.io.sleep(PAUSE).await;
        }
        self.ledger.settle_bitmap();
        if recast.begin.is_none() {
            self.note(Note::of(EventKind::Grown));
        }
        self.hand_over();
        install(recast);
        Ok(())
    }
}

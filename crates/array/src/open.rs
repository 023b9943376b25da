//! Opens an array, and ends its run.

use brindle_io::{Io, Slice};
use brindle_layout::Geometry;
use brindle_members::members::{Device, Members};
use brindle_volume::VolumeError;

use crate::array::{Array, Opening};
use crate::bitmap::clear;
use crate::config::{Access, OpenConfig};
use crate::keeper::StateChange;
use crate::ledger::Ledger;

impl Array {
    /// An array over these members whose state `ledger` keeps. `devices` are in the order of roles; `None` is a missing
    /// member, the others are in sync.
    pub fn kept(
        io: &Io,
        geometry: Geometry,
        devices: Vec<Option<Device>>,
        ledger: Box<dyn Ledger>,
        config: &OpenConfig,
    ) -> Self {
        let io = &io.owned();
        let opening = Opening { geometry, border: None, members: Members::new(io, devices), ledger };
        Self::over(io, opening, config).tried_again().watched().recovered()
    }

    /// An array whose run begins: its tasks watch the members, rebuild lost ones, and clear bits of its bitmap, as
    /// `config` says. `io` is the array's own (see [`Io::owned`]).
    pub fn begin(io: &Io, opening: Opening, config: &OpenConfig) -> Self {
        let array = Self::over(io, opening, config);
        array.0.core.keeper.note_if_exposed();
        array.tried_again().watched().recovered().cleared_lazily()
    }

    /// An array without tasks of its own, to be read before it is opened. `io` is the array's own.
    pub fn to_read(io: &Io, opening: Opening) -> Self {
        let config = OpenConfig { scratch_bytes: 0, ..OpenConfig::new(Access::ReadOnly, || 0) };
        Self::over(io, opening, &config)
    }

    /// Reads bytes of a role's data area from its member alone; `None` if that has none there that are good.
    pub async fn read_member(&self, role: u16, offset: u64, into: &Slice) -> Option<Result<(), VolumeError>> {
        let core = &self.0.core;
        let device = core.members.readable(role, offset + into.len() as u64)?;
        let mut group = core.door(None).ask();
        group.read(device, offset, into);
        let read = group.submit().await;
        Some(if read.is_ok() { Ok(()) } else { read.named() })
    }

    /// Ends the run: refuses new requests, waits for the writes under way, flushes the members and marks the array
    /// clean. Nothing is written to a member any more when this returns, also not for a read that is under way still;
    /// except operations that were given up, and may still land.
    ///
    /// # Errors
    /// The run has ended all the same, and the next one finds the array dirty; unless it is stopped anew, with more success.
    /// - [`VolumeError::TooManyLost`] if the array is broken, or breaks while it stops: its superblocks stay as they
    ///   are.
    /// - [`VolumeError::Member`] if a member that the array can't do without does not make stable what it was given; with
    ///   `TimedOut` if writes to one that were given up may still land, so that its superblock can't be written.
    pub async fn stop(&self) -> Result<(), VolumeError> {
        if let Some(process) = self.process() {
            process.release();
        }
        let core = &self.0.core;
        core.io.hurry();
        // Members may be taken away once this returns.
        core.keeper.channels.end();
        core.keeper.channels.taken().await;
        let stopped = core.keeper.stop().await;
        if core.superseded.get() {
            // It has got another shape meanwhile: the run to be ended is that one's.
            return Box::pin(self.stop()).await;
        }
        if stopped.is_ok() {
            clear::at_end(core).await;
        }
        core.keeper.end().await;
        core.ended.set(true);
        core.members.changed().notify();
        stopped
    }

    /// Takes the member of a role out of use, as if it had failed; returns when that is recorded.
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`], [`VolumeError::Stopping`], [`VolumeError::OutOfRange`] if there is no such role, and
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing changes.
    ///
    /// An error also if a member is out of use but that could not be recorded. [`VolumeError::TooManyLost`] if
    /// members failed meanwhile that the array can't do without; [`VolumeError::Member`] with `TimedOut` if writes to
    /// one that were given up may still land. [`VolumeError::Stopping`] if the array was stopped first.
    pub async fn fail(&self, role: u16) -> Result<(), VolumeError> {
        if role >= self.0.core.members.len() {
            return Err(VolumeError::OutOfRange);
        }
        if self.0.core.config.is_read_only() {
            return Err(VolumeError::ReadOnly);
        }
        if self.0.core.keeper.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        let core = &self.0.core;
        match core.keeper.fail(role).await {
            // It has got another shape meanwhile.
            Err(VolumeError::Stopping) if core.superseded.get() => Box::pin(self.fail(role)).await,
            failed => failed,
        }
    }

    /// The change of the state on disk that is being written, if one is.
    pub fn state_change(&self) -> Option<StateChange> {
        self.0.core.keeper.state_change()
    }

    /// Redundancy is not known to be in sync everywhere: a resync makes it so.
    pub fn needs_resync(&self) -> bool {
        self.0.core.keeper.resync_offset().is_some()
    }
}

//! Targets: a disk each, as unit 0.

use core::cell::{Cell, RefCell};
use core::ops::Deref;
use core::pin::Pin;
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;
use brindle_volume::Volume;

use crate::gate::Gate;
use crate::scsi::reservation::{Effects, Nexus, Out, Parameters, Reservations};
use crate::scsi::{Action, Identity, Sense, Shape, Status, Unit};
use crate::session::Offered;

/// The outcome of keeping registrations: `Err` if they could not be made stable.
pub type Keeping = Pin<Box<dyn Future<Output = Result<(), ()>>>>;

/// Keeps registrations of a unit over a loss of power: the text, or none any more. It ends once that is stable.
pub type Keep = Rc<dyn Fn(Option<String>) -> Keeping>;

/// The parts of a target.
pub struct TargetSpec<V> {
    /// The target's IQN is `identity.target`.
    pub identity: Identity,
    /// The disk.
    pub volume: Rc<V>,
    /// Registrations that were kept.
    pub reservations: Reservations,
    /// The keeper of registrations; without it they can't outlive the server.
    pub keep: Option<Keep>,
    /// Closed while a nexus holds the disk: other doors then refuse to write.
    pub gate: Rc<Gate>,
}

/// A target.
pub(super) struct Target<V> {
    offered: Offered,
    pub(super) identity: Identity,
    /// Bytes of a logical block.
    pub(super) block: u32,
    pub(super) unit: RefCell<Unit>,
    pub(super) volume: Rc<V>,
    keep: Option<Keep>,
    /// Registrations are being changed.
    changing: Cell<bool>,
    changed: Notify,
}

impl<V> Deref for Target<V> {
    type Target = Offered;

    #[inline]
    fn deref(&self) -> &Offered {
        &self.offered
    }
}

impl<V: Volume> Target<V> {
    /// The target of a name that is offered, which is that of its specification.
    pub(super) fn new(io: &Io, spec: TargetSpec<V>, offered: Offered, most: usize) -> Self {
        let shape = Shape::of(&spec.volume.limits(), most);
        let target = Self {
            offered,
            identity: spec.identity.clone(),
            block: shape.block,
            unit: RefCell::new(Unit::new(spec.identity, shape, spec.reservations)),
            volume: spec.volume,
            keep: spec.keep,
            changing: Cell::new(false),
            changed: Notify::new(io),
        };
        target.look_at_gate();
        target
    }

    /// The volume has another size by now.
    pub(super) fn resized(&self, most: usize) {
        let shape = Shape::of(&self.volume.limits(), most);
        self.unit.borrow_mut().resized(shape);
    }

    /// Notes whether clients of other protocols may write.
    pub(super) fn look_at_gate(&self) {
        self.gate.set(self.unit.borrow().is_reserved());
    }

    /// Changes registrations: reservations that persist are stable before the change is visible. Returns the nexuses
    /// whose commands are to be aborted.
    pub(super) async fn reserve(&self, nexus: &Nexus, action: &Action) -> Result<Vec<Nexus>, Status> {
        let Action::Reserve { action, kind, parameters } = action else { return Ok(Vec::new()) };
        self.changed.until(|| (!self.changing.replace(true)).then_some(())).await;
        let changed = self.change(nexus, *action, *kind, parameters).await;
        self.changing.set(false);
        self.changed.notify();
        self.look_at_gate();
        // The initiator relies on it once it has its answer.
        if self.gate.is_closed() {
            self.volume.others_ended().await;
        }
        changed
    }

    /// Gives what an initiator has registered to one who has proved a name, as far as it is nobody's: files of before don't say whose it is.
    pub(super) async fn adopt(&self, initiator: &str, proved: &str) {
        if self.unit.borrow().adopted(initiator, proved).is_none() {
            return;
        }
        self.changed.until(|| (!self.changing.replace(true)).then_some(())).await;
        let next = self.unit.borrow().adopted(initiator, proved);
        if let Some(next) = next {
            tracing::warn!(
                "{initiator} has registered with {} before there were proved names: that belongs to {proved:?} from now on, who has proved \
                 its name first",
                self.name
            );
            // It holds as long as this server runs, even if it can't be kept, which is said where that is tried.
            if let (Some(keep), Some(text)) = (&self.keep, next.to_file_text()) {
                let _ = keep(Some(text)).await;
            }
            self.unit.borrow_mut().changed(next, &Effects::default());
        }
        self.changing.set(false);
        self.changed.notify();
    }

    async fn change(
        &self,
        nexus: &Nexus,
        action: Out,
        kind: Result<crate::scsi::reservation::Kind, Sense>,
        parameters: &Parameters,
    ) -> Result<Vec<Nexus>, Status> {
        let (next, effects) = self.unit.borrow().change(nexus, action, kind, parameters)?;
        let registers = matches!(action, Out::Register | Out::RegisterIgnoring);
        if registers && parameters.keep && self.keep.is_none() {
            // APTPL where nothing can be kept.
            return Err(Status::Check(Sense::parameter(20)));
        }
        let before = self.unit.borrow().reservations().to_file_text();
        let after = next.to_file_text();
        if before != after
            && let Some(keep) = &self.keep
            && keep(after).await.is_err()
        {
            return Err(Status::Check(Sense::REGISTRATIONS));
        }
        self.unit.borrow_mut().changed(next, &effects);
        Ok(effects.aborts)
    }
}

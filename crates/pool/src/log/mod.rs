//! The log: queues of changes, the room that a batch needs, batches on their way to members, and writes that members refuse.

mod arrange;
pub(crate) mod batch;
pub(crate) mod crew;
pub(crate) mod queue;
pub(crate) mod refusals;
pub(crate) mod room;
pub(crate) mod state;

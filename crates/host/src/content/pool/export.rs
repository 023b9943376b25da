//! A pool that is given away: its next stop says on record that no host has it.
//!
//! The order and the stop are two requests, as of one that is destroyed. An order that no stop follows is forgotten.

use brindle_io::Duration;
use brindle_pool::PoolChangeError;
use brindle_volume::VolumeError;

use super::ServedPool;
use super::volumes::users_left;
use crate::content::{Content, Host};
use crate::error::HostError;

/// Time in which the stop begins that an order to give the pool away is for.
const PATIENCE: Duration = Duration::from_secs(30);

impl ServedPool {
    /// Has the stop that follows give the pool away.
    ///
    /// # Errors
    /// Clients have volumes of it open, and it is not by `force`; or it can't be written to.
    pub(super) async fn export(&self, host: &dyn Host, force: bool) -> Result<(), HostError> {
        if self.pool().is_read_only() {
            return Err(PoolChangeError::from(VolumeError::ReadOnly).into());
        }
        for export in self.export_names().into_iter().filter(|_| !force) {
            let clients = users_left(host, &export).await;
            if clients > 0 {
                return Err(HostError::Open { name: export, clients });
            }
        }
        self.exports_until.set(Some(self.io.now().after(PATIENCE)));
        Ok(())
    }

    /// Whether a stop that begins now gives it away.
    pub(super) fn is_exporting(&self) -> bool {
        self.exports_until.get().is_some_and(|until| self.io.now() < until)
    }
}

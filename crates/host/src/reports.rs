//! The status of what a service serves, and of what it should.

use crate::answers::Volumes;
use crate::exported::Exported;
use crate::pooled::Pooled;
use crate::service::Service;
use crate::status::{ExportStatus, PoolStatus, Report};

impl Service {
    /// The status of one array.
    pub fn status_of(&self, array: &Exported) -> ExportStatus {
        self.with_device(array.report(&self.doors.stats()))
    }

    /// The status of all.
    pub fn status(&self) -> Volumes {
        let stats = self.doors.stats();
        let (arrays, pools) = (self.arrays(), self.pools());
        let arrays =
            arrays.iter().map(|array| Report::Array(Box::new(self.with_device(array.report(&stats)))));
        let pools = pools.iter().map(|pool| Report::Pool(Box::new(self.with_devices(pool.report(&stats)))));
        let mut all: Vec<Report> = arrays.chain(pools).collect();
        let absent = self.absent_among(&all);
        if self.several.get() || !absent.is_empty() || !self.has_served.get() {
            all.extend(absent);
            return Volumes::List(all);
        }
        Volumes::One(all.pop())
    }

    /// The status of all that should be served, and is not one of these.
    fn absent_among(&self, served: &[Report]) -> Vec<Report> {
        let absent: Vec<Report> = {
            let configured = self.configured.borrow();
            configured.iter().filter_map(|one| one.absent_among(served, &self.name)).collect()
        };
        // A name could mean one that is not served: the only array is not meant without its own any more.
        self.several.set(self.several.get() || !absent.is_empty());
        absent
    }

    /// The status of what is not served and is called so.
    pub(crate) fn absent(&self, name: &str) -> Option<Report> {
        if self.configured.borrow().is_empty() {
            return None;
        }
        let Volumes::List(all) = self.status() else { return None };
        let is_it = |report: &&Report| report.name() == name || !name.is_empty() && report.uuid() == name;
        // Volumes that are served come first in the list, so that a name means one of them before one that is absent.
        all.iter().find(is_it).filter(|report| report.is_absent()).cloned()
    }

    /// The status of one pool.
    pub fn status_of_pool(&self, pooled: &Pooled) -> PoolStatus {
        self.with_devices(pooled.report(&self.doors.stats()))
    }

    fn with_device(&self, status: ExportStatus) -> ExportStatus {
        let device = self.attached_to(&status.name).map(|attached| attached.device());
        ExportStatus { device, ..status }
    }

    fn with_devices(&self, status: PoolStatus) -> PoolStatus {
        let prefix = format!("{}/", status.name);
        let attached = self.attachments.there();
        let own = attached.iter().filter(|one| one.export.starts_with(&prefix));
        PoolStatus { devices: own.map(|one| (one.export.clone(), one.device())).collect(), ..status }
    }
}

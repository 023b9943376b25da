//! Other lists of those who may use arrays and pools, while these are served.

use brindle_export::access::AccessList;

use crate::service::Service;

impl Service {
    /// Lets clients in by other lists from now on, each array and pool by that of its name. Ends the connections of those who had another
    /// right before, and tells how many of each name.
    pub fn admit(&self, list: impl Fn(&str) -> AccessList) -> Vec<(String, usize)> {
        let arrays = self.arrays().into_iter().map(|array| {
            let exports = [(array.name().to_owned(), array.target().map(str::to_owned))];
            let ended = self.doors.admit(&exports, array.gate(), list(array.name()));
            (array.name().to_owned(), ended)
        });
        let pools = self.pools().into_iter().map(|pool| {
            let ended = self.doors.admit(&pool.targeted(), &pool.hosted.gate, list(pool.name()));
            (pool.name().to_owned(), ended)
        });
        arrays.chain(pools).collect()
    }
}

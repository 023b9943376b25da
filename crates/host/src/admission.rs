//! Other lists of those who may use contents, while these are served.

use std::rc::Rc;

use brindle_export::access::AccessList;

use crate::content::{Content, Host};
use crate::service::Service;

impl Service {
    /// Lets clients in by other lists from now on, to each content by that of its name. Ends the connections of those who had another
    /// right before, and tells how many of each name.
    pub fn admit(&self, list: impl Fn(&str) -> AccessList) -> Vec<(String, usize)> {
        let admit = |content: &Rc<dyn Content>| {
            let (name, gate) = (content.name().to_owned(), &content.placed().gate);
            let ended = self.doors.admit(&content.export_names(), gate, list(&name));
            (name, ended)
        };
        self.contents().iter().map(admit).collect()
    }
}

//! The status of all that a service serves, and should serve.

use std::rc::Rc;

use crate::answers::{Effects, RequestOutcome, Volumes, answer};
use crate::content::{Content, Host, Seen};
use crate::control::{Reply, Request};
use crate::error::HostError;
use crate::failing::FailingDrives;
use crate::service::Service;
use crate::status::Report;

impl Service {
    /// Does what is asked, and answers. The status that is published before the answer to a command has what was done.
    pub(crate) async fn answer_to(self: Rc<Self>, request: Request, mut reply: Reply) {
        let is_question = request.ask.is_question();
        let descriptor = reply.take_descriptor();
        let outcome = answer(self.ask_with(request, descriptor).await);
        if !is_question {
            self.publish();
        }
        reply.send(outcome);
    }

    /// Has the status of devices tell what is found of their drives.
    pub fn hear_of_drives(&self, failing: FailingDrives) {
        *self.failing.borrow_mut() = failing;
    }

    /// The status of a content.
    pub(crate) fn report_of(&self, content: &dyn Content, seen: &Seen<'_>) -> Report {
        let mut report = content.report(seen);
        self.failing.borrow().note(&mut report);
        report
    }

    /// The status of the content that is meant, or of all.
    pub(crate) fn status_of(&self, name: Option<&str>) -> Result<RequestOutcome, HostError> {
        if let Some(absent) = name.and_then(|name| self.absent(name)) {
            return Ok(RequestOutcome::Volumes(Volumes::One(Some(absent))));
        }
        Ok(match self.called(name)? {
            Some(content) => self.done(&*content, Effects::default()),
            None => RequestOutcome::Volumes(self.status()),
        })
    }

    /// The status of all.
    pub fn status(&self) -> Volumes {
        let attached = self.attachments.there();
        let seen = self.seen(&attached);
        let mut all: Vec<Report> =
            self.contents().iter().map(|content| self.report_of(&**content, &seen)).collect();
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
        // A name could mean one that is not served: the only content is not meant without its own any more.
        self.several.set(self.several.get() || !absent.is_empty());
        absent
    }

    /// The status of a content that is not served, though it should be, and is called so.
    fn absent(&self, name: &str) -> Option<Report> {
        if self.configured.borrow().is_empty() {
            return None;
        }
        let Volumes::List(all) = self.status() else { return None };
        let is_it = |report: &&Report| report.name() == name || !name.is_empty() && report.uuid() == name;
        // Volumes that are served come first in the list, so that a name means one of them before one that is absent.
        all.iter().find(is_it).filter(|report| report.is_absent()).cloned()
    }
}

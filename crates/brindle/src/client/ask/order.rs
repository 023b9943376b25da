//! An order to the server that is meant. A server in the folder of the command gets it at once: it refuses by itself names that are none of
//! its own, and changes nothing then. Of another server the array that a name means is told first, by one report.

use std::path::Path;
use std::time::{Duration, Instant};

use brindle_host::Volumes;
use brindle_host::status::Report;

use super::resolve::{Meant, tell};
use super::{Target, ask, reach, real_name};
use crate::base::failure::Failure;
use crate::client::control::{Answer, Ask, Line, Told};

/// Time for which a connection waits for its order: the server gives it two seconds.
const FRESH: Duration = Duration::from_secs(1);

/// A server that is about to get an order.
pub(crate) struct Order<'a> {
    folder: &'a Path,
    target: &'a Target,
    /// The server's report, if it was asked for one.
    noted: Option<Vec<Report>>,
    /// A connection that has asked nothing yet.
    line: Option<(Line, Instant)>,
}

impl<'a> Order<'a> {
    /// Prints on standard error which array was taken, if it was given to the server in another folder than this command's and is not
    /// named by its UUID or a member.
    pub(crate) fn of(folder: &'a Path, target: &'a Target, wanted: Option<&str>) -> Result<Self, Failure> {
        if let Some(noted) = &target.noted {
            let noted = vec![noted.clone()];
            tell(&noted, target, wanted);
            return Ok(Self { folder, target, noted: Some(noted), line: None });
        }
        let line = reach(folder, &target.server)?;
        if line.is_of_this_folder() {
            return Ok(Self { folder, target, noted: None, line: Some((line, Instant::now())) });
        }
        let noted = Meant::by(line, target, wanted)?.reported;
        Ok(Self { folder, target, noted: Some(noted), line: None })
    }

    /// As [`Order::of`]; a server that does not answer a question now may still carry out an order later.
    pub(crate) fn of_patient(folder: &'a Path, target: &'a Target, wanted: Option<&str>) -> Self {
        Self::of(folder, target, wanted).unwrap_or(Self { folder, target, noted: None, line: None })
    }

    /// The reports by which the array was told.
    pub(crate) fn noted(&self) -> Option<&[Report]> {
        self.noted.as_deref()
    }

    /// The connection for the order.
    pub(crate) fn line(self) -> Result<Line, Failure> {
        match self.line {
            Some((line, since)) if since.elapsed() < FRESH => Ok(line),
            _ => reach(self.folder, &self.target.server),
        }
    }

    /// Gives the order.
    pub(crate) fn give<T: Told>(self, order: Ask) -> Result<Answer<T>, Failure> {
        let array = self.target.array.clone();
        self.line()?.ask(&order.of(array))
    }

    /// Gives an order about a member.
    pub(crate) fn of_member<T: Told>(
        self,
        member: &str,
        order: impl Fn(String) -> Ask,
    ) -> Result<Answer<T>, Failure> {
        if let Some(noted) = &self.noted {
            let member = known_as(noted, member);
            return self.give(order(member));
        }
        let (folder, target) = (self.folder, self.target);
        let refused = match self.give(order(member.to_owned())) {
            Err(Failure::Refused(why)) => why,
            given => return given,
        };
        // It may know the file by its real name; nothing was changed so far.
        let known = reports(folder, target).ok().map(|reports| known_as(&reports, member));
        match known.filter(|known| known != member) {
            Some(known) => reach(folder, &target.server)?.ask(&order(known).of(target.array.clone())),
            None => Err(Failure::Refused(refused)),
        }
    }

    /// Gives an order about devices, of which one is as about a member.
    pub(crate) fn of_devices<T: Told>(
        self,
        names: &[String],
        order: impl Fn(Vec<String>) -> Ask,
    ) -> Result<Answer<T>, Failure> {
        if let [only] = names {
            return self.of_member(only, |name| order(vec![name]));
        }
        // A part of them may be done when another is refused: their names have to be right at once.
        let known = |noted: &[Report]| names.iter().map(|name| known_as(noted, name)).collect();
        let names = match &self.noted {
            Some(noted) => known(noted),
            None => known(&reports(self.folder, self.target)?),
        };
        self.give(order(names))
    }
}

fn reports(folder: &Path, target: &Target) -> Result<Vec<Report>, Failure> {
    let reported = ask::<Volumes>(folder, &target.server, &Ask::Status.of(target.array.clone()))?;
    Ok(reported.into_read().into_all())
}

/// How the server knows a member: by the number of its role, whatever files are called; by the name it was given; else
/// by the real name of the file. Words for several devices are no files.
pub(crate) fn known_as(reports: &[Report], member: &str) -> String {
    let is_word = [brindle_host::FAILED, brindle_host::DETACHED].contains(&member);
    // A file whose name is known is not opened: it may hang.
    if is_word || member.parse::<u16>().is_ok() || reports.iter().any(|report| report.has_device(member)) {
        return member.to_owned();
    }
    real_name(member)
}

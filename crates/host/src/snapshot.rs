//! The last status that the arrays' thread has given. It is available without that thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use crate::answers::Volumes;
use crate::error::HostError;
use crate::metrics::{Families, Moment};
use crate::names::{self, Names};
use crate::status::Report;

/// The last status. A handle: cloning gives the same.
#[derive(Clone)]
pub struct Snapshot {
    last: Arc<Mutex<(Arc<Volumes>, Instant)>>,
    /// The server's name.
    started: SystemTime,
}

impl Snapshot {
    pub(crate) fn new(volumes: Volumes) -> Self {
        Self { last: Arc::new(Mutex::new((Arc::new(volumes), Instant::now()))), started: SystemTime::now() }
    }

    pub(crate) fn publish(&self, volumes: Volumes) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::new(volumes), Instant::now());
    }

    /// The last status and when it was given. The lock is held for no longer than that takes: the arrays' thread may want it.
    fn last(&self) -> (Arc<Volumes>, Instant) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Metrics of all that the server of that name and version serves; `full` for all that there are of each.
    pub fn metrics(&self, server: &str, version: &str, full: bool) -> Families {
        let (volumes, made) = self.last();
        let moment = Moment { age: made.elapsed().as_secs_f64(), started: seconds(self.started) };
        Families::of(server, version, moment, volumes.all(), full)
    }

    /// The devices of all that is served, as they were named.
    pub fn devices(&self) -> Vec<String> {
        let latest = self.last().0;
        let devices = latest.all().iter().flat_map(Report::devices);
        devices.map(|(path, _)| path.to_owned()).collect()
    }

    /// Members that had not answered all when the status was given, and how much each owed: `/dev/sdc (3)`.
    pub fn unanswered(&self) -> Vec<String> {
        let latest = self.last().0;
        let devices = latest.all().iter().flat_map(Report::devices);
        let owing = devices.filter(|(_, in_flight)| *in_flight > 0);
        owing.map(|(path, in_flight)| format!("{path} ({in_flight})")).collect()
    }

    /// The status, or that of one array, which says how old it is. A server of one array has no other.
    pub(crate) fn report(&self, array: Option<&str>, server: &str) -> Result<Volumes, HostError> {
        let (reported, made) = self.last();
        let mut reported = Volumes::clone(&reported);
        let age = made.elapsed().as_secs_f64();
        reported.all_mut().iter_mut().for_each(|status| status.set_stale(age));
        Ok(match meant(&reported, array, server, |_| true)? {
            Some(at) => Volumes::One(Some(reported.all()[at].clone())),
            None => reported,
        })
    }

    /// The array that an order to stop `array` means, or all arrays.
    pub(crate) fn stops(&self, array: Option<&str>, server: &str) -> Result<Stops, HostError> {
        let reported = self.last().0;
        Ok(match meant(&reported, array, server, |report| !report.is_absent())? {
            Some(at) => Stops::One(reported.all()[at].name().to_owned()),
            None => Stops::All,
        })
    }
}

/// The array that is meant, of those that can be; none for all of them. A server of one array is always meant as a whole.
fn meant(
    reported: &Volumes,
    array: Option<&str>,
    server: &str,
    can_be: fn(&Report) -> bool,
) -> Result<Option<usize>, HostError> {
    let Volumes::List(all) = reported else { return Ok(None) };
    let (places, all): (Vec<usize>, Vec<&Report>) =
        all.iter().enumerate().filter(|(_, report)| can_be(report)).unzip();
    let names = |status: &&Report| Names {
        own: status.name().to_owned(),
        uuid: status.uuid().to_owned(),
        devices: status.devices().into_iter().map(|(path, _)| path.to_owned()).collect(),
    };
    let found = names::select(&all.iter().map(names).collect::<Vec<_>>(), array, server)?;
    Ok(found.map(|at| places[at]))
}

/// Seconds since 1970.
fn seconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs() as f64).unwrap_or_default()
}

/// Arrays that are to be stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    All,
    /// The array of that name.
    One(String),
}

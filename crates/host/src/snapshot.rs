//! The last status that the arrays' thread has given. It is available without that thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use serde_json::Value;

use crate::answers::{Looked, Volumes};
use crate::error::HostError;
use crate::metrics::{Families, Moment};
use crate::names::{self, Names};
use crate::status::Report;

/// The last status. A handle: cloning gives the same.
#[derive(Clone)]
pub struct Snapshot {
    last: Arc<Mutex<(Arc<Volumes>, Instant)>>,
    /// The one that was told last to those who look. The arrays' thread never waits for it.
    told: Arc<Mutex<Told>>,
    started: SystemTime,
}

/// A status as it is told, with its number.
struct Told {
    of: Arc<Volumes>,
    number: u64,
    value: Value,
}

impl Told {
    /// Another number only for what is another status: one that is made anew is most often the same.
    fn turn_to(&mut self, volumes: Arc<Volumes>) {
        if Arc::ptr_eq(&self.of, &volumes) {
            return;
        }
        let value = serde_json::to_value(&*volumes).unwrap_or_default();
        if self.value != value {
            self.value = value;
            self.number += 1;
        }
        self.of = volumes;
    }
}

impl Snapshot {
    pub(crate) fn new(volumes: Volumes) -> Self {
        let (volumes, started) = (Arc::new(volumes), SystemTime::now());
        // Numbers of a server that starts anew are none that the one before it has given: none changes once a microsecond.
        let since = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = u64::try_from(since.as_micros()).unwrap_or_default();
        let value = serde_json::to_value(&*volumes).unwrap_or_default();
        let told = Told { of: Arc::clone(&volumes), number, value };
        let last = Mutex::new((volumes, Instant::now()));
        Self { last: Arc::new(last), told: Arc::new(Mutex::new(told)), started }
    }

    pub(crate) fn publish(&self, volumes: Volumes) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (Arc::new(volumes), Instant::now());
    }

    /// The last status and when it was given. The lock is held for no longer than that takes: the arrays' thread may want it.
    fn last(&self) -> (Arc<Volumes>, Instant) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last status, without its content for those who know it by its number.
    pub(crate) fn look(&self, known: Option<u64>) -> Looked {
        let (volumes, made) = self.last();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.turn_to(volumes);
        let is_news = known != Some(told.number);
        Looked {
            number: told.number,
            age: made.elapsed().as_secs_f64(),
            volumes: is_news.then(|| told.value.clone()),
        }
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

    /// The UUIDs of arrays whose data were being moved when the status was given.
    pub fn moving(&self) -> Vec<String> {
        let latest = self.last().0;
        let has = |report: &Report, word| {
            report.array().is_some_and(|array| array.array.state.iter().any(|state| *state == word))
        };
        let moves = |report: &&Report| has(report, "reshaping") && !has(report, "read-only");
        latest.all().iter().filter(moves).map(|report| report.uuid().to_owned()).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volumes(requests: u64) -> Volumes {
        serde_json::from_value(json!([{"name": "a", "array": {}, "requests": requests}])).unwrap()
    }

    #[test]
    fn a_status_has_another_number_only_if_it_is_another() {
        let snapshot = Snapshot::new(volumes(1));
        let first = snapshot.look(None);
        assert_eq!(first.volumes.as_ref().unwrap()[0]["requests"], 1);
        assert!(snapshot.look(Some(first.number)).volumes.is_none());
        snapshot.publish(volumes(1));
        let again = snapshot.look(Some(first.number));
        assert_eq!((again.number, again.volumes), (first.number, None));
        snapshot.publish(volumes(2));
        let second = snapshot.look(Some(first.number));
        assert!(second.number > first.number);
        assert_eq!(second.volumes.unwrap()[0]["requests"], 2);
        assert!(snapshot.look(Some(0)).volumes.is_some());
    }
}

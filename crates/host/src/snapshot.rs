//! The last status that the arrays' thread has given: it can be had without that thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::answers::Volumes;
use crate::error::HostError;
use crate::names::{self, Names};
use crate::status::Report;

/// The last status. A handle: cloning gives the same.
#[derive(Clone)]
pub struct Snapshot(Arc<Mutex<(Volumes, Instant)>>);

impl Snapshot {
    pub(crate) fn new(volumes: Volumes) -> Self {
        Self(Arc::new(Mutex::new((volumes, Instant::now()))))
    }

    pub(crate) fn publish(&self, volumes: Volumes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (volumes, Instant::now());
    }

    /// Members that had not answered all when the status was given, and how much each owed: `/dev/sdc (3)`.
    pub fn owed(&self) -> Vec<String> {
        let latest = &self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        let devices = latest.all().iter().flat_map(Report::devices);
        let owing = devices.filter(|(_, in_flight)| *in_flight > 0);
        owing.map(|(path, in_flight)| format!("{path} ({in_flight})")).collect()
    }

    /// The status, or that of one array, which says how old it is. A server of one array has no other.
    pub(crate) fn told(&self, array: Option<&str>, server: &str) -> Result<Volumes, HostError> {
        let (mut told, made) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let age = made.elapsed().as_secs_f64();
        told.all_mut().iter_mut().for_each(|status| status.set_stale(age));
        Ok(match meant(&told, array, server)? {
            Some(at) => Volumes::One(Some(told.all()[at].clone())),
            None => told,
        })
    }

    /// The meaning of an order to stop `array`, or nothing by name.
    pub(crate) fn stops(&self, array: Option<&str>, server: &str) -> Result<Stops, HostError> {
        let told = &self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        Ok(match meant(told, array, server)? {
            Some(at) => Stops::One(told.all()[at].name().to_owned()),
            None => Stops::All,
        })
    }
}

/// The array that is meant; none for all of them. A server of one array is always meant as a whole.
fn meant(told: &Volumes, array: Option<&str>, server: &str) -> Result<Option<usize>, HostError> {
    let Volumes::List(all) = told else { return Ok(None) };
    let names = |status: &Report| Names {
        own: status.name().to_owned(),
        uuid: status.uuid().to_owned(),
        devices: status.devices().into_iter().map(|(path, _)| path.to_owned()).collect(),
    };
    names::select(&all.iter().map(names).collect::<Vec<_>>(), array, server)
}

/// Arrays that are to be stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    All,
    /// The array of that name.
    One(String),
}

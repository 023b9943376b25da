//! What the arrays' thread last said of the arrays: it can be had without that thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crate::control::Answer;
use crate::report;

/// The last report that the array's thread has made. A handle: cloning gives the same.
#[derive(Clone)]
pub(crate) struct Snapshot(Arc<Mutex<(Value, Instant)>>);

impl Snapshot {
    pub(crate) fn new(report: Value) -> Self {
        Self(Arc::new(Mutex::new((report, Instant::now()))))
    }

    pub(crate) fn publish(&self, report: Value) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (report, Instant::now());
    }

    /// What members had not answered when the report was made: `/dev/sdc (3)`.
    pub(crate) fn owed(&self) -> Vec<String> {
        let latest = &self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        let owed = report::devices(latest).filter_map(|device| {
            let count = device["io"]["in_flight"].as_u64().filter(|&count| count > 0)?;
            Some(format!("{} ({count})", device["path"].as_str()?))
        });
        owed.collect()
    }

    /// The report, or that of one array, which says how old it is. A server of one array has no other.
    pub(crate) fn told(&self, array: Option<&str>, server: &str) -> Answer {
        let (mut told, made) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for report in report::of_arrays_mut(&mut told) {
            report["stale_for"] = json!(made.elapsed().as_secs_f64());
        }
        match report::select(&told, array, server) {
            Ok(Some(report)) => Answer::Ok(report.clone()),
            Ok(None) => Answer::Ok(told),
            Err(why) => Answer::Error(why),
        }
    }

    /// What it means to stop `array`, or nothing by name.
    pub(crate) fn stops(&self, array: Option<&str>, server: &str) -> Stops {
        let told = &self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        match report::select(told, array, server) {
            Ok(Some(report)) => Stops::One(report["name"].as_str().unwrap_or_default().to_owned()),
            Ok(None) => Stops::All,
            Err(why) => Stops::Nothing(why),
        }
    }
}

/// What is to be stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    All,
    /// The array of that name.
    One(String),
    /// What was named is nothing here: why.
    Nothing(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_owe_answers_are_named_those_of_inner_arrays_too() {
        let device = |path: &str, count: u64| json!({"path": path, "io": {"in_flight": count}});
        let snapshot = Snapshot::new(json!({
            "array": {"devices": [device("a+b", 0), device("c", 3)]},
            "arrays": [{"devices": [device("a", 0), device("b", 1)]}],
        }));
        assert_eq!(snapshot.owed(), ["b (1)", "c (3)"]);
        snapshot.publish(json!({"array": {"devices": [device("c", 0)]}, "arrays": []}));
        assert_eq!(snapshot.owed(), Vec::<String>::new());
        let of = |path: &str| json!({"array": {"devices": [device(path, 2)]}, "arrays": []});
        snapshot.publish(json!([of("a"), of("b")]));
        assert_eq!(snapshot.owed(), ["a (2)", "b (2)"]);
    }

    #[test]
    fn an_array_is_stopped_by_any_of_its_names_and_all_by_the_servers() {
        let array = |name: &str, uuid: &str, path: &str| json!({"name": name, "array": {"uuid": uuid, "devices": [{"path": path}]}, "arrays": []});
        let alone = Snapshot::new(array("a", "1:2", "m0"));
        for name in [None, Some("a"), Some("m0")] {
            assert_eq!(alone.stops(name, "a"), Stops::All);
        }
        let two = Snapshot::new(json!([array("a", "1:2", "m0"), array("b", "3:4", "a")]));
        let one = |name: &str| Stops::One(name.to_owned());
        assert_eq!(two.stops(None, "s"), Stops::All);
        assert_eq!(two.stops(Some("s"), "s"), Stops::All);
        // A name counts before a member's path, and an array before its server.
        assert_eq!(two.stops(Some("a"), "a"), one("a"));
        for name in ["b", "3:4", "3-4"] {
            assert_eq!(two.stops(Some(name), "a"), one("b"));
        }
        let Stops::Nothing(why) = two.stops(Some("c"), "s") else { panic!("there is no c") };
        assert!(why.contains("'c'") && why.contains("a, b"), "{why}");
        // It was started with several: what is left is still named, or meant with all.
        let left = Snapshot::new(json!([array("b", "3:4", "a")]));
        assert_eq!((left.stops(None, "a"), left.stops(Some("b"), "a")), (Stops::All, one("b")));
        let Answer::Ok(told) = two.told(Some("b"), "s") else { panic!("it is known") };
        assert!(told["name"] == "b" && told["stale_for"].is_number(), "{told}");
        let Answer::Ok(told) = two.told(None, "s") else { panic!("all are known") };
        assert!(told[0]["stale_for"].is_number() && told[1]["stale_for"].is_number(), "{told}");
    }
}

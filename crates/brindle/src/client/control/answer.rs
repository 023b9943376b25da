//! Answers of servers, each read as the type that answers its question. A server of another version may tell fields that this program
//! does not know, and lack others.

use std::fmt;
use std::ops::Deref;

use brindle_host::control::VERSION;
use brindle_host::metrics::Families;
use brindle_host::opening::Config;
use brindle_host::status::{HistoryReport, Report};
use brindle_host::{Changed, Done, KernelDevice, MountedVolume, Protocol, Volumes};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// An answer: what was read of it, and all that was told. Printed as JSON it is as it was told.
#[derive(Clone, Debug)]
pub(crate) struct Answer<T> {
    read: T,
    told: Value,
}

impl<T: Told> Answer<T> {
    /// # Errors
    /// It is not of this type.
    pub(super) fn read(told: Value) -> Result<Self, serde_json::Error> {
        Ok(Self { read: serde_json::from_value(told.clone())?, told })
    }

    /// The first field that the type lacks, or the answer.
    pub(super) fn unlike(&self) -> Option<Unlike> {
        unlike(&self.told, &self.read.again()?, "")
    }
}

impl<T> Answer<T> {
    pub(crate) fn into_read(self) -> T {
        self.read
    }
}

impl Answer<Volumes> {
    /// The reports as they were told, each by itself.
    pub(crate) fn each_told(&self) -> Vec<AsTold> {
        match &self.told {
            Value::Array(all) => all.iter().cloned().map(AsTold).collect(),
            one => vec![AsTold(one.clone())],
        }
    }
}

/// A report as a server told it, to be printed.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct AsTold(Value);

impl<T> Deref for Answer<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.read
    }
}

impl<T> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.told.serialize(to)
    }
}

/// The type of an answer.
pub(crate) trait Told: DeserializeOwned {
    /// The answer as a server of this program's version would have told it; `None` of a type that has only a part of it.
    fn again(&self) -> Option<Value> {
        None
    }
}

impl Told for Volumes {
    fn again(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

impl Told for Report {}
impl Told for Done {}
impl Told for KernelDevice {}
impl Told for MountedVolume {}
impl Told for Changed {}
impl Told for HistoryReport {}
impl Told for Protocol {}
impl Told for Config {}
impl Told for Families {}
impl Told for IgnoredAny {}

/// A field of an answer that is not as it is in this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unlike {
    Missing(String),
    Unknown(String),
}

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(f, "its answer lacks '{}'", field.escape_debug()),
            Self::Unknown(field) => {
                write!(f, "its answer has '{}', which is not known here", field.escape_debug())
            }
        }
    }
}

fn unlike(told: &Value, again: &Value, path: &str) -> Option<Unlike> {
    match (told, again) {
        (Value::Object(told), Value::Object(again)) => {
            let at = |field: &String| format!("{path}.{field}").trim_start_matches('.').to_owned();
            let missing =
                again.keys().find(|field| !told.contains_key(*field)).map(|field| Unlike::Missing(at(field)));
            let unknown = || {
                told.keys().find(|field| !again.contains_key(*field)).map(|field| Unlike::Unknown(at(field)))
            };
            let below = || told.iter().find_map(|(field, told)| unlike(told, again.get(field)?, &at(field)));
            missing.or_else(unknown).or_else(below)
        }
        (Value::Array(told), Value::Array(again)) => {
            told.iter().zip(again).find_map(|(told, again)| unlike(told, again, path))
        }
        _ => None,
    }
}

/// The versions of both sides, for people.
pub(super) fn versions(theirs: Option<u32>) -> String {
    let theirs = match theirs {
        Some(theirs) => format!("version {theirs}"),
        None => "a version that it does not tell".to_owned(),
    };
    format!("the server speaks {theirs} of the control protocol, and this program version {VERSION}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// Fields that orders tell beside the status.
    const BESIDE: [&str; 5] = ["added", "joined", "removed", "disconnected", "rates"];

    /// Goldens stand for numbers by a word.
    fn with_numbers(value: Value) -> Value {
        match value {
            Value::String(word) if word == "(number)" => json!(1),
            Value::Number(_) => json!(1),
            Value::Array(all) => all.into_iter().map(with_numbers).collect(),
            Value::Object(all) => all
                .into_iter()
                .map(|(field, value)| (field, with_numbers(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other,
        }
    }

    /// Reports of servers anywhere in a golden.
    fn reports(value: &Value, all: &mut Vec<Value>) {
        let has = |part: &str| value.get(part).is_some_and(Value::is_object);
        let is_served = value.get("pid").is_some() && (has("array") || has("pool"));
        if is_served || value.get("not_served").is_some() {
            return all.push(value.clone());
        }
        match value {
            Value::Array(below) => below.iter().for_each(|value| reports(value, all)),
            Value::Object(below) => below.values().for_each(|value| reports(value, all)),
            _ => {}
        }
    }

    #[test]
    fn each_report_that_servers_tell_is_read_without_loss() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens");
        let mut names = Vec::new();
        let apart = serde_json::to_value(brindle_host::status::ExportStatus::default()).unwrap();
        for file in std::fs::read_dir(folder).unwrap().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            // A bundle lacks what is not for everyone.
            if !name.ends_with(".json") || name == "report.json" {
                continue;
            }
            let golden = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
            let mut all = Vec::new();
            reports(&golden, &mut all);
            for mut told in all.into_iter().map(with_numbers) {
                let fields = told.as_object_mut().unwrap();
                BESIDE.iter().for_each(|field| drop(fields.remove(*field)));
                // Goldens leave out some fields that depend on the moment.
                for (field, value) in fields.iter_mut().filter(|(_, value)| **value == json!("apart")) {
                    *value = apart.get(field).cloned().unwrap_or_default();
                }
                if fields.get("refused").is_some_and(Value::is_array) {
                    fields.insert("refused".to_owned(), json!(1));
                }
                // Devices have rates there, too.
                if ["watch.json", "pool-watch.json"].contains(&&*name) {
                    Answer::<Volumes>::read(told).unwrap_or_else(|why| panic!("{name}: {why}"));
                    continue;
                }
                let answer =
                    Answer::<Volumes>::read(told.clone()).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert_eq!(answer.unlike(), None, "{name}");
                assert_eq!(with_numbers(answer.read.again().unwrap()), told, "{name}");
                names.push(name.clone());
            }
        }
        for needed in
            ["status.json", "pool-status.json", "fail.json", "daemon-status.json", "socket-status.json"]
        {
            assert!(names.iter().any(|name| name == needed), "{needed}: {names:?}");
        }
        assert!(names.len() > 15, "{names:?}");
    }

    #[test]
    fn a_field_that_only_one_side_has_is_named() {
        let told = |told: Value| Answer::<Volumes>::read(told).unwrap().unlike();
        let whole = |mut change: Box<dyn FnMut(&mut Value)>| {
            let mut report = serde_json::to_value(brindle_host::status::ExportStatus::default()).unwrap();
            report["array"]["devices"] = json!([brindle_host::status::DeviceStatus::default()]);
            change(&mut report);
            told(report)
        };
        assert_eq!(whole(Box::new(|_| ())), None);
        let missing = whole(Box::new(|report| drop(report["array"].as_object_mut().unwrap().remove("sync"))));
        assert_eq!(missing, Some(Unlike::Missing("array.sync".to_owned())));
        let unknown = whole(Box::new(|report| report["array"]["devices"][0]["io"]["trims"] = json!(3)));
        assert_eq!(unknown, Some(Unlike::Unknown("array.devices.io.trims".to_owned())));
        assert_eq!((told(json!(null)), told(json!([]))), (None, None));
        for wrong in
            [json!(7), json!("x"), json!({}), json!([{"name": "a"}]), json!({"array": 7}), json!([[]])]
        {
            assert!(Answer::<Volumes>::read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}

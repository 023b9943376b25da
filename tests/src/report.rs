//! Golden files of the program's reports: each `--json` report with its exit status, as `tests/goldens/NAME.json` has it.
//!
//! Whatever differs from run to run is made the same first: UUIDs, names of temporary folders, times, counters that depend on
//! how fast the machine is. `BRINDLE_GOLDENS=write` writes the files anew.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::program::Ran;

/// Numbers that differ from run to run, by the key that leads to them or to the list that they are in.
const VARYING: [&str; 30] = [
    "pid",
    "at",
    "created",
    "updated",
    "number",
    "reads",
    "writes",
    "flushes",
    "other",
    "bytes_read",
    "bytes_written",
    "requests",
    "in_flight",
    "given_up",
    "late",
    "slow",
    "slower",
    "oldest",
    "read_latency",
    "write_latency",
    "seconds",
    "corrected",
    "errors",
    "events",
    "bytes",
    "most",
    "limit",
    "lookups",
    "misses",
    "raises_in",
];

/// Events that a slow machine brings about.
const SLOWNESS: [&str; 5] = ["slow", "slower", "as-fast-again", "given-up", "late-answer"];

/// How much of a report depends on the machine or on the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Times, counters and names that differ from run to run.
    Exact,
    /// All numbers and most texts: figures that were measured or simulated. Keys, kinds of values and exit status stay.
    Keys,
}

/// A folder whose name is not the same in every run, and the golden files of what is told of it.
#[derive(Debug)]
pub struct Goldens<'a> {
    folder: &'a Path,
}

impl<'a> Goldens<'a> {
    /// Of reports in which paths in `folder` stand.
    pub fn new(folder: &'a Path) -> Self {
        Self { folder }
    }

    /// The report that was printed, and the exit status, are those of the golden file `name`, but for `apart`: fields of the
    /// report's object, or of those in its list, that depend on the moment.
    ///
    /// # Panics
    /// If not, with both.
    #[track_caller]
    pub fn hold(&self, name: &str, shape: Shape, apart: &[&str], ran: &Ran) {
        let mut report = ran.report();
        let objects = match &mut report {
            Value::Array(reports) => reports.iter_mut().collect(),
            report => vec![report],
        };
        for object in objects {
            for field in apart {
                if let Some(field) = object.get_mut(*field) {
                    *field = json!("apart");
                }
            }
        }
        self.hold_value(name, shape, ran.code, report);
    }

    /// [`Goldens::hold`] for a report that was not printed.
    ///
    /// # Panics
    /// If it is another, with both.
    #[track_caller]
    pub fn hold_value(&self, name: &str, shape: Shape, exit: i32, mut report: Value) {
        self.settle(&mut report, "", shape);
        let reported = json!({"exit": exit, "report": report});
        let file = golden_file(name, "json");
        if is_written() {
            let text = serde_json::to_string_pretty(&reported).expect("plain values");
            std::fs::write(&file, format!("{text}\n")).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            return;
        }
        let text = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let golden: Value =
            serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut differences = Vec::new();
        compare("", &golden, &reported, &mut differences);
        assert!(
            differences.is_empty(),
            "{}: a report that users' programs read has changed. If that is meant, run the test with BRINDLE_GOLDENS=write \
             and tell of it in docs/cli-json.md and CHANGELOG.md:\n{}",
            file.display(),
            differences.join("\n")
        );
    }

    /// The text is that of the golden file `name`, a `.txt`.
    ///
    /// # Panics
    /// If it is another, with the lines where they part.
    #[track_caller]
    pub fn hold_text(&self, name: &str, text: &str) {
        let text = self.settled(text);
        let file = golden_file(name, "txt");
        if is_written() {
            std::fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            return;
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(
            golden == text,
            "{}: this has changed. If that is meant, run the test with BRINDLE_GOLDENS=write:\n{}",
            file.display(),
            parting(&golden, &text)
        );
    }

    /// The report without all that differs from run to run.
    #[must_use]
    pub fn settled_report(&self, mut report: Value, shape: Shape) -> Value {
        self.settle(&mut report, "", shape);
        report
    }

    fn settle(&self, value: &mut Value, key: &str, shape: Shape) {
        match value {
            Value::Object(object) => self.settle_object(object, shape),
            Value::Array(list) => {
                if key == "events" {
                    list.retain(|event| !SLOWNESS.iter().any(|kind| event["kind"] == *kind));
                }
                list.iter_mut().for_each(|one| self.settle(one, key, shape));
                if shape == Shape::Keys || VARYING.contains(&key) && list.iter().all(Value::is_string) {
                    list.dedup();
                }
            }
            Value::Number(_) if shape == Shape::Keys || VARYING.contains(&key) => *value = json!("(number)"),
            // Null or a number, as it happens.
            Value::Null if VARYING.contains(&key) => *value = json!("(number)"),
            Value::String(text) if ["checksum", "folder", "host_name"].contains(&key) => {
                *text = format!("({key})");
            }
            Value::String(text) if shape == Shape::Exact => *text = self.settled(text),
            Value::String(text) if text.chars().any(|c| c.is_ascii_digit() || " /".contains(c)) => {
                *text = "(text)".to_owned();
            }
            _ => {}
        }
    }

    fn settle_object(&self, object: &mut Map<String, Value>, shape: Shape) {
        for (key, value) in object.iter_mut() {
            self.settle(value, key, shape);
        }
    }

    /// Without names of temporary folders and UUIDs.
    fn settled(&self, text: &str) -> String {
        let mut text = text.replace(&*self.folder.to_string_lossy(), "DIR");
        // As mdadm writes them, and as names of arrays.
        for mark in [":", "-"] {
            while let Some(at) = uuid(&text, mark, &[8, 8, 8, 8]) {
                text.replace_range(at..at + UUID, "UUID");
            }
        }
        while let Some(at) = uuid(&text, "-", &[8, 4, 4, 4, 12]) {
            text.replace_range(at..at + POOLS, "UUID");
        }
        text
    }
}

/// Letters of a UUID as mdadm writes it.
const UUID: usize = 35;

/// Letters of a UUID as pools have it.
const POOLS: usize = 36;

/// Where a UUID stands whose parts have so many digits.
fn uuid(text: &str, mark: &str, digits: &[usize]) -> Option<usize> {
    let letters = digits.iter().sum::<usize>() + digits.len() - 1;
    let is_it = |at: &usize| {
        let Some(word) = text.get(*at..*at + letters) else { return false };
        let parts: Vec<&str> = word.split(mark).collect();
        let fits = |(part, digits): (&&str, &usize)| {
            part.len() == *digits && part.bytes().all(|c| c.is_ascii_hexdigit())
        };
        parts.len() == digits.len() && parts.iter().zip(digits).all(fits)
    };
    (0..text.len()).find(is_it)
}

fn golden_file(name: &str, kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(format!("{name}.{kind}"))
}

/// Whether golden files are written anew.
fn is_written() -> bool {
    std::env::var_os("BRINDLE_GOLDENS").is_some_and(|word| word == "write")
}

/// The lines of two texts from the first to the last that is not the same, with some that are before them.
fn parting(golden: &str, text: &str) -> String {
    const BEFORE: usize = 6;
    let (was, is): (Vec<&str>, Vec<&str>) = (golden.lines().collect(), text.lines().collect());
    let begin = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let rest = was.len().min(is.len()) - begin;
    let end = was.iter().rev().zip(is.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let lines = |mark: &str, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("{mark} {line}\n")).collect()
    };
    [
        lines(" ", &was[begin.saturating_sub(BEFORE)..begin]),
        lines("-", &was[begin..was.len() - end]),
        lines("+", &is[begin..is.len() - end]),
    ]
    .concat()
}

/// Where two values are not the same.
fn compare(place: &str, golden: &Value, reported: &Value, differences: &mut Vec<String>) {
    match (golden, reported) {
        (Value::Object(golden), Value::Object(reported)) => {
            for (key, of) in golden {
                compare(&format!("{place}.{key}"), of, reported.get(key).unwrap_or(&GONE), differences);
            }
            for (key, of) in reported.iter().filter(|(key, _)| !golden.contains_key(*key)) {
                differences.push(format!("{place}.{key}: is new: {of}"));
            }
        }
        (Value::Array(golden), Value::Array(reported)) if golden.len() == reported.len() => {
            for (at, (golden, reported)) in golden.iter().zip(reported).enumerate() {
                compare(&format!("{place}[{at}]"), golden, reported, differences);
            }
        }
        (golden, reported) if golden == reported && !std::ptr::eq(reported, &GONE) => {}
        (golden, reported) => {
            let reported =
                if std::ptr::eq(reported, &GONE) { "nothing".to_owned() } else { reported.to_string() };
            differences.push(format!("{place}: was {golden}, is {reported}"));
        }
    }
}

/// Stands for a key that is not there any more: told from null by its place.
static GONE: Value = Value::Null;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let differ = |golden: Value, reported: Value| {
            let mut differences = Vec::new();
            compare("", &golden, &reported, &mut differences);
            differences
        };
        assert_eq!(differ(json!({"a": [1, null]}), json!({"a": [1, null]})), Vec::<String>::new());
        assert_eq!(differ(json!({"a": null}), json!({})), [".a: was null, is nothing"]);
        assert_eq!(
            differ(json!({"a": [1]}), json!({"a": [2], "b": 3})),
            [".a[0]: was 1, is 2", ".b: is new: 3"]
        );
    }

    #[test]
    fn lines_that_part_are_shown() {
        assert_eq!(parting("a\nb\nc\nd\n", "a\nx\nd\n"), "  a\n- b\n- c\n+ x\n");
        assert_eq!(parting("a\n", "a\na\n"), "  a\n+ a\n");
    }

    #[test]
    fn what_differs_from_run_to_run_is_made_the_same() {
        let goldens = Goldens::new(Path::new("/tmp/x"));
        let settled = |mut value: Value, shape| {
            goldens.settle(&mut value, "", shape);
            value
        };
        let report = json!({"pid": 7, "size": 8, "path": "/tmp/x/m0", "uuid": "01234567:89abcdef:01234567:89abcdef",
            "of": "pool 01234567-89ab-cdef-0123-456789abcdef", "events": [{"kind": "slow"}, {"kind": "broken"}]});
        assert_eq!(
            settled(report, Shape::Exact),
            json!({"pid": "(number)", "size": 8, "path": "DIR/m0", "uuid": "UUID", "of": "pool UUID",
                "events": [{"kind": "broken"}]})
        );
        let figures = json!({"size": 8, "of": [1.5, 2], "text": "8 drives", "level": "raidz", "is": true});
        let kept =
            json!({"size": "(number)", "of": ["(number)"], "text": "(text)", "level": "raidz", "is": true});
        assert_eq!(settled(figures, Shape::Keys), kept);
    }
}

//! Changes bytes and looks which fields change with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::page::{Bits, Meaning, Row};

/// Fields and their values, read from the long form of `Debug`: `reshape.position` and so on. Elements of a list
/// share the list's name.
fn flatten(value: &impl Debug) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    // Names of the fields that are open, and how far each is indented.
    let mut open: Vec<(usize, String)> = Vec::new();
    for line in format!("{value:#?}").lines() {
        let indent = line.len() - line.trim_start().len();
        open.retain(|(of, _)| *of < indent);
        let (name, value) = match line.trim().split_once(": ") {
            Some((name, value)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                open.push((indent, name.to_owned()));
                (true, value)
            }
            _ => (false, line.trim()),
        };
        let path: Vec<&str> = open.iter().map(|(_, name)| name.as_str()).collect();
        // Closing brackets say nothing, and belong to nobody.
        if name || !value.chars().all(|c| "[](){},".contains(c)) {
            let text = fields.entry(path.join(".")).or_default();
            text.push_str(value);
            text.push(' ');
        }
    }
    fields
}

fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
    let names = before.keys().chain(after.keys());
    names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

/// Bytes of a row that are tried: all, or the first and last of a long one.
fn tried(row: &Row<'_>) -> Vec<usize> {
    // The first entries stand for a table whose length another field tells.
    let width = row.width.unwrap_or(4);
    (0..width).filter(|byte| *byte < 192 || *byte >= width - 8).collect()
}

/// Flips every bit of every field of the structure at `base` of `bytes`; `sum` then corrects the checksum. What is
/// refused or changes must be what the row says.
pub(crate) fn check_fields<T: Debug, E: Debug>(
    rows: &[Row<'_>],
    base: usize,
    bytes: &[u8],
    sum: impl Fn(&mut [u8]),
    parse: impl Fn(&[u8]) -> Result<T, E>,
) {
    let before = flatten(&parse(bytes).unwrap());
    for row in rows {
        let mut effects = BTreeSet::new();
        for byte in tried(row) {
            for bit in 0..8 {
                let mut poked = bytes.to_vec();
                poked[base + row.offset + byte] ^= 1 << bit;
                let own = row.meaning == Meaning::Checked && row.name.contains("sum");
                if !own {
                    sum(&mut poked);
                }
                let place = format!("{} byte {byte} bit {bit}", row.name);
                match (&row.meaning, parse(&poked)) {
                    (Meaning::Checked, Ok(read)) => panic!("{place}: accepted as {read:?}"),
                    (Meaning::Kept, Err(error)) => panic!("{place}: {error:?}"),
                    (_, Ok(read)) => {
                        effects.extend(check_change(row, &place, &changed(&before, &flatten(&read))));
                    }
                    (_, Err(_)) => {}
                }
            }
        }
        if let Meaning::Fields(fields) = &row.meaning {
            let silent: Vec<_> = fields.iter().filter(|field| !effects.contains(**field)).collect();
            assert!(silent.is_empty(), "{}: no bit of it changes {silent:?}", row.name);
        }
    }
}

/// The documented fields that changed; nothing else may have.
fn check_change<'a>(row: &Row<'a>, place: &str, changed: &BTreeSet<String>) -> BTreeSet<&'a str> {
    let fields: &[&'a str] = if let Meaning::Fields(fields) = &row.meaning { fields } else { &[] };
    let within = |name: &str, field: &str| {
        name == field || name.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'))
    };
    for name in changed {
        assert!(fields.iter().any(|field| within(name, field)), "{place}: changes {name}");
    }
    fields.iter().filter(|field| changed.iter().any(|name| within(name, field))).copied().collect()
}

/// Flips every bit of a number, each of which changes the field that its row names and no other.
pub(crate) fn check_bits<T: Debug>(rows: &[Bits<'_>], number: u64, parse: impl Fn(u64) -> T) {
    let before = flatten(&parse(number));
    for Bits { bits, name, field } in rows {
        for bit in bits.0..=bits.1 {
            let after = flatten(&parse(number ^ (1 << bit)));
            let changed: Vec<String> = changed(&before, &after).into_iter().collect();
            assert_eq!(changed, [*field], "{name}: bit {bit}");
        }
    }
}

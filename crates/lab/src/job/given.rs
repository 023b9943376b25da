//! Options as they were given, which reports repeat.

/// An option as it was given, by fio's first name for it and with variables expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// fio's first name: `rw` for `readwrite`.
    pub name: String,
    /// The value.
    pub value: String,
}

/// Puts an option into a list; the last word about it counts. Words without a value are left out, as fio's reports do.
pub(super) fn note(list: &mut Vec<Given>, name: &str, value: Option<&str>) {
    let Some(value) = value.map(str::to_owned) else { return };
    match list.iter_mut().find(|given| given.name == name) {
        Some(given) => given.value = value,
        None => list.push(Given { name: name.to_owned(), value }),
    }
}

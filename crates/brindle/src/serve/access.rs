//! The file that says who may use which array.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;

use brindle_export::Gate;
use brindle_export::access::{AccessList, Rule};
use brindle_host::Doors;
use brindle_host::mailbox::Receiver;

use crate::failure::Failure;

/// Rules, each with the array that it is for; those without one are for all.
#[derive(Debug)]
pub(super) struct AccessFile(Vec<(Option<String>, Rule)>);

/// An array whose clients a file names.
pub(super) struct NamedAccess {
    pub(super) array: String,
    pub(super) target: Option<String>,
    pub(super) gate: Rc<Gate>,
}

/// Lets clients in as each file has it that comes.
pub(super) async fn admit(files: Receiver<AccessFile>, doors: Doors, arrays: Vec<NamedAccess>) {
    loop {
        let access = files.next().await;
        for NamedAccess { array, target, gate } in &arrays {
            let ended = doors.admit(array, target.as_deref(), gate, access.of(array));
            tracing::info!(array, ended, "connections of those whose right is another were ended");
        }
    }
}

impl AccessFile {
    /// Reads the file; `arrays` are those that are served.
    pub(super) fn read(path: &Path, arrays: &[impl AsRef<str>]) -> Result<Self, Failure> {
        let arrays: &Vec<&str> = &arrays.iter().map(AsRef::as_ref).collect();
        let shown = path.display();
        let fail = |source| Failure::system(format!("{shown}"), source);
        let meta = fs::metadata(path).map_err(fail)?;
        if meta.permissions().mode() & 0o022 != 0 {
            return Err(Failure::Refused(format!(
                "{shown} says who may use the arrays, and others may write to it (mode {:04o}): chmod 644 it",
                meta.mode() & 0o7777
            )));
        }
        let text = fs::read_to_string(path).map_err(fail)?;
        let access = parse(&text, arrays)
            .map_err(|(line, why)| Failure::Refused(format!("{shown}, line {line}: {why}")))?;
        for array in arrays {
            if access.of(array).0.is_empty() {
                eprintln!("brindle: {shown} has no line for {array}: nobody may use it");
            }
        }
        Ok(access)
    }

    /// The rules of an array.
    pub(super) fn of(&self, array: &str) -> AccessList {
        let is_for = |of: &Option<String>| of.as_deref().is_none_or(|of| of == array);
        let rules = self.0.iter().filter(|(of, _)| is_for(of));
        AccessList(rules.map(|(_, rule)| rule.clone()).collect())
    }
}

/// The rules of a text, or the number of the line that is none and why.
fn parse(text: &str, arrays: &[&str]) -> Result<AccessFile, (usize, String)> {
    let mut rules = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (array, rule) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if array != "*" && !arrays.contains(&array) {
            return Err((
                at + 1,
                format!("there is no array {array:?}: give one of {}, or *", arrays.join(", ")),
            ));
        }
        let rule = rule.parse().map_err(|why| (at + 1, format!("{why}; a line is ARRAY CLIENTS RIGHT")))?;
        rules.push(((array != "*").then(|| array.to_owned()), rule));
    }
    Ok(AccessFile(rules))
}

#[cfg(test)]
mod tests {
    use brindle_export::access::{Client, Right};

    use super::*;

    #[test]
    fn lines_are_for_one_array_or_for_all() {
        let text = "# of a test\n\na 10.0.0.1 none\n* 10.0.0.0/8 read\nb local write\n";
        let access = parse(text, &["a", "b", "c"]).unwrap();
        let by = |array, address: Option<&str>| {
            let address = address.map(|address| address.parse().unwrap());
            access.of(array).right(&Client { address, proved: None })
        };
        assert_eq!(by("a", Some("10.0.0.1")), None);
        assert_eq!(by("b", Some("10.0.0.1")), Some(Right::Read));
        assert_eq!(by("b", None), Some(Right::Write));
        assert_eq!(by("c", None), None);
        for (wrong, line) in [("d anyone read", 1), ("\na anyone", 2), ("a", 1), ("a anyone read b", 1)] {
            assert_eq!(parse(wrong, &["a"]).unwrap_err().0, line, "{wrong}");
        }
    }
}

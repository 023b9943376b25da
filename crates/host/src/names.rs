//! Names by which a request can mean a content: its own, its UUID, a device of it.

use crate::error::HostError;

/// All names of one content.
#[derive(Clone, Debug)]
pub struct Names {
    /// Its own.
    pub own: String,
    /// Its UUID.
    pub uuid: String,
    /// The names of its devices, and of devices of contents nested in it.
    pub devices: Vec<String>,
}

/// A content that has another name from now on.
#[derive(Clone, Copy, Debug)]
pub struct Renamed<'a> {
    /// The name that it had,
    pub from: &'a str,
    /// the one that it has,
    pub to: &'a str,
    /// and its UUID.
    pub uuid: &'a str,
}

impl Renamed<'_> {
    /// The sentence about settings that call it by the name that it had.
    pub fn settings(&self) -> String {
        format!("the settings call it {:?}: give its new name there, or its UUID {}", self.from, self.uuid)
    }
}

/// Takes note of another name, and gives sentences about all that calls the content by the one that it had.
pub type OnRenamed = Box<dyn Fn(&Renamed<'_>) -> Vec<String>>;

/// The content of that name; else the one with that UUID, or with a device of that name.
pub(crate) fn find(all: &[Names], name: &str) -> Option<usize> {
    let bare = |uuid: &str| uuid.replace([':', '-'], "").to_lowercase();
    let by = |is: &dyn Fn(&Names) -> bool| all.iter().position(is);
    by(&|names| names.own == name)
        .or_else(|| by(&|names| bare(&names.uuid) == bare(name)))
        .or_else(|| by(&|names| names.devices.iter().any(|device| device == name)))
}

/// The content that is meant among those of a server of several; `None` for all of it, if nothing or the server is named.
pub(crate) fn select(all: &[Names], name: Option<&str>, server: &str) -> Result<Option<usize>, HostError> {
    let Some(name) = name else { return Ok(None) };
    match find(all, name) {
        None if name != server => Err(HostError::NoSuchContent {
            server: server.to_owned(),
            array: name.to_owned(),
            known: all.iter().map(|names| names.own.clone()).collect(),
        }),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(own: &str, uuid: &str, devices: &[&str]) -> Names {
        let devices = devices.iter().map(|device| (*device).to_owned()).collect();
        Names { own: own.to_owned(), uuid: uuid.to_owned(), devices }
    }

    #[test]
    fn an_array_is_meant_by_any_of_its_names_and_all_by_the_servers() {
        let two = [names("a", "1:2", &["m0"]), names("b", "3:4", &["a", "m1"])];
        let meant = |name: Option<&str>, server: &str| select(&two, name, server).unwrap();
        assert_eq!((meant(None, "s"), meant(Some("s"), "s")), (None, None));
        // A name counts before a device, and an array before its server.
        assert_eq!(meant(Some("a"), "a"), Some(0));
        for name in ["b", "3:4", "3-4", "m1"] {
            assert_eq!(meant(Some(name), "a"), Some(1), "{name}");
        }
        let why = select(&two, Some("c"), "s").unwrap_err().to_string();
        assert!(why.contains("'c'") && why.contains("a, b"), "{why}");
        // The arrays that are left can still be named, each or all together.
        let left = &two[1..];
        assert_eq!(
            (select(left, None, "a").unwrap(), select(left, Some("b"), "a").unwrap()),
            (None, Some(0))
        );
    }
}

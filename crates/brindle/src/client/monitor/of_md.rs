//! Arrays that mdadm.conf(5) means, among those that were found.

use std::collections::BTreeSet;
use std::fs::canonicalize;
use std::path::{Path, PathBuf};

use brindle_host::opening::VolumeOpening;

use super::conf::MdadmArray;
use crate::base::path::real;
use crate::client::choice::Hosts;
use crate::devices::scan::Findable;

/// Whether a line means what was found: by UUID, else by name, else by its members, else by the name of its device alone. `own` are
/// the hosts whose arrays are served here.
pub(crate) fn is_named(array: &MdadmArray, found: &Findable, own: &Hosts) -> bool {
    if array.uuid.is_some() || array.name.is_some() {
        let (name, uuid) = (array.name.clone(), array.uuid.clone());
        let volume = VolumeOpening { name, uuid, ..VolumeOpening::default() };
        let by_full_name = || volume.uuid.is_none() && volume.name.as_ref() == Some(&found.full_name);
        return volume.means(&found.name, &found.uuid) || by_full_name();
    }
    if !array.devices.is_empty() {
        let files: BTreeSet<PathBuf> = found.members.iter().map(|member| real(member)).collect();
        let is_one = |pattern: &String| {
            let named = |path: &Path| matches(pattern, &path.to_string_lossy());
            found.members.iter().any(|member| named(member))
                || files.iter().any(|file| named(file))
                || meant_by(Path::new(pattern)).iter().any(|file| files.contains(file))
        };
        return array.devices.iter().any(is_one);
    }
    let host = found.homehost.as_deref();
    let is_own = host.is_none_or(|host| own.are(host) || Hosts::said(None).are(host));
    is_own && array.device.as_deref().and_then(name_of).is_some_and(|name| is_called(name, found))
}

/// The name of the array that md makes a device of: of `/dev/md/NAME`, of `NAME`, and of `/dev/mdN`, whose array is called `N`.
fn name_of(device: &str) -> Option<&str> {
    let name = device.strip_prefix("/dev/md/").or_else(|| device.strip_prefix("/dev/md_"));
    let number =
        || device.strip_prefix("/dev/md").filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    let plain = || (!device.contains('/')).then_some(device);
    name.or_else(number).or_else(plain).filter(|name| !name.is_empty())
}

fn is_called(name: &str, found: &Findable) -> bool {
    found.name == name || brindle_format::md::split_name(&found.full_name).1 == name
}

/// The files that a name or a pattern of names in one folder stands for, when all links are followed.
fn meant_by(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy();
    if !name.contains(['*', '?', '[']) {
        return canonicalize(pattern).into_iter().collect();
    }
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = inside.filter(|entry| matches(&name, &entry.file_name().to_string_lossy()));
    named.filter_map(|entry| canonicalize(entry.path()).ok()).collect()
}

/// Whether a name matches a pattern as the shell's: `*` and `?` stand for no slash, `[a-c]` and `[!a]` for one letter. Time that grows with
/// the product of their lengths at most.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut to) = (0, 0);
    // The last star, and the first letter that it does not stand for yet.
    let mut star = None;
    while to < name.len() {
        match one(&pattern[at..], name[to]) {
            Some(length) => {
                at += length;
                to += 1;
            }
            None if pattern.get(at) == Some(&'*') => {
                star = Some((at + 1, to));
                at += 1;
            }
            None => {
                let Some((after, from)) = star.filter(|(_, from)| name[*from] != '/') else { return false };
                star = Some((after, from + 1));
                (at, to) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|&letter| letter == '*')
}

/// The length of what a pattern begins with, if that stands for this letter alone.
fn one(pattern: &[char], letter: char) -> Option<usize> {
    match pattern.first()? {
        '*' => None,
        '?' => (letter != '/').then_some(1),
        '[' => {
            let negated = matches!(pattern.get(1), Some('!' | '^'));
            let begin = 1 + usize::from(negated);
            // A bracket that comes first is a letter.
            let end = begin + 1 + pattern.get(begin + 1..)?.iter().position(|&one| one == ']')?;
            let set = &pattern[begin..end];
            let range = |at: usize| (set.get(at + 1) == Some(&'-')).then(|| set.get(at + 2)).flatten();
            let mut at = 0;
            let mut is_in = false;
            while at < set.len() {
                let last = range(at);
                is_in |= (set[at]..=*last.unwrap_or(&set[at])).contains(&letter);
                at += if last.is_some() { 3 } else { 1 };
            }
            (is_in != negated && letter != '/').then_some(end + 1)
        }
        first => (*first == letter).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, host: Option<&str>, metadata: &str) -> Findable {
        let full_name = host.map_or(name.to_owned(), |host| format!("{host}:{name}"));
        let (homehost, metadata) = (host.map(str::to_owned), metadata.to_owned());
        Findable { name: name.to_owned(), full_name, homehost, metadata, ..Findable::default() }
    }

    fn here() -> Hosts {
        Hosts::said(Some("here"))
    }

    #[test]
    fn names_match_patterns() {
        for (pattern, name, is) in [
            ("/dev/sda1", "/dev/sda1", true),
            ("/dev/sda1", "/dev/sda", false),
            ("/dev/sd*", "/dev/sdab1", true),
            ("/dev/*", "/dev/mapper/a", false),
            ("/dev/*/a*c", "/dev/mapper/abcbc", true),
            ("/dev/sd?1", "/dev/sdb1", true),
            ("/dev/sd?1", "/dev/sdbb1", false),
            ("/dev/sd[a-c]1", "/dev/sdb1", true),
            ("/dev/sd[a-c]1", "/dev/sdd1", false),
            ("/dev/sd[!a-c]1", "/dev/sdd1", true),
            ("/dev/sd[]x]", "/dev/sd]", true),
            ("/dev/sd[", "/dev/sd[", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
        let hostile = "*a".repeat(2000);
        assert!(!matches(&hostile, &"a".repeat(1000)), "in time");
    }

    #[test]
    fn a_device_alone_means_the_array_of_its_name() {
        let by = |device: &str| MdadmArray { device: Some(device.to_owned()), ..MdadmArray::default() };
        let is = |device: &str, name: &str, host: Option<&str>| {
            is_named(&by(device), &found(name, host, "1.2"), &here())
        };
        for device in ["/dev/md/home", "home"] {
            assert!(is(device, "home", Some("here")) && is(device, "home", None), "{device}");
            assert!(!is(device, "home", Some("there")) && !is(device, "other", Some("here")), "{device}");
        }
        assert!(is("/dev/md0", "0", Some("here")) && !is("/dev/md0", "1", Some("here")));
        assert!(!is("/dev/md", "", Some("here")) && !is("/dev/sda", "sda", Some("here")));
    }

    #[test]
    fn members_mean_their_array_whatever_they_are_called() {
        let dir = std::env::temp_dir().join(format!("brindle-of-md-{}", std::process::id()));
        let (disk, link) = (dir.join("disk7"), dir.join("by-id"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&disk, "").unwrap();
        std::os::unix::fs::symlink(&disk, &link).unwrap();
        let mut array = found("a", Some("here"), "1.2");
        array.members = vec![link];
        let by = |devices: &[&str]| {
            let devices = devices.iter().map(|name| dir.join(name).display().to_string()).collect();
            MdadmArray { device: Some("/dev/md2".into()), devices, ..MdadmArray::default() }
        };
        for (devices, is) in [
            (&["disk7"][..], true),
            (&["other", "by-id"], true),
            (&["disk[0-9]"], true),
            (&["by-*"], true),
            (&["disk8", "d?"], false),
        ] {
            assert_eq!(is_named(&by(devices), &array, &here()), is, "{devices:?}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

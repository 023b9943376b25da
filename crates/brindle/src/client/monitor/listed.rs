//! Arrays that lines of mdadm.conf name: those that nobody has, neither a server of ours nor the kernel, and spares that lines ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use brindle_format::md::{display_uuid, split_name};
use brindle_io::device::DeviceAccess;

use super::conf::MdadmArray;
use super::of_md::is_named;
use super::state::Seen;
use crate::base::look;
use crate::client::choice::Hosts;
use crate::devices::scan::Findable;
use crate::devices::world::place;

/// How messages begin of the kernel's arrays.
const KERNELS: &str = "/dev/md";

/// The lines, and what is known of arrays of the kernel, whose superblocks are read once.
#[derive(Default)]
pub(super) struct Listed {
    kernels: BTreeMap<String, (Vec<String>, Option<Identity>)>,
    /// Lines whose array nobody had at the last look.
    lacked: BTreeSet<String>,
}

/// The UUID of an array, and its name with that of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    uuid: String,
    full_name: String,
}

impl Listed {
    /// Names of arrays that are listed and that nobody has; with `patiently` at the last look, too: they may be about to come.
    pub(super) fn lacking(&mut self, lines: &[MdadmArray], all: &[Seen], patiently: bool) -> Vec<String> {
        if lines.is_empty() {
            return Vec::new();
        }
        let found: Vec<Option<Findable>> = all.iter().map(|seen| self.findable(seen)).collect();
        // One of the kernel's that nothing is known of may be any of them.
        let is_unknown = found.iter().any(Option::is_none);
        let own = Hosts::said(None);
        let is_there = |line: &MdadmArray| {
            all.iter().any(|seen| is_its_device(line, seen))
                || found.iter().flatten().any(|found| is_named(line, found, &own))
        };
        let lacking: BTreeSet<String> =
            lines.iter().filter(|line| !is_unknown && !is_there(line)).map(called).collect();
        let told = lacking.iter().filter(|name| !patiently || self.lacked.contains(*name)).cloned().collect();
        self.lacked = lacking;
        told
    }

    /// The number of spares that a line asks for.
    pub(super) fn spares(&mut self, lines: &[MdadmArray], seen: &Seen) -> usize {
        let mut wanting = lines.iter().filter(|line| line.spares > 0).peekable();
        if wanting.peek().is_none() {
            return 0;
        }
        let found = self.findable(seen);
        let own = Hosts::said(None);
        let is_it = |line: &&MdadmArray| {
            is_its_device(line, seen) || found.as_ref().is_some_and(|found| is_named(line, found, &own))
        };
        wanting.find(is_it).map_or(0, |line| line.spares)
    }

    /// An array that is seen, as it would be found on its members; none of an array of the kernel's whose superblocks can't be read.
    fn findable(&mut self, seen: &Seen) -> Option<Findable> {
        let devices: Vec<String> = seen.devices.keys().cloned().collect();
        let identity = if seen.name.starts_with(KERNELS) && seen.uuid.is_empty() {
            let known =
                self.kernels.get(&seen.name).filter(|(of, identity)| *of == devices && identity.is_some());
            let identity = match known {
                Some((_, identity)) => identity.clone(),
                None => devices.iter().find_map(|device| identity(Path::new(device))),
            };
            self.kernels.insert(seen.name.clone(), (devices.clone(), identity.clone()));
            identity?
        } else {
            Identity { uuid: seen.uuid.clone(), full_name: seen.full_name.clone() }
        };
        let (homehost, own) = split_name(&identity.full_name);
        let name = if seen.name.starts_with(KERNELS) { own.to_owned() } else { seen.name.clone() };
        Some(Findable {
            name,
            homehost: homehost.map(str::to_owned),
            members: devices.into_iter().map(Into::into).collect(),
            full_name: identity.full_name,
            uuid: identity.uuid,
            ..Findable::default()
        })
    }
}

/// Reads a superblock of md.
fn identity(device: &Path) -> Option<Identity> {
    let open = place::open(device, DeviceAccess::Examine).ok()?;
    let candidate = look::candidate(&device.display().to_string(), open.info(), look::reader(&open)).ok()?;
    let (superblock, _) = candidate.superblock().ok()?;
    let uuid = display_uuid(superblock.set_uuid).to_string();
    Some(Identity { uuid, full_name: superblock.name.clone() })
}

/// Whether the device of a line is this array of the kernel's: by its name, or as a link to it.
fn is_its_device(line: &MdadmArray, seen: &Seen) -> bool {
    let Some(device) = &line.device else { return false };
    let path = if device.starts_with('/') { device.into() } else { Path::new("/dev/md").join(device) };
    seen.name.starts_with(KERNELS)
        && (path == Path::new(&seen.name)
            || std::fs::canonicalize(&path).is_ok_and(|file| file == Path::new(&seen.name)))
}

/// The array of a line, for people.
fn called(line: &MdadmArray) -> String {
    let MdadmArray { device, name, uuid, devices, .. } = line;
    let first = || devices.first().cloned();
    name.clone().or_else(|| device.clone()).or_else(|| uuid.clone()).or_else(first).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str) -> MdadmArray {
        MdadmArray { name: Some(name.to_owned()), ..MdadmArray::default() }
    }

    #[test]
    fn an_array_that_is_listed_is_missed_at_the_second_look() {
        let ours = Seen { name: "a".into(), full_name: "h:a".into(), uuid: "1:2".into(), ..Seen::default() };
        let lines = [line("a"), line("b"), MdadmArray { uuid: Some("1:2".into()), ..MdadmArray::default() }];
        let mut listed = Listed::default();
        assert!(listed.lacking(&lines, std::slice::from_ref(&ours), true).is_empty());
        assert_eq!(listed.lacking(&lines, std::slice::from_ref(&ours), true), ["b"]);
        assert_eq!(Listed::default().lacking(&lines, &[ours], false), ["b"]);
        assert!(listed.lacking(&[], &[], false).is_empty());
    }

    #[test]
    fn arrays_of_the_kernel_are_no_alarm() {
        let md = |name: &str| Seen { name: name.to_owned(), ..Seen::default() };
        let by = |device: &str| MdadmArray { device: Some(device.into()), ..MdadmArray::default() };
        let mut listed = Listed::default();
        assert!(listed.lacking(&[by("/dev/md7")], &[md("/dev/md7")], false).is_empty());
        // Nothing is known of it: it may be that of any line.
        assert!(listed.lacking(&[line("x")], &[md("/dev/md7")], false).is_empty());
        assert_eq!(listed.lacking(&[by("/dev/md7")], &[], false), ["/dev/md7"]);
    }

    #[test]
    fn spares_are_wanted_by_lines() {
        let lines = [MdadmArray { spares: 2, ..line("a") }];
        let seen = |name: &str| Seen { name: name.to_owned(), ..Seen::default() };
        let mut listed = Listed::default();
        assert_eq!((listed.spares(&lines, &seen("a")), listed.spares(&lines, &seen("b"))), (2, 0));
    }
}

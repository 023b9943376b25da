//! `brindle config --ignore`: lines for mdadm.conf, by which md leaves alone what the daemon serves.

use std::path::Path;

use brindle_host::opening::{Config, VolumeOpening};
use serde::Serialize;

use super::{Meant, means};
use crate::base::failure::Failure;
use crate::base::report;
use crate::devices::scan::{Findable, Scanned, scan};
use crate::server::settings::{Settings, called};

/// Lines for mdadm.conf.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Ignored {
    lines: Vec<String>,
    /// Names of arrays that were not found, and that have no UUID in the file.
    without_uuid: Vec<String>,
    /// Names of arrays that mdadm.conf gives to md.
    of_md: Vec<String>,
}

impl Ignored {
    /// All that settings mean: arrays that were found, and arrays that the settings name by UUID, found or not.
    fn of(config: &Config, scanned: &Scanned) -> Self {
        let meant = Meant::by(config);
        let arrays: Vec<&Findable> =
            scanned.all.iter().filter(|found| !found.is_pool() && meant.is_meant(found)).collect();
        let mut ignored = Self::default();
        for found in &arrays {
            ignored.add(&found.uuid);
            ignored.of_md.extend(meant.is_mds(found).then(|| found.name.clone()));
        }
        let absent = |volume: &&VolumeOpening| !arrays.iter().any(|found| means(volume, found));
        for volume in config.arrays.iter().filter(absent) {
            match &volume.uuid {
                Some(uuid) => ignored.add(uuid),
                None => ignored.without_uuid.extend(volume.name.clone()),
            }
        }
        ignored
    }

    fn add(&mut self, uuid: &str) {
        let line = format!("ARRAY <ignore> UUID={}", uuid.escape_debug());
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    /// The reason why lines are missing.
    fn lacking(&self, file: &Path) -> Option<Failure> {
        let names: Vec<String> = self.without_uuid.iter().map(|name| called(&named(name))).collect();
        let which = match &names[..] {
            [] => return None,
            [one] => format!("{one} was not found on any device, and has no uuid"),
            several => format!("{} were not found on any device, and have no uuid", several.join(", ")),
        };
        Some(Failure::Refused(format!(
            "{which} in {}: mdadm needs it to leave an array alone; `brindle examine --scan` lists what is there",
            file.display()
        )))
    }
}

fn named(name: &str) -> VolumeOpening {
    VolumeOpening { name: Some(name.to_owned()), ..VolumeOpening::default() }
}

/// `brindle config --ignore`.
pub(super) fn ignore(file: &Path, json: bool) -> Result<(), Failure> {
    let config = Settings::read(file)?.config;
    let ignored = Ignored::of(&config, &scan(&config.devices));
    let lacking = ignored.lacking(file);
    if json {
        report::print_json(&ignored)?;
    } else {
        let text: String = ignored.lines.iter().map(|line| format!("{line}\n")).collect();
        report::print(&text)?;
        for name in &ignored.of_md {
            let name = name.escape_debug();
            eprintln!("brindle: an ARRAY line of mdadm.conf gives '{name}' to md: take that line out");
        }
        eprintln!(
            "brindle: put these lines into /etc/mdadm/mdadm.conf, then run `update-initramfs -u`, since the initramfs has a copy of it"
        );
    }
    lacking.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn arrays_are_found_by_their_names_and_by_their_host() {
        let of = |uuid: &str, found: Findable| Findable { uuid: uuid.to_owned(), ..found };
        let scanned = Scanned {
            all: vec![
                of("1:2:3:4", found("data", Some("nas"), "1.2")),
                of("2:2:3:4", found("more", Some("nas"), "1.2")),
                of("3:2:3:4", found("old", Some("other"), "0.90")),
                of("4:2:3:4", found("named", Some("other"), "1.2")),
                of("5-2-3-4", found("tank", None, "pool")),
            ],
            silent: Vec::new(),
            ..Scanned::default()
        };
        let by_uuid = |uuid: &str| VolumeOpening { uuid: Some(uuid.to_owned()), ..VolumeOpening::default() };
        let lines = |homehost: &str, arrays: Vec<VolumeOpening>| {
            let config = Config { homehost: Some(homehost.to_owned()), arrays, ..Config::default() };
            let Ignored { lines, without_uuid, .. } = Ignored::of(&config, &scanned);
            let word = |line: String| line.rsplit('=').next().unwrap_or_default().to_owned();
            (lines.into_iter().map(word).collect::<Vec<_>>(), without_uuid)
        };
        assert_eq!(lines("none", vec![named("data")]), (vec!["1:2:3:4".to_owned()], Vec::new()));
        assert_eq!(lines("nas", Vec::new()).0, ["1:2:3:4", "2:2:3:4"]);
        assert_eq!(lines("nas", vec![named("named"), by_uuid("9:9:9:9")]).0.len(), 4);
        assert_eq!(lines("any", Vec::new()).0.len(), 4, "all but the pool");
        assert_eq!(lines("none", vec![by_uuid("01:2:3:4"), named("gone")]).1, ["gone"]);
    }
}

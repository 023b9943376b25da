//! Changes of a running server that are written into the file of settings. All other lines of it stay as they are, comments too.

use brindle_host::status::Report;
use std::path::{Path, PathBuf};

use brindle_host::control::RateLimits;
use brindle_host::opening::written_time;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use crate::base::failure::Failure;
use crate::base::replace::replace;
use crate::devices::scan::covers;
use crate::flags::cli::Save;
use crate::server::settings;

/// A file of settings that is being changed.
pub(crate) struct Saving {
    file: PathBuf,
    document: DocumentMut,
}

impl Save {
    /// Reads the file, if the change is to be kept: one that can't be taken is refused before anything changes.
    pub(crate) fn begin(&self) -> Result<Option<Saving>, Failure> {
        self.save.as_deref().map(Saving::begin).transpose()
    }
}

impl Saving {
    fn begin(file: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        if file.exists() {
            settings::read(file)?;
            let fail = |source| Failure::system(file.display().to_string(), source);
            text = std::fs::read_to_string(file).map_err(fail)?;
        }
        let document = text.parse();
        let document = document.map_err(|error: toml_edit::TomlError| {
            Failure::Refused(format!("{}: {}", file.display(), error.message()))
        })?;
        Ok(Self { file: file.to_owned(), document })
    }

    /// The volume of a server's answer is offered to clients, with these limits if some are said.
    pub(crate) fn offer(&mut self, answer: &Report, limits: Option<RateLimits>) -> Result<(), Failure> {
        let entry = self.entry(answer)?;
        entry.remove("withdrawn");
        if let Some(limits) = limits {
            let mut table = InlineTable::new();
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let each = [("iops", limits.iops), ("bandwidth", limits.bandwidth)];
            for (key, limit) in each.into_iter().filter_map(|(key, limit)| Some((key, limit?))) {
                table.insert(key, number(limit.get()).into());
            }
            if limits.burst != RateLimits::BURST {
                table.insert("burst", written_time(limits.burst).into());
            }
            entry["limits"] = value(table);
        }
        Ok(())
    }

    /// The volume is offered to no client.
    pub(crate) fn withdraw(&mut self, answer: &Report) -> Result<(), Failure> {
        self.entry(answer)?["withdrawn"] = value(true);
        Ok(())
    }

    /// The array has these devices: they are where members are looked for, and the array is named.
    pub(crate) fn add(&mut self, answer: &Report, devices: &[PathBuf]) -> Result<(), Failure> {
        self.entry(answer)?;
        let Some(places) = self.document.get_mut("devices").and_then(Item::as_array_mut) else {
            return Ok(());
        };
        for device in devices.iter().filter(|device| device.is_absolute()) {
            let covers = |place: &str| covers(Path::new(place), device);
            let is_found = places.iter().filter_map(|place| place.as_str()).any(covers);
            if !places.is_empty() && !is_found {
                places.push(device.display().to_string());
            }
        }
        Ok(())
    }

    /// The entry of the array or pool of a report; made if there is none.
    fn entry(&mut self, report: &Report) -> Result<&mut Table, Failure> {
        let kind = if report.pool().is_some() { "pool" } else { "array" };
        let (name, uuid) = (report.name(), report.uuid());
        let file = self.file.display();
        let all =
            self.document.entry(&format!("{kind}s")).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let Some(all) = all.as_array_of_tables_mut() else {
            return Err(Failure::Refused(format!(
                "{file}: '{kind}s' is written in one line: write each entry below a [[{kind}s]], or change it by hand; the running server has the change"
            )));
        };
        let bare = |uuid: &str| uuid.replace([':', '-'], "").to_lowercase();
        let word = |entry: &Table, key: &str| entry.get(key).and_then(Item::as_str).map(str::to_owned);
        let is_it = |entry: &Table| match word(entry, "uuid") {
            Some(own) => bare(&own) == bare(uuid),
            None => word(entry, "name").as_deref() == Some(name),
        };
        let found = all.iter().position(is_it);
        let at = found.unwrap_or_else(|| {
            let mut entry = Table::new();
            entry["name"] = value(name);
            entry["uuid"] = value(uuid);
            all.push(entry);
            all.len() - 1
        });
        let gone = || Failure::Refused(format!("{kind}s has no entry {at}"));
        all.get_mut(at).ok_or_else(gone)
    }

    /// Writes the file: a cut leaves the old one.
    pub(crate) fn keep(self) -> Result<(), Failure> {
        let (text, shown) = (self.document.to_string(), self.file.display().to_string());
        settings::parse(&text).map_err(|why| Failure::Refused(format!("{shown} stays as it is: {why}")))?;
        replace(&self.file, text.as_bytes())
            .map_err(|source| Failure::output(format!("{shown} (the running server has the change)"), source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saving(text: &str) -> Saving {
        Saving { file: "brindle.toml".into(), document: text.parse().unwrap() }
    }

    fn report(name: &str, uuid: &str) -> Report {
        serde_json::from_value(serde_json::json!({"name": name, "array": {"uuid": uuid}})).unwrap()
    }

    #[test]
    fn what_else_stands_there_stays_as_it_is() {
        let text = "# mine\nwait = \"1s\" # so\n\n[[arrays]]\nname = \"a\" # the first\n\n[tuning]\nmemory = \"64M\"\n";
        let mut own = saving(text);
        own.withdraw(&report("a", "1:2")).unwrap();
        let with = own.document.to_string();
        assert_eq!(with, text.replace("# the first\n", "# the first\nwithdrawn = true\n"));
        own.offer(&report("a", "1:2"), None).unwrap();
        assert_eq!(own.document.to_string(), text);
        let limits =
            RateLimits { iops: std::num::NonZeroU64::new(7), bandwidth: None, burst: RateLimits::BURST };
        own.offer(&report("b", "00000000:00000000:00000000:00000001"), Some(limits)).unwrap();
        let config = settings::parse(&own.document.to_string()).unwrap();
        assert_eq!((config.arrays.len(), config.arrays[1].limits), (2, Some(limits)));
        assert!(own.document.to_string().starts_with("# mine\n"));
    }

    #[test]
    fn hostile_names_are_data() {
        let mut own = saving("");
        let name = "x\"\n[exports]\ninsecure = true\n\u{1b}[1m";
        own.withdraw(&report(name, "0-1")).unwrap();
        let config = settings::parse(&own.document.to_string()).unwrap();
        assert_eq!(config.arrays[0].name.as_deref(), Some(name));
        assert!(!config.exports.insecure && config.arrays[0].withdrawn);
        assert!(saving("arrays = [{name = \"a\"}]").withdraw(&report("a", "1")).is_err());
    }
}

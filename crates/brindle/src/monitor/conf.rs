//! Lines of mdadm.conf(5): MAILADDR, MAILFROM and PROGRAM, which a monitor reads, and ARRAY.

use std::path::{Path, PathBuf};

use brindle_host::opening::VolumeOpening;

use crate::failure::Failure;

/// Where mdadm has its configuration: of Debian, and of others.
const USUAL: [&str; 2] = ["/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"];

/// An array that a line names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MdadmArray {
    /// Without its host.
    pub(crate) name: Option<String>,
    pub(crate) uuid: Option<String>,
    /// The file of its write-intent bitmap.
    pub(crate) bitmap: Option<PathBuf>,
}

/// Receivers of events, and arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MdadmConf {
    pub(crate) mail_to: Option<String>,
    pub(crate) mail_from: Option<String>,
    pub(crate) program: Option<PathBuf>,
    /// The program that sends mail; no line of the file names it.
    pub(crate) sendmail: Option<PathBuf>,
    /// Where events are posted; no line of the file names it.
    pub(crate) webhook: Option<String>,
    /// Arrays that are not to be ignored.
    pub(crate) arrays: Vec<MdadmArray>,
}

impl MdadmConf {
    /// Of the file that is named, else of the first of the usual ones, if there is one.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let read = |path: &Path| std::fs::read_to_string(path);
        match named {
            Some(path) => {
                let text = read(path)
                    .map_err(|source| Failure::system(format!("--config {}", path.display()), source))?;
                Ok(Self::parse(&text))
            }
            None => {
                let found = USUAL.iter().find_map(|path| read(Path::new(path)).ok());
                Ok(found.map(|text| Self::parse(&text)).unwrap_or_default())
            }
        }
    }

    /// The arrays, as settings name them.
    pub(crate) fn volumes(&self) -> Vec<VolumeOpening> {
        let volume = |MdadmArray { name, uuid, bitmap }: &MdadmArray| VolumeOpening {
            name: name.clone(),
            uuid: uuid.clone(),
            bitmap: bitmap.clone(),
            ..VolumeOpening::default()
        };
        self.arrays.iter().map(volume).collect()
    }

    /// Keywords in capitals or not, as mdadm takes them; a line that begins with a blank goes on with the one before.
    fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            match lines.last_mut() {
                Some(last) if line.starts_with([' ', '\t']) => last.push_str(line),
                _ => lines.push(line.to_owned()),
            }
        }
        for line in &lines {
            let mut words = line.split_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next()) else { continue };
            match key.to_lowercase().as_str() {
                "mailaddr" => conf.mail_to = Some(value.to_owned()),
                "mailfrom" => conf.mail_from = Some(line.trim_start()[key.len()..].trim().to_owned()),
                "program" => conf.program = Some(value.into()),
                "array" if value != "<ignore>" => conf.arrays.extend(array(words)),
                _ => {}
            }
        }
        conf
    }
}

/// The array of a line's words; none if they name it neither by UUID nor by name.
fn array<'a>(words: impl Iterator<Item = &'a str>) -> Option<MdadmArray> {
    let mut array = MdadmArray::default();
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        let value = value.trim_matches('"');
        match key.to_lowercase().as_str() {
            "uuid" => array.uuid = Some(value.to_owned()),
            "name" => array.name = Some(brindle_format::md::split_name(value).1.to_owned()),
            "bitmap" => array.bitmap = Some(value.into()),
            _ => {}
        }
    }
    (array.uuid.is_some() || array.name.is_some()).then_some(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mdadm_conf_are_read() {
        let text = "# MAILADDR no\nMAILADDR root # yes\nmailfrom  Disks of <x@y>\nPROGRAM\n  /usr/sbin/told\nARRAY /dev/md0 UUID=1\n";
        let conf = MdadmConf::parse(text);
        assert_eq!(conf.mail_to.as_deref(), Some("root"));
        assert_eq!(conf.mail_from.as_deref(), Some("Disks of <x@y>"));
        assert_eq!(conf.program.as_deref(), Some(Path::new("/usr/sbin/told")));
        assert_eq!(MdadmConf::parse(""), MdadmConf::default());
    }

    #[test]
    fn arrays_are_read_unless_they_are_to_be_ignored() {
        let text = "ARRAY /dev/md/data metadata=1.2 UUID=1:2:3:4 name=nas:data\n   bitmap=/var/bits\nARRAY <ignore> UUID=5:6:7:8\n";
        let bitmap = Some("/var/bits".into());
        let data = MdadmArray { name: Some("data".into()), uuid: Some("1:2:3:4".into()), bitmap };
        assert_eq!(MdadmConf::parse(text).arrays, [data]);
    }
}

//! Lines of mdadm.conf(5): MAILADDR, MAILFROM and PROGRAM, which a monitor reads, HOMEHOST, and ARRAY.

use std::path::{Path, PathBuf};

use brindle_host::opening::VolumeOpening;

use crate::base::failure::Failure;

/// Where mdadm has its configuration: of Debian, and of others.
const USUAL: [&str; 2] = ["/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"];

/// Where more files of it are, in the same order.
const FOLDERS: [&str; 2] = ["/etc/mdadm/mdadm.conf.d", "/etc/mdadm.conf.d"];

/// Keywords that are read here, in the order in which mdadm tries what is shortened: three letters do.
const KEYWORDS: [&str; 5] = ["array", "mailaddr", "mailfrom", "program", "homehost"];

/// An array that a line names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MdadmArray {
    /// Its device: a path, or a name below /dev/md.
    pub(crate) device: Option<String>,
    /// Without its host.
    pub(crate) name: Option<String>,
    pub(crate) uuid: Option<String>,
    /// Names of its members, or patterns of these.
    pub(crate) devices: Vec<String>,
    /// The file of its write-intent bitmap.
    pub(crate) bitmap: Option<PathBuf>,
    /// Spares that it should have.
    pub(crate) spares: usize,
}

/// Receivers of events, and arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MdadmConf {
    pub(crate) mail_to: Option<String>,
    pub(crate) mail_from: Option<String>,
    pub(crate) program: Option<PathBuf>,
    /// The host before the names of its arrays, if that is not the machine's name.
    pub(crate) homehost: Option<String>,
    /// The program that sends mail; no line of the file names it.
    pub(crate) sendmail: Option<PathBuf>,
    /// Where events are posted; no line of the file names it.
    pub(crate) webhook: Option<String>,
    /// Arrays that are not to be ignored.
    pub(crate) arrays: Vec<MdadmArray>,
}

impl MdadmConf {
    /// Of the file or folder that is named, else of the first of the usual files and the first of the usual folders.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let mut conf = Self::default();
        match named {
            Some(path) if path.is_dir() => conf.take_folder(path),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| Failure::system(format!("--config {}", path.display()), source))?;
                conf.take(&text);
            }
            None => conf.take_first(&USUAL.map(Path::new), &FOLDERS.map(Path::new)),
        }
        Ok(conf)
    }

    fn take_first(&mut self, files: &[&Path], folders: &[&Path]) {
        if let Some(text) = files.iter().find_map(|file| std::fs::read_to_string(file).ok()) {
            self.take(&text);
        }
        if let Some(folder) = folders.iter().find(|folder| folder.is_dir()) {
            self.take_folder(folder);
        }
    }

    /// Reads the files whose names end in .conf, in the order of these. One that can't be read says nothing.
    fn take_folder(&mut self, folder: &Path) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let is_one = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".conf") && !name.starts_with('.')
        };
        files.retain(is_one);
        files.sort();
        for text in files.iter().filter_map(|file| std::fs::read_to_string(file).ok()) {
            self.take(&text);
        }
    }

    /// The arrays that can be named by settings, as these name them.
    pub(crate) fn volumes(&self) -> Vec<VolumeOpening> {
        let volume = |MdadmArray { name, uuid, bitmap, .. }: &MdadmArray| VolumeOpening {
            name: name.clone(),
            uuid: uuid.clone(),
            bitmap: bitmap.clone(),
            ..VolumeOpening::default()
        };
        let named = |array: &&MdadmArray| array.uuid.is_some() || array.name.is_some();
        self.arrays.iter().filter(named).map(volume).collect()
    }

    /// Keywords in capitals or not, as mdadm takes them; a line that begins with a blank goes on with the one before.
    fn take(&mut self, text: &str) {
        let mut lines: Vec<Vec<String>> = Vec::new();
        for line in text.lines() {
            match lines.last_mut() {
                Some(last) if line.starts_with([' ', '\t']) => last.extend(words(line)),
                _ => lines.push(words(line)),
            }
        }
        for line in &lines {
            let [key, values @ ..] = &line[..] else { continue };
            let Some(first) = values.first() else { continue };
            let key = key.to_lowercase();
            match KEYWORDS.into_iter().find(|word| key.len() >= 3 && word.starts_with(&key)) {
                Some("mailaddr") => self.mail_to = Some(first.clone()),
                Some("mailfrom") => self.mail_from = Some(values.join(" ")),
                // Words such as <system> are no names.
                Some("homehost") => self.homehost = Some(first.clone()).filter(|host| !host.starts_with('<')),
                Some("program") => self.program = Some(first.into()),
                Some("array") if first != "<ignore>" => self.arrays.extend(array(values)),
                _ => {}
            }
        }
    }
}

/// The words of a line. Blanks part them, but for those between quotes, and a word that begins with a hash begins a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None if letter == '#' && word.is_none() => return words,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The array of a line's words; none if nothing of them tells it from others.
fn array(words: &[String]) -> Option<MdadmArray> {
    let mut array = MdadmArray::default();
    for (at, word) in words.iter().enumerate() {
        let Some((key, value)) = word.split_once('=') else {
            array.device = array.device.or_else(|| (at == 0).then(|| word.clone()));
            continue;
        };
        match key.to_lowercase().as_str() {
            "uuid" => array.uuid = Some(value.to_owned()),
            "name" => array.name = Some(brindle_format::md::split_name(value).1.to_owned()),
            "devices" => array.devices.extend(value.split(',').map(str::to_owned)),
            "bitmap" => array.bitmap = Some(value.into()),
            "spares" => array.spares = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    let MdadmArray { device, name, uuid, devices, .. } = &array;
    let is_told = device.is_some() || name.is_some() || uuid.is_some() || !devices.is_empty();
    is_told.then_some(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> MdadmConf {
        let mut conf = MdadmConf::default();
        conf.take(text);
        conf
    }

    #[test]
    fn lines_of_mdadm_conf_are_read() {
        let text = "# MAILADDR no\nMAILADDR root # yes\nmailfrom  Disks of <x@y>\nPROGRAM\n  /usr/sbin/told\nARRAY /dev/md0 UUID=1\n";
        let conf = parsed(text);
        assert_eq!(conf.mail_to.as_deref(), Some("root"));
        assert_eq!(conf.mail_from.as_deref(), Some("Disks of <x@y>"));
        assert_eq!(conf.program.as_deref(), Some(Path::new("/usr/sbin/told")));
        assert_eq!(parsed("HOMEHOST nas.example.org\n").homehost.as_deref(), Some("nas.example.org"));
        assert_eq!(parsed("HOM <system>\n"), MdadmConf::default());
        assert_eq!(parsed(""), MdadmConf::default());
    }

    #[test]
    fn arrays_are_read_unless_they_are_to_be_ignored() {
        let text = "ARRAY /dev/md/data metadata=1.2 UUID=1:2:3:4 name=nas:data\n   bitmap=/var/bits\nARRAY <ignore> UUID=5:6:7:8\n";
        let bitmap = Some("/var/bits".into());
        let (name, uuid) = (Some("data".into()), Some("1:2:3:4".into()));
        let data = MdadmArray {
            device: Some("/dev/md/data".into()),
            name,
            uuid,
            bitmap,
            devices: Vec::new(),
            spares: 0,
        };
        assert_eq!(parsed(text).arrays, [data]);
    }

    #[test]
    fn arrays_are_named_by_their_devices_too() {
        let text = "ARR /dev/md2 devices=/dev/sda1,/dev/sd[bc]1\narray home\nARRAY name='Data Storage' # \"\nARRAY\nARRAYS /dev/md4\n";
        let arrays = parsed(text).arrays;
        let [by_members, by_device, quoted] = &arrays[..] else { panic!("{arrays:?}") };
        assert_eq!(by_members.devices, ["/dev/sda1", "/dev/sd[bc]1"]);
        assert_eq!(
            (by_device.device.as_deref(), quoted.name.as_deref()),
            (Some("home"), Some("Data Storage"))
        );
        assert_eq!(parsed(text).volumes().len(), 1, "settings have names and UUIDs");
    }

    #[test]
    fn files_of_the_folder_are_read_in_their_order() {
        let dir = std::env::temp_dir().join(format!("brindle-mdadm-conf-{}", std::process::id()));
        let folder = dir.join("mdadm.conf.d");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(dir.join("mdadm.conf"), "ARRAY /dev/md/a\nMAILADDR first\n").unwrap();
        for (name, text) in [
            ("20.conf", "ARRAY /dev/md/c\nMAILADDR last\n"),
            ("10.conf", "ARRAY /dev/md/b\nMAILADDR second\n"),
            ("30.conf.old", "ARRAY /dev/md/d\n"),
            (".40.conf", "ARRAY /dev/md/e\n"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let devices = |conf: &MdadmConf| {
            conf.arrays.iter().filter_map(|array| array.device.clone()).collect::<Vec<_>>()
        };
        let nowhere = dir.join("nowhere");
        let mut conf = MdadmConf::default();
        conf.take_first(&[&nowhere, &dir.join("mdadm.conf")], &[&nowhere, &folder]);
        assert_eq!(devices(&conf), ["/dev/md/a", "/dev/md/b", "/dev/md/c"]);
        assert_eq!(conf.mail_to.as_deref(), Some("last"));
        assert_eq!(devices(&MdadmConf::read(Some(&folder)).unwrap()), ["/dev/md/b", "/dev/md/c"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

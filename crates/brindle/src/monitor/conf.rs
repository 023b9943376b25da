//! The lines of mdadm.conf(5) that a monitor reads: MAILADDR, MAILFROM and PROGRAM.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Where mdadm has its configuration: of Debian, and of others.
const USUAL: [&str; 2] = ["/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"];

/// Receivers of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conf {
    pub(super) mail_to: Option<String>,
    pub(super) mail_from: Option<String>,
    pub(super) program: Option<PathBuf>,
    /// The program that sends mail; no line of the file names it.
    pub(super) sendmail: Option<PathBuf>,
}

impl Conf {
    /// Reads the file that was named, or else the first of the usual ones that exists.
    pub(super) fn read(named: Option<&Path>) -> Result<Self, Failure> {
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
                _ => {}
            }
        }
        conf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mdadm_conf_are_read() {
        let text = "# MAILADDR no\nMAILADDR root # yes\nmailfrom  Disks of <x@y>\nPROGRAM\n  /usr/sbin/told\nARRAY /dev/md0 UUID=1\n";
        let conf = Conf::parse(text);
        assert_eq!(conf.mail_to.as_deref(), Some("root"));
        assert_eq!(conf.mail_from.as_deref(), Some("Disks of <x@y>"));
        assert_eq!(conf.program.as_deref(), Some(Path::new("/usr/sbin/told")));
        assert_eq!(Conf::parse(""), Conf::default());
    }
}

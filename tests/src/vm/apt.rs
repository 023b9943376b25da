//! Packages out of the distribution's archive, unpacked but never installed.

use std::path::Path;
use std::process::{Command, Output};

use crate::tools::{self, Missing};

/// The keys of Debian's own archives, where their package is installed.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The distribution of this machine, from `/etc/os-release` (os-release(5)).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Distribution {
    /// `debian`, `ubuntu` and so on.
    pub(super) id: String,
    /// `12`, `24.04` and so on.
    pub(super) version: String,
    /// `bookworm`, `noble` and so on.
    pub(super) codename: String,
}

impl Distribution {
    /// # Errors
    /// The file does not say.
    pub(super) fn of_machine() -> Result<Self, Missing> {
        let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        Self::parse(&text).ok_or_else(|| Missing::new("/etc/os-release names no released distribution"))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(line.trim_matches('"').to_owned())
        };
        Some(Self { id: value("ID")?, version: value("VERSION_ID")?, codename: value("VERSION_CODENAME")? })
    }
}

/// apt, as this machine is configured or with a list of its own.
#[derive(Debug)]
pub(super) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// With the lists and archives of this machine.
    pub(super) fn of_machine() -> Self {
        Self { options: Vec::new() }
    }

    /// With `suite` of Debian's archive alone, from the mirror that this machine uses. Its lists are kept in `dir`, so
    /// that this takes no root and changes nothing of the machine.
    ///
    /// # Errors
    /// No mirror is configured for the release called `codename`, or it does not have the suite.
    pub(super) fn of_suite(dir: &Path, codename: &str, suite: &str) -> Result<Self, Missing> {
        let machine = Self::of_machine();
        let mirror = match machine.mirror(codename) {
            Some(mirror) => mirror,
            None => {
                machine.update();
                machine.mirror(codename).ok_or_else(|| {
                    Missing::new(format!(
                        "apt has no source with {codename} main of Debian, so no mirror for {suite}"
                    ))
                })?
            }
        };
        let lists = dir.join("lists");
        std::fs::create_dir_all(lists.join("partial")).expect("the cache can be written");
        let source = dir.join("suite.sources");
        let mut text =
            format!("Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nArchitectures: amd64\n");
        if Path::new(KEYRING).is_file() {
            text += &format!("Signed-By: {KEYRING}\n");
        }
        std::fs::write(&source, text).expect("the cache can be written");
        let apt = Self {
            options: vec![
                format!("Dir::State::lists={}", lists.display()),
                format!("Dir::Cache={}", dir.join("cache").display()),
                format!("Dir::Etc::sourcelist={}", source.display()),
                "Dir::Etc::sourceparts=/dev/null".to_owned(),
            ],
        };
        let updated = apt.update();
        match updated {
            Some(output) if output.status.success() => Ok(apt),
            Some(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                Err(Missing::new(format!("apt-get update for {suite} at {mirror}: {why}")))
            }
            None => Err(Missing::new("apt-get can't be run")),
        }
    }

    /// Names that `package` depends on; `None` if apt does not know it.
    pub(super) fn dependencies(&self, package: &str) -> Option<Vec<String>> {
        let shown = self.command("apt-cache").args(["show", "--no-all-versions", package]).output().ok()?;
        let text = String::from_utf8_lossy(&shown.stdout);
        let list = text.lines().find_map(|line| line.strip_prefix("Depends: "))?;
        Some(names(list))
    }

    /// Downloads `package` and unpacks it into `dir`.
    ///
    /// # Errors
    /// apt can't download it, with its words.
    pub(super) fn unpack(&self, package: &str, dir: &Path) -> Result<(), Missing> {
        let archives = tempfile::tempdir_in(dir).expect("the cache can be written");
        let get = || {
            let mut command = self.command("apt-get");
            command.args(["download", "-qq", package]).current_dir(archives.path());
            command.output().map_err(|e| Missing::new(format!("apt-get: {e}")))
        };
        let mut got = get()?;
        if !got.status.success() {
            // Lists that are older than the last security update name a file which is gone.
            self.update();
            got = get()?;
        }
        if !got.status.success() {
            let why = String::from_utf8_lossy(&got.stderr);
            return Err(Missing::new(format!("apt-get download {package}: {}", why.trim())));
        }
        let dpkg = tools::find("dpkg-deb")?;
        for archive in std::fs::read_dir(archives.path()).expect("the cache can be read") {
            tools::run(&dpkg, [Path::new("-x"), &archive.expect("the cache can be read").path(), dir]);
        }
        Ok(())
    }

    /// Fetches the lists anew. For those of the machine this takes root; without it the next step tells what is missing.
    pub(super) fn update(&self) -> Option<Output> {
        self.command("apt-get").args(["update", "-qq"]).output().ok()
    }

    /// Where this machine gets the release `codename` of Debian from.
    fn mirror(&self, codename: &str) -> Option<String> {
        let format = "$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)";
        let listed = self.command("apt-get").args(["indextargets", "--format", format]).output().ok()?;
        let wanted = format!("Debian {codename} main ");
        let text = String::from_utf8_lossy(&listed.stdout);
        text.lines().find_map(|line| line.strip_prefix(&wanted)).map(str::to_owned)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }
}

/// Names of packages in a list of dependencies, without their versions; of alternatives the first.
fn names(list: &str) -> Vec<String> {
    list.split(',').filter_map(|part| part.split_whitespace().next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_told_apart() {
        let text = "NAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nVERSION=\"24.04 LTS\"\nVERSION_CODENAME=noble\nID=ubuntu\n";
        let ubuntu = Distribution { id: "ubuntu".into(), version: "24.04".into(), codename: "noble".into() };
        assert_eq!(Distribution::parse(text), Some(ubuntu));
        assert_eq!(Distribution::parse("ID=debian\nPRETTY_NAME=\"forky/sid\"\n"), None);
    }

    #[test]
    fn names_are_without_versions() {
        let list = "kmod, linux-base (>= 4.5) | other, linux-modules-6.8.0-151-generic";
        assert_eq!(names(list), ["kmod", "linux-base", "linux-modules-6.8.0-151-generic"]);
    }
}

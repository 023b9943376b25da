//! Folders that a daemon has to reach: the unit of systemd lets it reach few, and a drop-in for that unit names those of the settings.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use brindle_host::opening::{Config, Iscsi, Listen, TlsFiles};

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::path::{absolute, real};
use crate::base::replace::replace;
use crate::base::text::shell;

/// The drop-in that an upgrade makes for the unit of the packages.
const DROP_IN: &str = "folders.conf";
/// Where an administrator's drop-ins are.
const UNITS: &str = "/etc/systemd/system";
/// Folders that ProtectHome= empties, and those that PrivateTmp= replaces.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Folders that the unit lets be written to.
const WRITABLE: [&str; 5] = ["/dev", "/proc", "/run/brindle", "/var/lib/brindle", "/var/spool"];
/// Folders that are the machine's: no daemon gets one of them as a whole.
const WHOLE: [&str; 7] = ["/", "/boot", "/etc", "/home", "/run", "/usr", "/var"];
/// File systems that a server gives, which may not answer: nothing is asked of them.
const FROM_AFAR: [&str; 7] = ["9p", "afs", "ceph", "cifs", "fuse", "nfs", "smb"];
/// Time for what is asked of file systems.
const PATIENCE: Duration = Duration::from_secs(2);

/// The use of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Read,
    Write,
}

/// A place that settings name.
struct NamedPlace {
    /// As the settings have it.
    named: PathBuf,
    usage: Use,
    /// Members may be anywhere in it, and sockets and bitmaps stand beside others.
    kind: PlaceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    /// A file, which its folder stands for: it may be replaced by another.
    File,
    /// A folder itself.
    Folder,
    /// A device, or a folder of devices and of links to them.
    Devices,
}

/// All places that settings name, but for devices.
fn places(config: &Config) -> Vec<NamedPlace> {
    let mut all = Vec::new();
    let mut note = |named: &Path, usage, kind| all.push(NamedPlace { named: named.to_owned(), usage, kind });
    for device in &config.devices {
        note(device, Use::Write, PlaceKind::Devices);
    }
    for bitmap in config.volumes().filter_map(|volume| volume.bitmap.as_deref()) {
        note(bitmap, Use::Write, PlaceKind::File);
    }
    for listen in config.exports.nbd.iter().chain(&config.metrics.listen) {
        if let Listen::Unix(socket) = listen {
            note(socket, Use::Write, PlaceKind::File);
        }
    }
    let Iscsi { secrets, state, .. } = config.exports.iscsi.clone().unwrap_or_default();
    if let Some(state) = &state {
        note(state, Use::Write, PlaceKind::Folder);
    }
    let tls = config.exports.tls.iter().flat_map(|TlsFiles { cert, key, clients, revoked }| {
        [Some(cert), Some(key), clients.as_ref(), revoked.as_ref()].into_iter().flatten()
    });
    let programs = config
        .monitor
        .iter()
        .flat_map(|monitor| [&monitor.program, &monitor.sendmail, &monitor.smartctl].into_iter().flatten());
    let read =
        tls.chain(&secrets).chain(&config.exports.access).chain(&config.metrics.bearer).chain(programs);
    for file in read.filter(|file| file.is_absolute()) {
        note(file, Use::Read, PlaceKind::File);
    }
    all
}

/// The folder that stands for a file. The root folder would be all that there is.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| folder.components().any(|part| part != Component::RootDir));
    folder.unwrap_or(file).to_owned()
}

impl NamedPlace {
    /// Its folders, all links followed.
    fn folders(&self) -> Vec<PathBuf> {
        let file = real(&absolute(&self.named));
        match self.kind {
            PlaceKind::Folder => vec![file],
            PlaceKind::Devices if file.is_dir() => {
                let entries = fs::read_dir(&file).into_iter().flatten().flatten().map(|entry| entry.path());
                let members = entries
                    .filter(|entry| is_trusted(entry))
                    .map(|entry| real(&entry))
                    .filter(|it| it.is_file());
                std::iter::once(file).chain(members.map(|member| folder_of(&member))).collect()
            }
            // The socket or the member may be a link to another folder.
            PlaceKind::File | PlaceKind::Devices => {
                let beside = absolute(&self.named);
                vec![real(&folder_of(&beside)), folder_of(&file)]
            }
        }
    }

    /// The path that stands for it, by its name alone: no file system is asked.
    fn by_name(&self) -> PathBuf {
        let named = absolute(&self.named);
        match self.kind {
            PlaceKind::Folder | PlaceKind::Devices => named,
            PlaceKind::File => folder_of(&named),
        }
    }
}

/// Whether an entry of a folder of members is followed. A link of another user could have the service write to any folder.
fn is_trusted(entry: &Path) -> bool {
    let own = rustix::process::getuid().as_raw();
    fs::symlink_metadata(entry)
        .is_ok_and(|entry| !entry.file_type().is_symlink() || [0, own].contains(&entry.uid()))
}

/// Folders that the unit does not let a daemon use as the settings want it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    /// Sorted; none lies in another that is written to.
    folders: Vec<(PathBuf, Use)>,
}

fn is_below(path: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

impl Reach {
    fn of(config: &Config) -> Self {
        let each = |place: NamedPlace| place.folders().into_iter().map(move |folder| (folder, place.usage));
        Self::over(places(config).into_iter().flat_map(each))
    }

    fn over(folders: impl Iterator<Item = (PathBuf, Use)>) -> Self {
        let is_hidden = |folder: &Path| is_below(folder, &HOMES) || is_below(folder, &TEMPORARY);
        let lacks = |(folder, usage): &(PathBuf, Use)| {
            is_hidden(folder) || *usage == Use::Write && !is_below(folder, &WRITABLE)
        };
        let mut all: Vec<(PathBuf, Use)> = folders.filter(lacks).collect();
        all.sort();
        let mut kept: Vec<(PathBuf, Use)> = Vec::new();
        for (folder, usage) in &all {
            let is_in = |(other, allowed): &(PathBuf, Use)| {
                folder.starts_with(other) && allowed >= usage && (other, allowed) != (folder, usage)
            };
            if !all.iter().any(is_in) && kept.last() != Some(&(folder.clone(), *usage)) {
                kept.push((folder.clone(), *usage));
            }
        }
        Self { folders: kept }
    }

    /// The drop-in; nothing if the unit does as it is.
    fn drop_in(&self, file: &Path) -> Result<Option<String>, Failure> {
        if self.folders.is_empty() {
            return Ok(None);
        }
        let is_whole = |(folder, usage): &&(PathBuf, Use)| {
            *usage == Use::Write && WHOLE.iter().any(|whole| Path::new(whole) == folder)
        };
        if let Some((folder, _)) = self.folders.iter().find(is_whole) {
            return Err(Failure::Refused(format!(
                "{}: the service would be let write to all of that folder: move what the settings name there into a folder of its own",
                folder.display().to_string().escape_debug()
            )));
        }
        let mut text = format!(
            "# Folders that {} names, and that the unit would not let a daemon use.\n\
             # `brindle config --check FILE --drop-in=THIS` makes it anew.\n[Service]\n",
            file.display().to_string().escape_debug()
        );
        if self.folders.iter().any(|(folder, _)| is_below(folder, &HOMES)) {
            text.push_str("ProtectHome=tmpfs\n");
        }
        if self.folders.iter().any(|(folder, _)| is_below(folder, &TEMPORARY)) {
            text.push_str("PrivateTmp=no\n");
        }
        for (folder, usage) in &self.folders {
            let written = written(folder)?;
            let word = match (is_below(folder, &HOMES), usage) {
                (true, Use::Write) => "BindPaths",
                (true, Use::Read) => "BindReadOnlyPaths",
                (false, Use::Write) => "ReadWritePaths",
                (false, Use::Read) => continue,
            };
            // One that is not there now keeps no service from starting.
            let _ = writeln!(text, "{word}={written}");
        }
        Ok(Some(text))
    }
}

/// A folder as a unit has it.
fn written(folder: &Path) -> Result<String, Failure> {
    let odd = |letter: char| letter.is_control() || "\"'\\:".contains(letter);
    match folder.to_str().filter(|name| !name.contains(odd)) {
        Some(name) if name.contains(' ') => Ok(format!("\"-{}\"", name.replace('%', "%%"))),
        Some(name) => Ok(format!("-{}", name.replace('%', "%%"))),
        None => Err(Failure::Refused(format!(
            "{}: a unit can't name that folder: rename it without quotes, colons, backslashes and control characters",
            folder.display().to_string().escape_debug()
        ))),
    }
}

/// The drop-in that a file of settings needs, if it needs one.
pub(crate) fn drop_in(file: &Path, config: &Config) -> Result<Option<String>, Failure> {
    Reach::of(config).drop_in(&absolute(file))
}

/// Writes a drop-in, and the folder that it is in.
pub(crate) fn write(drop_in: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::output(drop_in.display(), source);
    if let Some(folder) = drop_in.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    replace(drop_in, text.as_bytes()).map_err(failed)
}

/// A mount, as `/proc/self/mountinfo` has it.
struct Mount<'a> {
    at: String,
    /// The part of its file system that it shows.
    root: &'a str,
    kind: &'a str,
    /// Here, and its file system everywhere.
    read_only: bool,
    read_only_everywhere: bool,
}

impl<'a> Mount<'a> {
    /// The mount that shows a path: the last of those that lead deepest.
    fn of(path: &Path, text: &'a str) -> Option<Self> {
        let all = text.lines().filter_map(Self::read).filter(|mount| path.starts_with(&mount.at));
        all.max_by_key(|mount| mount.at.len())
    }

    fn read(line: &'a str) -> Option<Self> {
        let (own, everywhere) = line.split_once(" - ")?;
        let mut words = own.split(' ').skip(3);
        let (root, at, flags) = (words.next()?, words.next()?, words.next()?);
        let mut words = everywhere.split(' ');
        let (kind, flags_everywhere) = (words.next()?, words.nth(1).unwrap_or_default());
        let is_read_only = |flags: &str| flags.split(',').any(|flag| flag == "ro");
        Some(Self {
            at: at.replace("\\040", " "),
            root,
            kind,
            read_only: is_read_only(flags),
            read_only_everywhere: is_read_only(flags_everywhere),
        })
    }

    /// It stands for a folder that a unit hides.
    fn hides(&self) -> bool {
        let empties = self.root.contains("/systemd/inaccessible/") || self.kind == "tmpfs" && self.read_only;
        HOMES.contains(&&*self.at) && empties
            || TEMPORARY.contains(&&*self.at) && self.root.contains("systemd-private-")
    }

    /// Its file system may not answer.
    fn is_from_afar(&self) -> bool {
        FROM_AFAR.iter().any(|kind| self.kind.starts_with(kind))
    }
}

/// The answer of a file system about a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtPath {
    /// Nothing is there.
    Nothing,
    /// It can't be written to.
    Closed,
    /// It can be, maybe since a link of its path leads elsewhere.
    Open,
}

/// Asks the file system.
fn look(path: &Path) -> AtPath {
    match rustix::fs::access(path, rustix::fs::Access::WRITE_OK) {
        Ok(()) => AtPath::Open,
        Err(_) if path.exists() => AtPath::Closed,
        Err(_) => AtPath::Nothing,
    }
}

/// The reason why this process can't use a path as it is wanted, if that is its unit. One of which nothing can be asked counts as it looks by the
/// mount.
fn stopped_at(path: &Path, usage: Use, mounts: &str, look: impl Fn(&Path) -> AtPath) -> Option<&'static str> {
    let mount = Mount::of(path, mounts)?;
    if mount.hides() && look(path) == AtPath::Nothing {
        return Some("hides");
    }
    let is_closed = usage == Use::Write && mount.read_only && !mount.read_only_everywhere;
    let is_it = || mount.is_from_afar() || look(path) == AtPath::Closed;
    (is_closed && !is_below(path, &WRITABLE) && is_it()).then_some("does not let it write to")
}

/// The line of settings that has a path.
fn line_of(text: &str, path: &Path) -> Option<usize> {
    let path = path.to_str()?;
    let has =
        |line: &str| line.match_indices(path).any(|(at, _)| line[at + path.len()..].starts_with(['"', '\'']));
    text.lines().position(has).map(|at| at + 1)
}

/// The unit of systemd that a process is of, by its control groups: `0::/system.slice/brindle.service`.
pub(crate) fn unit_in(groups: &str) -> Option<&str> {
    let path = groups.lines().find_map(|line| {
        line.strip_prefix("0::").or_else(|| line.split_once(":name=systemd:").map(|of| of.1))
    })?;
    path.rsplit('/').find(|part| part.ends_with(".service") && part.starts_with("brindle"))
}

/// All that the unit of this process does not let it reach, each with the line of the settings and the way out. Paths are judged by their names:
/// `--drop-in`, which runs outside of the unit, follows links. Where a file system does not answer in time, there is nothing to tell.
pub(crate) fn lacking(file: &Path, text: &str, config: &Config) -> Vec<String> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Elsewhere no path is touched.
    let Some(unit) = unit_in(&groups) else { return Vec::new() };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (file, text, unit, config) = (file.to_owned(), text.to_owned(), unit.to_owned(), config.clone());
    let all =
        within(PATIENCE, move || Settled { file: &file, text: &text, unit: &unit }.lacking(&config, &mounts));
    all.ok().flatten().unwrap_or_default()
}

/// The file of settings of a service.
struct Settled<'a> {
    file: &'a Path,
    text: &'a str,
    unit: &'a str,
}

impl Settled<'_> {
    fn lacking(&self, config: &Config, mounts: &str) -> Vec<String> {
        let Self { file, text, unit } = self;
        let mut all = Vec::new();
        for place in places(config) {
            let path = place.by_name();
            let Some(why) = stopped_at(&path, place.usage, mounts, look) else { continue };
            let line = line_of(text, &place.named).map_or_else(String::new, |line| format!(", line {line}"));
            let (shown, named) = (file.display().to_string(), path.display().to_string());
            let drop_in = format!("{UNITS}/{unit}.d/{DROP_IN}");
            all.push(format!(
                "{}{line}: the unit of this service {why} {}: `brindle config --check {} --drop-in={}` makes the drop-in that is needed, then \
                 `systemctl daemon-reload` and `systemctl restart {}`",
                shown.escape_debug(),
                named.escape_debug(),
                shell(&shown),
                shell(&drop_in),
                shell(unit),
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with USERS and ROOT for the folders of users.
    fn placed(text: &str) -> String {
        text.replace("USERS", HOMES[0]).replace("ROOT", HOMES[1])
    }

    fn over(folders: &[(&str, Use)]) -> Option<String> {
        let reach =
            Reach::over(folders.iter().map(|(folder, usage)| (PathBuf::from(placed(folder)), *usage)));
        let text = reach.drop_in(Path::new("/etc/brindle/brindle.toml")).unwrap()?;
        Some(text.split_once("[Service]\n").unwrap().1.to_owned())
    }

    #[test]
    fn a_drop_in_has_what_the_unit_lacks_and_nothing_else() {
        use Use::{Read, Write};
        let usual = [
            ("/dev/disk/by-id", Write),
            ("/run/brindle", Write),
            ("/var/lib/brindle/iscsi", Write),
            ("/etc/brindle", Read),
            ("/srv/keys", Read),
        ];
        assert_eq!(over(&usual), None);
        assert_eq!(
            over(&[("/srv/disks", Write), ("/srv/disks/more", Write), ("/srv/disks", Write), ("/srv", Read)]),
            Some("ReadWritePaths=-/srv/disks\n".to_owned())
        );
        assert_eq!(
            over(&[("USERS/a b/disks", Write), ("ROOT/bin", Read), ("/srv/50%", Write)]),
            Some(placed(
                "ProtectHome=tmpfs\nBindPaths=\"-USERS/a b/disks\"\nBindReadOnlyPaths=-ROOT/bin\nReadWritePaths=-/srv/50%%\n"
            ))
        );
        assert_eq!(
            over(&[("/tmp/disks", Write), ("/var/tmp/hook", Read)]),
            Some("PrivateTmp=no\nReadWritePaths=-/tmp/disks\n".to_owned())
        );
        let odd = Reach { folders: vec![(PathBuf::from("/srv/a\nb"), Write)] };
        assert!(odd.drop_in(Path::new("a")).unwrap_err().to_string().contains("rename it"));
    }

    #[test]
    fn all_places_of_settings_are_looked_at() {
        let text = &placed(
            "devices = [\"/srv/a/m0\", \"/m1\", \"/dev/disk\"]\n[[arrays]]\nname = \"a\"\nbitmap = \"/srv/b/bits\"\n\
            [exports]\nnbd = [\"unix:/srv/c/s\", \"unix:/run/brindle/s\"]\naccess = \"ROOT/access\"\n\
            [exports.iscsi]\nstate = \"/srv/d\"\nsecrets = \"USERS/secrets\"\n[metrics]\nlisten = [\"unix:/srv/e/s\"]\n\
            [monitor]\nprogram = \"/tmp/x/hook\"\nsmartctl = \"smartctl\"\n",
        );
        let config = crate::server::settings::parse(text).unwrap();
        let reach = Reach::of(&config);
        let folders: Vec<&str> = reach.folders.iter().map(|(folder, _)| folder.to_str().unwrap()).collect();
        let all = ["/home", "/m1", "/root", "/srv/a", "/srv/b", "/srv/c", "/srv/d", "/srv/e", "/tmp/x"];
        assert_eq!(folders, all);
        assert_eq!(
            (line_of(text, Path::new("/srv/b/bits")), line_of(text, Path::new("/srv/b"))),
            (Some(4), None)
        );
    }

    #[test]
    fn a_folder_that_the_unit_closes_is_told_from_one_that_is_read_only_everywhere() {
        let mounts = "1 0 8:1 / / ro,relatime - ext4 /dev/a rw\n2 1 0:5 / /usr ro - ext4 /dev/b ro\n\
            3 1 0:6 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw\n4 1 8:1 /tmp/systemd-private-1-x/tmp /tmp rw - ext4 /dev/a rw\n\
            5 1 8:1 / /etc rw - ext4 /dev/a rw\n6 1 0:7 / /root ro,nodev - tmpfs tmpfs rw\n";
        let is_there = |path: &Path| if path.exists() { AtPath::Closed } else { AtPath::Nothing };
        let at = |folder: &str, usage| stopped_at(Path::new(folder), usage, mounts, is_there);
        assert_eq!(at("/var", Use::Write), Some("does not let it write to"));
        assert_eq!(
            (at("/var", Use::Read), at("/usr", Use::Write), at("/etc", Use::Write)),
            (None, None, None)
        );
        for hidden in ["USERS/nobody/x", "ROOT/no-such", "/tmp/no-such"] {
            assert_eq!(at(&placed(hidden), Use::Read), Some("hides"), "{hidden}");
        }
    }

    #[test]
    fn a_file_system_from_afar_is_asked_nothing() {
        let mounts = |kind: &str| format!("1 0 0:9 / /srv/no-such ro - {kind} host:/a rw\n");
        let at = |kind: &str, found| {
            stopped_at(Path::new("/srv/no-such/m0"), Use::Write, &mounts(kind), |_| found).is_some()
        };
        for kind in ["nfs4", "cifs", "fuse.sshfs", "ceph", "9p"] {
            assert!(at(kind, AtPath::Nothing), "{kind}");
        }
        // Of others only one that is there and closed counts: a link may lead to a folder that is open.
        let local = [AtPath::Nothing, AtPath::Open, AtPath::Closed].map(|found| at("ext4", found));
        assert_eq!(local, [false, false, true]);
        let device = |named: &str| {
            let place = NamedPlace { named: named.into(), usage: Use::Write, kind: PlaceKind::Devices };
            place.by_name()
        };
        // No file system is asked for what it is.
        assert_eq!(device("/srv/no-such/../m0"), Path::new("/srv/no-such/../m0"));
    }

    #[test]
    fn no_folder_of_the_machine_is_given_as_a_whole() {
        for folder in ["/etc", "/var", "/", "/usr"] {
            let reach = Reach::over([(PathBuf::from(folder), Use::Write)].into_iter());
            let refused = reach.drop_in(Path::new("a")).unwrap_err().to_string();
            assert!(refused.contains("a folder of its own"), "{refused}");
        }
        assert!(over(&[("/etc/brindle/members", Use::Write)]).is_some());
    }

    #[test]
    fn links_of_other_users_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("brindle-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (link, member) = (folder.join("link"), folder.join("member"));
        std::os::unix::fs::symlink("/srv/elsewhere", &link).unwrap();
        fs::write(&member, "").unwrap();
        let own = [is_trusted(&link), is_trusted(&member)];
        let give = |path: &Path| std::os::unix::fs::lchown(path, Some(12_345), None);
        // Only root gives files away.
        let given = (give(&link).and_then(|()| give(&member)).is_ok())
            .then(|| [is_trusted(&link), is_trusted(&member)]);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(own, [true; 2]);
        assert_eq!(given.unwrap_or([false, true]), [false, true], "a file is where it is");
    }
}

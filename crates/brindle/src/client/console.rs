//! `brindle console`: the token is made here, and the console itself is a program of its own, so that no HTTP is parsed in this one.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use brindle_host::opening::ConsoleOptions;

use crate::base::executable::{called, program};
use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::flags::cli::Console;

/// The program that answers browsers.
const PROGRAM: &str = "brindle-console";

/// Runs the console in the place of this process, or prints its token.
pub(crate) fn console(args: &Console) -> Result<(), Failure> {
    let state = args.state.clone().map_or_else(usual_state, Ok)?;
    let token_file = state.join("token");
    let token = token(&state, &token_file)?;
    if args.token {
        return report::print(&format!("{token}\n"));
    }
    let options = ConsoleOptions {
        listen: args.listen.clone(),
        runtime_dir: absolute(&runtime::folder(args.runtime.folder())?),
        token_file: absolute(&token_file),
        hosts: args.host.clone(),
        program: program().map_err(|error| Failure::system("the path of this program", error))?,
        read_only: args.read_only,
    };
    let options =
        serde_json::to_string(&options).map_err(|error| Failure::system("the options", error.into()))?;
    let own = beside().or_else(|| called(Path::new(PROGRAM))).ok_or_else(|| {
        Failure::Refused(format!(
            "{PROGRAM} is neither beside this program nor on the path: the packages have it, and `cargo build -p {PROGRAM}` builds it"
        ))
    })?;
    let failed = Command::new(&own).arg(options).exec();
    Err(Failure::system(own.display().to_string(), failed))
}

/// The program in the folder of this one, as it is built, or where packages have it: `libexec` beside `bin`.
fn beside() -> Option<PathBuf> {
    let own = program().ok()?;
    let packaged = own.parent()?.parent().map(|prefix| prefix.join("libexec/brindle").join(PROGRAM));
    [Some(own.with_file_name(PROGRAM)), packaged].into_iter().flatten().find(|path| path.is_file())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The folder of the token, if none is said.
fn usual_state() -> Result<PathBuf, Failure> {
    let user = rustix::process::geteuid();
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty());
    Ok(match base {
        Some(base) => Path::new(&base).join(PROGRAM),
        None if user.is_root() => Path::new("/run").join(PROGRAM),
        None => std::env::temp_dir().join(format!("{PROGRAM}-{}", user.as_raw())),
    })
}

/// The token, which is made if there is none. Nobody else can have written it, or can read it.
fn token(state: &Path, file: &Path) -> Result<String, Failure> {
    let failed = |source: io::Error| Failure::output(file.display(), source);
    if !file.try_exists().map_err(|source| Failure::system(file.display().to_string(), source))? {
        DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed)?;
        make(state, file).map_err(failed)?;
    }
    let token =
        fs::read_to_string(file).map_err(|source| Failure::system(file.display().to_string(), source))?;
    checked(file).map(|()| token.trim().to_owned())
}

/// Makes a token that belongs to whom its folder belongs: root may come before the console that root asks for. It has its name once it is
/// whole, and the first one stays.
fn make(state: &Path, file: &Path) -> io::Result<()> {
    let (token, owner) = (made()?, fs::metadata(state)?);
    let new = state.join(format!("token.{}", std::process::id()));
    let _ = fs::remove_file(&new); // of a process that was ended
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let named = made.write_all(format!("{token}\n").as_bytes()).and_then(|()| {
        if rustix::process::geteuid().is_root() {
            fchown(&made, Some(owner.uid()), Some(owner.gid()))?;
        }
        match fs::hard_link(&new, file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    fs::remove_file(&new).and(named)
}

fn made() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut token = String::new();
    for byte in bytes {
        let _ = write!(token, "{byte:02x}"); // a string takes everything
    }
    Ok(token)
}

/// Refuses a token that others can read or have written, or whose folder is theirs.
fn checked(file: &Path) -> Result<(), Failure> {
    let user = rustix::process::geteuid().as_raw();
    let folder = file.parent().unwrap_or(file);
    let refused = |why: &str| {
        Failure::Refused(format!(
            "{}: {why}: remove it, or choose another folder with --state",
            file.display().to_string().escape_debug()
        ))
    };
    let of = |path: &Path| {
        fs::metadata(path).map_err(|source| Failure::system(path.display().to_string(), source))
    };
    let (own, folder) = (of(file)?, of(folder)?);
    // Root reads the token of a console that another user runs.
    let is_trusted = |uid: u32| uid == user || uid == 0 || user == 0;
    if !is_trusted(own.uid()) || !is_trusted(folder.uid()) {
        return Err(refused("it, or its folder, is another user's"));
    }
    if own.mode() & 0o077 != 0 {
        return Err(refused("others can read the token"));
    }
    if folder.mode() & 0o022 != 0 {
        return Err(refused("others can write into the folder of the token"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Root, who asks for the token of a service before that has made it, makes one that the service can read.
    #[test]
    fn a_token_belongs_to_whom_its_folder_belongs_and_the_first_stays() {
        let state = tempfile_folder().join("others");
        fs::create_dir_all(&state).unwrap();
        let file = state.join("token");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&state, Some(61000), Some(61000)).unwrap();
        }
        let first = token(&state, &file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().uid(), fs::metadata(&state).unwrap().uid());
        make(&state, &file).unwrap();
        assert_eq!(token(&state, &file).unwrap(), first);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
        fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn a_token_is_made_once_and_is_nobody_elses() {
        let folder = tempfile_folder();
        let (state, file) = (folder.join("state"), folder.join("state/token"));
        let first = token(&state, &file).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(token(&state, &file).unwrap(), first);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(token(&state, &file).unwrap_err().to_string().contains("others can read"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(token(&state, &file).unwrap_err().to_string().contains("others can write"));
        fs::remove_dir_all(&folder).unwrap();
    }

    fn tempfile_folder() -> PathBuf {
        let thread = std::thread::current().id();
        let folder =
            std::env::temp_dir().join(format!("brindle-console-test-{}-{thread:?}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}

//! Files that keep persistent reservations: each is replaced as a whole, and stable before anybody is told.

use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use brindle_io::Io;

use crate::failure::Failure;

/// Where they are if nobody says where.
pub(super) fn folder() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/brindle".into());
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    let unknown =
        || Failure::Usage("there is no home folder to keep reservations in: give --iscsi-state".to_owned());
    state.map(|state| state.join("brindle")).ok_or_else(unknown)
}

/// Keeps a text in a file, or removes the file; returns when that is stable. A thread of its own does it, since a file system
/// may take its time.
pub(super) async fn keep(io: Io, file: PathBuf, text: Option<String>) -> Result<(), ()> {
    let done = Arc::new(Mutex::new(None));
    let (result, remote, task) = (Arc::clone(&done), io.remote(), io.current_task());
    let started = std::thread::Builder::new().name("reservations".into()).spawn(move || {
        let kept = replace(&file, text.as_deref());
        if let Err(error) = &kept {
            tracing::error!(file = %file.display(), %error, "reservations can't be kept");
        }
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept.is_ok());
        remote.run(move |io| io.wake(task));
    });
    if let Err(error) = started {
        tracing::error!(%error, "reservations can't be kept");
        return Err(());
    }
    let kept = poll_fn(|_| {
        let kept = done.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or(Poll::Pending, Poll::Ready)
    });
    if kept.await { Ok(()) } else { Err(()) }
}

/// Puts a text in the place of a file, or nothing.
fn replace(file: &Path, text: Option<&str>) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    match text {
        Some(text) => {
            fs::create_dir_all(folder)?;
            let new = file.with_extension("new");
            let mut to = File::create(&new)?;
            to.write_all(text.as_bytes())?;
            to.sync_all()?;
            fs::rename(&new, file)?;
        }
        None => match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ if !folder.exists() => return Ok(()),
            _ => {}
        },
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("brindle-kept-{}", std::process::id()));
        let file = folder.join("a/x.reservations");
        assert!(replace(&file, None).is_ok());
        replace(&file, Some("one")).unwrap();
        replace(&file, Some("two")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        // A folder in place of the new file keeps the old file as it is.
        fs::create_dir(file.with_extension("new")).unwrap();
        assert!(replace(&file, Some("three")).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        replace(&file, None).unwrap();
        assert!(!file.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}

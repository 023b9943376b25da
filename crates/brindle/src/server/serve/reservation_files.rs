//! Files that keep persistent reservations: each is replaced as a whole, and is stable before the reservation is
//! acknowledged.

use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use brindle_io::Io;

use crate::base::failure::Failure;

/// The folder of reservations, unless a flag names one.
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

/// The steps of which keeping is made. A test has a folder whose power goes between them.
trait Steps {
    /// Makes a file of this content, which is stable when it returns. Its name need not be.
    fn put(&mut self, file: &Path, text: &str) -> io::Result<()>;
    /// Gives a file the name of another, which is gone then.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a file's name away.
    fn remove(&mut self, file: &Path) -> io::Result<()>;
    /// Makes names stable.
    fn sync_names(&mut self, folder: &Path) -> io::Result<()>;
}

/// Files of the system.
struct System;

impl Steps for System {
    fn put(&mut self, file: &Path, text: &str) -> io::Result<()> {
        let mut to = File::create(file)?;
        to.write_all(text.as_bytes())?;
        to.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn sync_names(&mut self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

/// Puts a text in the place of a file, or nothing.
fn replace(file: &Path, text: Option<&str>) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    match text {
        Some(_) => fs::create_dir_all(folder)?,
        None if !folder.exists() => return Ok(()),
        None => {}
    }
    take_steps(&mut System, file, folder, text)
}

fn take_steps(steps: &mut impl Steps, file: &Path, folder: &Path, text: Option<&str>) -> io::Result<()> {
    match text {
        Some(text) => {
            let new = file.with_extension("new");
            steps.put(&new, text)?;
            steps.rename(&new, file)?;
        }
        None => match steps.remove(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        },
    }
    steps.sync_names(folder)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A change of names that a loss of power may undo.
    #[derive(Clone)]
    enum Change {
        Made(PathBuf, usize),
        Renamed(PathBuf, PathBuf),
        Removed(PathBuf),
    }

    /// A folder, and the step before which it breaks down.
    #[derive(Clone, Default)]
    struct Model {
        /// Names that are stable, each with the number of a file.
        names: BTreeMap<PathBuf, usize>,
        /// Changes since, in their order.
        changes: Vec<Change>,
        /// Content of files, and whether that is stable.
        files: Vec<(String, bool)>,
        steps: usize,
        breaks_at: usize,
    }

    fn apply(names: &mut BTreeMap<PathBuf, usize>, change: &Change) {
        match change {
            Change::Made(name, file) => drop(names.insert(name.clone(), *file)),
            Change::Renamed(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Change::Removed(name) => drop(names.remove(name)),
        }
    }

    impl Model {
        fn step(&mut self) -> io::Result<()> {
            self.steps += 1;
            if self.steps > self.breaks_at { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn now(&self) -> BTreeMap<PathBuf, usize> {
            let mut names = self.names.clone();
            self.changes.iter().for_each(|change| apply(&mut names, change));
            names
        }

        /// Contents that a file may have after a loss of power: `None` where it is not there.
        fn after_cut(&self, file: &Path) -> Vec<Option<String>> {
            let mut found = Vec::new();
            for kept in 0..=self.changes.len() {
                let mut names = self.names.clone();
                self.changes[..kept].iter().for_each(|change| apply(&mut names, change));
                let Some(&number) = names.get(file) else {
                    found.push(None);
                    continue;
                };
                let (text, stable) = &self.files[number];
                let torn = if *stable { vec![text.len()] } else { (0..=text.len()).collect() };
                found.extend(torn.into_iter().map(|len| Some(text[..len].to_owned())));
            }
            found
        }
    }

    impl Steps for Model {
        fn put(&mut self, file: &Path, text: &str) -> io::Result<()> {
            self.step()?;
            self.files.push((String::new(), false));
            let number = self.files.len() - 1;
            self.changes.push(Change::Made(file.to_owned(), number));
            self.step()?;
            self.files[number].0 = text.to_owned();
            self.step()?;
            self.files[number].1 = true;
            Ok(())
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.step()?;
            self.changes.push(Change::Renamed(from.to_owned(), to.to_owned()));
            Ok(())
        }

        fn remove(&mut self, file: &Path) -> io::Result<()> {
            self.step()?;
            if !self.now().contains_key(file) {
                return Err(io::ErrorKind::NotFound.into());
            }
            self.changes.push(Change::Removed(file.to_owned()));
            Ok(())
        }

        fn sync_names(&mut self, _: &Path) -> io::Result<()> {
            self.step()?;
            self.names = self.now();
            self.changes.clear();
            Ok(())
        }
    }

    #[test]
    fn a_loss_of_power_leaves_what_was_or_what_is_and_the_latter_once_that_was_said() {
        let (folder, file) = (Path::new("f"), Path::new("f/x.reservations"));
        let texts = [None, Some("one"), Some("two, and more"), None, Some("three"), Some("four"), None];
        let mut cuts = 0;
        for change in texts.windows(2) {
            let (old, new) = (change[0].map(str::to_owned), change[1].map(str::to_owned));
            for breaks_at in 0.. {
                let mut model = Model { breaks_at: usize::MAX, ..Model::default() };
                take_steps(&mut model, file, folder, change[0]).unwrap();
                model.breaks_at = model.steps + breaks_at;
                let kept = take_steps(&mut model, file, folder, change[1]).is_ok();
                for found in model.after_cut(file) {
                    assert!(
                        found == new || !kept && found == old,
                        "step {breaks_at}: {found:?} after {change:?}"
                    );
                    cuts += 1;
                }
                // It is mended by the next that succeeds, whatever was left.
                model.breaks_at = usize::MAX;
                take_steps(&mut model, file, folder, Some("next")).unwrap();
                assert_eq!(model.after_cut(file), [Some("next".to_owned())]);
                if kept {
                    break;
                }
            }
        }
        assert!(cuts > 40, "{cuts} states were looked at");
    }

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

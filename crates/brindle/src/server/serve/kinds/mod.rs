//! Kinds of content that the program finds among devices and opens, at the start and later. Another kind adds a folder beside these, and a
//! row to [`KINDS`].

mod container;
mod md;
mod pool;

use std::path::PathBuf;
use std::rc::Rc;

use brindle_host::opening::Opening;
use brindle_host::{Content, Volumes};

use super::joining::{Intake, Joining};
use crate::base::failure::Failure;
use crate::client::choice::Waiting;
use crate::client::control::Response;
use crate::devices::scan::Findable;
use crate::devices::unserved::Unserved;
use crate::devices::world::{World, WorldOptions};

/// All kinds, in the order in which their contents are served. The first has the devices that no other knows, and says why they are nothing.
const KINDS: [&dyn Kind; 3] = [&md::Md, &container::Containers, &pool::Pools];

/// A kind of content.
trait Kind: Sync {
    /// One of it, in messages: `an array`.
    fn one(&self) -> &'static str;

    /// Finds its contents among the devices that are named at a start, and takes these from there. Nothing is locked.
    fn find(&self, looking: &mut Looking<'_>) -> Result<Box<dyn FoundContents>, Failure>;

    /// Whether something that was found among devices is of this kind.
    fn is_of(&self, found: &Findable) -> bool;

    /// The reason why something that was found can't be opened, as far as that is seen without it being opened.
    fn refused(&self, _found: &Findable, _bitmaps: &[PathBuf]) -> Option<String> {
        None
    }

    /// Opens devices of something that was found while a server runs. Its thread may wait for them.
    fn gather(
        &self,
        look: &mut World,
        found: &Findable,
        by: &Gathering<'_>,
    ) -> Result<Box<dyn Joining>, Failure>;
}

/// A search for contents at a start.
pub(super) struct Looking<'a> {
    pub(super) opening: &'a Opening,
    /// Devices that no kind has taken yet.
    pub(super) devices: Vec<PathBuf>,
    /// Devices that did not answer, by their names: they are not asked again.
    pub(super) silent: Vec<String>,
    /// How devices are looked at, and opened then.
    pub(super) how: WorldOptions,
    /// Nothing need be found, or something was found already.
    pub(super) may_be_empty: bool,
    pub(super) unserved: &'a Unserved,
}

impl Looking<'_> {
    /// No device is left, and none has to be.
    fn is_done(&self) -> bool {
        self.devices.is_empty() && self.may_be_empty
    }
}

/// Contents of one kind that were found at a start.
pub(super) trait FoundContents {
    /// Their names.
    fn names(&self) -> Vec<String>;

    /// Shares of the memory for parity and reconstruction that they take.
    fn shares(&self) -> u64 {
        0
    }

    /// Opens and locks their devices, as far as that writes to none. Contents that can't be served are left.
    fn claim(
        self: Box<Self>,
        world: &mut World,
        unserved: &Unserved,
    ) -> Result<Box<dyn ClaimedContents>, Failure>;
}

/// Contents of one kind that are the server's own. No member of them has been written to.
pub(super) trait ClaimedContents {
    /// Their UUIDs, as reports write them.
    fn uuids(&self) -> Vec<String>;

    /// Leaves contents of which other servers have copies.
    fn refuse_copies(&mut self, _others: &Others, _at: &AtStart<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Looks whether they can be opened, and leaves those that can't be. Members stay as they are.
    fn try_open(&mut self, _at: &AtStart<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Opens those that are not open, which may write to members. Contents that can't be opened are left.
    fn open(self: Box<Self>, at: &AtStart<'_>) -> Result<Vec<StartedContent>, Failure>;
}

/// A content that is open, to be taken in once there is a service.
pub(super) type StartedContent = Box<dyn FnOnce(&Intake, &Opening) -> Rc<dyn Content>>;

/// Other servers, and their reports.
pub(super) type Others = [(String, Result<Response<Volumes>, Failure>)];

/// The start of a server.
pub(super) struct AtStart<'a> {
    pub(super) opening: &'a Opening,
    pub(super) world: &'a World,
    pub(super) unserved: &'a Unserved,
}

/// How something is opened that was found.
pub(crate) struct Gathering<'a> {
    pub(crate) opening: &'a Opening,
    pub(crate) is_read_only: bool,
    /// It is served for reading alone, and waits for members.
    pub(crate) waiting: Option<&'a Waiting>,
}

/// Contents of each kind, in the order of the table.
type OfEachKind = Vec<Box<dyn FoundContents>>;

/// Finds contents of all kinds. Gives how their devices are to be opened, too.
pub(super) fn find(looking: Looking<'_>) -> Result<(WorldOptions, OfEachKind), Failure> {
    find_of(&KINDS, looking)
}

fn find_of(kinds: &[&dyn Kind], mut looking: Looking<'_>) -> Result<(WorldOptions, OfEachKind), Failure> {
    let mut found = Vec::with_capacity(kinds.len());
    for kind in kinds.iter().rev() {
        let contents = kind.find(&mut looking)?;
        looking.may_be_empty |= !contents.names().is_empty();
        found.push((kind.one(), contents));
    }
    found.reverse();
    refuse_same_names(&found)?;
    Ok((looking.how, found.into_iter().map(|(_, contents)| contents).collect()))
}

/// Contents of two kinds that have one name are refused before anything is opened.
fn refuse_same_names(found: &[(&str, Box<dyn FoundContents>)]) -> Result<(), Failure> {
    for (at, (one, contents)) in found.iter().enumerate() {
        for name in contents.names() {
            if let Some((other, _)) = found[..at].iter().find(|(_, before)| before.names().contains(&name)) {
                return Err(Failure::Refused(format!(
                    "{other} and {one} are called '{name}': serve each by itself"
                )));
            }
        }
    }
    Ok(())
}

/// The reason why something that was found can't be opened, for it alone; `bitmaps` are files that have write-intent bitmaps.
pub(crate) fn refused(found: &Findable, bitmaps: &[PathBuf]) -> Option<String> {
    KINDS.iter().find(|kind| kind.is_of(found))?.refused(found, bitmaps)
}

/// Opens devices of something that was found, of whichever kind.
///
/// # Errors
/// It can't be opened, or no kind knows it.
pub(crate) fn gather(
    look: &mut World,
    found: &Findable,
    by: &Gathering<'_>,
) -> Result<Box<dyn Joining>, Failure> {
    match KINDS.iter().find(|kind| kind.is_of(found)) {
        Some(kind) => kind.gather(look, found, by),
        None => Err(Failure::Refused(format!(
            "this version does not know what it is: metadata {}",
            found.metadata.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::world::Through;

    /// A kind that knows its members by the beginning of their names.
    struct Trial {
        one: &'static str,
        begins: &'static str,
    }

    /// Its contents, each called by the end of its member's name.
    struct Found(Vec<String>);

    impl Kind for Trial {
        fn one(&self) -> &'static str {
            self.one
        }

        fn find(&self, looking: &mut Looking<'_>) -> Result<Box<dyn FoundContents>, Failure> {
            let all = std::mem::take(&mut looking.devices);
            let is_own = |path: &PathBuf| path.to_string_lossy().starts_with(self.begins);
            let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_own);
            looking.devices = others;
            let name = |path: PathBuf| path.to_string_lossy().trim_start_matches(self.begins).to_owned();
            Ok(Box::new(Found(own.into_iter().map(name).collect())))
        }

        fn is_of(&self, _found: &Findable) -> bool {
            false
        }

        fn gather(
            &self,
            _: &mut World,
            _: &Findable,
            _: &Gathering<'_>,
        ) -> Result<Box<dyn Joining>, Failure> {
            Err(Failure::Refused("nothing joins".to_owned()))
        }
    }

    impl FoundContents for Found {
        fn names(&self) -> Vec<String> {
            self.0.clone()
        }

        fn claim(self: Box<Self>, _: &mut World, _: &Unserved) -> Result<Box<dyn ClaimedContents>, Failure> {
            Err(Failure::Refused("nothing is claimed".to_owned()))
        }
    }

    /// Names of contents by kind: the first takes all devices that the second does not know.
    fn found(devices: &[&str]) -> Result<Vec<Vec<String>>, String> {
        let (opening, unserved) = (Opening::default(), Unserved::ends());
        let looking = Looking {
            opening: &opening,
            devices: devices.iter().map(PathBuf::from).collect(),
            silent: Vec::new(),
            how: WorldOptions::to_serve(&opening, Through::Never),
            may_be_empty: false,
            unserved: &unserved,
        };
        let first = Trial { one: "an array", begins: "" };
        let second = Trial { one: "a trial", begins: "trial-" };
        let found = find_of(&[&first, &second], looking).map_err(|why| why.to_string())?;
        Ok(found.1.iter().map(|contents| contents.names()).collect())
    }

    #[test]
    fn a_row_of_the_table_is_all_that_a_kind_needs_to_be_found() {
        assert_eq!(found(&["trial-b", "a", "trial-c"]).unwrap(), [vec!["a"], vec!["b", "c"]]);
    }

    #[test]
    fn contents_of_two_kinds_that_have_one_name_are_refused() {
        let why = found(&["a", "trial-a"]).unwrap_err();
        assert_eq!(why, "an array and a trial are called 'a': serve each by itself");
    }
}

//! Kinds of content that the program finds among devices and opens. Another kind adds a file beside these, and a row to [`KINDS`].

pub(super) mod md;
pub(super) mod pool;

use brindle_host::opening::Opening;

use super::joining::Joining;
use crate::base::failure::Failure;
use crate::client::choice::Waiting;
use crate::devices::scan::Findable;
use crate::devices::world::World;

/// All kinds.
const KINDS: [&dyn Kind; 2] = [&md::Md, &pool::Pools];

/// A kind of content.
trait Kind: Sync {
    /// Whether something that was found among devices is of this kind.
    fn is_of(&self, found: &Findable) -> bool;

    /// Opens devices of something that was found. Its thread may wait for them.
    fn gather(
        &self,
        look: &mut World,
        found: &Findable,
        by: &Gathering<'_>,
    ) -> Result<Box<dyn Joining>, Failure>;
}

/// How something is opened that was found.
pub(crate) struct Gathering<'a> {
    pub(crate) opening: &'a Opening,
    pub(crate) is_read_only: bool,
    /// It is served for reading alone, and waits for members.
    pub(crate) waiting: Option<&'a Waiting>,
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

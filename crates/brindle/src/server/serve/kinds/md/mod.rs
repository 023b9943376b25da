//! Arrays of md: their names, whether they are written to, and how they come to a server.

mod copied_members;
mod start;

use std::path::PathBuf;
use std::rc::Rc;

use brindle_format::md::Version;
use brindle_host::opening::{Opening, Permission};
use brindle_host::{Content, ServedArray};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::super::groups;
use super::super::joining::{Intake, Joining, OpenedContent};
use super::{FoundContents, Gathering, Kind, Looking};
use crate::base::failure::Failure;
use crate::devices::host::{AssembledArray, Host, Hosted};
use crate::devices::scan::Findable;
use crate::devices::unserved::{Unserved, with_user};
use crate::devices::world::{Assembled, LeftOut, Named, Set, World, WorldOptions};

/// `name`: the array's name in messages, where there are several.
fn access(
    opening: &Opening,
    found: &mut AssembledArray,
    name: Option<&str>,
) -> Result<DeviceAccess, Failure> {
    let (uuid, own_name) = (found.uuid(), found.own_name());
    let known_as = name.unwrap_or(&own_name);
    let said = opening.access_of(known_as, &uuid);
    if said == Permission::ReadOnly {
        return Ok(DeviceAccess::Read);
    }
    if opening.goes_on_with(known_as, &uuid) {
        found.assembled.go_on();
    }
    let reasons = found.reasons_not_to_write();
    if reasons.is_empty() {
        return Ok(DeviceAccess::Write);
    }
    let reasons = reasons.join("; ");
    if said == Permission::ReadWrite {
        let array = name.map_or_else(|| "the array".to_owned(), |name| format!("array '{name}'"));
        return Err(Failure::Refused(format!("{array} can't be written to: {reasons}")));
    }
    let of = name.map_or_else(String::new, |name| format!("{name}: "));
    eprintln!("brindle: {of}serving read-only: {reasons}");
    Ok(DeviceAccess::Read)
}

/// The kind.
pub(super) struct Md;

impl Kind for Md {
    fn one(&self) -> &'static str {
        "an array"
    }

    fn find(&self, looking: &mut Looking<'_>) -> Result<Box<dyn FoundContents>, Failure> {
        Ok(Box::new(start::find(looking)?))
    }

    fn is_of(&self, found: &Findable) -> bool {
        found.metadata.parse::<Version>().is_ok()
    }

    fn refused(&self, found: &Findable, bitmaps: &[PathBuf]) -> Option<String> {
        let mut look = World::new(WorldOptions { force: false, ..WorldOptions::LOOK }).ok()?;
        let found = Host::find(&mut look, &found.members, bitmaps, false, &Unserved::ends());
        found.err().map(|why| with_user(&why))
    }

    fn gather(
        &self,
        look: &mut World,
        _found: &Findable,
        by: &Gathering<'_>,
    ) -> Result<Box<dyn Joining>, Failure> {
        let opening = by.opening;
        let mut all = Host::find(look, &opening.members, &opening.bitmaps, false, &Unserved::ends())?;
        let Some(mut only) = all.pop().filter(|_| all.is_empty()) else {
            return Err(Failure::Refused("its members are of several arrays".to_owned()));
        };
        let name = only.own_name();
        let access =
            if by.is_read_only { DeviceAccess::Read } else { access(opening, &mut only, Some(&name))? };
        let names = vec![name, only.uuid_name()];
        let (set, mut members) = (only.set, Vec::new());
        for named in set.members {
            let (path, device): (PathBuf, _) = look.reopen(&named, access)?;
            members.push((named, path, device));
        }
        // Members are locked by now.
        let file = set.bitmap.filter(|_| access == DeviceAccess::Write);
        let bitmap = file.map(|path| look.keep_bitmap(&path).map(|device| (path, device))).transpose()?;
        let left_out = set.left_out;
        Ok(Box::new(JoiningArray { names, access, assembled: only.assembled, members, bitmap, left_out }))
    }
}

/// An array that was found, with its members open.
struct JoiningArray {
    names: Vec<String>,
    access: DeviceAccess,
    assembled: Assembled,
    members: Vec<(Named, PathBuf, OpenDevice)>,
    /// The file of its write-intent bitmap, if it is to be written to.
    bitmap: Option<(PathBuf, OpenDevice)>,
    left_out: Vec<LeftOut>,
}

impl Joining for JoiningArray {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn open<'a>(self: Box<Self>, name: String, at: &'a Intake, opening: &'a Opening) -> OpenedContent<'a> {
        Box::pin(async move {
            let mut opened = Vec::new();
            let begun = self.begin(name, at, &mut opened).await;
            let hosted = begun.map_err(|why| at.close(&opened, why))?;
            Ok(content(&hosted, at, opening))
        })
    }
}

impl JoiningArray {
    /// Gives its devices to the world, and opens the array; `opened` has those that the world has then.
    async fn begin(self, name: String, at: &Intake, opened: &mut Vec<MemberId>) -> Result<Hosted, Failure> {
        let Self { access, mut assembled, members, bitmap, left_out, .. } = self;
        let mut set =
            Set { left_out, bitmap: bitmap.as_ref().map(|(path, _)| path.clone()), ..Set::default() };
        for (named, path, device) in members {
            let id = at.world.add(&path, device)?;
            opened.push(id);
            set.members.push(Named { id, ..named });
        }
        let ids = opened.clone();
        if let (Some((path, device)), Some(file)) = (bitmap, assembled.bitmap_file()) {
            let id = at.world.add(&path, device)?;
            opened.push(id);
            file.id = Some(id);
        }
        let array = at.world.begin(&assembled, &ids, access).await?;
        Ok(Hosted { name, array, found: AssembledArray { assembled, set } })
    }
}

/// An array that runs, as content.
fn content(hosted: &Hosted, at: &Intake, opening: &Opening) -> Rc<dyn Content> {
    let uuid = hosted.found.uuid();
    let placed = at.placed(opening, (&hosted.name, &uuid), at.is_named);
    let mut given = hosted.given();
    given.spare_group = groups::of(&opening.policies.spare_groups, &hosted.name).map(str::to_owned);
    ServedArray::new(&at.world.io, given, placed, &at.listener)
}

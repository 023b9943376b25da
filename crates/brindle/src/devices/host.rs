//! Arrays that are put together from named devices, and opened, each with its name: by commands, and by servers.

use std::path::PathBuf;

use brindle_array::ledger::Limit;
use brindle_array::{Array, Recovery};
use brindle_format::md::{display_uuid, split_name};
use brindle_host::ArrayDescription;
use brindle_host::opening::Tuning;
use brindle_host::status::LeftOut;
use brindle_io::MemberId;
use brindle_io::device::DeviceAccess;
use brindle_md::assembly::ForeignArray;

use crate::base::failure::Failure;
use crate::devices::unserved::Unserved;
use crate::devices::world::{self, Assembled, Named, Nested, SeenBitmap, Set, World, WorldOptions};

/// An array that was assembled from the named devices, and not opened yet.
pub(crate) struct AssembledArray {
    pub(crate) assembled: Assembled,
    pub(crate) set: Set,
}

/// A running array, and how it was found.
pub(crate) struct Hosted {
    pub(crate) name: String,
    pub(crate) array: Array,
    pub(crate) found: AssembledArray,
}

/// An array that is to be opened.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) found: AssembledArray,
    pub(crate) access: DeviceAccess,
}

/// An array in a world of its own, for a command that ends with it.
pub(crate) struct Host {
    /// Let go before the world in which it runs.
    pub(crate) array: Hosted,
    pub(crate) world: World,
}

impl AssembledArray {
    /// Limitations of the array, and of the arrays that are its members.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let nested = self.set.nested.iter().flat_map(|nested| nested.description().limits);
        nested.chain(self.description().limits).collect()
    }

    /// The reasons why it can't be written to.
    pub(crate) fn reasons_not_to_write(&self) -> Vec<String> {
        let limits = self.limits().into_iter();
        limits.filter(|limit| limit.forbids_writes).map(|limit| limit.text).collect()
    }

    /// The array as its members describe it.
    pub(crate) fn description(&self) -> ArrayDescription {
        self.assembled.description()
    }

    /// The array's own name without its host, if that can name sockets and exports; else its UUID.
    pub(crate) fn own_name(&self) -> String {
        self.assembled.own_name()
    }

    /// A file is that of the array's write-intent bitmap.
    fn take_bitmap(&mut self, seen: &SeenBitmap) -> Result<(), Failure> {
        if let Some(first) = &self.set.bitmap {
            let (first, other) = (first.display(), seen.path.display());
            return Err(Failure::Usage(format!("{first} and {other}: an array has one write-intent bitmap")));
        }
        seen.become_that_of(&mut self.assembled, None)?;
        if self.description().bitmap.is_some_and(|bitmap| bitmap.stale) {
            eprintln!(
                "brindle: {} is out of date: the array was changed without it, and all of its bits count as set",
                seen.path.display()
            );
        }
        self.set.bitmap = Some(seen.path.clone());
        Ok(())
    }

    /// Its UUID, as mdadm writes it.
    pub(crate) fn uuid(&self) -> String {
        self.assembled.uuid()
    }

    /// Arrays in all: those that are its members, too.
    pub(crate) fn arrays(&self) -> u64 {
        1 + self.set.nested.len() as u64
    }

    /// All devices that were opened for it.
    fn devices(&self) -> Vec<MemberId> {
        let Set { members, nested, unused, .. } = &self.set;
        let inner = nested.iter().chain(unused).flat_map(|nested| &nested.members);
        let file = self.assembled.bitmap_device();
        members.iter().chain(inner).map(|named| named.id).chain(file).collect()
    }

    /// The name of an array whose own name another has.
    pub(crate) fn uuid_name(&self) -> String {
        self.assembled.uuid_name()
    }
}

/// The name of an array and its UUID, as they are found on a member.
fn called(array: &ForeignArray) -> (String, String) {
    let uuid = display_uuid(array.uuid).to_string();
    let own = split_name(&array.name).1;
    (if own.is_empty() { uuid.clone() } else { own.to_owned() }, uuid)
}

/// Opens the file of an array's write-intent bitmap, if it is to be written to.
fn open_bitmap(world: &World, found: &mut AssembledArray, access: DeviceAccess) -> Result<(), Failure> {
    if let (DeviceAccess::Write, Some(path), Some(file)) =
        (access, &found.set.bitmap, found.assembled.bitmap_file())
    {
        file.id = Some(world.open_bitmap(path)?);
    }
    Ok(())
}

/// Has each file be the write-intent bitmap of the array of which it says it is.
fn give_bitmaps(
    look: &World,
    found: &mut [AssembledArray],
    files: &[PathBuf],
    unserved: &Unserved,
) -> Result<(), Failure> {
    for path in files {
        let seen = look.look_at_bitmap(path)?;
        let of = |found: &AssembledArray| found.assembled.bitmap_uuid();
        let several = found.len() > 1;
        let is_it =
            |found: &&mut AssembledArray| !several || seen.array().is_some() && of(found) == seen.array();
        match found.iter_mut().find(is_it) {
            Some(found) => found.take_bitmap(&seen)?,
            None => {
                let path = path.display();
                let none = Failure::Refused(format!(
                    "{path}: it is the write-intent bitmap of none of the named arrays; name its array's members, or leave it out"
                ));
                unserved.leave(&path.to_string(), "", none)?;
            }
        }
    }
    Ok(())
}

/// The names of arrays: each has its own name, but arrays of one name all have their UUIDs instead, so that none is
/// taken for another.
pub(crate) fn names(found: &[AssembledArray]) -> Vec<String> {
    tell_apart(&found.iter().map(|found| (found.own_name(), found.uuid_name())).collect::<Vec<_>>())
}

/// The first of each pair where no other is called so, else the second, of which no two are the same.
fn tell_apart(names: &[(String, String)]) -> Vec<String> {
    let mut called: Vec<&String> = names.iter().map(|(own, _)| own).collect();
    // An array may have another's UUID for a name.
    loop {
        let clashes = |at: &usize| {
            called.iter().filter(|name| **name == called[*at]).count() > 1 && *called[*at] != names[*at].1
        };
        let clashing: Vec<usize> = (0..names.len()).filter(clashes).collect();
        if clashing.is_empty() {
            return called.into_iter().cloned().collect();
        }
        for at in clashing {
            called[at] = &names[at].1;
        }
    }
}

impl Hosted {
    /// Ends the array and the arrays that are its members, outermost first: each marks itself clean. A member that can't
    /// is the array's affair as any other, and has been reported.
    pub(crate) async fn stop(&self) -> Result<(), Failure> {
        let nested = self.found.set.nested.iter().map(|nested| (&*nested.label, &nested.array));
        let stopped = brindle_host::stop_stack(&self.array, nested).await;
        stopped.map_err(|source| Failure::Volume { doing: "stopping the array", source })
    }

    /// Lets the array go, which no client has used.
    pub(crate) fn let_go(&self, world: &World) -> Result<(), Failure> {
        world.io.block_on(self.stop())?;
        world.let_go_of(&self.found.devices());
        Ok(())
    }

    /// The array for the host that serves it.
    pub(crate) fn given(&self) -> brindle_host::Hosted {
        let Set { members, nested, unused, left_out, .. } = &self.found.set;
        let file = |label: &String| Some((label.clone(), std::fs::canonicalize(label).ok()?));
        let inner = nested.iter().chain(unused).flat_map(|nested| &nested.members);
        let devices: Vec<&Named> = inner.chain(members).collect();
        brindle_host::Hosted {
            name: self.name.clone(),
            array: self.array.clone(),
            description: self.found.description(),
            nested: nested.iter().map(Nested::given).collect(),
            spare_group: None,
            left_out: left_out
                .iter()
                .map(|left_out| LeftOut { path: left_out.label.clone(), why: left_out.why.clone() })
                .collect(),
            files: devices.iter().filter_map(|named| file(&named.label)).collect(),
            devices: devices.iter().map(|named| named.id).collect(),
        }
    }
}

impl Host {
    /// Opens the array that everything named forms, to be looked at; `bitmaps` are files that were given for its write-intent bitmap.
    pub(crate) fn open(
        names: &[PathBuf],
        bitmaps: &[PathBuf],
        opening: WorldOptions,
    ) -> Result<Self, Failure> {
        Self::open_by(World::open_all, names, bitmaps, opening)
    }

    /// Opens those of these devices that can be members.
    pub(crate) fn open_fit(names: &[PathBuf], opening: WorldOptions) -> Result<Self, Failure> {
        Self::open_by(World::open_fit, names, &[], opening)
    }

    fn open_by(
        open: fn(&mut World, &[PathBuf]) -> Result<Set, Failure>,
        names: &[PathBuf],
        bitmaps: &[PathBuf],
        opening: WorldOptions,
    ) -> Result<Self, Failure> {
        world::check_budget(&opening.tuning)?;
        let mut world = World::new(opening)?;
        let mut set = open(&mut world, names)?;
        let assembled = world.assemble(&mut set, opening.force)?;
        let mut found = AssembledArray { assembled, set };
        give_bitmaps(&world, std::slice::from_mut(&mut found), bitmaps, &Unserved::ends())?;
        let array = world.start(&found.assembled, &found.set.members)?;
        world::warn_of_left_out([&found.set]);
        let hosted = Hosted { name: found.own_name(), array, found };
        Ok(Self { array: hosted, world })
    }

    /// Finds the arrays that the named devices form, each by its superblocks. All or none: one that can't be
    /// assembled is named. `bitmaps` are files that have write-intent bitmaps of some of them.
    pub(crate) fn find(
        look: &mut World,
        names: &[PathBuf],
        bitmaps: &[PathBuf],
        force: bool,
        unserved: &Unserved,
    ) -> Result<Vec<AssembledArray>, Failure> {
        let sets = look.open_all(names)?.by_array();
        let several = sets.len() > 1;
        let arrays: Vec<_> = sets.iter().filter_map(Set::array).collect();
        let mut found = Vec::with_capacity(sets.len());
        for mut set in sets {
            let array = set.array();
            let called = array.as_ref().map(called).unwrap_or_default();
            let assembled = look.assemble(&mut set, force).map_err(|failure| match array {
                Some(array) if several => Failure::OneOf {
                    array: ForeignArray { members: Vec::new(), ..array }.to_string(),
                    source: Box::new(failure),
                    arrays: arrays.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                },
                _ => failure,
            });
            let assembled = match assembled {
                Ok(assembled) => assembled,
                Err(failure) => {
                    unserved.leave(&called.0, &called.1, failure)?;
                    continue;
                }
            };
            if several && assembled.is_complete() {
                // Whatever else could not be read is not a member of this one.
                set.left_out.retain(|left_out| assembled.may_have(left_out));
            }
            found.push(AssembledArray { assembled, set });
        }
        give_bitmaps(look, &mut found, bitmaps, unserved)?;
        Ok(found)
    }

    /// Opens an array that is not served, to change it: nothing is rebuilt unless `recovery` says so.
    pub(crate) fn open_to_change(
        names: &[PathBuf],
        bitmaps: &[PathBuf],
        tuning: Tuning,
        recovery: Recovery,
    ) -> Result<Self, Failure> {
        world::check_budget(&tuning)?;
        let opening = WorldOptions { force: false, tuning, recovery, ..WorldOptions::LOOK };
        let mut look = World::new(opening)?;
        let unserved = Unserved::ends();
        let mut found = Self::find(&mut look, names, bitmaps, false, &unserved)?;
        let Some(only) = found.pop().filter(|_| found.is_empty()) else {
            return Err(Failure::Usage("these are members of several arrays: name those of one".to_owned()));
        };
        let reasons = only.reasons_not_to_write();
        if !reasons.is_empty() {
            return Err(Failure::Refused(format!("the array can't be written to: {}", reasons.join("; "))));
        }
        let mut world = World::new(opening)?;
        world.share_memory(only.arrays(), 1);
        let wanted = Wanted { name: only.own_name(), found: only, access: DeviceAccess::Write };
        let mut claimed = claim(&mut world, &look, vec![wanted], &unserved)?;
        let array = claimed.pop().ok_or_else(|| Failure::Refused("the array was not opened".to_owned()))?;
        Ok(Self { array, world })
    }
}

/// Opens the members that another world has found, with the access of each array, and the arrays. Nothing is assembled again.
pub(crate) fn claim(
    world: &mut World,
    look: &World,
    wanted: Vec<Wanted>,
    unserved: &Unserved,
) -> Result<Vec<Hosted>, Failure> {
    let mut claimed = Vec::with_capacity(wanted.len());
    for Wanted { name, found: AssembledArray { assembled, set }, access } in wanted {
        let uuid = assembled.uuid();
        let before = world.devices();
        match world.claim(set, look, access) {
            Ok(set) => claimed.push((name, AssembledArray { assembled, set }, access)),
            Err(failure) => {
                world.let_go_of_all_but(&before);
                unserved.leave(&name, &uuid, failure)?;
            }
        }
    }
    // Members are locked by now.
    let mut ready = Vec::with_capacity(claimed.len());
    for (name, mut found, access) in claimed {
        match open_bitmap(world, &mut found, access) {
            Ok(()) => ready.push((name, found, access)),
            Err(failure) => {
                world.let_go_of(&found.devices());
                unserved.leave(&name, &found.uuid(), failure)?;
            }
        }
    }
    let mut started = Vec::with_capacity(ready.len());
    for (name, found, access) in ready {
        world.set_access(access);
        match world.start(&found.assembled, &found.set.members) {
            Ok(array) => started.push(Hosted { name, array, found }),
            Err(failure) => {
                world.let_go_of(&found.devices());
                unserved.leave(&name, &found.uuid(), failure)?;
            }
        }
    }
    world::warn_of_left_out(started.iter().map(|hosted| &hosted.found.set));
    Ok(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_one_name_are_called_by_their_uuids() {
        let called = |names: &[(&str, &str)]| {
            let names: Vec<_> = names.iter().map(|(own, uuid)| (own.to_string(), uuid.to_string())).collect();
            tell_apart(&names)
        };
        assert_eq!(called(&[("a", "1"), ("b", "2")]), ["a", "b"]);
        assert_eq!(called(&[("a", "1"), ("b", "2"), ("a", "3")]), ["1", "b", "3"]);
        // An array whose name is another's UUID gives way.
        assert_eq!(called(&[("a", "1"), ("a", "2"), ("1", "3")]), ["1", "2", "3"]);
        assert_eq!(called(&[("1", "1"), ("1", "2")]), ["1", "2"]);
    }
}

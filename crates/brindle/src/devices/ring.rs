//! Devices of the real world, for the host: files and block devices, opened, made and let go by threads of their own, since each may
//! hang, on the ring of this thread.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use brindle_format::md::Uuid;
use brindle_host::{
    Attacher, Devices, Found, Made, NewBitmapFile, Newcomer, Pending, Refused, Search, Source, Terms, mailbox,
};
use brindle_io::device::Identity;
use brindle_io::{MemberId, SocketId};

use crate::base::failure::Failure;
use crate::base::random::random_uuid;
use crate::devices::world::attach::Kernel;
use crate::devices::world::{self, Make, World};

/// A world whose devices a host has.
pub(crate) struct Ring(pub(crate) Rc<World>);

impl Ring {
    /// Gives devices that were opened to the reactor: all or none.
    fn take_all(world: &World, opened: Vec<world::Newcomer>) -> Result<Vec<Newcomer>, Failure> {
        let mut taken: Vec<Newcomer> = Vec::with_capacity(opened.len());
        for newcomer in opened {
            match world.take_newcomer(newcomer) {
                Ok(newcomer) => taken.push(newcomer),
                Err(why) => {
                    let ids: Vec<MemberId> = taken.iter().map(|newcomer| newcomer.id).collect();
                    world.locks.unlock_those(&world.close_devices(&ids));
                    return Err(why);
                }
            }
        }
        Ok(taken)
    }

    /// Has devices that are closed be free, and does something first.
    fn free(&self, closed: Vec<Identity>, first: impl FnOnce() + Send + 'static) -> Pending<()> {
        let locks = Arc::clone(&self.0.locks);
        Box::pin(mailbox::on_thread(&self.0.io, "unlock", move || {
            first();
            locks.unlock_those(&closed);
        }))
    }
}

impl Devices for Ring {
    fn open(&self, sources: Vec<Source>, terms: Terms) -> Pending<Result<Vec<Newcomer>, Refused>> {
        let world = Rc::clone(&self.0);
        let terms = world::Terms { known: terms.known, coming: terms.coming };
        let looked = mailbox::on_thread(&world.io, "look", move || terms.look_at(sources));
        Box::pin(async move {
            looked.await.and_then(|opened| Self::take_all(&world, opened)).map_err(Refused::new)
        })
    }

    fn find(&self, search: Search) -> Pending<Found> {
        let world = Rc::clone(&self.0);
        let known = world.known().into_iter().map(|(identity, _)| identity).chain(search.but).collect();
        let mut wanted = world::Search { names: search.names, array: search.array, known };
        let looked = mailbox::on_thread(&world.io, "look", move || {
            if search.everywhere {
                wanted.names.extend(world::block_devices());
            }
            wanted.find()
        });
        Box::pin(async move {
            let (opened, refused) = looked.await;
            let mut found = Found::default();
            found.refused.extend(refused.into_iter().map(|(label, why)| (label, Refused::new(why))));
            for newcomer in opened {
                let label = newcomer.label().to_owned();
                match world.take_newcomer(newcomer) {
                    Ok(newcomer) => found.newcomers.push(newcomer),
                    Err(why) => found.refused.push((label, Refused::new(why))),
                }
            }
            found
        })
    }

    fn make_bitmap(&self, new: NewBitmapFile) -> Pending<Result<Made, Refused>> {
        let world = Rc::clone(&self.0);
        let NewBitmapFile { path, bytes, force, known } = new;
        let make = Make { path, bytes, force, known };
        let made = mailbox::on_thread(&world.io, "make", move || make.make(None));
        Box::pin(async move {
            let made = made.await.map_err(Refused::new)?;
            let is_new = made.is_new();
            let file = world.take_bitmap(made).map_err(Refused::new)?;
            Ok(Made { file, is_new })
        })
    }

    fn unmake_bitmap(&self, made: Made) -> Pending<()> {
        let closed = self.0.close_devices(made.file.id.as_slice());
        self.free(closed, move || {
            if made.is_new {
                // A file that can't be removed does no harm.
                let _ = std::fs::remove_file(&made.file.label);
            }
        })
    }

    fn known(&self) -> Vec<(Identity, PathBuf)> {
        self.0.known()
    }

    fn identity(&self, name: PathBuf) -> Pending<Option<Identity>> {
        Box::pin(mailbox::on_thread(&self.0.io, "look", move || world::identity_of(&name)))
    }

    fn close(&self, devices: &[MemberId]) -> Pending<()> {
        if devices.is_empty() {
            return Box::pin(async {});
        }
        self.free(self.0.close_devices(devices), || {})
    }

    fn attacher(&self) -> Option<Rc<dyn Attacher>> {
        Some(Rc::new(Kernel { io: self.0.io.clone(), uring: self.0.uring.clone() }))
    }

    fn port(&self, descriptor: OwnedFd) -> Result<SocketId, Refused> {
        self.0.uring.add_port(descriptor).map_err(Refused::new)
    }

    fn new_uuid(&self) -> Result<Uuid, Refused> {
        random_uuid().map_err(Refused::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::File;

    use brindle_host::Coming;
    use brindle_io::device::DeviceAccess;

    use crate::devices::world::WorldOptions;

    #[test]
    fn a_descriptor_is_a_device_as_its_name_is() {
        let dir = std::env::temp_dir().join(format!("brindle-ring-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let (path, other) = (dir.join("a"), dir.join("b"));
        File::create(&path).unwrap().set_len(8 << 20).unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        let world =
            Rc::new(World::new(WorldOptions { access: DeviceAccess::Write, ..WorldOptions::LOOK }).unwrap());
        let ring = Ring(Rc::clone(&world));
        let given = || {
            Source::Given("mine".into(), File::options().read(true).write(true).open(&path).unwrap().into())
        };
        let open = |source: Source| {
            let known =
                ring.known().into_iter().map(|(identity, path)| (identity, path.display().to_string()));
            let terms = Terms { known: known.collect(), coming: Coming::default() };
            world.io.block_on(ring.open(vec![source], terms))
        };
        let first = open(given()).unwrap().remove(0);
        assert_eq!((&*first.label, &first.file), ("mine", &None));
        for (again, name) in
            [(Source::Named(other.clone()), other.display().to_string()), (given(), "mine".to_owned())]
        {
            let why = open(again).expect_err("it is in use").to_string();
            assert_eq!(why, format!("{name}: it is mine"));
        }
        world.io.block_on(ring.close(&[first.id]));
        let by_name = open(Source::Named(other)).unwrap().remove(0);
        assert_eq!(by_name.identity, first.identity);
        world.end();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

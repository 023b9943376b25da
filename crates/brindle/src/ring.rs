//! Devices of the real world, for the host: files and block devices, opened, made and let go by threads of their own, since each may
//! hang, on the ring of this thread.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use brindle_format::md::Uuid;
use brindle_host::{Devices, Found, Made, NewBitmapFile, Newcomer, Pending, Refused, Search, Terms, mailbox};
use brindle_io::device::Identity;
use brindle_io::{Io, MemberId};

use crate::failure::Failure;
use crate::random::random_uuid;
use crate::world::{self, Make, World};

/// A world whose devices a host has.
pub(crate) struct Ring(pub(crate) Rc<World>);

impl Ring {
    /// Does `work` in a thread of its own. Without a thread there is no answer in time, and that is said.
    fn on_thread<T: Send + 'static>(
        io: &Io,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + 'static {
        let (sender, receiver) = mailbox::mailbox(io);
        let _ = thread::Builder::new().name(name.into()).spawn(move || sender.send(work()));
        async move { receiver.next().await }
    }

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
        Box::pin(Self::on_thread(&self.0.io, "unlock", move || {
            first();
            locks.unlock_those(&closed);
        }))
    }
}

impl Devices for Ring {
    fn open(&self, names: Vec<PathBuf>, terms: Terms) -> Pending<Result<Vec<Newcomer>, Refused>> {
        let world = Rc::clone(&self.0);
        let terms = world::Terms { known: terms.known, coming: terms.coming };
        let looked = Self::on_thread(&world.io, "look", move || terms.look_at(&names));
        Box::pin(async move {
            looked.await.and_then(|opened| Self::take_all(&world, opened)).map_err(Refused::new)
        })
    }

    fn find(&self, search: Search) -> Pending<Found> {
        let world = Rc::clone(&self.0);
        let known = world.known().into_iter().map(|(identity, _)| identity).chain(search.but).collect();
        let mut wanted = world::Search { names: search.names, array: search.array, known };
        let looked = Self::on_thread(&world.io, "look", move || {
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
        let made = Self::on_thread(&world.io, "make", move || make.make(None));
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
                // It is in nobody's way, if it can't be removed.
                let _ = std::fs::remove_file(&made.file.label);
            }
        })
    }

    fn known(&self) -> Vec<(Identity, PathBuf)> {
        self.0.known()
    }

    fn close(&self, devices: &[MemberId]) -> Pending<()> {
        if devices.is_empty() {
            return Box::pin(async {});
        }
        self.free(self.0.close_devices(devices), || {})
    }

    fn new_uuid(&self) -> Result<Uuid, Refused> {
        random_uuid().map_err(Refused::new)
    }
}

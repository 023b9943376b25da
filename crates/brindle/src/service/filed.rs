//! A bitmap that goes to a file: that is made first, in a thread of its own, since what holds it may hang.

use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use super::{Service, with_service};
use crate::control::{Answer, Reply};
use crate::exported::Exported;
use crate::failure::Failure;
use crate::growth::{Filed, Growth, bitmap_file};
use crate::world::MadeBitmap;

impl Service {
    /// Makes a file, and has an array keep its bitmap there.
    pub(crate) fn file_bitmap(self: &Rc<Self>, filed: Filed, array: Option<&str>, reply: Reply) {
        let array = match self.one(array) {
            Ok(array) => array,
            Err(answer) => return reply.send(answer),
        };
        let name = array.name().to_owned();
        let make = match filed.make(&array.hosted.array, self.known()) {
            Ok(make) => make,
            Err(why) => return reply.send(Answer::Error(format!("{name}: {why}"))),
        };
        let remote = self.io.remote();
        let work = move || {
            let made = make.make(None);
            remote.run(move |io| {
                with_service(|service| {
                    let service = Rc::clone(service);
                    io.spawn(async move { service.move_bitmap(&name, made, filed, reply).await });
                });
            });
        };
        // Without a thread there is no answer in time, and that is said.
        let _ = thread::Builder::new().name("make".into()).spawn(work);
    }

    async fn move_bitmap(
        self: Rc<Self>,
        name: &str,
        made: Result<MadeBitmap, Failure>,
        filed: Filed,
        reply: Reply,
    ) {
        let made = match made {
            Ok(made) => made,
            Err(why) => return reply.send(Answer::Error(why.to_string())),
        };
        let undo = made.undo();
        let file = match self.host.world.take_bitmap(made) {
            Ok(file) => file,
            Err(why) => return reply.send(Answer::Error(why.to_string())),
        };
        let Some(array) = self.arrays().into_iter().find(|array| array.name() == name) else {
            return self.free_after(&file.id.into_iter().collect::<Vec<_>>(), undo, reply, {
                Answer::Error(format!("{name} has been stopped"))
            });
        };
        let before = bitmap_file(&array.hosted.array);
        match array.grow(Growth::Bitmap(filed.spec(file.clone()))).await {
            Ok(true) => self.free(before.as_slice(), reply, Answer::Ok(self.report_of(&array))),
            Ok(false) => reply.send(Answer::Error(late(&array))),
            Err(why) => {
                let why = Answer::Error(format!("{name}: {why}"));
                self.free_after(&file.id.into_iter().collect::<Vec<_>>(), undo, reply, why);
            }
        }
    }

    /// Gives an array what it is to have beside its devices, and lets the file go that had its bitmap, if none does now.
    pub(super) async fn grow(&self, growth: Growth, array: Option<&str>) -> Answer {
        let array = match self.one(array) {
            Ok(array) => array,
            Err(answer) => return answer,
        };
        let before = bitmap_file(&array.hosted.array);
        match array.grow(growth).await {
            Ok(true) => {
                if bitmap_file(&array.hosted.array) != before {
                    let devices = self.host.world.close_devices(before.as_slice());
                    let locks = Arc::clone(&self.host.world.locks);
                    // Without a thread it is unlocked when the server ends.
                    let _ = thread::Builder::new()
                        .name("unlock".into())
                        .spawn(move || drop(locks.unlock_those(&devices)));
                }
                Answer::Ok(self.report_of(&array))
            }
            Ok(false) => Answer::Error(late(&array)),
            Err(why) => Answer::Error(format!("{}: {why}", array.name())),
        }
    }
}

fn late(array: &Exported) -> String {
    format!("{}: the array is busy, and does it as soon as it can; see `brindle status`", array.name())
}

//! Clients for which there is no place: a few at a time are told so, all others are closed at once.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::{Notify, race};
use brindle_io::{Duration, Io, Pool, Slice, SocketId};

use super::inbox::Inbox;
use super::link::Link;

/// Clients that are being told at a time.
const MOST: usize = 4;
/// Bytes of each buffer of such a client: the first thing that it says, and the answer.
const BUFFER: usize = 16 * 1024;
/// Time that it has to say something and to hear the answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct Overflow {
    /// Those that are being told.
    links: RefCell<Vec<Rc<Link>>>,
    buffers: Pool,
    closed: Cell<bool>,
    gone: Notify,
}

impl Overflow {
    pub(super) fn new(io: &Io) -> Rc<Self> {
        Rc::new(Self {
            links: RefCell::default(),
            buffers: io.pool(2 * MOST * BUFFER),
            closed: Cell::new(false),
            gone: Notify::new(io),
        })
    }

    /// Has a client told that there is no place, and closes its connection.
    pub(super) fn decline(
        self: &Rc<Self>,
        io: &Io,
        socket: SocketId,
        tell: impl AsyncFnOnce(&Link, &mut Inbox, &Slice) + 'static,
    ) {
        if self.closed.get() || self.links.borrow().len() == MOST {
            return io.close(socket);
        }
        let link = Link::new(io, socket);
        self.links.borrow_mut().push(Rc::clone(&link));
        let (this, io) = (Rc::clone(self), io.clone());
        io.clone().spawn(async move {
            let declined = async {
                let mut inbox = Inbox::new(this.buffers.alloc(BUFFER).await);
                let outbox = this.buffers.alloc(BUFFER).await;
                tell(&link, &mut inbox, &outbox.slice(0..BUFFER)).await;
            };
            race(declined, race(link.is_gone(), io.sleep(PATIENCE))).await;
            link.close();
            this.links.borrow_mut().retain(|one| !Rc::ptr_eq(one, &link));
            this.gone.notify();
        });
    }

    /// Closes those that are being told, and tells no more.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.links.borrow().iter().for_each(|link| link.close());
    }

    /// Waits until there are none.
    pub(super) async fn emptied(&self) {
        self.gone.until(|| self.links.borrow().is_empty().then_some(())).await;
    }
}

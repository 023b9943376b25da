//! A door without a socket: clients hand requests over in memory. All that its clients may hold, the tasks that carry out their requests, the
//! terms of its exports and the orderly end are those of the doors that have sockets (`brindle_export::session`).

use std::rc::Rc;

use brindle_export::session::{
    Account, Export, Exports, Memory, Moves, Sessions, Slots, Ticket, Worker, dispatch,
};
use brindle_export::{Config, access::Client};
use brindle_io::sync::Queue;
use brindle_io::{Io, Slice};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions, stretches};

/// The door.
pub struct MemoryDoor<V> {
    io: Io,
    config: Config,
    /// Its clients.
    pub sessions: Rc<Sessions>,
    /// Its exports.
    pub exports: Exports<Export<V>>,
}

impl<V: Volume + 'static> MemoryDoor<V> {
    /// A door without exports.
    pub fn new(io: &Io, config: Config) -> Self {
        Self { io: io.clone(), config, sessions: Sessions::new(io, config), exports: Exports::default() }
    }

    /// Lets a client of this machine in to an export; `None` if there is no place, or none such for it.
    pub async fn connect(&self, name: &str) -> Option<DoorClient<V>> {
        let seat = self.sessions.enter(Client::default(), ()).await?;
        let (account, memory) = (Rc::clone(seat.account()), Rc::clone(seat.memory()));
        let export = self.exports.named(name)?;
        let limits = export.terms(&account.client())?;
        account.settle(name);
        export.enters();
        let (io, config, slots) = (self.io.clone(), self.config, Slots::default());
        let served = Rc::new(Serving { io, config, limits, account, memory, export, slots });
        let serving = Rc::clone(&served);
        drop(self.io.spawn(async move {
            let Serving { account, slots, export, .. } = &*serving;
            account.over().await;
            slots.answer_the_last(account, account.drained(), config.grace).await;
            account.close();
            account.drained().await;
            slots.end().await;
            export.leaves();
            drop(seat);
        }));
        Some(DoorClient(served))
    }
}

#[derive(Clone, Copy)]
enum Call {
    Read(u64, usize),
    Write(u64, usize, bool),
    Flush,
    Discard(u64, u64),
    Zeroes(u64, u64, ZeroOptions),
}

/// An admitted request. The ticket has the memory for it.
struct Handed {
    call: Call,
    ticket: Ticket,
    reply: Rc<Queue<Result<Ticket, VolumeError>>>,
}

/// One client of the door.
struct Serving<V> {
    io: Io,
    config: Config,
    limits: Limits,
    account: Rc<Account>,
    memory: Rc<Memory>,
    export: Rc<Export<V>>,
    slots: Slots<Handed>,
}

impl<V: Volume + 'static> Worker for Serving<V> {
    type Assigned = Handed;
    type Carried = Result<(), VolumeError>;
    type Scratch = ();

    fn account(&self) -> &Account {
        &self.account
    }

    fn slots(&self) -> &Slots<Handed> {
        &self.slots
    }

    async fn carry_out(&self, job: &mut Handed, (): &mut ()) -> Result<(), VolumeError> {
        let read = if let Call::Read(_, len) = job.call { len as u64 } else { 0 };
        let written = if let Call::Write(_, len, _) = job.call { len as u64 } else { 0 };
        let moves = Moves { read, written, changes: read == 0 };
        self.export.carry_out(&self.account, moves, self.answer(job.call, &mut job.ticket)).await
    }

    fn reply(&self, job: Handed, answer: Result<(), VolumeError>) {
        job.reply.push(answer.map(|()| job.ticket));
    }
}

impl<V: Volume + 'static> Serving<V> {
    async fn answer(&self, call: Call, ticket: &mut Ticket) -> Result<(), VolumeError> {
        let (export, volume, account) = (&self.export, &self.export.volume, &self.account);
        if export.gate.is_closed() && !matches!(call, Call::Read(..) | Call::Flush) {
            return Err(VolumeError::ReadOnly);
        }
        let done = match call {
            Call::Read(at, _) => loop {
                match volume.read(at, ticket.memory().clone()).await {
                    Err(VolumeError::Again) => ticket.renew().await?,
                    read => return read,
                }
            },
            Call::Write(at, _, fua) => return volume.write(at, ticket.memory().clone(), fua).await,
            Call::Flush => return volume.flush().await,
            Call::Discard(at, len) => export.discard((at, len), account).await,
            Call::Zeroes(at, len, how) => export.write_zeroes((at, len), how, account).await,
        };
        Ok(done?)
    }
}

/// A client. It takes its leave when it is dropped.
pub struct DoorClient<V>(Rc<Serving<V>>);

impl<V> Drop for DoorClient<V> {
    fn drop(&mut self) {
        self.0.account.hangs_up();
    }
}

impl<V: Volume + 'static> DoorClient<V> {
    /// Hands a request over, and waits for its reply.
    async fn ask(&self, call: Call, from: &[Slice]) -> Result<Ticket, VolumeError> {
        let Serving { account, memory, export, limits, config, io, .. } = &*self.0;
        if !matches!(call, Call::Read(..) | Call::Flush) {
            limits.check_change()?;
        }
        let holds = if let Call::Read(_, len) | Call::Write(_, len, _) = call { len } else { 0 };
        if holds > config.largest_request() {
            return Err(VolumeError::OutOfRange);
        }
        account.due(&export.gate, holds as u64).await?;
        let ticket = memory.admit(account, holds).await?;
        if account.is_over() {
            return Err(VolumeError::Stopping);
        }
        for (at, slice) in stretches(0, from) {
            slice.copy_to(&mut ticket.memory().bytes_mut()[at as usize..at as usize + slice.len()]);
        }
        let reply = Rc::new(Queue::new(io));
        dispatch(&self.0, Handed { call, ticket, reply: Rc::clone(&reply) });
        reply.pop().await
    }
}

impl<V: Volume + 'static> Volume for DoorClient<V> {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let len = self.limits().check_list(offset, into.as_ref())? as usize;
        if len == 0 {
            return Ok(());
        }
        let ticket = self.ask(Call::Read(offset, len), &[]).await?;
        let bytes = ticket.memory().bytes();
        let copy = |(at, to): (u64, &Slice)| to.put(0, &bytes[at as usize..at as usize + to.len()]);
        stretches(0, into.as_ref()).for_each(copy);
        Ok(())
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        self.limits().check_change()?;
        let len = self.limits().check_list(offset, from.as_ref())? as usize;
        if len == 0 {
            return Ok(());
        }
        self.ask(Call::Write(offset, len, fua), from.as_ref()).await.map(drop)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.ask(Call::Flush, &[]).await.map(drop)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.ask(Call::Discard(offset, len), &[]).await.map(drop)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, how: ZeroOptions) -> Result<(), VolumeError> {
        self.ask(Call::Zeroes(offset, len, how), &[]).await.map(drop)
    }
}

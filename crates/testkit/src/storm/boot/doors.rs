//! Clients of an array that come by doors: the first by NBD, the third by a mount, the others by the door without a socket, behind one gate.

use std::rc::Rc;

use brindle_array::Array;
use brindle_export::fuse::{self, Mounting};
use brindle_export::nbd::client::Remote;
use brindle_export::{Config, Gate, MemoryShare, nbd};
use brindle_io::sim::Sim;
use brindle_io::{Duration, Io, Pool, SocketId};
use brindle_volume::{Volume, VolumeError};

use super::super::judge::Failure;
use super::Run;
use crate::client::{Client, Trouble};
use crate::crew;
use crate::door::{DoorClient, MemoryDoor};
use crate::load::Request;
use crate::mount_client::MountClient;
use crate::random::Random;

/// The name of the array at its doors.
const NAME: &str = "array";
/// The number of the client that comes by a mount.
const MOUNTED: u64 = 2;
/// Bytes of memory of each door: clients wait for it now and then.
const MEMORY: usize = 128 << 10;
/// Time after which a client that is let in nowhere comes again.
const AGAIN: Duration = Duration::from_micros(100);

/// The doors of an array in one boot.
pub(super) struct Doors {
    io: Io,
    sim: Sim,
    pool: Pool,
    gate: Rc<Gate>,
    memory: MemoryDoor<Array>,
    nbd: nbd::Server<Array>,
    mounts: fuse::Server<Array>,
    listener: SocketId,
    /// Clients that come by NBD are divided among several reactors.
    is_divided: bool,
}

/// The way of one client to its array.
pub(super) enum Way {
    /// The client calls the array.
    Straight(Client<Array>),
    /// By the door without a socket.
    Memory(Client<Array>, Client<DoorClient<Array>>, Rc<Doors>),
    /// By a mount.
    Mount(Client<Array>, Client<MountClient>, Rc<Doors>),
    /// By NBD.
    Nbd(Client<Array>, Client<Remote>, Rc<Doors>),
}

impl Doors {
    /// Opens the doors of an array in those boots that have some.
    pub(super) fn open(run: &Run, array: &Array) -> Option<Rc<Self>> {
        if !run.stage.plan.doors {
            return None;
        }
        let (io, sim, pool) = (run.io.clone(), run.stage.sim.clone(), run.io.pool(super::POOL));
        let config = Config { memory: MEMORY, connections: 8, requests: 2, ..Config::default() };
        // There is one crew in a world, and one load in a boot.
        let has_crew = run.stage.plan.reactors > 1 && io.crew_turns().is_empty();
        let mut shares = if has_crew { MemoryShare::of(MEMORY, run.stage.plan.reactors) } else { Vec::new() };
        let memory = MemoryDoor::new(&io, config);
        let nbd = match shares.pop() {
            Some(share) => nbd::Server::sharing(&io, config, share),
            None => nbd::Server::new(&io, config),
        };
        let mounts = fuse::Server::beside(&io, nbd.sessions());
        if has_crew {
            let random = Random::stream(run.stage.plan.seed, run.boot.number * 1000 + 993);
            nbd.send_away(crew::away(&sim, &io, shares, config, &random));
        }
        let (gate, listener, volume) = (Rc::<Gate>::default(), sim.listen(), Rc::new(array.clone()));
        memory.exports.offer(NAME, "", Rc::clone(&volume), Rc::clone(&gate));
        mounts.add_guarded(NAME, "", Rc::clone(&volume), Rc::clone(&gate));
        // There is no other export, and the name is short.
        let _added = nbd.add_guarded(NAME, "", volume, Rc::clone(&gate));
        nbd.serve(listener);
        let is_divided = run.stage.plan.reactors > 1;
        Some(Rc::new(Self { io, sim, pool, gate, memory, nbd, mounts, listener, is_divided }))
    }

    /// Mounts the array; `None` where no mount is let in.
    async fn mount(&self, array: &Array) -> Option<MountClient> {
        let [port, own] = self.sim.ports();
        let mounting = Mounting { owner: (0, 0), writable: true, partitions: Vec::new() };
        match self.mounts.mount(NAME, port, mounting).await {
            Ok(mounted) => drop(self.io.spawn(mounted)),
            Err(_) => {
                self.io.close(own);
                return None;
            }
        }
        Some(MountClient::new(&self.io, own, &self.pool, array.limits()).await)
    }

    /// Now and then all clients of a door are dismissed: each gets the answers to all that it has asked for, and comes again.
    pub(super) fn dismiss_some(self: &Rc<Self>, random: &mut Random) {
        let (this, pause) = (Rc::clone(self), random.below(3000));
        let by_nbd = random.one_in(2);
        drop(self.io.spawn(async move {
            this.io.sleep(Duration::from_micros(pause)).await;
            this.gate.withdraw(true);
            if by_nbd {
                this.nbd.dismiss(NAME).await;
            } else {
                this.memory.exports.dismiss(NAME, &this.memory.sessions).await;
                this.mounts.dismiss(NAME).await;
            }
            this.gate.withdraw(false);
        }));
    }

    /// Ends all clients: nothing of them is left, but for memory that a member may still fill (`may_be_pinned`).
    pub(super) async fn stop(&self, may_be_pinned: bool) -> Result<(), Failure> {
        self.mounts.stop().await;
        self.nbd.stop().await;
        self.memory.exports.stop(&self.memory.sessions).await;
        let left = self.nbd.memory_in_use() + self.memory.sessions.memory_in_use();
        if left == 0 || may_be_pinned { Ok(()) } else { Err(Failure::DoorHolds(left)) }
    }
}

impl Way {
    /// The way of the client of a number.
    pub(super) async fn find(client: &Client<Array>, doors: Option<&Rc<Doors>>, number: u64) -> Self {
        let Some(doors) = doors else { return Self::Straight(client.clone()) };
        loop {
            if number == 0 || number.is_multiple_of(2) && doors.is_divided {
                let socket = doors.sim.connect(doors.listener);
                if let Ok(remote) = Remote::connect(&doors.io, socket, NAME, &doors.pool).await {
                    return Self::Nbd(client.clone(), client.by_way_of(remote), Rc::clone(doors));
                }
            } else if number == MOUNTED {
                if let Some(mount) = doors.mount(client.volume()).await {
                    return Self::Mount(client.clone(), client.by_way_of(mount), Rc::clone(doors));
                }
            } else if let Some(door) = doors.memory.connect(NAME).await {
                return Self::Memory(client.clone(), client.by_way_of(door), Rc::clone(doors));
            }
            doors.io.sleep(AGAIN).await;
        }
    }

    /// Asks, and judges the answer. A client that is dismissed comes again.
    pub(super) async fn ask(&mut self, request: Request) -> Result<(), Trouble> {
        let answer = match self {
            Self::Straight(client) => return client.ask(request).await,
            Self::Memory(_, client, _) => client.ask(request).await,
            Self::Mount(_, client, _) => client.ask(request).await,
            Self::Nbd(_, client, _) => client.ask(request).await,
        };
        let is_over = matches!(self, Self::Nbd(_, client, _) if client.volume().is_closed());
        match answer {
            Err(Trouble::Refused(_, error)) if is_over || error == VolumeError::Stopping => {
                self.come_again().await;
                Ok(())
            }
            answer => answer,
        }
    }

    async fn come_again(&mut self) {
        let (client, doors, number) = match self {
            Self::Straight(_) => return,
            Self::Memory(client, _, doors) => (client.clone(), Rc::clone(doors), 1),
            Self::Mount(client, _, doors) => (client.clone(), Rc::clone(doors), MOUNTED),
            Self::Nbd(client, remote, doors) => {
                remote.volume().close();
                (client.clone(), Rc::clone(doors), 0)
            }
        };
        // The old way must end first: it holds a place.
        *self = Self::Straight(client.clone());
        *self = Self::find(&client, Some(&doors), number).await;
    }

    /// Takes leave.
    pub(super) async fn leave(self) {
        if let Self::Nbd(_, remote, _) = self {
            remote.volume().leave().await;
        }
    }
}

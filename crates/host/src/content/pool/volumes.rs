//! Changes of a pool: of its volumes, each of which is an export, and of its members.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::Duration;
use brindle_io::sync::{Either, join_all, race};

use super::{RECORD_PATIENCE, ServedPool};
use crate::content::{Content, Host};
use crate::control::{Ask, Author};
use crate::error::HostError;
use crate::names::{self, Renamed};

/// Time that a change of a pool may take before the answer is that it goes on.
const PATIENCE: Duration = Duration::from_secs(8);

/// Time in which another change ends, else this one is not begun. With the next one it is less than the time before an answer: whoever is told
/// that a change goes on is not to find that it did not.
const TURN_PATIENCE: Duration = Duration::from_millis(2_500);

/// Time in which the requests of clients that are sent away end. Members that hang are given up after more than that.
const LEAVING_PATIENCE: Duration = Duration::from_secs(4);

/// Looks at the clients of a volume that is to be destroyed: the end of a connection may be on its way.
const LOOKS: u32 = 20;

impl ServedPool {
    /// Makes a change, in a task that comes to its end even if the client leaves; the history has it then. Gives sentences about what calls the
    /// pool by a name that it has no more.
    pub(super) async fn change(
        self: &Rc<Self>,
        ask: Ask,
        mut by: Option<Author>,
        host: &Rc<dyn Host>,
    ) -> Result<Vec<String>, HostError> {
        let (this, within) = (Rc::clone(self), Rc::clone(host));
        let (is_late, order) = (Rc::new(Cell::new(false)), ask.name());
        let late = Rc::clone(&is_late);
        let changed = host.io().spawn(async move {
            let changed = this.change_in_turn(ask, &mut by, &within).await;
            match (&changed, by) {
                (Ok(_), Some(by)) => {
                    let _late = race(this.note(&by), this.io.sleep(RECORD_PATIENCE)).await;
                }
                // The client has had its answer.
                (Err(why), _) if late.get() => {
                    tracing::error!("{}: {order} was not carried out: {why}", this.name());
                }
                _ => {}
            }
            if late.get() {
                within.publish();
            }
            changed
        });
        let changed = match race(changed, host.io().sleep(PATIENCE)).await {
            Either::First(changed) => changed,
            Either::Second(()) => {
                is_late.set(true);
                Err(HostError::Busy(self.name().to_owned()))
            }
        };
        host.publish();
        changed
    }

    /// One change at a time: a volume that is made while the pool gets another name would be offered by the old one.
    async fn change_in_turn(
        self: &Rc<Self>,
        ask: Ask,
        by: &mut Option<Author>,
        within: &Rc<dyn Host>,
    ) -> Result<Vec<String>, HostError> {
        let host = &**within;
        let _turn = match race(self.changes.turn(), host.io().sleep(TURN_PATIENCE)).await {
            Either::First(turn) => turn,
            Either::Second(()) => return Err(HostError::Changing(self.name().to_owned())),
        };
        if self.stop.has_begun() {
            return Err(HostError::Stopping(self.name().to_owned()));
        }
        if let Ask::PoolRename { pool, .. }
        | Ask::PoolOffline { pool, .. }
        | Ask::PoolOnline { pool, .. }
        | Ask::PoolReplace { pool, .. }
        | Ask::PoolAdd { pool, .. }
        | Ask::PoolAttach { pool, .. }
        | Ask::PoolDetach { pool, .. }
        | Ask::VolumeCreate { pool, .. }
        | Ask::VolumeRename { pool, .. }
        | Ask::VolumeDestroy { pool, .. } = &ask
        {
            self.refuse_former_name(pool)?;
        }
        let pool = self.pool().clone();
        match ask {
            Ask::VolumeCreate { name, size, .. } => {
                let _volume = pool.create_volume(&name, size).await?;
                self.offer(host, &name)?;
            }
            Ask::PoolRename { to, .. } => return self.rename(host, &to).await,
            Ask::VolumeRename { name, to, .. } => {
                let _id = pool.check_rename(&name, &to)?;
                refuse_attached(host, &[self.export_of(&name)])?;
                self.withdraw(host, std::slice::from_ref(&name)).await?;
                let renamed = pool.rename_volume(&name, &to).await;
                let offered = self.offer(host, if renamed.is_ok() { &to } else { &name });
                renamed?;
                offered?;
            }
            Ask::VolumeDestroy { name, force, .. } => self.destroy(host, &name, force).await?,
            Ask::PoolOffline { member, .. } => self.offline(&member).await?,
            Ask::PoolOnline { member, device, .. } => self.online(within, &member, device).await?,
            Ask::PoolReplace { member, with, force, .. } => {
                self.replace(within, (&member, with, force), by).await?;
            }
            Ask::PoolAdd { kind, devices, force, .. } => self.add(within, kind, devices, force).await?,
            Ask::PoolAttach { to, device, force, .. } => self.attach(within, &to, device, force).await?,
            Ask::PoolDetach { member, .. } => self.detach(within, &member).await?,
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Offers volumes no more, and waits until their clients are gone. The caller has the turn, so that the wait has an end.
    ///
    /// # Errors
    /// [`HostError::RequestsStay`]: they are offered as before.
    async fn withdraw(&self, host: &dyn Host, volumes: &[String]) -> Result<(), HostError> {
        let exports: Vec<String> = volumes.iter().map(|volume| self.export_of(volume)).collect();
        let gone = join_all(exports.iter().map(|export| host.withdraw(export)));
        match race(gone, host.io().sleep(LEAVING_PATIENCE)).await {
            Either::First(_) => Ok(()),
            Either::Second(()) => {
                self.offer_all(host, volumes)?;
                Err(HostError::RequestsStay(self.name().to_owned()))
            }
        }
    }

    /// A change of the pool that had this name when it was asked for, and has got another meanwhile, is none of this pool's.
    fn refuse_former_name(&self, name: &str) -> Result<(), HostError> {
        match names::find(&[self.names()], name) {
            Some(_) => Ok(()),
            None => Err(HostError::NoSuchContent {
                server: self.placed.server.clone().unwrap_or_default(),
                array: name.to_owned(),
                known: vec![self.name().to_owned()],
            }),
        }
    }

    /// Gives the pool another name: all of its exports have that, so that their clients are sent away. Devices of the kernel can't be: their
    /// requests would fail, also those of a file system. What calls it by the name that it had is told in the answer, and in the log: whoever asked
    /// may have gone.
    async fn rename(&self, host: &dyn Host, to: &str) -> Result<Vec<String>, HostError> {
        let pool = self.pool().clone();
        pool.check_rename_pool(to)?;
        if host.contents().iter().any(|other| other.claims(to)) {
            return Err(HostError::NameTaken(to.to_owned()));
        }
        refuse_attached(host, &self.export_names())?;
        // Nothing is waited for in between: no device is made of an export that is offered no more.
        self.next_name.replace(Some(to.to_owned()));
        let _claim = Claim(self);
        let volumes: Vec<String> = pool.volumes().into_iter().map(|volume| volume.name).collect();
        self.withdraw(host, &volumes).await?;
        let from = self.name.get();
        let renamed = pool.rename(to).await;
        if renamed.is_ok() {
            self.name.set(to.to_owned().leak());
        }
        let offered = self.offer_all(host, &volumes);
        renamed?;
        let still_called = host.renamed(&Renamed { from, to, uuid: &self.uuid() });
        still_called.iter().for_each(|told| tracing::warn!("{to}: {told}"));
        offered.map(|()| still_called)
    }

    async fn destroy(&self, host: &dyn Host, name: &str, force: bool) -> Result<(), HostError> {
        let (pool, export) = (self.pool().clone(), self.export_of(name));
        if pool.is_read_only() || pool.volume(name).is_none() {
            return Ok(pool.destroy_volume(name).await?);
        }
        let clients = if force { 0 } else { users_left(host, &export).await };
        if clients > 0 {
            return Err(HostError::Open { name: export, clients });
        }
        self.withdraw(host, &[name.to_owned()]).await?;
        let destroyed = pool.destroy_volume(name).await;
        let offered = if destroyed.is_err() { self.offer(host, name) } else { Ok(()) };
        destroyed?;
        offered
    }

    fn offer_all(&self, host: &dyn Host, volumes: &[String]) -> Result<(), HostError> {
        volumes.iter().map(|volume| self.offer(host, volume)).fold(Ok(()), Result::and)
    }

    /// Offers a volume to clients, if there is one of that name. A stop has withdrawn all exports: none comes beside or behind it.
    fn offer(&self, host: &dyn Host, volume: &str) -> Result<(), HostError> {
        if self.stop.has_begun() {
            return Ok(());
        }
        self.offered(volume).map_or(Ok(()), |offered| host.offer(self, offered))
    }
}

/// The name that a pool is about to have is free again when it is dropped.
struct Claim<'a>(&'a ServedPool);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.next_name.replace(None);
    }
}

/// Refuses what would end a device of the kernel.
fn refuse_attached(host: &dyn Host, exports: &[String]) -> Result<(), HostError> {
    let attached = exports.iter().find_map(|export| Some((export.clone(), host.device_of(export)?)));
    attached.map_or(Ok(()), |(export, device)| Err(HostError::Attached { export, device }))
}

/// Clients that have an export open, once clients have gone that are about to.
pub(super) async fn users_left(host: &dyn Host, export: &str) -> usize {
    for _look in 0..LOOKS {
        if host.users_of(export) == 0 {
            break;
        }
        host.io().sleep(Duration::from_millis(50)).await;
    }
    host.users_of(export)
}

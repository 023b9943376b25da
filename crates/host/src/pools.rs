//! Requests that are for pools.

use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_io::{Duration, MemberId};
use brindle_pool::PoolVolume;

use crate::answers::RequestOutcome;
use crate::any::Any;
use crate::attach::{Bar, Scope};
use crate::control::Request;
use crate::error::HostError;
use crate::names;
use crate::pooled::Pooled;
use crate::service::Service;
use crate::status::PoolStatus;

/// Time that a change of a pool's volumes may take before the answer is that it goes on.
const PATIENCE: Duration = Duration::from_secs(8);

/// Looks at the clients of a volume that is to be destroyed: the end of a connection may be on its way.
const LOOKS: u32 = 20;

impl Service {
    /// Serves one more pool from now on: each of its volumes is an export.
    ///
    /// # Errors
    /// A name is no name for an export, or another has it: none of its volumes is offered, and the pool is stopped.
    pub async fn serve_pool(&self, pooled: Rc<Pooled>) -> Result<(), HostError> {
        // Nothing is waited for in between: who finds one of them finds all.
        for (name, volume) in pooled.exports() {
            if let Err(why) = self.offer_volume(&pooled, name, volume) {
                if let Err(stopping) = pooled.stop(self.clients_of_pool(&pooled)).await {
                    tracing::warn!("{stopping}");
                }
                return Err(why);
            }
        }
        self.has_pool(pooled);
        Ok(())
    }

    /// Offers a volume of a pool to clients.
    fn offer(&self, pooled: &Pooled, export: &str) -> Result<(), HostError> {
        match pooled.exports().into_iter().find(|(name, _)| name == export) {
            Some((name, volume)) => self.offer_volume(pooled, name, volume),
            None => Ok(()),
        }
    }

    fn offer_volume(&self, pooled: &Pooled, name: String, volume: PoolVolume) -> Result<(), HostError> {
        let description = format!("volume of pool {}", pooled.name());
        let gate = Rc::new(pooled.hosted.gate.of_another());
        let (uuid, volume) = (pooled.uuid_of(&volume), Rc::new(Any::Pool(volume)));
        let target = match (&pooled.hosted.targets, &self.doors.iscsi) {
            (Some(ways), Some(server)) => {
                let spec = (ways.spec)(&name, uuid, Rc::clone(&volume), Rc::clone(&gate));
                let spec = spec.map_err(|why| HostError::Refused { name: name.clone(), why })?;
                Some((spec, (ways.name)(&name, uuid), server))
            }
            _ => None,
        };
        self.doors.nbd.add_guarded(&name, &description, volume, gate)?;
        if let Some((spec, target, server)) = target {
            server.add_target(spec);
            let _old = pooled.targets.borrow_mut().insert(name, target);
        }
        Ok(())
    }

    /// Clients that have a volume of a pool open: connections, or the kernel's device where its connection is gone for now.
    fn users_of(&self, pooled: &Pooled, export: &str) -> usize {
        let (stats, target) = (self.doors.stats(), pooled.target(export));
        let nbd = stats.nbd.iter().filter(|stats| stats.name == export).map(|stats| stats.connections);
        let is_its = |name: &str| target.as_deref() == Some(name);
        let iscsi =
            stats.iscsi.iter().filter(|stats| is_its(&stats.name)).map(|stats| stats.initiators.len());
        let connected = nbd.chain(iscsi).sum::<usize>();
        connected.max(usize::from(self.attached_to(export).is_some()))
    }

    /// The same, once those have gone that are about to.
    async fn users_left(&self, pooled: &Pooled, export: &str) -> usize {
        for _look in 0..LOOKS {
            if self.users_of(pooled, export) == 0 {
                break;
            }
            self.io.sleep(Duration::from_millis(50)).await;
        }
        self.users_of(pooled, export)
    }

    /// Offers a volume of a pool no more, and waits until its clients are gone.
    async fn withhold(&self, pooled: &Pooled, export: &str) {
        let target = pooled.targets.borrow_mut().remove(export);
        self.doors.remove(export, target.as_deref()).await;
    }

    /// The pool of that name, UUID or member.
    fn pool_called(&self, name: &str) -> Option<Rc<Pooled>> {
        let pools = self.pools();
        let names: Vec<_> = pools.iter().map(|pool| pool.names()).collect();
        names::find(&names, name).map(|at| Rc::clone(&pools[at]))
    }

    /// The pool of that name, or with that volume, which is then the one that is meant; without a name the only pool of a server without arrays.
    fn meant_volumes(&self, name: Option<&str>) -> Option<(Rc<Pooled>, Option<String>)> {
        let Some(name) = name else {
            let pools = self.pools();
            return (self.arrays().is_empty() && pools.len() == 1).then(|| (Rc::clone(&pools[0]), None));
        };
        if self.array(name).is_some() {
            return None;
        }
        let has = |pool: &Rc<Pooled>| pool.exports().iter().any(|(export, _)| export == name);
        let whole = self.pool_called(name).map(|pool| (pool, None));
        whole.or_else(|| Some((self.pools().into_iter().find(has)?, Some(name.to_owned()))))
    }

    /// Carries out a request for a pool; `None` if the request is not for a pool.
    pub(crate) async fn ask_pool(
        self: &Rc<Self>,
        request: &Request,
    ) -> Option<Result<RequestOutcome, HostError>> {
        if let Request::VolumeCreate { pool, .. }
        | Request::VolumeRename { pool, .. }
        | Request::VolumeDestroy { pool, .. } = request
        {
            let Some(pooled) = self.pool_called(pool) else {
                let known = self.pools().iter().map(|pool| pool.name().to_owned()).collect();
                let (server, array) = (self.name().to_owned(), pool.clone());
                return Some(Err(HostError::NoSuchArray { server, array, known }));
            };
            return Some(self.change(&pooled, request.clone()).await);
        }
        if let Request::Disconnect { client, array } = request
            && let Some((pooled, export)) = self.meant_volumes(array.as_deref())
        {
            let exports = pooled.targeted().into_iter();
            let meant = exports.filter(|(name, _)| export.as_ref().is_none_or(|export| name == export));
            let ended = self.doors.disconnect(&meant.collect::<Vec<_>>(), client.as_deref());
            let status = PoolStatus { disconnected: Some(ended), ..self.status_of_pool(&pooled) };
            return Some(Ok(RequestOutcome::Pool(Box::new(status))));
        }
        let pooled = match (request.array(), request) {
            (Some(name), _) if self.array(name).is_none() => self.pool_called(name)?,
            (None, Request::Fail { member, .. }) => {
                let has = |pool: &Rc<Pooled>| pool.member(member).is_some();
                let array_has = self.arrays().iter().any(|array| array.has(member));
                self.pools().into_iter().find(has).filter(|_| !array_has)?
            }
            _ => return None,
        };
        Some(match request {
            Request::Status { .. } => Ok(()),
            Request::Fail { member, .. } => {
                let failed = pooled.fail(member).await;
                self.publish();
                failed
            }
            Request::Export { limits, .. } => {
                if let Some(limits) = limits {
                    pooled.hosted.gate.set_rates(&self.io, (*limits).into());
                }
                pooled.hosted.gate.withdraw(false);
                Ok(())
            }
            Request::Unexport { .. } => {
                pooled.hosted.gate.withdraw(true);
                for (export, _) in pooled.exports() {
                    self.doors.dismiss(&export, pooled.target(&export).as_deref()).await;
                }
                Ok(())
            }
            _ => Err(HostError::Refused {
                name: pooled.name().to_owned(),
                why: "it is a pool, and this command is for arrays: name an array".to_owned(),
            }),
        })
        .map(|reported| reported.map(|()| RequestOutcome::Pool(Box::new(self.status_of_pool(&pooled)))))
    }

    /// Changes the volumes of a pool, in a task that comes to its end even if the client leaves.
    async fn change(
        self: &Rc<Self>,
        pooled: &Rc<Pooled>,
        request: Request,
    ) -> Result<RequestOutcome, HostError> {
        let (this, of) = (Rc::clone(self), Rc::clone(pooled));
        let changed = self.io.spawn(async move { this.change_volumes(&of, request).await });
        let changed = match race(changed, self.io.sleep(PATIENCE)).await {
            Either::First(changed) => changed,
            Either::Second(()) => Err(HostError::Busy(pooled.name().to_owned())),
        };
        self.publish();
        changed?;
        Ok(RequestOutcome::Pool(Box::new(self.status_of_pool(pooled))))
    }

    async fn change_volumes(&self, pooled: &Rc<Pooled>, request: Request) -> Result<(), HostError> {
        let pool = pooled.pool().clone();
        match request {
            Request::VolumeCreate { name, size, .. } => {
                let _volume = pool.create_volume(&name, size).await?;
                self.offer(pooled, &pooled.export_of(&name))
            }
            Request::VolumeRename { name, to, .. } => {
                let old = pooled.export_of(&name);
                self.withhold(pooled, &old).await;
                let renamed = pool.rename_volume(&name, &to).await;
                let now = if renamed.is_ok() { pooled.export_of(&to) } else { old };
                self.offer(pooled, &now)?;
                Ok(renamed?)
            }
            Request::VolumeDestroy { name, force, .. } => {
                let export = pooled.export_of(&name);
                if pool.is_read_only() || pool.volume(&name).is_none() {
                    return Ok(pool.destroy_volume(&name).await?);
                }
                let clients = if force { 0 } else { self.users_left(pooled, &export).await };
                if clients > 0 {
                    return Err(HostError::Open { name: export, clients });
                }
                self.withhold(pooled, &export).await;
                let destroyed = pool.destroy_volume(&name).await;
                if destroyed.is_err() {
                    self.offer(pooled, &export)?;
                }
                Ok(destroyed?)
            }
            _ => Ok(()),
        }
    }

    /// Stops a pool, and closes its devices.
    ///
    /// # Errors
    /// Not all is stable, or it has not stopped in time.
    pub async fn stop_pool(&self, pooled: &Rc<Pooled>, patience: Duration) -> Result<(), HostError> {
        let _bar = self.end_devices_of(pooled).await?;
        let leaving = self.leave();
        let stopped = self.end_pool(pooled, patience).await;
        let devices: Vec<MemberId> = pooled.devices().iter().map(|(_, id)| *id).collect();
        self.devices.close(&devices).await;
        drop(leaving);
        stopped
    }

    /// Has another take the place of a pool, on the same devices: `open` opens it once this one has stopped.
    ///
    /// # Errors
    /// It has not stopped in time.
    pub async fn exchange_pool<T>(
        &self,
        pooled: &Rc<Pooled>,
        patience: Duration,
        open: impl AsyncFnOnce() -> T,
    ) -> Result<T, HostError> {
        let _bar = self.end_devices_of(pooled).await?;
        // The server does not end meanwhile, though it may serve nothing else.
        let _leaving = self.leave();
        self.end_pool(pooled, patience).await?;
        Ok(open().await)
    }

    async fn end_devices_of(&self, pooled: &Pooled) -> Result<Bar<'_>, HostError> {
        self.end_devices(Scope::Pool(pooled.name().to_owned())).await
    }

    async fn end_pool(&self, pooled: &Rc<Pooled>, patience: Duration) -> Result<(), HostError> {
        let stopped = match race(pooled.stop(self.clients_of_pool(pooled)), self.io.sleep(patience)).await {
            Either::First(stopped) => stopped,
            Either::Second(()) => Err(HostError::NotStopped(pooled.name().to_owned())),
        };
        self.let_pool_go(pooled, stopped.as_ref().err());
        stopped
    }
}

//! A running pool.

mod parts;

use std::rc::Rc;

use brindle_format::pool::{EntryKind, Host, Label, MAX_GENERATION, Vdev, VdevKind, VolumeRecord};
use brindle_io::{Duration, Io, MemberId};
use brindle_members::events::Event;
use brindle_volume::VolumeError;
use thiserror::Error;

use crate::core::{Core, PoolConfig, Written};
use crate::damage::{Damage, DamagedRange, MemberDamage};
use crate::events::PoolEvent;
use crate::log::queue::{Item, Source, Ticket};
use crate::opening::create::{VdevSpec, capacity, check_name};
use crate::opening::look::PoolOpenError;
use crate::opening::returned::{MemberError, Replacement};
use crate::spares::SpareDevice;
use crate::upkeep::scrubs::{Checked, Scrub, ScrubError, ScrubKind, Scrubbed};
use crate::volume::PoolVolume;
pub use parts::{Busy, MapUse, PoolMember, ResilverProgress};

/// Why a volume was not made, renamed or destroyed, or a pool not renamed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolChangeError {
    /// A name that no volume can have.
    #[error(transparent)]
    Name(#[from] crate::opening::create::PoolCreateError),
    /// There is one of this name.
    #[error("there is a volume {0} already: choose another name")]
    Exists(String),
    /// The pool has that name.
    #[error("the pool is called {0} already: choose another name")]
    SameName(String),
    /// The pool's config was changed as often as it can be: the generation that it has.
    #[error(
        "the config of the pool has generation {0}, the last that there can be, and can't be changed any more: copy its volumes into a new pool"
    )]
    Generation(u64),
    /// There is none of this name.
    #[error("there is no volume {0}: name one of those that `brindle volume list` shows")]
    NoVolume(String),
    /// A size that can't be.
    #[error("a volume of {0} bytes can't be: give a multiple of 512, and not 0")]
    Size(u64),
    /// More than is left.
    #[error("a volume of {size} bytes does not fit: the pool has {left} bytes to give; make it smaller")]
    TooLarge {
        /// Asked for.
        size: u64,
        /// Left.
        left: u64,
    },
    /// It could not be recorded.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// A pool, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// Bytes that volumes may have in all.
    pub capacity: u64,
    /// Bytes that they have.
    pub sold: u64,
    /// Bytes that are stored.
    pub stored: u64,
    /// Bytes that have less redundancy than their vdev.
    pub thin: u64,
    /// Segments that are free, of the log, and in use.
    pub segments: [usize; 3],
    /// More is lost than it can do without.
    pub broken: bool,
    /// Blocks that were not what they should be.
    pub damage: Damage,
    /// Ranges of volumes that are known to be beyond repair, the first 1024 of them,
    pub damaged: Vec<DamagedRange>,
    /// and blocks beyond repair that there was no room for there.
    pub damaged_beyond: u64,
    /// Bytes written since it was opened.
    pub written: Written,
    /// How much of its map is in memory.
    pub map: MapUse,
    /// The number of the last checkpoint.
    pub checkpoint: u64,
    /// Its background work at this moment.
    pub busy: Busy,
    /// How far members have got what they lack.
    pub resilver: Option<ResilverProgress>,
    /// The time after which blocks on lost members are moved, so that they have all the parity that they can have.
    pub raises_in: Option<Duration>,
    /// Members, vdev by vdev.
    pub members: Vec<PoolMember>,
}

/// A running pool. A handle: cloning gives the same one.
#[derive(Clone)]
pub struct Pool(pub(crate) Rc<Core>);

impl Pool {
    pub(crate) fn new(core: Rc<Core>) -> Self {
        Self(core)
    }

    /// Its label.
    pub fn label(&self) -> Rc<Label> {
        self.0.label.get()
    }

    /// Its executor.
    pub fn io(&self) -> &Io {
        &self.0.set.io
    }

    /// Nothing of it is written.
    pub fn is_read_only(&self) -> bool {
        self.0.read_only
    }

    /// The reason why nothing of it is written, if it was not opened so.
    pub fn why_read_only(&self) -> Option<PoolOpenError> {
        self.0.shut.borrow().clone()
    }

    /// The opening for writing that its members have on record, and the number of the last record and of all batches since: both are the same
    /// only as long as nothing was written.
    pub fn version(&self, replayed: u64) -> (u64, u64) {
        let record = self.0.record.last.borrow();
        (record.opening, record.record.saturating_add(replayed))
    }

    /// Its volumes.
    pub fn volumes(&self) -> Vec<VolumeRecord> {
        self.0.volumes.records().into_iter().filter(|record| !record.destroyed).collect()
    }

    /// The volume of a name.
    pub fn volume(&self, name: &str) -> Option<PoolVolume> {
        let (id, size) =
            self.0.volumes.find(|record| record.name == name, |record| (record.id, record.size))?;
        Some(PoolVolume { core: Rc::clone(&self.0), id, size })
    }

    /// How it does.
    pub fn status(&self) -> PoolStatus {
        let core = &self.0;
        let members = &core.set.members;
        let damage = core.damage.borrow();
        let space = core.space.borrow();
        let totals = space.totals(members.len().into());
        let member = |member: u16| {
            let spare = || core.spares.device(member).map(|spare| spare.id);
            let MemberDamage { found, mended } = damage.members.get(&member).copied().unwrap_or_default();
            PoolMember {
                role: core.role_of(member),
                device: members.device(member).map(|device| device.id).or_else(spare),
                state: members.state(member),
                wrong: found,
                mended,
                read_errors: members.errors(member).counted(core.set.io.now()),
                is_offline: core.is_offline(member),
                is_gone: core.is_gone(member),
                is_spare: core.is_spare(member),
                succeeds: core.predecessor_of(member),
                lacks: totals.lacks.get(usize::from(member)).copied().unwrap_or(0),
            }
        };
        PoolStatus {
            capacity: capacity(&core.label.get()),
            sold: core.volumes.sold(),
            stored: totals.live.saturating_sub(core.map.borrow().hidden()) << 12,
            thin: totals.thin << 12,
            segments: totals.usage,
            broken: core.record.is_broken(),
            damage: damage.total,
            damaged: core.damaged(&damage.lost),
            damaged_beyond: damage.lost.beyond(),
            written: core.written.get(),
            map: MapUse::of(&core.map.borrow(), core.map_memory.get()),
            checkpoint: core.record.last.borrow().checkpoint,
            busy: Busy {
                batches: core.log.flying(),
                checkpoint: core.checkpoints.is_busy(),
                cleaning: core.cleaner.is_cleaning(),
                raising: core.cleaner.is_thin(),
                resilvering: core.resilvering.is_busy(),
                failing: core.record.is_pending(),
                pinned: totals.pinned,
                lacking: totals.lacking,
                reaping: core.map.borrow().dead.len(),
                reused: totals.reused,
                freed: space.freed,
            },
            resilver: core.resilvering.detail().map(|detail| ResilverProgress {
                position: detail.progress.position,
                total: detail.progress.total,
                speed: detail.speed,
                left: detail.left(),
            }),
            raises_in: core.raises_in(),
            members: (0..members.len()).map(member).collect(),
        }
    }

    /// Gives its map so much memory from now on. What is too much goes in the background.
    pub fn set_map_memory(&self, bytes: usize) {
        let core = &self.0;
        if core.map_memory.replace(bytes) == bytes {
            return;
        }
        core.dirty_memory.set(PoolConfig::dirty_of(bytes));
        if let Some(core) = core.kept() {
            drop(self.io().spawn(async move { core.shrink_map().await }));
        }
    }

    /// How often each segment became free since the pool was opened, by its number.
    pub fn reuses(&self) -> Vec<u32> {
        self.0.space.borrow().segments.iter().map(|segment| segment.reuses).collect()
    }

    /// Pages of the table of segments that its next write compares with what stands.
    pub fn touched(&self) -> usize {
        self.0.space.borrow().touched.pages().count()
    }

    /// Events since event `number`.
    pub fn events(&self, number: u64) -> Vec<Event<PoolEvent>> {
        self.0.events.since(number)
    }

    /// Waits for the next event behind that number.
    pub async fn next_event(&self, number: u64) -> Event<PoolEvent> {
        self.0.events.next(number).await
    }

    /// Makes a volume, of zeroes.
    ///
    /// # Errors
    /// [`PoolChangeError`]; there is none then.
    pub async fn create_volume(&self, name: &str, size: u64) -> Result<PoolVolume, PoolChangeError> {
        let core = &self.0;
        self.check_create(name, size)?;
        let (id, node) = {
            let mut record = core.record.last.borrow_mut();
            let (id, node) = (record.next_volume, record.next_node);
            (record.next_volume, record.next_node) = (id + 1, node + 1);
            (id, node)
        };
        let created = (core.config.clock)();
        core.volumes.add(VolumeRecord { id, node, size, created, destroyed: false, name: name.to_owned() });
        core.estimate();
        if let Err(error) = core.checkpoint(crate::upkeep::checkpoint::Why::Due).await {
            core.volumes.remove(id);
            return Err(error.into());
        }
        Ok(PoolVolume { core: Rc::clone(core), id, size })
    }

    /// Whether such a volume can be made.
    ///
    /// # Errors
    /// As of [`Pool::create_volume`].
    pub fn check_create(&self, name: &str, size: u64) -> Result<(), PoolChangeError> {
        check_name(name)?;
        if self.0.read_only {
            return Err(VolumeError::ReadOnly.into());
        }
        if size == 0 || !size.is_multiple_of(512) || size >= 1 << 56 {
            return Err(PoolChangeError::Size(size));
        }
        if self.volume(name).is_some() {
            return Err(PoolChangeError::Exists(name.to_owned()));
        }
        let status = self.status();
        let left = status.capacity.saturating_sub(status.sold);
        if size.next_multiple_of(4096) > left {
            return Err(PoolChangeError::TooLarge { size, left });
        }
        Ok(())
    }

    /// Gives the pool another name.
    ///
    /// # Errors
    /// [`PoolChangeError`]; it has its old name then, unless it is broken.
    pub async fn rename(&self, to: &str) -> Result<(), PoolChangeError> {
        self.check_rename_pool(to)?;
        let name = to.to_owned();
        self.0.change_config(move |label| label.name = name).await?;
        self.0.happened_to_all(PoolEvent::Renamed);
        Ok(())
    }

    /// Whether the pool can have another name.
    ///
    /// # Errors
    /// As of [`Pool::rename`].
    pub fn check_rename_pool(&self, to: &str) -> Result<(), PoolChangeError> {
        check_name(to)?;
        let label = self.label();
        match label.generation {
            _ if self.0.read_only => Err(VolumeError::ReadOnly.into()),
            _ if label.name == to => Err(PoolChangeError::SameName(to.to_owned())),
            MAX_GENERATION.. => Err(PoolChangeError::Generation(label.generation)),
            _ => Ok(()),
        }
    }

    /// The host that has the pool open, or had it last; none if it was given away.
    pub fn host(&self) -> Option<Host> {
        let last = self.0.record.last.borrow();
        (!last.exported).then_some(last.host)
    }

    /// Gives a volume another name.
    ///
    /// # Errors
    /// [`PoolChangeError`]; it has its old name then.
    pub async fn rename_volume(&self, from: &str, to: &str) -> Result<(), PoolChangeError> {
        let id = self.check_rename(from, to)?;
        self.set_name(id, to);
        let renamed = self.0.checkpoint(crate::upkeep::checkpoint::Why::Due).await;
        if renamed.is_err() {
            self.set_name(id, from);
        }
        Ok(renamed?)
    }

    /// Whether a volume can have another name; gives the volume's number.
    ///
    /// # Errors
    /// As of [`Pool::rename_volume`].
    pub fn check_rename(&self, from: &str, to: &str) -> Result<u32, PoolChangeError> {
        check_name(to)?;
        if self.0.read_only {
            return Err(VolumeError::ReadOnly.into());
        }
        if self.volume(to).is_some() {
            return Err(PoolChangeError::Exists(to.to_owned()));
        }
        Ok(self.volume(from).ok_or_else(|| PoolChangeError::NoVolume(from.to_owned()))?.id)
    }

    fn set_name(&self, id: u32, name: &str) {
        self.0.volumes.change(id, |record| name.clone_into(&mut record.name));
    }

    /// Destroys a volume: it takes no requests any more, and its blocks are given back.
    ///
    /// # Errors
    /// [`PoolChangeError`].
    pub async fn destroy_volume(&self, name: &str) -> Result<(), PoolChangeError> {
        let core = &self.0;
        let volume = self.check_destroy(name)?;
        // Requests that are under way come to their end first.
        let lock = crate::store::map::lock_of((volume.id, 0));
        let held = core.locks.acquire(lock..lock + (1 << 44), brindle_members::lock::Hold::Exclusive).await;
        self.set_destroyed(volume.id, true);
        // One record of the log is all that it takes; what the volume held is gone through later.
        let ticket = Ticket::new(&core.set.io, 1);
        let (kind, source, block, count, fua) = (EntryKind::Destroyed, Source::None, 0, 1, true);
        let node = core.volumes.node(volume.id);
        let item =
            Item { kind, volume: volume.id, node, block, count, source, fua, ticket: Rc::clone(&ticket) };
        core.append(false, [item]);
        if let Err(error) = ticket.ended().await {
            self.set_destroyed(volume.id, false);
            return Err(error.into());
        }
        core.volumes.remove(volume.id);
        drop(held);
        core.estimate();
        // The blocks that are left may have more parity now.
        core.see_to_parity();
        Ok(())
    }

    /// Whether a volume can be destroyed; gives the volume.
    ///
    /// # Errors
    /// As of [`Pool::destroy_volume`].
    pub fn check_destroy(&self, name: &str) -> Result<PoolVolume, PoolChangeError> {
        if self.0.read_only {
            return Err(VolumeError::ReadOnly.into());
        }
        self.volume(name).ok_or_else(|| PoolChangeError::NoVolume(name.to_owned()))
    }

    fn set_destroyed(&self, id: u32, destroyed: bool) {
        self.0.volumes.change(id, |record| record.destroyed = destroyed);
    }

    /// Fails a member by command, as if it had failed itself.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the pool can't do without it.
    pub async fn fail(&self, member: u16) -> Result<(), VolumeError> {
        self.0.fail(member)?.await
    }

    /// Whether a member can be taken out.
    ///
    /// # Errors
    /// As of [`Pool::offline`].
    pub fn check_offline(&self, member: u16) -> Result<(), MemberError> {
        self.0.check_offline(member)
    }

    /// Adds a vdev of these devices, whatever they hold.
    ///
    /// # Errors
    /// [`MemberError`]; the pool is as before.
    pub async fn add(
        &self,
        kind: VdevKind,
        parity: u8,
        devices: Vec<Replacement>,
    ) -> Result<(), MemberError> {
        self.0.add(kind, parity, devices).await
    }

    /// Whether a vdev of devices with so many bytes each can be added.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn check_add(&self, spec: &VdevSpec) -> Result<Vdev, MemberError> {
        Ok(self.0.plan_add(spec)?.1)
    }

    /// Adds a spare, which takes the role of a member that is lost.
    ///
    /// # Errors
    /// [`MemberError`]; the pool is as before.
    pub async fn add_spare(&self, device: Replacement) -> Result<(), MemberError> {
        self.0.add_spare(device).await
    }

    /// Whether a device of so many bytes can be a spare.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn check_spare(&self, name: &str, bytes: u64) -> Result<(), MemberError> {
        self.0.check_changes()?;
        self.0.check_spare(name, bytes)
    }

    /// A member is lost, and no spare takes its role: another content's spare would be used.
    pub fn lacks_a_spare(&self) -> bool {
        self.0.lacks_a_spare()
    }

    /// Spares that the pool does not need now, since no member is lost.
    pub fn spares_to_give(&self) -> Vec<SpareDevice> {
        self.0.spares_to_give()
    }

    /// Whether a device of the same reactor is large enough for a member that is lost.
    pub fn has_use_for(&self, device: MemberId) -> bool {
        self.0.has_use_for(device)
    }

    /// Gives a vdev one member more.
    ///
    /// # Errors
    /// [`MemberError`]; the vdev is as before.
    pub async fn attach(&self, vdev: usize, device: Replacement) -> Result<(), MemberError> {
        self.0.attach(vdev, device).await
    }

    /// Whether a device of so many bytes can be a member more of a vdev.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn check_attach(&self, vdev: usize, name: &str, bytes: u64) -> Result<(), MemberError> {
        self.0.check_attach(vdev, name, bytes).map(drop)
    }

    /// Takes a copy out of a vdev of copies for good, or a spare out of the pool.
    ///
    /// # Errors
    /// [`MemberError`]; the vdev is as before.
    pub async fn detach(&self, member: u16) -> Result<(), MemberError> {
        self.0.detach(member).await
    }

    /// Takes a member out until it is brought back.
    ///
    /// # Errors
    /// [`MemberError`]; it is in use as before, or out of use as one that failed.
    pub async fn offline(&self, member: u16) -> Result<(), MemberError> {
        self.0.offline(member).await
    }

    /// Takes a member into use again by a device of its own, which gets what it lacks; `name` is the device's. Gives the member: the one that the
    /// device says, if none was named.
    ///
    /// # Errors
    /// [`MemberError`]; it is out of use as before.
    pub async fn online(&self, member: Option<u16>, name: &str, id: MemberId) -> Result<u16, MemberError> {
        self.0.online(member, name, id).await
    }

    /// Whether a device of `size` bytes can take the place of a member.
    ///
    /// # Errors
    /// As of [`Pool::replace`].
    pub fn check_replace(&self, member: u16, device: &str, size: u64) -> Result<(), MemberError> {
        self.0.check_replace(member, device, size)
    }

    /// Gives the role of a member to another device, which gets all that the member had. Whatever that device holds is lost. A member that is in use
    /// is copied first, and answers until then.
    ///
    /// # Errors
    /// [`MemberError`]; the member has its role as before, in use or not.
    pub async fn replace(&self, member: u16, with: Replacement) -> Result<(), MemberError> {
        self.0.replace(member, with).await
    }

    /// Reads all that counts, and tells what of it is wrong; nothing is written. `reported` is called with the bytes of volumes that were gone over.
    ///
    /// # Errors
    /// If the map can't be read.
    pub async fn check(&self, reported: impl FnMut(u64)) -> Result<Checked, VolumeError> {
        self.0.check(reported).await
    }

    /// Begins to go over all that is stored, beside clients; a repair writes anew what is wrong. It ends by itself.
    ///
    /// # Errors
    /// [`ScrubError::Busy`] if one is under way; [`ScrubError::Volume`] of a pool that stops, is broken or is not written to.
    pub fn begin_scrub(&self, kind: ScrubKind) -> Result<Scrub, ScrubError> {
        self.0.begin_scrub(kind)
    }

    /// The scrub that is under way.
    pub fn scrub(&self) -> Option<Scrub> {
        self.0.scrubs.process()
    }

    /// The last scrub that has ended, as far as the pool tells.
    pub fn scrubbed(&self) -> Option<Scrubbed> {
        self.0.scrubs.last()
    }

    /// Waits until no scrub is under way.
    pub async fn scrub_ended(&self) {
        self.0.room.until(|| self.0.scrubs.process().is_none().then_some(())).await;
    }

    /// Makes all stable that was acknowledged.
    ///
    /// # Errors
    /// As of [`brindle_volume::Volume::flush`].
    pub async fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush().await
    }

    /// Brings the members up to date with what is in memory.
    ///
    /// # Errors
    /// If members failed.
    pub async fn checkpoint(&self) -> Result<(), VolumeError> {
        self.0.checkpoint(crate::upkeep::checkpoint::Why::Due).await
    }

    /// Ends the run, and gives the pool away: the last uberblock says that no host has it. No further request may be made.
    ///
    /// # Errors
    /// It is not given away; or not all is stable.
    pub async fn export(&self) -> Result<(), VolumeError> {
        let exported = self.0.export().await;
        let _told = self.0.tell_untold();
        exported
    }

    /// Ends the run; no further request may be made.
    ///
    /// # Errors
    /// If not all is stable.
    pub async fn stop(&self) -> Result<(), VolumeError> {
        let stopped = self.0.stop().await;
        let _told = self.0.tell_untold();
        stopped
    }
}

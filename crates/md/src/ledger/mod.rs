//! md's superblocks as a ledger: in memory, and written to the members of a running array.
//!
//! Invariants, beside those of every [`Ledger`], at any moment of a crash, and of a second crash while the first is
//! recovered from. [`Superblocks::sound`] asserts at each change those that can be checked here:
//!
//! 1. The event count grows by one with each update, and an update begins only when every living member has a whole
//!    superblock of the present count. Members that are behind after a crash are brought up to date first, in a step
//!    of their own. So the counts of living members never differ by more than one, which md and this program take for
//!    a crash in an update.
//! 2. Two superblocks of one count say the same of the array, the time of the update included: outdated devices are given what is
//!    recorded, not what is wanted.
//! 3. A device that has failed, or that the newest superblock calls faulty, is never written to. Before anything relies
//!    on its absence, the count of all living members is two ahead of any that it may have, and was raised in two steps.
//! 4. A device that is being rebuilt has its role in the table of each superblock, and in its own, of 1.x, how far it
//!    holds what it should: both from one update on. A spare whose superblock an update has not reached is a spare
//!    still, whatever the others say. 0.90 knows nothing between a spare and a member in sync: such a device is a
//!    spare until it is taken in. A former member that comes back says the same from the update on that makes it a
//!    member again, and gets that update first. By the feature recovery-bitmap it also says that all is true of which
//!    no bit says otherwise. Until then its superblock stays as it was when it left.
//! 5. A device that is to replace a member has that one's role too, and says so itself (feature replacement). It loses that flag
//!    with the update that calls the member lost, and not before.
//! 6. A superblock of one sector is old or new after a crash. A superblock that changes in several sectors changes
//!    one role at most beyond the first sector. In 0.90 it may be the flags of its own device instead, or a device
//!    may take the number of its role from one that is not in use (`numbers`). So the first sector tells how the rest
//!    was to change ([`Superblock::parse_torn`]). Such superblocks are never in flight on more members than the array
//!    can lose. A spare that missed several such changes is not a spare of the array while its superblock is written:
//!    the first sector is wiped first, and written last.
//! 7. A log of bad blocks names at least the places that hold nothing, from before a superblock says that the device holds
//!    what is around them (`bad_log`); a place is taken out once what was written there is stable.
//! 8. A bitmap stands on all members before a superblock names it. It is kept up to date from then on, until no superblock of a
//!    living member names it. An outdated device and each spare get the bitmap of the others (`crate::bitmap`).
//! 9. A bitmap in a file is named by no superblock, and stale if its event count is behind theirs. So a file that has
//!    failed is left behind before anything relies on that: by one event, since it may have the present count. A file
//!    that was not given when the array was opened, or was stale, is left behind by two, since a cut may have come
//!    between it and superblocks of its count.

mod bad_log;
mod form;
mod former;
mod found;
mod newcomer;
mod numbers;
mod reshape;
mod service;
mod spares;
mod stale;
mod update;

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_format::md::{
    DeviceFlags, DeviceRole, EncodeError, Features, SUPERBLOCK_BYTES, Superblock, Uuid, Version,
};
use brindle_io::{Buf, Duration, Instant, Io, MemberId};
use brindle_layout::Geometry;
use brindle_members::members::{Device, Flags};
use brindle_members::patience::Patience;

use crate::assembly::{Assembly, DeviceUse, Limitation, Recorded};
use crate::bitmap::level::level_bitmap;
use crate::bitmap::{Bitmap, plan_file};
use crate::flags::{recorded, treatment};
use bad_log::BadLog;
use brindle_array::bitmap::IntentBitmap;
use brindle_array::ledger::{
    AddError, Bears, Begin, BitmapError, BitmapSpec, Description, Failed, Form, GrowError, Joined,
    KnownDevice, Ledger, Limit, LoggedParity, Looking, Named, NewDevice, Recording, Room, State,
};
use brindle_array::{Access, OpenConfig};
use found::keep;
use newcomer::Found;
use service::{Service, in_service};
use stale::{absent_file, stale_events};

/// A device of the array, whatever it is in it.
pub(crate) struct DeviceRecord {
    pub(crate) label: String,
    pub(crate) id: MemberId,
    usage: DeviceUse,
    /// Why and when it failed, if it did in this run.
    failure: Option<Failed>,
    pub(crate) superblock: Superblock,
    super_offset: u64,
    /// The recovery offset for the next update, if the device is not fully rebuilt. Its superblock has that of the
    /// last update.
    recovery_offset: Option<u64>,
    /// Beyond that it holds all of which no bit says otherwise: it was the member of its role before (feature recovery-bitmap).
    guided: bool,
    /// The device is a former member, with its old superblock: the next update makes it a member again.
    returns: bool,
    /// The superblock on the device, as far as is known.
    image: Box<[u8; SUPERBLOCK_BYTES]>,
    /// The event count that stands there, if the superblock there is whole.
    count: Option<u64>,
    buf: Option<Buf>,
    /// The device was added in this run, and has no superblock of the array yet.
    fresh: bool,
    /// Bytes at which superblocks stand that are no longer to be found.
    old: Vec<u64>,
    bad_log: BadLog,
    /// The device's flags, as the next update says; its superblock has those that the last one said.
    flags: DeviceFlags,
    /// Where its bitmap stands, likewise.
    pub(crate) bitmap_offset: Option<i64>,
}

impl DeviceRecord {
    /// The device's superblock is kept up to date: it has not failed, and was not left out.
    pub(crate) fn is_alive(&self) -> bool {
        self.failure.is_none() && !matches!(self.usage, DeviceUse::LeftOut { .. })
    }

    /// The role that it fills.
    pub(crate) fn role(&self) -> Option<u16> {
        match self.usage {
            DeviceUse::Active { role }
            | DeviceUse::Recovering { role, .. }
            | DeviceUse::Replacement { role, .. } => Some(role),
            _ => None,
        }
    }

    /// True if the device is a replacement of its role's member.
    fn replaces(&self) -> bool {
        matches!(self.usage, DeviceUse::Replacement { .. })
    }

    /// Its superblock is up to date: the next update changes nothing of it.
    fn is_settled(&self) -> bool {
        let reported =
            self.superblock.recovery_offset == self.recovery_offset && self.superblock.flags == self.flags;
        let reported = reported && self.superblock.bitmap_offset == self.bitmap_offset;
        let is_told = |feature, is| self.superblock.features.contains(feature) == is;
        let reported = reported && is_told(Features::REPLACEMENT, self.replaces());
        let reported = reported && is_told(Features::RECOVERY_BITMAP, self.guided) && !self.returns;
        !self.is_alive() || reported && self.bad_log.is_settled()
    }

    /// A living member whose superblock is torn or not of the present count.
    fn is_stale(&self, events: u64) -> bool {
        let behind = self.count.is_none_or(|count| count < events);
        self.is_alive() && self.role().is_some() && behind && !self.returns
    }

    fn known(&self) -> KnownDevice {
        let (label, id, usage, failure) = (self.label.clone(), self.id, self.usage, self.failure);
        KnownDevice { label, id, usage, failure, flags: treatment(self.flags) }
    }
}

/// The facts of the array that are the same on all of its devices, and change with its shape alone.
struct Identity {
    uuid: Uuid,
    name: String,
    version: Version,
    component_size: Cell<u64>,
    limits: Vec<Limitation>,
}

/// The superblocks of a running array. `roles` has the table of devices for the next update.
pub(crate) struct Superblocks {
    pub(crate) io: Io,
    identity: Identity,
    /// Seconds since 1970.
    wall_clock: Rc<dyn Fn() -> u64>,
    /// Time that devices may take.
    pub(crate) patience: Patience,
    pub(crate) devices: RefCell<Vec<DeviceRecord>>,
    /// The write-intent bitmap, whose event count follows that of the superblocks.
    pub(crate) bitmap: RefCell<Option<Rc<Bitmap>>>,
    /// One that is to take its place.
    pub(crate) next: RefCell<Option<Rc<Bitmap>>>,
    /// Where the one that is to stand beside each superblock does, while no update names it.
    pub(crate) staged_bitmap_offset: Cell<Option<i64>>,
    /// The bitmap that the next update names.
    pub(crate) named: Cell<Named>,
    /// One that has gone: pages of it that were given up may still land.
    pub(crate) gone: RefCell<Option<Rc<Bitmap>>>,
    /// The highest count that a bitmap's file may have which has failed, or is not here.
    stale_file_events: Cell<Option<u64>>,
    /// The highest event count that an absent bitmap file may have, until something is recorded in this run.
    absent_file: Cell<Option<u64>>,
    events: Cell<u64>,
    /// The facts in superblocks of the present event count.
    recorded: RefCell<Recorded>,
    /// Role of every device by number.
    roles: RefCell<Vec<DeviceRole>>,
    /// Members are to have the numbers of their roles (`numbers`).
    numbering: Cell<bool>,
    /// The highest count that a device may have which was taken out of use last.
    stale_events: Cell<Option<u64>>,
    /// See [`Ledger::in_doubt`].
    in_doubt: Option<u64>,
    /// See [`Ledger::presumed`].
    presumed: Option<u16>,
    /// See [`Ledger::logged_parity`].
    logged: Option<LoggedParity>,
    /// From where on the superblocks say that redundancy is in doubt, where that is not taken so.
    overruled: Option<u64>,
    /// Roles that devices have come into in this run: which did last, and the event count before that.
    filled: RefCell<BTreeMap<u16, (Uuid, u64)>>,
    /// Devices that were looked at, and have not come yet.
    found: RefCell<BTreeMap<MemberId, Found>>,
    /// When roles have been in service: of members that were whole when the array was opened, nothing tells of a time before.
    service: RefCell<Service>,
}

impl Superblocks {
    /// The superblocks of an assembly, whose devices the reactor knows by `ids`.
    pub(crate) fn new(
        io: &Io,
        assembly: Assembly,
        ids: &[MemberId],
        bitmap: Option<Rc<Bitmap>>,
        config: &OpenConfig,
    ) -> Self {
        let writable = config.access == Access::ReadWrite;
        let pool = writable.then(|| io.pool(ids.len().max(1) * SUPERBLOCK_BYTES));
        let behind = stale_events(&assembly);
        let absent_file = absent_file(&assembly, bitmap.as_deref());
        let service = in_service(&assembly);
        let overruled = assembly.overruled();
        let position = assembly.reshaping.as_ref().map(|reshaping| reshaping.position);
        let devices = assembly.devices.into_iter().zip(ids);
        let superblocks = Self {
            io: io.clone(),
            identity: Identity {
                uuid: assembly.uuid,
                name: assembly.name,
                version: assembly.version,
                component_size: Cell::new(assembly.component_size),
                limits: assembly.limits,
            },
            wall_clock: Rc::clone(&config.wall_clock),
            patience: config.patience,
            devices: RefCell::new(
                devices
                    .map(|(device, &id)| {
                        let mut device = level_bitmap(device, assembly.events, &assembly.recorded);
                        device.superblock.device_number = device.number;
                        // One that a cut left behind is brought up to what the others say.
                        if let (Some(at), Some(reshape)) = (position, &mut device.superblock.reshape) {
                            reshape.position = at;
                        }
                        keep(device, id, pool.as_ref(), bitmap.is_some())
                    })
                    .collect(),
            ),
            bitmap: RefCell::new(bitmap),
            next: RefCell::default(),
            staged_bitmap_offset: Cell::new(None),
            named: Cell::new(Named::Present),
            gone: RefCell::default(),
            stale_file_events: Cell::new(None),
            absent_file: Cell::new(absent_file),
            events: Cell::new(assembly.events),
            roles: RefCell::new(assembly.recorded.roles.clone()),
            numbering: Cell::new(false),
            stale_events: Cell::new(behind),
            in_doubt: assembly.resync_offset,
            presumed: assembly.presumed,
            logged: assembly.logged,
            overruled,
            filled: RefCell::default(),
            found: RefCell::default(),
            service: RefCell::new(service),
            recorded: RefCell::new(assembly.recorded),
        };
        superblocks.disown_absent();
        superblocks
    }

    /// Marks the roles of devices that are not here as failed, to be written with the next change; and as spares those that
    /// the update has not reached which gave them a role.
    fn disown_absent(&self) {
        let devices = self.devices.borrow();
        let mut all = self.roles.borrow_mut();
        let is_member = |number| {
            devices.iter().any(|d| d.is_alive() && d.role().is_some() && d.superblock.device_number == number)
        };
        for spare in devices.iter().filter(|d| d.is_alive() && d.usage == DeviceUse::Spare) {
            let number = spare.superblock.device_number;
            if !self.identity.version.is_v1() && all.len() <= number as usize {
                all.resize(number as usize + 1, self.unused());
            }
            // A device that claims the number of a member proves nothing about that member.
            if let Some(entry) = all.get_mut(number as usize).filter(|_| !is_member(number)) {
                *entry = DeviceRole::Spare;
            }
        }
        let mut here: Vec<u32> =
            devices.iter().filter(|d| d.is_alive()).map(|d| d.superblock.device_number).collect();
        here.sort_unstable();
        for (number, role) in (0u32..).zip(all.iter_mut()) {
            if matches!(role, DeviceRole::Active(_)) && here.binary_search(&number).is_err() {
                *role = if self.identity.version.is_v1() { DeviceRole::Faulty } else { self.unused() };
                self.stale_events.set(Some(self.events.get()));
            }
        }
    }

    /// Some device that is out of use may be only one change behind. When it comes back, md takes it for a member in
    /// sync, whatever the others say of it. That holds for 0.90 always, and for 1.x up to Linux 6.7
    /// (`super_90_validate` and `super_1_validate` in `md.c`).
    ///
    /// Its count must fall behind by two, and in two steps: a crash in the midst of one leaves living members one apart.
    fn must_move_on(&self) -> bool {
        self.stale_events.get().is_some_and(|count| self.events.get() < count.saturating_add(2))
    }

    /// A bitmap's file may have this count, and must not be believed when it comes back.
    fn note_stale_file(&self, count: u64) {
        self.stale_file_events.set(self.stale_file_events.get().max(Some(count)));
    }

    /// Where superblocks say that redundancy stops being known to be in sync, if that was overruled by force or by a log, and as
    /// long as this run has not recorded otherwise.
    fn forced_offset(&self) -> Option<u64> {
        self.overruled.filter(|&from| self.recorded.borrow().resync_offset == Some(from))
    }

    /// When to give up on devices that [`brindle_members::patience`] does not look at: spares.
    fn latest(&self, patience: Duration) -> Instant {
        self.io.now().after(patience).after(patience)
    }

    /// Whether each superblock can be encoded in its present state.
    pub(crate) fn check(&self) -> Result<(), (String, EncodeError)> {
        let mut block = [0; SUPERBLOCK_BYTES];
        for device in self.devices.borrow().iter().filter(|d| d.is_alive()) {
            device.superblock.encode(&mut block).map_err(|why| (device.label.clone(), why))?;
        }
        Ok(())
    }
}

impl Ledger for Superblocks {
    fn in_doubt(&self) -> Option<u64> {
        self.in_doubt
    }

    fn presumed(&self) -> Option<u16> {
        self.presumed
    }

    fn logged_parity(&self) -> Option<&LoggedParity> {
        self.logged.as_ref()
    }

    fn record<'a>(&'a self, state: State, bears: Bears<'a>) -> Recording<'a> {
        Box::pin(self.update(state, bears))
    }

    fn is_settled(&self) -> bool {
        let settled = self.devices.borrow().iter().all(DeviceRecord::is_settled);
        let settled = settled && self.stale_file_events.get().is_none_or(|count| self.events.get() > count);
        let settled = settled && self.misnumbered().is_empty();
        settled && !self.must_move_on() && self.recorded.borrow().roles == *self.roles.borrow()
    }

    fn lose(&self, id: MemberId, failed: Failed) {
        for bitmap in self.bitmaps() {
            bitmap.lose(id);
            if bitmap.is_file(id) {
                self.note_stale_file(self.events.get());
            }
        }
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|d| d.is_alive() && d.id == id) else { return };
        device.failure = Some(failed);
        // Failed spares are left out of the update, nothing more.
        if device.role().is_none() {
            return;
        }
        // It may yet get the state that is being written now.
        self.stale_events.set(Some(self.events.get()));
        let mut roles = self.roles.borrow_mut();
        if let Some(entry) = roles.get_mut(device.superblock.device_number as usize) {
            *entry = DeviceRole::Faulty;
        }
        let role = device.role().filter(|_| !device.replaces());
        // A replacement whose original has failed becomes the role's only device.
        devices.iter_mut().filter(|device| device.is_alive() && device.replaces()).for_each(|device| {
            if let Some(role) = device.role().filter(|&other| role == Some(other)) {
                device.usage = DeviceUse::Recovering { role, upto: 0 };
                device.recovery_offset = Some(0);
            }
        });
        if let Some(role) =
            role.filter(|_| !devices.iter().any(|other| other.is_alive() && other.role() == role))
        {
            self.service.borrow_mut().end(role, self.events.get().saturating_add(1));
        }
    }

    fn look_at<'a>(&'a self, device: &'a NewDevice, force: bool) -> Looking<'a> {
        Box::pin(self.look(device, force))
    }

    fn add(&self, device: NewDevice, is_free: &dyn Fn(u16) -> bool) -> Result<Joined, AddError> {
        self.admit(self.newcomer(device), is_free)
    }

    fn judge(&self, device: &NewDevice, is_free: &dyn Fn(u16) -> bool) -> Result<(), AddError> {
        let why = |why| AddError::NotTaken { label: device.label.clone(), why };
        self.role_again(&self.newcomer(device.clone()), is_free).map(drop).map_err(why)
    }

    fn is_guided(&self, id: MemberId) -> bool {
        self.devices.borrow().iter().any(|device| device.is_alive() && device.id == id && device.guided)
    }

    fn has_room_on(&self, device: MemberId, bytes: u64) -> bool {
        self.free_number().is_some() && self.superblock_of_new(device, bytes).is_some()
    }

    fn remove(&self, id: MemberId) -> bool {
        self.dismiss(id)
    }

    fn spares(&self) -> Vec<Device> {
        self.waiting()
    }

    fn begin_recovery(&self, role: u16, id: MemberId) {
        self.give_role(role, id);
    }

    fn recovery_offset(&self, id: MemberId) -> Option<u64> {
        let devices = self.devices.borrow();
        let device = devices.iter().find(|d| d.is_alive() && d.id == id)?;
        device.recovery_offset.or(device.replaces().then_some(u64::MAX))
    }

    fn recovered_to(&self, id: MemberId, upto: u64) {
        let mut devices = self.devices.borrow_mut();
        let recovering =
            devices.iter_mut().filter(|d| d.is_alive() && d.id == id && d.recovery_offset.is_some());
        recovering.for_each(|device| device.recovered_to(upto));
    }

    fn set_flags(&self, id: MemberId, flags: Flags) -> bool {
        let mut devices = self.devices.borrow_mut();
        let device = devices.iter_mut().find(|d| d.is_alive() && d.id == id);
        device.is_some_and(|device| {
            device.flags = recorded(flags);
            true
        })
    }

    fn can_set_bad(&self, id: MemberId, places: &[Range<u64>]) -> bool {
        self.can_log(id, places)
    }

    fn set_bad(&self, id: MemberId, places: &[Range<u64>]) -> bool {
        self.log_bad(id, places)
    }

    fn take_in(&self, role: u16, id: MemberId) -> bool {
        self.fill_role(role, id)
    }

    fn begin_replacement(&self, role: u16, id: MemberId) -> bool {
        self.place_second(role, id)
    }

    fn replaces(&self, member: MemberId, second: MemberId) -> bool {
        let devices = self.devices.borrow();
        let role = |id| devices.iter().find(|d| d.is_alive() && d.id == id).and_then(DeviceRecord::role);
        let placed =
            devices.iter().any(|device| device.id == second && device.is_alive() && device.replaces());
        placed && role(member) == role(second)
    }

    fn bitmap_file_bytes(&self, geometry: &Geometry, chunk: Option<u64>) -> Option<u64> {
        plan_file(geometry, chunk).map(|plan| plan.bytes)
    }

    fn make_room_for_bitmap(&self, geometry: &Geometry, spec: &BitmapSpec) -> bool {
        self.make_room_beside(geometry, spec)
    }

    fn make_bitmap(
        &self,
        geometry: &Geometry,
        spec: &BitmapSpec,
    ) -> Result<Rc<dyn IntentBitmap>, BitmapError> {
        Ok(self.lay_out_bitmap(geometry, spec)?)
    }

    fn name_bitmap(&self, which: Named) {
        self.say_bitmap(which);
    }

    fn settle_bitmap(&self) {
        self.turn_to_named();
    }

    fn bitmap(&self) -> Option<Rc<dyn IntentBitmap>> {
        Some(self.kept_bitmap()?)
    }

    fn rooms(&self) -> Result<Vec<Room>, GrowError> {
        self.rooms_of_members()
    }

    fn check_form(&self, form: &Form) -> Result<(), GrowError> {
        self.check_shape(form)
    }

    fn room_before(&self) -> Result<Room, GrowError> {
        self.least_room_before()
    }

    fn check_begin(&self, form: &Form, begin: &Begin) -> Result<(), GrowError> {
        self.check_begun(form, begin)
    }

    fn begin_reshape(&self, form: &Form, begin: &Begin) {
        self.reshape_begins(form, begin);
    }

    fn reshaped_to(&self, position: u64) {
        self.reshape_reached(position);
    }

    fn begin_at_moved(&self) {
        self.data_begin_at_moved();
    }

    fn shift(&self) -> u64 {
        self.least_shift()
    }

    fn starts(&self, device: MemberId) -> Option<(u64, u64)> {
        self.data_starts(device)
    }

    fn take_form(&self, form: &Form, geometry: &Geometry, in_doubt: Option<u64>) {
        self.take_shape(form, geometry, in_doubt);
    }

    fn is_bitmap_file(&self, device: MemberId) -> bool {
        self.bitmaps().any(|bitmap| bitmap.is_file(device) && !bitmap.has_failed())
    }

    /// Living members whose superblock a crash has left torn or behind. A device that the newest superblock calls
    /// faulty is not among them, whatever its count. Spares may be behind.
    fn outdated(&self) -> Vec<MemberId> {
        let count = self.events.get();
        self.devices.borrow().iter().filter(|d| d.is_stale(count)).map(|d| d.id).collect()
    }

    fn bring_up<'a>(&'a self, bears: Bears<'a>) -> Recording<'a> {
        Box::pin(self.update_outdated(bears))
    }

    fn any_torn(&self) -> bool {
        self.devices.borrow().iter().any(|d| d.is_alive() && d.count.is_none())
    }

    fn is_pinned(&self) -> bool {
        let pinned =
            |device: &DeviceRecord| device.is_alive() && device.buf.as_ref().is_some_and(Buf::is_pinned);
        let mut bitmaps = self.bitmaps().chain(self.gone.borrow().clone());
        self.devices.borrow().iter().any(pinned) || bitmaps.any(|bitmap| bitmap.is_pinned())
    }

    fn label(&self, id: MemberId) -> Option<String> {
        let devices = self.devices.borrow();
        devices.iter().find(|d| d.id == id).map(|device| device.label.clone())
    }

    fn describe(&self) -> Description {
        let identity = &self.identity;
        Description {
            uuid: identity.uuid,
            name: identity.name.clone(),
            format: identity.version.to_string(),
            says_replacements: identity.version.is_v1(),
            component_size: identity.component_size.get(),
            events: self.events.get(),
            forced_offset: self.forced_offset(),
            limits: identity.limits.iter().map(Limit::from).collect(),
            devices: self.devices.borrow().iter().map(DeviceRecord::known).collect(),
        }
    }
}

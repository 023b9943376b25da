//! The record of an array's state that outlives a run, as a trait: the requests of the keeper, whatever the format.
//!
//! The keeper decides what the state is (dirty, how far redundancy is in sync, which members have failed) and when it
//! changes; that is the same for every ledger. A ledger writes the state to devices and finds it there again.

mod add;
mod grow;
pub(crate) mod limit;
mod logged;
mod null;
mod usage;

use core::ops::Range;
use core::pin::Pin;
use std::rc::Rc;

use brindle_io::MemberId;
use brindle_layout::Geometry;
use brindle_members::bad_blocks::BadBlocks;
use brindle_members::events::Cause;
use brindle_members::members::{Device, Flags};
use uuid::Uuid;

use crate::bitmap::IntentBitmap;
pub use crate::bitmap::Refusals;

pub use crate::bitmap::error::{BitmapError, BitmapSpec, MAX_WRITE_BEHIND};
pub use add::{AddError, Joined, NewDevice, NotTaken};
pub use grow::{Begin, Form, GrowError, Room};
pub use limit::Limit;
pub use logged::LoggedParity;
pub use null::Nothing;
pub use usage::{DeviceUse, LeftOut};

/// The recorded state of an array, beside which members have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Writes may be under way: nothing is known of redundancy.
    pub dirty: bool,
    /// Where redundancy stops being known to be in sync if the array is not dirty, as
    /// [`Array::sync_len`](crate::Array::sync_len) counts; `None`: it is in sync everywhere.
    pub resync_offset: Option<u64>,
}

impl State {
    /// The position from which redundancy is in doubt by this record; `None`: it is in sync everywhere.
    pub fn in_doubt(&self) -> Option<u64> {
        if self.dirty { Some(0) } else { self.resync_offset }
    }
}

/// Why and when a device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The reason.
    pub cause: Cause,
    /// Seconds since 1970.
    pub at: u64,
}

/// A device that a ledger knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDevice {
    /// The name in messages.
    pub label: String,
    /// The reactor's number.
    pub id: MemberId,
    /// Its use in the array.
    pub usage: DeviceUse,
    /// Why and when it was lost, if it was in this run.
    pub failure: Option<Failed>,
    /// Its flags.
    pub flags: Flags,
}

/// A device that was examined before it is added.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// Where its data begin, in bytes, if it was a member.
    pub data_offset: u64,
    /// Places of its data area that hold nothing that was ever written.
    pub bad: BadBlocks,
}

/// A device being looked at.
pub type Looking<'a> = Pin<Box<dyn Future<Output = Result<Looked, AddError>> + 'a>>;

/// A ledger's description of the array, for reports. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct Description {
    /// The array's identity.
    pub uuid: Uuid,
    /// Its name.
    pub name: String,
    /// The format and its version, as reports name it; empty if nothing is kept.
    pub format: String,
    /// The record can say that a device is to replace a member that goes on.
    pub says_replacements: bool,
    /// Bytes used of each member; 0 where that is not on record.
    pub component_size: u64,
    /// How often the record has changed, as the format counts.
    pub events: u64,
    /// From where on the record says that redundancy is in doubt, where that was overruled by force or by a log.
    pub forced_offset: Option<u64>,
    /// Reasons why the array is not written to, or why its content is less certain.
    pub limits: Vec<Limit>,
    /// The devices, in the order in which they were given.
    pub devices: Vec<KnownDevice>,
}

impl Default for Description {
    fn default() -> Self {
        Self {
            uuid: Uuid::nil(),
            name: String::new(),
            format: String::new(),
            says_replacements: false,
            component_size: 0,
            events: 0,
            forced_offset: None,
            limits: Vec::new(),
            devices: Vec::new(),
        }
    }
}

/// Whether the array could do without the records of the members of these roles, too.
pub type Bears<'a> = &'a dyn Fn(&[u16]) -> bool;

/// A record being put on devices; it ends when all have answered or been given up.
pub type Recording<'a> = Pin<Box<dyn Future<Output = Refusals> + 'a>>;

/// Callback for a device that was lost, with the cause.
pub type OnLoss = Rc<dyn Fn(MemberId, Cause)>;

/// The write-intent bitmap that a record is to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The one that the array has.
    Present,
    /// The one that was [made](Ledger::make_bitmap), which stands where it is to stand; none, if none was.
    Next,
}

/// The record of an array for its next run. Requests never wait for it, but for the first write after a quiet time
/// and for failures.
///
/// The keeper promises:
///
/// 1. It awaits one recording of the array before it begins another, and drives each to its end.
/// 2. It asks for [`Ledger::record`] only when no device [lags](Ledger::outdated), nor has a record
///    [in flight](Ledger::is_pinned) that was given up.
/// 3. No member is written to before `dirty` is on record. A clean state is recorded only when no write is under way,
///    and all members in use have been flushed since the last write.
/// 4. A device is [lost](Ledger::lose) before anything relies on its absence, and never comes back in this run.
///    Success that relies on it is acknowledged only after a recording that came to its end without refusals, after
///    which the ledger was [settled](Ledger::is_settled).
/// 5. A member that refuses a record is lost; if the array can't do without it, the array is broken and nothing more is
///    recorded.
/// 6. A device [begins](Ledger::begin_recovery) to be rebuilt when all else is settled. The keeper reports the bytes
///    that it [holds](Ledger::recovered_to), and that it was [taken in](Ledger::take_in), only after a flush that
///    began later. Nothing relies on either before it is recorded. Its [bad](Ledger::set_bad) places are reported with
///    that at the latest. A place that is no longer bad is reported after a flush of its new data.
///
/// A ledger promises:
///
/// 7. A recording that ends without refusals is on stable storage. Any set of devices that suffices for the array has
///    it, or a later one, in the next run.
/// 8. If the power goes while a recording is under way, the next run finds the old record or the new one.
///    Once something has been found, it must not be lost again with the device on which it was found: such devices
///    as have it not [lag](Ledger::outdated).
/// 9. A lost device is not written to again, not even by a recording that is under way.
/// 10. Once a record that calls a device lost is settled, a later run with that device among others does not take it
///     for a member, whatever its own record says.
/// 11. A device that is being rebuilt is never found to hold more than the keeper has said, nor in sync before it is
///     taken in.
///
/// The keeper asserts what it can see of this; a ledger asserts its own rules at each change.
pub trait Ledger {
    /// From where on redundancy was in doubt when the ledger was opened, counted as
    /// [`Array::sync_len`](crate::Array::sync_len) does; `None`: it was true everywhere.
    fn in_doubt(&self) -> Option<u64>;

    /// The one role that the array lacks and was started by force without: its data are taken to be what P gives, also where
    /// redundancy is in doubt. `None` where nothing is taken so.
    fn presumed(&self) -> Option<u16> {
        None
    }

    /// Parity that a log has in place of the members', for an array that is only read.
    fn logged_parity(&self) -> Option<&LoggedParity> {
        None
    }

    /// Writes `state`, and which devices are lost, to the devices.
    fn record<'a>(&'a self, state: State, bears: Bears<'a>) -> Recording<'a>;

    /// The whole state is on record, losses included.
    fn is_settled(&self) -> bool {
        true
    }

    /// A device is out of use from now on. The next record says so, on the others. A device that is not known, or lost
    /// already, changes nothing.
    fn lose(&self, device: MemberId, failed: Failed);

    /// Looks at a device that is to come, and remembers the records of its earlier part in the array until it joins.
    /// The device may be of another array with `force` only. Nothing changes.
    ///
    /// # Errors
    /// An [`AddError`]: the device can't come.
    fn look_at<'a>(&'a self, device: &'a NewDevice, force: bool) -> Looking<'a> {
        let _ = force;
        let label = device.label.clone();
        Box::pin(core::future::ready(Err(AddError::Unrecorded { label })))
    }

    /// A device that was [looked at](Ledger::look_at), and is none of the array's yet or was lost, waits to replace a member from now on:
    /// the next record says so, on it too. What it holds is lost. Or it becomes its former member again, if the ledger can record that and
    /// its superblock proves it: then it counts as holding nothing, and is [guided](Ledger::is_guided). That only into a role
    /// that `is_free`; a device that was lost before it is on record as that.
    ///
    /// # Errors
    /// An [`AddError`]: then nothing has changed.
    fn add(&self, device: NewDevice, is_free: &dyn Fn(u16) -> bool) -> Result<Joined, AddError> {
        let _ = is_free;
        Err(AddError::Unrecorded { label: device.label })
    }

    /// Whether a device could come back as the member that it was, by the present record. Nothing changes.
    ///
    /// # Errors
    /// [`AddError::NotTaken`] and the reason.
    fn judge(&self, device: &NewDevice, is_free: &dyn Fn(u16) -> bool) -> Result<(), AddError> {
        let _ = is_free;
        Err(AddError::Unrecorded { label: device.label.clone() })
    }

    /// Whether a new device of `bytes` could be [added](Ledger::add), and take a member's place.
    fn has_room_on(&self, device: MemberId, bytes: u64) -> bool {
        let _ = (device, bytes);
        false
    }

    /// A device that is being rebuilt holds all of which no bit says otherwise.
    fn is_guided(&self, device: MemberId) -> bool {
        let _ = device;
        false
    }

    /// A device that fills no role, or has been lost, is none of the array's any more: the next record says so, on the others.
    /// False if it is not known, or in use.
    fn remove(&self, device: MemberId) -> bool {
        let _ = device;
        false
    }

    /// Devices that wait to replace a member, in the order in which they would: their content does not matter.
    fn spares(&self) -> Vec<Device> {
        Vec::new()
    }

    /// A device that was not in use is about to be rebuilt in a role, and holds nothing of it yet: the next record says so, if
    /// the ledger can say that of such a device. If not, the recovery begins anew in the next run.
    fn begin_recovery(&self, role: u16, device: MemberId) {
        let _ = (role, device);
    }

    /// Bytes of the data area, from its start, that a device which is being rebuilt holds by what is to be recorded; `None` if
    /// it is none on record.
    fn recovery_offset(&self, device: MemberId) -> Option<u64> {
        let _ = device;
        None
    }

    /// Notes how many bytes of its data a device that is being rebuilt holds, from the start of its data area: the
    /// next record says so. Changes nothing where the ledger can't say that.
    fn recovered_to(&self, device: MemberId, upto: u64) {
        let _ = (device, upto);
    }

    /// Whether the ledger could say that these places of a device (bytes of its data area), and no others, hold nothing that
    /// was ever written.
    fn can_set_bad(&self, device: MemberId, places: &[Range<u64>]) -> bool {
        let _ = device;
        places.is_empty()
    }

    /// These places of a device, and no others, hold nothing that was ever written: the next record says so, before it says
    /// that the device holds what is around them. False if the ledger can't say that: then nothing has changed.
    fn set_bad(&self, device: MemberId, places: &[Range<u64>]) -> bool {
        self.can_set_bad(device, places)
    }

    /// A device that was not in use has been rebuilt, and fills a role from now on: the next record says so. False if this
    /// ledger can't say that; then it is not counted on for redundancy in this run, and no member in the next.
    fn take_in(&self, role: u16, device: MemberId) -> bool {
        let _ = (role, device);
        false
    }

    /// A device has these flags from now on: the next record says so. False if it is not known, or the ledger can't say that.
    fn set_flags(&self, device: MemberId, flags: Flags) -> bool {
        let _ = (device, flags);
        false
    }

    /// Registers a callback for devices that are lost by others which use them too, such as other arrays of a
    /// container. It must be called as soon as they are lost. The keeper then takes its member out of use, as if it
    /// had failed itself. Called once, before anything is recorded.
    fn when_lost(&self, reported: OnLoss) {
        let _ = reported;
    }

    /// A device that was not in use is to replace the member of a role, which goes on: the next record says so, and
    /// that it holds nothing of it yet. How far it has been copied is [recorded](Ledger::recovered_to) as for a
    /// member that is being rebuilt. Once the member is [lost](Ledger::lose), the device is one that is being rebuilt
    /// and holds nothing, unless it is [taken in](Ledger::take_in) with the same record. False if this ledger can't
    /// say that: then nothing has changed.
    fn begin_replacement(&self, role: u16, device: MemberId) -> bool {
        let _ = (role, device);
        false
    }

    /// Whether the second device of a role, once it holds all of its member's data, may take the member's place when
    /// that is [lost](Ledger::lose): the next run then finds it in the role.
    fn replaces(&self, member: MemberId, second: MemberId) -> bool {
        let _ = (member, second);
        false
    }

    /// Where a write-intent bitmap as is asked for has no room beside what describes the array, but would have it if that moved:
    /// then it does with the next record, and this is true.
    fn make_room_for_bitmap(&self, geometry: &Geometry, spec: &BitmapSpec) -> bool {
        let _ = (geometry, spec);
        false
    }

    /// Bytes that a file needs for a bitmap of an array of this geometry with such chunks (`None`: as the format chooses).
    fn bitmap_file_bytes(&self, geometry: &Geometry, chunk: Option<u64>) -> Option<u64> {
        let _ = (geometry, chunk);
        None
    }

    /// Makes the write-intent bitmap that is asked for, for an array of this geometry, with space on all devices or
    /// in a file. Nothing is written yet, and no record [names](Ledger::name_bitmap) it. From now on it follows the
    /// devices that come and are lost. The array keeps its present bitmap meanwhile.
    ///
    /// # Errors
    /// A [`BitmapError`]: then nothing has changed.
    fn make_bitmap(
        &self,
        geometry: &Geometry,
        spec: &BitmapSpec,
    ) -> Result<Rc<dyn IntentBitmap>, BitmapError> {
        let _ = (geometry, spec);
        Err(BitmapError::Unrecorded)
    }

    /// The next record says that the array has this bitmap, and its event count follows; that of the other stands still.
    fn name_bitmap(&self, which: Named) {
        let _ = which;
    }

    /// Makes the bitmap [named](Ledger::name_bitmap) last the array's own; that is on record. It has the bits clear that the
    /// other has, if there is one, which gets no updates any more.
    fn settle_bitmap(&self) {}

    /// Bytes that each device in a role has for data, in the order of roles; none if this record keeps the shape of its array
    /// for good.
    ///
    /// # Errors
    /// A [`GrowError`]: the reason why it does.
    fn rooms(&self) -> Result<Vec<Room>, GrowError> {
        Err(GrowError::Unrecorded)
    }

    /// Whether the record could say that the array has this shape.
    ///
    /// # Errors
    /// A [`GrowError`].
    fn check_form(&self, form: &Form) -> Result<(), GrowError> {
        let _ = form;
        Err(GrowError::Unrecorded)
    }

    /// The room in front of the data of all members and spares, on the one that has least.
    ///
    /// # Errors
    /// A [`GrowError`]: data can't begin earlier on some.
    fn room_before(&self) -> Result<Room, GrowError> {
        Err(GrowError::Unrecorded)
    }

    /// Whether the record could say that such a reshape begins.
    ///
    /// # Errors
    /// A [`GrowError`].
    fn check_begin(&self, form: &Form, begin: &Begin) -> Result<(), GrowError> {
        let _ = (form, begin);
        Err(GrowError::Unrecorded)
    }

    /// The next record says that data are being moved into rows of more members, whose devices these are, and that none has moved
    /// yet. The keeper asks for it as for [`Ledger::take_form`].
    fn begin_reshape(&self, form: &Form, begin: &Begin) {
        let _ = (form, begin);
    }

    /// The next record says that all bytes of the array before this one have moved.
    fn reshaped_to(&self, position: u64) {
        let _ = position;
    }

    /// The next record says of all members that their data begin where they have been moved to; still as a reshape, at its end.
    fn begin_at_moved(&self) {}

    /// Bytes by which the data of members begin earlier after the reshape that is on record; 0 if none is, or they have begun there.
    fn shift(&self) -> u64 {
        0
    }

    /// Where the data of a device begin, by the record: before the reshape that is on record, and after it.
    fn starts(&self, device: MemberId) -> Option<(u64, u64)> {
        let _ = device;
        None
    }

    /// The next record says that the array has this shape, which was [checked](Ledger::check_form), and that nothing is being reshaped.
    /// The keeper asks for it only when all else is settled and nothing is written, and all members are in sync unless a reshape
    /// ends. Where there is a bitmap, one for that shape takes its place with the same record: its bits are set beyond `in_doubt`.
    fn take_form(&self, form: &Form, geometry: &Geometry, in_doubt: Option<u64>) {
        let _ = (form, geometry, in_doubt);
    }

    /// The array's write-intent bitmap, if it has one.
    fn bitmap(&self) -> Option<Rc<dyn IntentBitmap>> {
        None
    }

    /// A device is the file of a bitmap that the array has, or is to have: if it is [lost](Ledger::lose), the next record makes it stale.
    fn is_bitmap_file(&self, device: MemberId) -> bool {
        let _ = device;
        false
    }

    /// Devices in use that lack what others have on record, since the power went in between.
    fn outdated(&self) -> Vec<MemberId> {
        Vec::new()
    }

    /// Writes the present record to outdated devices.
    fn bring_up<'a>(&'a self, bears: Bears<'a>) -> Recording<'a> {
        let _ = bears;
        Box::pin(core::future::ready(Refusals::new()))
    }

    /// The record of some device in use was torn when the ledger was opened, and has not been made whole since. What it was
    /// to say may stand on a device that is not here.
    fn any_torn(&self) -> bool {
        false
    }

    /// A record that was given up may still land on a device in use.
    fn is_pinned(&self) -> bool {
        false
    }

    /// How messages name a device; `None` if it is not known.
    fn label(&self, device: MemberId) -> Option<String> {
        let _ = device;
        None
    }

    /// A description of the array, for reports.
    fn describe(&self) -> Description {
        Description::default()
    }
}

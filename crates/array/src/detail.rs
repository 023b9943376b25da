//! The status of a running array, typed.

use crate::process::ProcessDetail;
use brindle_io::{MemberId, PathTarget};
use brindle_layout::{Layout, Level};
use brindle_members::members::{Flags, RoleState};
use uuid::Uuid;

use crate::array::Array;
use crate::bitmap::BitmapFile;
use crate::ledger::{DeviceUse, Failed, KnownDevice, LeftOut, Limit};
use crate::placement::Placement;

/// The state of a device of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device fills its role.
    InSync,
    /// The device fills its role, but its bytes are valid only below this offset of its data area.
    Recovering {
        /// Bytes from the start of the data area.
        upto: u64,
    },
    /// A replacement of a member that still works. It holds the member's data below this offset of its data area.
    Replacement {
        /// Bytes from the start of the data area.
        upto: u64,
    },
    /// The device failed in this run.
    Failed,
    /// Waits to replace a member.
    Spare,
    /// Holds the journal.
    Journal,
    /// Not used.
    LeftOut(LeftOut),
}

/// One of the given devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDetail {
    /// The name in messages.
    pub label: String,
    /// The reactor's number.
    pub id: MemberId,
    /// The role that it fills, filled, or claims.
    pub role: Option<u16>,
    /// The device's state.
    pub state: DeviceState,
    /// Why and when, if it failed in this run.
    pub failure: Option<Failed>,
    /// Its flags.
    pub flags: Flags,
    /// Time of its answers as a multiple of its peers', if it fills a role and is much slower.
    pub slower: Option<u64>,
}

impl DeviceDetail {
    /// Whether the device fills the role, or did until it failed.
    fn is_of(&self, role: u16) -> bool {
        self.role == Some(role)
            && !matches!(self.state, DeviceState::LeftOut(_) | DeviceState::Replacement { .. })
    }
}

/// The status of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleDetail {
    /// The index in [`Detail::devices`] of the device that fills it, or did until it failed.
    pub device: Option<usize>,
    /// The state of the role's member.
    pub state: RoleState,
    /// Whether its file still has its name.
    pub place: PathTarget,
}

/// The present state of a write-intent bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitmapDetail {
    /// The bitmap's file; `None`: the bitmap is beside each superblock.
    pub file: Option<BitmapFile>,
    /// The bitmap's file is out of use: bits are kept in memory only, and a crash leaves all of the array in doubt.
    pub failed: bool,
    /// Bytes to a bit.
    pub chunk: u64,
    /// Bits.
    pub bits: u64,
    /// Bits that are set: what would be resynced after a crash.
    pub dirty: u64,
    /// Pages of it written in this run, of 4 KiB and each to all members.
    pub writes: u64,
    /// Writes that may lag behind on write-mostly members; 0: none.
    pub write_behind: u32,
    /// Writes that lag now: their clients have got an answer.
    pub lagging: u32,
    /// The most that ever did at once in this run.
    pub most_lagging: u32,
}

/// The present state of an array. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Identity; nil if the state lives in memory only.
    pub uuid: Uuid,
    /// Name, `host:name` as a rule.
    pub name: String,
    /// Format and version of the metadata; empty if the state lives in memory only.
    pub format: String,
    /// The metadata can say that a device is to replace a member that goes on.
    pub says_replacements: bool,
    /// Level.
    pub level: Level,
    /// Layout.
    pub layout: Layout,
    /// Chunk; 0 for RAID 1.
    pub chunk: u64,
    /// Bytes of the array.
    pub size: u64,
    /// Bytes used of each member; 0 for linear and RAID 0, which use all of each.
    pub component_size: u64,
    /// The event count.
    pub events: u64,
    /// The members can't make up for what is lost: no writes are taken.
    pub broken: bool,
    /// No writes are taken.
    pub read_only: bool,
    /// The array is in the middle of a reshape.
    pub reshaping: bool,
    /// Writes are under way, or the array has not yet been marked clean after them.
    pub active: bool,
    /// Roles without a whole member.
    pub degraded: u16,
    /// Members are lost for which parity stands: if the run ends while the array is written to, it starts again by force only.
    pub exposed: bool,
    /// Where redundancy stops being known to be in sync, in bytes of the data area (of the array for mirrors); `None`: it is in sync everywhere.
    pub resync_offset: Option<u64>,
    /// For a dirty, degraded array that was forced to start: from where on its superblocks still say that redundancy
    /// is in doubt, in the same bytes; `None` once a change of this run is recorded.
    pub forced_offset: Option<u64>,
    /// The process that is under way: its position is in the same bytes.
    pub process: Option<ProcessDetail>,
    /// The write-intent bitmap, if there is one and it is kept.
    pub bitmap: Option<BitmapDetail>,
    /// Indexed by role.
    pub roles: Vec<RoleDetail>,
    /// The given devices.
    pub devices: Vec<DeviceDetail>,
    /// Reasons why the array is not written to, or why its content is less certain.
    pub limits: Vec<Limit>,
}

impl Detail {
    /// The state in mdadm's words: `active`, `clean, degraded`, `clean, resync pending`.
    pub fn state_words(&self) -> String {
        let first = match (self.broken, self.active) {
            (true, _) => "broken",
            (false, true) => "active",
            (false, false) => "clean",
        };
        let also = [
            (self.degraded > 0, ", degraded"),
            (self.resync_offset.or(self.forced_offset).is_some(), ", resync pending"),
            (self.read_only, ", read-only"),
        ];
        also.into_iter().filter(|(on, _)| *on).fold(first.to_owned(), |words, (_, word)| words + word)
    }

    /// Roles that hold all that they should.
    pub fn in_sync(&self) -> usize {
        self.roles.iter().filter(|role| role.state == RoleState::InSync).count()
    }
}

impl Array {
    /// The array's shape and status.
    pub fn detail(&self) -> Detail {
        let (array, core) = (&*self.0, &*self.0.core);
        let known = core.keeper.ledger().describe();
        let devices: Vec<DeviceDetail> =
            known.devices.iter().map(|device| self.device_detail(device)).collect();
        let role = |role| RoleDetail {
            device: devices
                .iter()
                .position(|d| core.members.device(role).is_some_and(|device| device.id == d.id))
                .or_else(|| devices.iter().position(|d| d.is_of(role))),
            state: core.members.state(role),
            place: core.members.place(role),
        };
        Detail {
            uuid: known.uuid,
            name: known.name,
            format: known.format,
            says_replacements: known.says_replacements,
            level: array.geometry.level(),
            layout: array.geometry.layout(),
            chunk: if array.geometry.level() == Level::Raid1 { 0 } else { array.geometry.chunk() },
            size: core.limits.size,
            component_size: known.component_size,
            events: known.events,
            broken: core.keeper.is_broken(),
            read_only: core.config.is_read_only(),
            reshaping: matches!(array.placement, Placement::Split(_)),
            active: core.keeper.is_active(),
            degraded: core.members.lost(),
            exposed: core.keeper.is_exposed(),
            resync_offset: core.keeper.resync_offset(),
            forced_offset: known.forced_offset.filter(|_| !core.keeper.is_dirty()),
            process: self.process().map(|process| process.detail()),
            bitmap: core.intent.bitmap().map(|bitmap| {
                let (chunk, bits, dirty) = bitmap.tell();
                let (writes, write_behind) = (bitmap.written(), bitmap.write_behind());
                let (lagging, most_lagging) = self.lagging();
                let (file, failed) = (bitmap.file().cloned(), bitmap.has_failed());
                BitmapDetail { file, failed, chunk, bits, dirty, writes, write_behind, lagging, most_lagging }
            }),
            roles: (0..core.members.len()).map(role).collect(),
            limits: known.limits,
            devices,
        }
    }

    fn device_detail(&self, device: &KnownDevice) -> DeviceDetail {
        let members = &self.0.core.members;
        let (role, state) = match (device.usage, members.role_of(device.id)) {
            (DeviceUse::LeftOut { role, why }, _) => (role, DeviceState::LeftOut(why)),
            (_, Some(role)) => {
                let state = match members.state(role) {
                    RoleState::InSync => DeviceState::InSync,
                    RoleState::Recovering(upto) => DeviceState::Recovering { upto },
                    RoleState::Failed | RoleState::Missing => DeviceState::Failed,
                };
                (Some(role), state)
            }
            (DeviceUse::Replacement { role, .. }, None) => {
                let second = members.second(role).filter(|second| second.device.id == device.id);
                let state = second
                    .map_or(DeviceState::Failed, |second| DeviceState::Replacement { upto: second.good });
                (Some(role), state)
            }
            // Another has its role.
            (DeviceUse::Active { role } | DeviceUse::Recovering { role, .. }, None) => {
                (Some(role), DeviceState::Failed)
            }
            (DeviceUse::Spare, None) if device.failure.is_none() => (None, DeviceState::Spare),
            (DeviceUse::Spare, None) => (None, DeviceState::Failed),
            (DeviceUse::Journal, None) => (None, DeviceState::Journal),
        };
        let in_use = matches!(state, DeviceState::InSync | DeviceState::Recovering { .. });
        let slower = role.filter(|_| in_use).map(|role| members.slower(role)).filter(|&times| times > 0);
        let (label, id) = (device.label.clone(), device.id);
        DeviceDetail { label, id, role, state, failure: device.failure, flags: device.flags, slower }
    }
}

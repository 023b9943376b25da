//! Pools and their volumes.

use brindle_format::pool::{Label, VdevKind};
use brindle_members::members::RoleState;
use brindle_pool::{DamagedRange, MapUse, Pool, PoolMember, PoolStatus, ResilverProgress};
use serde::{Deserialize, Serialize};

use super::ReportWord;
use super::devices::IoStatus;
use super::drive::DriveStatus;
use super::scan::ScanStatus;

/// The kind of a device that waits for a role.
const SPARE: &str = "spare";

/// A pool at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolFacts {
    /// Its identity.
    pub uuid: String,
    /// The name in its labels.
    pub name: String,
    /// Seconds since 1970 when it was made.
    pub created: u64,
    /// In words: `online`, `degraded` and so on.
    pub state: Vec<ReportWord>,
    /// Bytes that volumes may have in all.
    pub capacity: u64,
    /// The sum of the volumes' sizes, in bytes.
    pub sold: u64,
    /// Bytes that are stored.
    pub stored: u64,
    /// Bytes that have less redundancy than their vdev is to give.
    pub thin: u64,
    /// Whether these are being given what they can have.
    pub raising: bool,
    /// Seconds after which what lies on lost members is moved, so that it has all the redundancy that it can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raises_in: Option<u64>,
    /// Members get what they lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resilver: Option<ResilverStatus>,
    /// Segments that are free, of the log, and in use.
    pub segments: [usize; 3],
    /// The number of the last checkpoint.
    pub checkpoint: u64,
    /// Blocks that were found wrong since it was opened.
    pub blocks_wrong: u64,
    /// Wrong blocks that were rebuilt and written in place.
    pub blocks_mended: u64,
    /// Blocks of volumes that no member holds any more; a block counts each time that it is lost.
    pub blocks_lost: u64,
    /// Where volumes are known to be beyond repair, the first 1024 ranges,
    pub damaged: Vec<DamagedStatus>,
    /// and blocks beyond repair that are not listed there.
    pub damaged_beyond: u64,
    /// Bytes written to members since it was opened, by what for.
    pub written: WrittenStatus,
    /// How much of its map is in memory.
    pub map: MapStatus,
    /// The host that has it; none of one that was given away.
    pub host: Option<HolderStatus>,
    /// The scrub or resilver that runs, or the last one; none if nothing is known of any.
    pub scan: Option<ScanStatus>,
    /// Seconds since 1970 when all of it was gone over last; none if that is not known.
    pub scrubbed: Option<u64>,
    /// Its members, vdev by vdev.
    pub devices: Vec<PoolDevice>,
}

/// The host that has a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderStatus {
    /// Its identity.
    pub id: String,
    /// Its name.
    pub host_name: String,
}

/// How far members have got what they lack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResilverStatus {
    /// Bytes of segments that were gone over,
    pub position: u64,
    /// and of all that this pass goes over.
    pub total: u64,
    /// Bytes a second, where that is known.
    pub speed: Option<u64>,
    /// Seconds that are left, where that is known.
    pub left: Option<u64>,
}

/// Bytes written to members, by purpose.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "as in brindle_pool::Written")]
pub struct WrittenStatus {
    pub client: u64,
    pub moved: u64,
    pub summaries: u64,
    pub pages: u64,
    pub parity: u64,
}

/// The map of a pool, as far as it is in memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MapStatus {
    /// Bytes that it takes,
    pub bytes: u64,
    /// the most that it took since the pool was opened,
    pub most: u64,
    /// and the most that it may take.
    pub limit: u64,
    /// Pages that it has.
    pub pages: u64,
    /// Of these, pages in memory.
    pub in_memory: u64,
    /// Blocks that were looked up since the pool was opened.
    pub lookups: u64,
    /// Of these, blocks for which a page had to be read.
    pub misses: u64,
}

impl MapStatus {
    /// The share of look-ups for which a page had to be read.
    pub fn missed(&self) -> f64 {
        if self.lookups == 0 { 0.0 } else { self.misses as f64 / self.lookups as f64 }
    }
}

impl From<MapUse> for MapStatus {
    fn from(map: MapUse) -> Self {
        let MapUse { pages, in_memory, bytes, most, limit, asked, missed } = map;
        Self { bytes, most, limit, pages, in_memory, lookups: asked, misses: missed }
    }
}

/// A range of a volume that no member holds any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DamagedStatus {
    /// `POOL/VOLUME`.
    pub volume: String,
    /// Its first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A member of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolDevice {
    /// `VDEV.ROLE`; of a spare its number.
    pub member: String,
    /// Its number in the pool.
    pub number: u16,
    /// `plain`, `mirror`, `raidz2` and so on, of its vdev; `spare` of a device that waits for a role.
    pub kind: String,
    /// The name that was given.
    pub path: Option<String>,
    /// The drive; none of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveStatus>,
    /// The reason why its drive is called failing by SMART, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// The device that is to take its place, as long as it is copied to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// `online`, `resilvering`, `offline`, `failed` or `missing`; `spare` of a spare that is there.
    pub state: ReportWord,
    /// Its reads that were answered with an error, and
    pub failed_reads: u64,
    /// its writes.
    pub failed_writes: u64,
    /// Segments with something live that it lacks.
    #[serde(skip_serializing_if = "is_zero")]
    pub lacks: usize,
    /// Blocks of it that were found wrong, or could not be read, since the pool was opened.
    pub wrong: u64,
    /// Wrong blocks that were rebuilt and written in place.
    pub mended: u64,
    /// Places of it that count as read errors now: half of them are forgotten each hour.
    pub read_errors: u32,
    /// Operations and how they were answered.
    pub io: Option<IoStatus>,
}

/// A volume of a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeFacts {
    /// Its name in the pool.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970 when it was made.
    pub created: u64,
}

impl PoolDevice {
    /// It waits for the role of a member that is lost.
    pub fn is_spare(&self) -> bool {
        self.kind == SPARE
    }
}

impl PoolFacts {
    /// Whether its state has this word.
    pub fn is(&self, word: &str) -> bool {
        self.state.iter().any(|state| state == word)
    }

    /// The kind of a vdev in words.
    pub fn kind_of(label: &Label, vdev: usize) -> String {
        match label.vdevs.get(vdev).map(|vdev| (vdev.kind, vdev.parity)) {
            Some((VdevKind::Raidz, parity)) => format!("raidz{parity}"),
            Some((VdevKind::Mirror, _)) => "mirror".to_owned(),
            Some((VdevKind::Plain, _)) | None => "plain".to_owned(),
        }
    }

    /// The status of a pool; `names` are those of its members, by number.
    pub fn of(pool: &Pool, path: impl Fn(u16) -> Option<String>) -> Self {
        let (label, status) = (pool.label(), pool.status());
        let device = |(number, member): (u16, &PoolMember)| {
            let counters = member.device.map(|id| pool.io().counters(id));
            PoolDevice {
                member: if member.is_spare { number.to_string() } else { member.role.to_string() },
                number,
                kind: if member.is_spare {
                    SPARE.to_owned()
                } else {
                    Self::kind_of(&label, member.role.vdev)
                },
                path: path(number),
                replaced_by: None,
                drive: None,
                failing: None,
                state: member_word(member).into(),
                failed_reads: counters.as_ref().map_or(0, |counters| counters.read_errors),
                failed_writes: counters.as_ref().map_or(0, |counters| counters.write_errors),
                wrong: member.wrong,
                mended: member.mended,
                read_errors: member.read_errors,
                lacks: member.lacks,
                io: counters.map(|counters| IoStatus::of(&counters, member.mended, 0)),
            }
        };
        // A successor that is there is told beside the member that it is to replace.
        let is_shown =
            |member: &PoolMember| !member.is_gone && (member.succeeds.is_none() || member.device.is_none());
        let mut members: Vec<(u16, &PoolMember)> =
            (0..).zip(&status.members).filter(|(_, member)| is_shown(member)).collect();
        members.sort_by_key(|(_, member)| (member.is_spare, member.role));
        let devices: Vec<PoolDevice> = members.into_iter().map(device).collect();
        let degraded = devices.iter().any(|device| !device.is_spare() && device.state != "online");
        let first = if status.broken { "broken" } else { "online" };
        let is_damaged = !status.damaged.is_empty() || status.damaged_beyond > 0;
        let also = [
            (is_damaged, "damaged"),
            (degraded, "degraded"),
            (status.thin > 0, "thin"),
            (pool.is_read_only(), "read-only"),
        ];
        let also = also.into_iter().filter_map(|(on, word)| on.then_some(word));
        Self {
            uuid: label.pool.to_string(),
            name: label.name.clone(),
            created: label.created,
            state: std::iter::once(first).chain(also).map(ReportWord::from).collect(),
            capacity: status.capacity,
            sold: status.sold,
            stored: status.stored,
            thin: status.thin,
            raising: status.busy.raising,
            raises_in: status.raises_in.map(|left| left.as_secs()),
            resilver: ResilverStatus::of(&status),
            segments: status.segments,
            checkpoint: status.checkpoint,
            blocks_wrong: status.damage.found,
            blocks_mended: status.damage.mended,
            blocks_lost: status.damage.lost,
            damaged: DamagedStatus::all(&label.name, &status.damaged),
            damaged_beyond: status.damaged_beyond,
            written: WrittenStatus {
                client: status.written.client,
                moved: status.written.moved,
                summaries: status.written.summaries,
                pages: status.written.pages,
                parity: status.written.parity,
            },
            map: status.map.into(),
            host: pool.host().map(|host| HolderStatus { id: host.id.to_string(), host_name: host.name() }),
            scan: ScanStatus::of(pool),
            scrubbed: pool.scrubbed_whole(),
            devices,
        }
    }
}

impl DamagedStatus {
    /// Ranges of volumes of the pool of that name.
    pub fn all(pool: &str, ranges: &[DamagedRange]) -> Vec<Self> {
        let of = |range: &DamagedRange| Self {
            volume: format!("{pool}/{}", range.volume),
            offset: range.offset,
            length: range.length,
        };
        ranges.iter().map(of).collect()
    }
}

impl VolumeFacts {
    /// The status of all volumes of a pool.
    pub fn all(pool: &Pool) -> Vec<Self> {
        let volumes = pool.volumes().into_iter();
        volumes.map(|volume| Self { name: volume.name, size: volume.size, created: volume.created }).collect()
    }
}

impl ResilverStatus {
    fn of(status: &PoolStatus) -> Option<Self> {
        let of = |at: &ResilverProgress| Self {
            position: at.position,
            total: at.total,
            speed: at.speed,
            left: at.left.map(|left| left.as_secs()),
        };
        status.busy.resilvering.then(|| status.resilver.as_ref().map(of).unwrap_or_default())
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn member_word(member: &PoolMember) -> &'static str {
    if member.is_spare {
        if member.device.is_some() { "spare" } else { "missing" }
    } else if member.is_offline {
        "offline"
    } else if member.state == RoleState::InSync && member.lacks > 0 {
        "resilvering"
    } else if member.is_failed() {
        "failed"
    } else if member.device.is_some() {
        "online"
    } else {
        "missing"
    }
}

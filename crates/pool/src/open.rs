//! Opens a pool.

use core::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    BLOCK, CONFIG_BYTES, DATA_START, LINEAGE, Label, LeafRef, LeafState, Leaves, Nodes, Pointer, Pointers,
    PoolError, Root, SegmentClass, SegmentRecord, SegmentState, Segments, Uberblock, Vdev, VolumeRecord,
    Volumes,
};
use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpClass};
use brindle_members::events::Events;
use brindle_members::flushes::Flushes;
use brindle_members::lock::RangeLock;
use brindle_members::members::{Dependence, Device, Members};
use brindle_members::scratch::Scratch;
use brindle_members::set::{MemberSet, Treatment};
use brindle_members::turn::Turns;
use brindle_members::watch::watch;

use crate::checkpoint::Why;
use crate::core::{Core, PoolConfig, Written};
use crate::look::{Chosen, DamagedLabel, LABEL_PATIENCE, PoolOpenError, choose, look, name_of};
use crate::map::{Dead, Map, Slot};
use crate::pool::Pool;
use crate::queue::Log;
use crate::read::Unreadable;
use crate::replay::Recovered;
use crate::space::Space;
use crate::table::Table;

/// How a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// For reading alone: nothing is written.
    ReadOnly,
    /// For writing; the number of this opening is of chance.
    Writing {
        /// The number.
        opening: u64,
    },
}

/// Opens the pool that stands on these devices.
///
/// # Errors
/// [`PoolOpenError`]. For reading alone nothing was written; else at most what recovery writes anew.
pub async fn open(
    io: &Io,
    ids: &[MemberId],
    how: How,
    take: Option<(usize, u16)>,
    config: PoolConfig,
) -> Result<(Pool, Recovered), PoolOpenError> {
    let mut looked = Vec::new();
    for &id in ids {
        looked.push(look(io, &format!("device {}", id.index()), id).await?);
    }
    open_chosen(io, choose(&looked, take)?, how, config).await
}

/// The same of devices that have been looked at.
///
/// # Errors
/// As of [`open`].
pub async fn open_chosen(
    io: &Io,
    chosen: Chosen,
    how: How,
    config: PoolConfig,
) -> Result<(Pool, Recovered), PoolOpenError> {
    let unknown = chosen.label.features.unknown();
    if how != How::ReadOnly && unknown.read_only != 0 {
        return Err(PoolOpenError::Features(unknown));
    }
    let (overruled, damaged) = (chosen.overruled.clone(), chosen.damaged.clone());
    let core = core_of(&io.owned(), chosen, how, config);
    // From the first read on: a member that falls silent is given up then, too.
    drop(core.set.io.spawn(watch(core.me.clone(), core.set.io.clone(), config.patience)));
    // By the number of members, then by what lies on them.
    core.refuse_missing()?;
    if let Err(why) = core.load_tables().await {
        // Pages that can't be read are on those.
        core.refuse_many_missing()?;
        return Err(why);
    }
    core.refuse_missing()?;
    let recovered = core.replay().await?;
    if let How::Writing { opening } = how {
        if recovered.lost > 0 {
            core.set.ended.set(true);
            return Err(PoolOpenError::Lost { first: recovered.first_lost, count: recovered.lost });
        }
        {
            let lineage = &mut core.record.borrow_mut().lineage;
            lineage.splice(0..0, overruled);
            lineage.truncate(LINEAGE);
        }
        // Before anything is asked for it is on record who opened, and without whom.
        core.checkpoint(Why::Opening(opening)).await?;
        // Segments that this one has freed the next gives to the log.
        core.checkpoint(Why::Due).await?;
        mend(&core.set.io, &damaged).await;
    }
    core.opening.set(false);
    core.thin.set(core.space.borrow().thin_blocks() > 0);
    core.look_around();
    Ok((Pool::new(core), recovered))
}

/// Copies the config of a member's sound label over that of its damaged one. What does not succeed the next opening does.
async fn mend(io: &Io, labels: &[(MemberId, DamagedLabel)]) {
    for &(id, DamagedLabel { at, sound }) in labels {
        let buf = io.pool(1 << 20).alloc(CONFIG_BYTES).await;
        let mut reading = io.group_of(OpClass::Metadata);
        reading.read(id, sound, &buf.all());
        let read = reading.submit_by(io.now().after(LABEL_PATIENCE)).await;
        if !read.is_ok() || Label::parse(&buf.bytes()).is_err() {
            continue;
        }
        let mut writing = io.group_of(OpClass::Metadata);
        writing.write(id, at, &buf.all(), true);
        drop(writing.submit_by(io.now().after(LABEL_PATIENCE)).await);
    }
}

fn core_of(io: &Io, chosen: Chosen, how: How, config: PoolConfig) -> Rc<Core> {
    let Chosen { label, head, members: ids, overruled: _, torn, damaged: _ } = chosen;
    let device = |id: Option<MemberId>| id.map(|id| Device { id, data_offset: DATA_START });
    let members = Rc::new(Members::new(io, ids.into_iter().map(device)));
    let redundant = label.vdevs.iter().all(|vdev| vdev.parity > 0);
    let treatment = Treatment {
        dependence: Dependence { redundant, coupled: false },
        patience: config.patience,
        waits_for_space: false,
        observed: false,
        scratch: 4 << 20,
    };
    let count = members.len();
    let last = head.sequence;
    let space = Space::new(&label.vdevs, None, &vec![0; label.vdevs.len()]);
    Rc::new_cyclic(|me: &Weak<Core>| Core {
        set: MemberSet::new(io, members, Flushes::new(io), &treatment, me.clone()),
        config,
        read_only: how == How::ReadOnly,
        locks: RangeLock::new(io),
        space: RefCell::new(space),
        map: RefCell::new(Map::default()),
        log: Log::new(io, last),
        loading: RefCell::default(),
        batches: Scratch::new(io, config.memory, count),
        reads: Scratch::new(io, config.memory, count),
        record: RefCell::new(head),
        records: Turns::new(io),
        checkpoints: Turns::new(io),
        change_pending: Cell::new(false),
        broken: Cell::new(false),
        reshaped: Cell::new(false),
        stopping: Cell::new(false),
        opening: Cell::new(true),
        torn,
        volumes: RefCell::default(),
        nodes: RefCell::default(),
        lists: RefCell::default(),
        table: RefCell::default(),
        drained: Cell::new(false),
        recording: Cell::new(false),
        gains: Cell::new(0),
        dropped: RefCell::default(),
        begun: Cell::new(0),
        last_result: Cell::new(Ok(())),
        room: Notify::new(io),
        ended: Cell::new(0),
        checkpointing: Cell::new(false),
        cleaning: Cell::new(false),
        in_vain: Cell::new(0),
        tried: RefCell::default(),
        credit: Cell::new(0),
        to_move: Cell::new(0),
        reserve: Cell::new(0),
        looks: Cell::new(0),
        thin: Cell::new(false),
        reaped: RefCell::default(),
        reaping: Cell::new(false),
        damage: RefCell::default(),
        written: Cell::new(Written::default()),
        events: Events::new(io),
        label,
        me: me.clone(),
    })
}

impl Core {
    fn refuse_missing(&self) -> Result<(), PoolOpenError> {
        let is_missing = |member: u16| self.set.members.readable(member, u64::MAX).is_none();
        if self.space.borrow().can_lose(is_missing) {
            return Ok(());
        }
        Err(self.too_many_missing())
    }

    fn too_many_missing(&self) -> PoolOpenError {
        let is_missing = |member: u16| self.set.members.readable(member, u64::MAX).is_none();
        let missing = (0..self.set.members.len()).filter(|&member| is_missing(member));
        let names: Vec<String> =
            missing.map(|member| self.name_of(member)).map(|(v, r)| format!("{v}.{r}")).collect();
        PoolOpenError::TooManyMissing { missing: names.join(", ") }
    }

    /// The same by the number of members.
    fn refuse_many_missing(&self) -> Result<(), PoolOpenError> {
        let present = self.present();
        let lost = |(vdev, present): (&Vdev, &u64)| {
            u32::from(vdev.members) - present.count_ones() > u32::from(vdev.parity)
        };
        if self.label.vdevs.iter().zip(&present).any(lost) { Err(self.too_many_missing()) } else { Ok(()) }
    }

    /// Reads what the uberblock names, but for leaves.
    async fn load_tables(&self) -> Result<(), PoolOpenError> {
        let head: Uberblock = self.record.borrow().clone();
        self.set_rooted(&head)?;
        let (mut lists, mut table) = (Vec::new(), Vec::new());
        let records =
            self.list(head.segments, &mut table, |bytes, n| Ok(Segments::parse(bytes, n)?.0)).await?;
        let all: u64 = self.label.vdevs.iter().map(|vdev| u64::from(vdev.units)).sum();
        if head.segments.pages > 0 && records.len() as u64 != all {
            return Err(PoolError::Impossible { what: "uberblock", field: "segments", value: all }.into());
        }
        let records = (head.segments.pages > 0).then_some(records);
        if let Some(records) = &records {
            self.check_segments(records)?;
        }
        self.space.replace(Space::new(&self.label.vdevs, records, &self.present()));
        let leaves: Vec<LeafRef> =
            self.list(head.leaves, &mut lists, |bytes, n| Ok(Leaves::parse(bytes, n)?.0)).await?;
        let volumes = self.list(head.volumes, &mut lists, |bytes, n| Ok(Volumes::parse(bytes, n)?.0)).await?;
        let nodes = self.list(head.nodes, &mut lists, |bytes, n| Ok(Nodes::parse(bytes, n)?.0)).await?;
        let mut map = self.map.borrow_mut();
        map.dense = self.label.features.dense_leaves();
        // Such leaves are of a checkpoint behind the one that took up what these segments held before.
        if !leaves.iter().any(|leaf| leaf.state == LeafState::Outlived) {
            map.reuse(self.space.borrow().reused_again());
        }
        let mut before = None;
        for leaf in leaves {
            let at = (leaf.volume, leaf.first);
            if leaf.state != LeafState::Live {
                let outlived = leaf.state == LeafState::Outlived;
                map.dead.push(Dead { at, count: leaf.count, pointer: leaf.pointer, outlived });
                continue;
            }
            if before.is_some_and(|before| before >= at) {
                return Err(PoolError::Impossible {
                    what: "list of leaves",
                    field: "first",
                    value: leaf.first,
                }
                .into());
            }
            before = Some(at);
            map.leaves.insert(at, Slot::stored(leaf.pointer, leaf.count));
        }
        let volumes: Vec<VolumeRecord> = volumes.into_iter().filter(|volume| !volume.destroyed).collect();
        let is_volume = |id: u32| volumes.iter().any(|volume| volume.id == id);
        map.give_up_others(is_volume);
        drop(map);
        self.nodes.replace(nodes.into_iter().filter(|node| is_volume(node.volume)).collect());
        self.volumes.replace(volumes);
        self.lists.replace(lists);
        self.table.replace(Table { above: table, ..Table::default() });
        self.estimate();
        Ok(())
    }

    /// Segments lie on members of their vdev, in units of its size.
    fn check_segments(&self, records: &[SegmentRecord]) -> Result<(), PoolError> {
        for vdev in &self.label.vdevs {
            let mask = (1u64 << (vdev.members - 1) << 1).wrapping_sub(1);
            let from = vdev.first_segment as usize;
            for record in records.iter().skip(from).take(vdev.units as usize) {
                if record.members & !mask != 0 || record.unit != vdev.unit {
                    let value = record.members;
                    return Err(PoolError::Impossible { what: "segment", field: "members", value });
                }
            }
        }
        Ok(())
    }

    /// Where the table of segments stands, only the uberblock tells.
    fn set_rooted(&self, head: &Uberblock) -> Result<(), PoolOpenError> {
        let mut space = self.space.borrow_mut();
        for rooted in &head.rooted {
            let wrong =
                PoolError::Impossible { what: "uberblock", field: "rooted", value: rooted.segment.into() };
            let vdev = space.vdev_of(rooted.segment).ok_or_else(|| wrong.clone())?;
            let vdev = self.label.vdevs[vdev];
            let mask = (1u64 << (vdev.members - 1) << 1).wrapping_sub(1);
            let record = SegmentRecord {
                state: SegmentState::Closed,
                class: SegmentClass::Pages,
                stripe: rooted.stripe,
                parity: rooted.parity,
                unit: rooted.unit,
                members: rooted.members,
                live: 0,
                stripes: 0,
                sequence: 0,
                reused: false,
            };
            record.shape().check()?;
            if rooted.unit != vdev.unit || rooted.members & !mask != 0 {
                return Err(wrong.into());
            }
            space.segments[rooted.segment as usize].record = record;
        }
        Ok(())
    }

    /// The records of a list of pages; notes where its pages are.
    async fn list<T>(
        &self,
        root: Root,
        places: &mut Vec<Address>,
        parse: impl Fn(&[u8], u64) -> Result<Vec<T>, PoolError>,
    ) -> Result<Vec<T>, PoolOpenError> {
        let mut level: Vec<Pointer> = root.top.into_iter().collect();
        for _ in 0..root.levels {
            let mut next = Vec::new();
            for (n, pointer) in (0..).zip(&level) {
                places.push(pointer.address);
                next.extend(Pointers::parse(&self.page(*pointer).await?, n)?.0);
                if next.len() > root.pages as usize {
                    return Err(PoolOpenError::Damaged);
                }
            }
            level = next;
        }
        if level.len() != root.pages as usize {
            return Err(PoolOpenError::Damaged);
        }
        let mut records = Vec::new();
        for (n, pointer) in (0..).zip(&level) {
            places.push(pointer.address);
            records.extend(parse(&self.page(*pointer).await?, n)?);
        }
        Ok(records)
    }

    async fn page(&self, pointer: Pointer) -> Result<Rc<[u8]>, PoolOpenError> {
        let read = self.block(pointer.address, pointer.checksum, None).await;
        read.map_err(|why| match why {
            Unreadable::Lost => PoolOpenError::Damaged,
            Unreadable::Silent(error) => error.into(),
        })
    }
}

const _: () = assert!(DATA_START.is_multiple_of(BLOCK as u64));

/// A member's name, as `VDEV.ROLE`.
pub fn member_name(label: &brindle_format::pool::Label, member: u16) -> String {
    let (vdev, role) = name_of(label, member);
    format!("{vdev}.{role}")
}

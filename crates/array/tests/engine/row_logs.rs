//! Logs are told of changes before they happen, and members are not written where a log refuses. Observers see the same.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::observer::{Content, MakeObserver, MemberChange, Observer};
use brindle_array::row_log::{Change, Computed, LogHost, MakeRowLog, OnRecord, RowLog};
use brindle_array::{OpenConfig, RoleState, SyncMode};
use brindle_io::OpError;
use brindle_layout::{Layout, Level, ParityLayout, Raid10Layout};
use brindle_volume::{Volume, VolumeError, ZeroOptions};

use crate::world::{self, DATA_OFFSET, Running};

const CHUNK: u64 = 8192;
const SYMMETRIC: Layout = Layout::Parity(ParityLayout::LeftSymmetric);

/// Levels without redundancy come first.
fn shapes() -> [(Level, Layout, usize); 5] {
    [
        (Level::Raid0, Layout::None, 2),
        (Level::Raid1, Layout::None, 2),
        (Level::Raid10, Layout::Raid10(Raid10Layout::near(2)), 3),
        (Level::Raid5, SYMMETRIC, 3),
        (Level::Raid6, SYMMETRIC, 4),
    ]
}

/// Refuses what it is told to, and remembers the rest.
#[derive(Default)]
struct RecordingLog {
    refuse_begin: Cell<bool>,
    refuse_computed: Cell<bool>,
    begun: RefCell<Vec<Change>>,
    ended: RefCell<Vec<Change>>,
    /// The last: it holds memory that others may wait for.
    computed: RefCell<Option<Computed>>,
}

fn answer(refuse: bool) -> Option<OnRecord<'static>> {
    refuse.then(|| Box::pin(core::future::ready(Err(VolumeError::ReadOnly))) as OnRecord<'static>)
}

impl RowLog for RecordingLog {
    fn begins<'a>(&self, change: &Change, _: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        self.begun.borrow_mut().push(change.clone());
        answer(self.refuse_begin.get())
    }

    fn ends(&self, change: &Change) {
        self.ended.borrow_mut().push(change.clone());
    }

    fn computed<'a>(&self, rows: &Computed, _: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        self.computed.replace(Some(rows.clone()));
        answer(self.refuse_computed.get())
    }
}

fn start((level, layout, members): (Level, Layout, usize)) -> (Running, Rc<RecordingLog>) {
    let recorder = Rc::new(RecordingLog::default());
    let given = Rc::clone(&recorder);
    // One that is asked before it, and has nothing to say.
    let silent = MakeRowLog::new(|_, _| Rc::new(RecordingLog::default()) as Rc<dyn RowLog>);
    let log = MakeRowLog::new(move |_, _| Rc::clone(&given) as Rc<dyn RowLog>);
    let shape = world::shape(level, layout, CHUNK, members, 8 * CHUNK);
    let run = Running::of(&shape, OpenConfig { logs: vec![silent, log], ..world::config() });
    run.run(async |run| run.write_all(&world::pattern(1, run.size() as usize)).await).unwrap();
    (run, recorder)
}

fn images(run: &Running) -> Vec<Vec<u8>> {
    (0..run.ids.len()).map(|member| run.image(member)[DATA_OFFSET as usize..].to_vec()).collect()
}

/// Everything that changes bytes: of a part of a row, of whole rows and more, of all copies.
async fn change(run: &Running) -> Vec<Result<(), VolumeError>> {
    let (array, zeroes) = (&run.array, ZeroOptions::default());
    let long = world::pattern(2, run.array.geometry().row_bytes() as usize + 512);
    vec![
        run.write(512, &long[..512]).await,
        run.write(0, &long).await,
        array.write_zeroes(1024, run.size() - 1024, zeroes).await,
    ]
}

#[test]
fn what_can_not_be_put_on_record_touches_no_member() {
    for shape in shapes() {
        let (run, recorder) = start(shape);
        let before = images(&run);
        recorder.refuse_begin.set(true);
        let refused = run.run(change);
        assert_eq!(refused, [Err(VolumeError::ReadOnly); 3], "{shape:?}");
        run.run(async |run| run.array.discard(0, run.size()).await).unwrap_err();
        assert!(images(&run) == before, "{shape:?}");
        recorder.refuse_begin.set(false);
        if matches!(shape.0, Level::Raid5 | Level::Raid6) {
            recorder.refuse_computed.set(true);
            let refused = run.run(change);
            assert_eq!(refused, [Err(VolumeError::ReadOnly); 3], "{shape:?}");
            assert!(images(&run) == before, "{shape:?}");
            recorder.refuse_computed.set(false);
        }
        assert_eq!(run.run(change), [Ok(()); 3], "{shape:?}");
        assert_eq!(*recorder.begun.borrow(), *recorder.ended.borrow(), "{shape:?}");
    }
}

#[test]
fn repairs_that_can_not_be_put_on_record_are_not_made() {
    for shape in shapes().into_iter().skip(1) {
        let (run, recorder) = start(shape);
        let last = *run.ids.last().unwrap();
        // Whatever it is of the row: it makes parity differ, or a copy.
        run.bench.poke(last, DATA_OFFSET, &[0xa5; 512]);
        let before = images(&run);
        recorder.begun.borrow_mut().clear();
        recorder.refuse_begin.set(true);
        let repaired = run.run(async |run| run.scrub(SyncMode::Repair).await);
        assert_eq!(repaired.map(|_| ()), Err(VolumeError::ReadOnly), "{shape:?}");
        assert!(images(&run) == before, "{shape:?}");
        assert!(matches!(recorder.begun.borrow()[..], [Change::Redundancy(ref range)] if range.start == 0));
        recorder.refuse_begin.set(false);
        let repaired = run.run(async |run| run.scrub(SyncMode::Repair).await).unwrap();
        assert!(repaired.mismatch_sectors > 0 && images(&run) != before, "{shape:?}");
    }
}

#[test]
fn rows_are_announced_with_the_bytes_that_are_written() {
    let (run, recorder) = start((Level::Raid5, SYMMETRIC, 3));
    let bytes = world::pattern(9, 512);
    run.run(async |run| run.write(1024, &bytes).await).unwrap();
    let computed = recorder.computed.borrow();
    let Computed { range, changes } = computed.as_ref().unwrap();
    assert_eq!(*range, 1024..1536);
    assert_eq!(changes.len(), 2, "one block of data, and parity");
    for MemberChange { role, offset, len, content } in changes {
        assert_eq!((*offset, *len), (1024, 512));
        let Content::Bytes(slices) = content else { panic!("{content:?}") };
        let announced: Vec<u8> = slices.iter().flat_map(|slice| slice.bytes().to_vec()).collect();
        let at = (DATA_OFFSET + offset) as usize;
        assert!(announced == run.image(usize::from(*role))[at..at + 512], "role {role}");
    }
}

/// Remembers what it sees, in words.
#[derive(Default)]
struct Seen(RefCell<Vec<String>>);

impl Observer for Seen {
    fn begins(&self, change: &Change) {
        self.0.borrow_mut().push(format!("{change:?} begins"));
    }

    fn computed(&self, rows: &Computed) {
        self.0.borrow_mut().push(format!("{:?} is computed", rows.range));
    }

    fn sent(&self, change: &MemberChange) {
        let MemberChange { role, offset, len, .. } = change;
        self.0.borrow_mut().push(format!("{offset}+{len} is sent to role {role}"));
    }

    fn ends(&self, change: &Change) {
        self.0.borrow_mut().push(format!("{change:?} ends"));
    }
}

#[test]
fn each_of_several_observers_sees_every_change_in_its_order() {
    let seen = [Rc::new(Seen::default()), Rc::new(Seen::default())];
    let observe = |seen: &Rc<Seen>| {
        let seen = Rc::clone(seen);
        MakeObserver::new(move |_| Rc::clone(&seen) as Rc<dyn Observer>)
    };
    let shape = world::shape(Level::Raid5, SYMMETRIC, CHUNK, 3, 8 * CHUNK);
    let observers = seen.iter().map(observe).collect();
    let run = Running::of(&shape, OpenConfig { observers, ..world::config() });
    run.run(async |run| run.write(1024, &world::pattern(9, 512)).await).unwrap();
    let expected = [
        "Bytes(1024..1536) begins",
        "1024..1536 is computed",
        "1024+512 is sent to role 0",
        "1024+512 is sent to role 2",
        "Bytes(1024..1536) ends",
    ];
    assert_eq!(seen.each_ref().map(|seen| seen.0.borrow().clone()), [expected; 2]);
}

/// A log that a member of some role refuses, once.
struct Refused {
    role: u16,
    said: Cell<bool>,
}

impl RowLog for Refused {
    fn begins<'a>(&self, _: &Change, host: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        let device = host.members().device(self.role).filter(|_| !self.said.replace(true))?;
        Some(Box::pin(async move { host.refused(&[(device.id, OpError::Medium(5))]).await }))
    }

    fn ends(&self, _: &Change) {}
}

#[test]
fn a_member_that_refuses_a_log_is_failed_before_the_change_is_sent_or_the_change_is_refused() {
    for (level, layout, members) in shapes() {
        let log =
            MakeRowLog::new(|_, _| Rc::new(Refused { role: 1, said: Cell::default() }) as Rc<dyn RowLog>);
        let shape = world::shape(level, layout, CHUNK, members, 8 * CHUNK);
        let run = Running::of(&shape, OpenConfig { logs: vec![log], ..world::config() });
        let before = images(&run);
        let written = run.run(async |run| run.write(0, &world::pattern(3, 4096)).await);
        if level.is_redundant() {
            assert_eq!((written, run.array.state(1)), (Ok(()), RoleState::Failed), "{level}");
            assert!(images(&run)[1] == before[1], "{level}: nothing was sent to it");
        } else {
            assert_eq!(written, Err(VolumeError::TooManyLost), "{level}");
            assert!(images(&run) == before, "{level}");
        }
    }
}

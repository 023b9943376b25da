use super::*;
use brindle_io::memory::Memory;
use proptest::prelude::*;
use std::rc::Rc;

fn world() -> (Io, Rc<RangeLock>, Rc<RefCell<Vec<u32>>>) {
    let io = Io::new(Box::new(Memory::new()));
    let lock = Rc::new(RangeLock::new(&io));
    (io, lock, Rc::default())
}

#[test]
fn conflicting_ranges_go_in_turn_and_others_at_once() {
    let (io, lock, order) = world();
    io.block_on(async {
        let first = lock.acquire(0..10, Hold::Exclusive).await;
        let wants = [(1, 5..15, Hold::Exclusive), (2, 12..13, Hold::Shared), (3, 20..30, Hold::Exclusive)];
        for (name, range, hold) in wants {
            let (lock, order) = (Rc::clone(&lock), Rc::clone(&order));
            drop(io.spawn(async move {
                let _held = lock.acquire(range, hold).await;
                order.borrow_mut().push(name);
            }));
        }
        io.yield_now().await;
        assert_eq!(*order.borrow(), [3], "2 waits behind 1 though it is free: nobody overtakes");
        drop(first);
        while io.tasks_alive() > 0 {
            io.yield_now().await;
        }
    });
    assert_eq!(*order.borrow(), [3, 1, 2]);
}

#[test]
fn sharers_hold_together_and_a_dropped_wait_frees_the_next() {
    let (io, lock, _) = world();
    io.block_on(async {
        let a = lock.acquire(0..10, Hold::Shared).await;
        let _b = lock.acquire(5..6, Hold::Shared).await;
        let writer = lock.enter(5..6, Hold::Exclusive);
        let c = lock.enter(5..6, Hold::Shared);
        assert_eq!(lock.last_over(&(5..6)), Some(c.key()));
        drop(a);
        drop(writer);
        c.granted().await;
    });
    assert!(lock.queue.borrow().entries.is_empty());
}

/// The lock as a plain list, in the order of arrival.
#[derive(Default)]
struct Model(Vec<Known>);

struct Known {
    key: RangeKey,
    range: Range<u64>,
    hold: Hold,
    granted: bool,
}

impl Known {
    fn conflicts(&self, other: &Known) -> bool {
        self.range.start < other.range.end
            && other.range.start < self.range.end
            && (self.hold == Hold::Exclusive || other.hold == Hold::Exclusive)
    }
}

impl Model {
    /// Grants all ranges that no earlier one blocks; gives those that had to wait.
    fn grant(&mut self) -> Vec<RangeKey> {
        let mut granted = Vec::new();
        for at in 0..self.0.len() {
            let (before, from) = self.0.split_at_mut(at);
            if !from[0].granted && !before.iter().any(|earlier| earlier.conflicts(&from[0])) {
                from[0].granted = true;
                granted.push(from[0].key);
            }
        }
        granted
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enter(Range<u64>, Hold),
    /// The entry of this number leaves, whether it holds its range or waits.
    Leave(usize),
}

fn range() -> impl Strategy<Value = Range<u64>> {
    let len = prop_oneof![8 => Just(1u64), 4 => 1..20u64, 2 => 20..400u64, 1 => 1000..100_000u64];
    let start = prop_oneof![4 => 0..12u64, 2 => 0..300u64];
    (start, len).prop_map(|(start, len)| start..start + len)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let hold = prop_oneof![2 => Just(Hold::Exclusive), 1 => Just(Hold::Shared)];
    let step = prop_oneof![
        3 => (range(), hold).prop_map(|(range, hold)| Step::Enter(range, hold)),
        2 => (0..1000usize).prop_map(Step::Leave),
    ];
    prop::collection::vec(step, 0..200)
}

/// The tasks of `io` by which the test names entries: one for each.
fn tasks(io: &Io, count: usize) -> Vec<TaskId> {
    let tasks = Rc::new(RefCell::new(Vec::new()));
    for _ in 0..count {
        let (tasks, me) = (Rc::clone(&tasks), io.clone());
        drop(io.spawn(async move {
            tasks.borrow_mut().push(me.current_task());
            me.yield_now().await;
        }));
    }
    io.block_on(io.yield_now());
    io.shutdown();
    tasks.take()
}

#[test]
fn all_that_linger_go_on_when_one_lines_up_behind_them() {
    let (io, lock, _) = world();
    io.block_on(async {
        let lingers = |range| {
            let held = lock.enter(range, Hold::Exclusive);
            held.linger();
            held
        };
        let (first, other, second) = (lingers(0..1), lingers(8..9), lingers(2..3));
        assert!(first.lingers() && other.lingers() && second.lingers());
        let wide = lock.enter(0..4, Hold::Shared);
        assert!(!first.lingers() && other.lingers() && !second.lingers());
        drop((first, second));
        wide.granted().await;
        drop((wide, other));
        assert_eq!(lock.queue.borrow().lingering, 0);
    });
}

proptest! {
    #[test]
    fn a_walked_list_grants_the_same_in_the_same_order(steps in steps(), asked in range()) {
        let io = Io::new(Box::new(Memory::new()));
        let names = tasks(&io, steps.len());
        let (mut queue, mut model, mut task_of) = (Queue::default(), Model::default(), Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            let mut woken = Vec::new();
            match step {
                Step::Enter(range, hold) => {
                    let alone = queue.entries.last_over(&range).is_none();
                    let key = queue.enter(range.clone(), LockEntry::new(hold, names[number]), alone, |_| {});
                    task_of.push((names[number], key));
                    model.0.push(Known { key, range, hold, granted: false });
                    let at_once = model.grant();
                    prop_assert_eq!(queue.is_granted(key), !at_once.is_empty());
                }
                Step::Leave(at) if !model.0.is_empty() => {
                    let left = model.0.remove(at % model.0.len());
                    queue.leave(left.key, |task| woken.push(task));
                    let granted = model.grant();
                    let task = |key: &RangeKey| task_of.iter().rev().find(|of| of.1 == *key).map(|of| of.0);
                    prop_assert_eq!(woken.into_iter().map(Some).collect::<Vec<_>>(), granted.iter().map(task).collect::<Vec<_>>());
                }
                Step::Leave(_) => {}
            }
            for known in &model.0 {
                prop_assert_eq!(queue.is_granted(known.key), known.granted);
            }
            let over = |known: &&Known| known.range.start < asked.end && asked.start < known.range.end;
            prop_assert_eq!(queue.entries.last_over(&asked), model.0.iter().rev().find(over).map(|known| known.key));
        }
    }
}

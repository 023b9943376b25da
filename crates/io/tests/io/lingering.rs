//! Tasks that linger for others, and those who are in a hurry.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::memory::Memory;
use brindle_io::{Duration, Io, Task};

fn world() -> Io {
    Io::new(Box::new(Memory::new()))
}

/// A task that lingers for an hour, or until it sees a 1.
fn lingering(io: &Io, seen: &Rc<Cell<u32>>) -> Task<Option<()>> {
    let (io, seen) = (io.clone(), Rc::clone(seen));
    io.clone().spawn(async move {
        let hour = io.now().after(Duration::from_secs(3600));
        io.lingers().until(hour, || (seen.get() == 1).then_some(())).await
    })
}

#[test]
fn a_task_lingers_until_it_sees_what_it_waits_for_or_time_is_over() {
    let io = world();
    io.block_on(async {
        let soon = io.now().after(Duration::from_millis(1));
        assert_eq!(io.lingers().until(soon, || Some(1)).await, Some(1));
        assert_eq!(io.lingers().until(soon, || None::<u8>).await, None);
        assert!(!io.lingers().is_hurried());
    });
}

#[test]
fn a_hurry_ends_the_waits_of_all_even_if_they_see_what_they_wait_for() {
    let io = world();
    io.block_on(async {
        let seen = Rc::new(Cell::new(0));
        let tasks = [lingering(&io, &seen), lingering(&io, &seen)];
        io.yield_now().await;
        seen.set(1);
        io.hurry();
        for task in tasks {
            assert_eq!(task.await, None);
        }
    });
}

#[test]
fn nobody_lingers_while_somebody_is_in_a_hurry() {
    let io = world();
    io.block_on(async {
        let seen = Rc::new(Cell::new(0));
        let (first, second) = (io.hurrying(), io.hurrying());
        drop(first);
        assert_eq!(lingering(&io, &seen).await, None);
        drop(second);
        let task = lingering(&io, &seen);
        io.yield_now().await;
        assert_eq!(io.tasks_alive(), 1, "it lingers");
        let _hurry = io.hurrying();
        assert_eq!(task.await, None);
    });
}

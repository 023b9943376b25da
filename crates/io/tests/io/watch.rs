//! A watch over an executor: one whose task computes without end is found, one that waits, or is let be, is not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use brindle_io::memory::Memory;
use brindle_io::{Duration, Io, Stuck};

const MOST: Duration = Duration::from_millis(200);

type Found = Arc<Mutex<Option<Stuck>>>;

fn watched() -> (Io, brindle_io::Watch, Found, Arc<AtomicBool>) {
    let io = Io::new(Box::new(Memory::new()));
    let (found, over) = (Found::default(), Arc::<AtomicBool>::default());
    let (theirs, ends) = (Arc::clone(&found), Arc::clone(&over));
    let watch = io.watch(MOST, move |stuck| {
        *theirs.lock().unwrap() = Some(stuck);
        ends.store(true, Ordering::Relaxed);
    });
    (io, watch.unwrap(), found, over)
}

/// Computes until it is told that it was found.
async fn spin(over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
fn a_task_that_never_lets_others_go_on_is_found_and_named() {
    let (io, watch, found, over) = watched();
    io.block_on(async {
        io.spawn(spin(Arc::clone(&over))).await;
    });
    drop(watch);
    let Stuck { task, used } = found.lock().unwrap().clone().expect("it was found");
    assert_eq!(task, "io::watch::spin");
    assert!(used >= MOST, "{used:?}");
}

#[test]
fn neither_waiting_nor_time_outside_of_tasks_counts() {
    let (io, watch, found, _) = watched();
    let burn = |io: &Io, many: u128| {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < many {
            std::hint::spin_loop();
        }
        io.now()
    };
    // The thread is asleep within a task, as if the process were stopped.
    io.block_on(async { std::thread::sleep(4 * MOST) });
    // Much is computed, turn by turn.
    io.block_on(async {
        for _ in 0..30 {
            burn(&io, 20);
            io.yield_now().await;
        }
    });
    burn(&io, 600);
    io.block_on(io.sleep(MOST));
    drop(watch);
    assert_eq!(*found.lock().unwrap(), None);
}

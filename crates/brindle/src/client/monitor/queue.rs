//! Events that wait for one way to tell of them: in their order, those that need attention before arrays that are new.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::changes::Happened;

/// Events that wait at most.
pub(super) const MOST: usize = 10_000;

/// Events that are told together, and how many before them found no room.
pub(super) struct Batch {
    pub(super) events: Vec<Happened>,
    pub(super) lost: u64,
}

/// The events of one way, taken by its threads.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Happened>,
    new_arrays: VecDeque<Happened>,
    lost: u64,
    /// Arrays of which an event is being told: the next one of each waits.
    told: Vec<String>,
    ends: bool,
}

impl Waiting {
    fn count(&self) -> usize {
        self.events.len() + self.new_arrays.len()
    }

    /// Has an event wait; without room one that needs no attention gives way.
    fn take(&mut self, event: Happened) {
        if self.count() >= MOST {
            self.lost += 1;
            let least = self.events.iter().rposition(|other| !other.is_mailed());
            match (self.new_arrays.pop_back(), least) {
                (None, Some(at)) if event.is_mailed() => drop(self.events.remove(at)),
                (None, _) => return,
                (Some(_), _) => {}
            }
        }
        if event.event == "NewArray" { &mut self.new_arrays } else { &mut self.events }.push_back(event);
    }

    /// The first event of an array of which none is being told.
    fn next(&mut self) -> Option<Happened> {
        let told = &self.told;
        let is_free = |event: &Happened| !told.contains(&event.array);
        if let Some(at) = self.events.iter().position(is_free) {
            return self.events.remove(at);
        }
        let waits = |event: &Happened| self.events.iter().any(|other| other.array == event.array);
        let at = self.new_arrays.iter().position(|event| is_free(event) && !waits(event))?;
        self.new_arrays.remove(at)
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, waiting: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner)
    }

    /// Has events wait. Gives how many found no room, if these are the first.
    pub(super) fn push(&self, events: impl IntoIterator<Item = Happened>) -> Option<u64> {
        let mut waiting = self.lock();
        let before = waiting.lost;
        events.into_iter().for_each(|event| waiting.take(event));
        let lost = waiting.lost;
        drop(waiting);
        self.changed.notify_all();
        (before == 0 && lost > 0).then_some(lost)
    }

    /// The next event, which has to be [done](Queue::done) before the next of its array is given; none when all is over.
    pub(super) fn one(&self) -> Option<Batch> {
        let mut waiting = self.lock();
        loop {
            if let Some(event) = waiting.next() {
                waiting.told.push(event.array.clone());
                let lost = std::mem::take(&mut waiting.lost);
                return Some(Batch { events: vec![event], lost });
            }
            if waiting.ends && waiting.count() == 0 {
                return None;
            }
            waiting = self.wait(waiting);
        }
    }

    /// All events that wait; none when all is over.
    pub(super) fn all(&self) -> Option<Batch> {
        let mut waiting = self.lock();
        loop {
            if waiting.count() > 0 {
                let Waiting { events, new_arrays, lost, .. } = &mut *waiting;
                let events = events.drain(..).chain(new_arrays.drain(..)).collect();
                return Some(Batch { events, lost: std::mem::take(lost) });
            }
            if waiting.ends {
                return None;
            }
            waiting = self.wait(waiting);
        }
    }

    /// These events have been told, or nobody tries it any more.
    pub(super) fn done(&self, batch: &Batch) {
        let mut waiting = self.lock();
        for event in &batch.events {
            if let Some(at) = waiting.told.iter().position(|array| *array == event.array) {
                waiting.told.swap_remove(at);
            }
        }
        drop(waiting);
        self.changed.notify_all();
    }

    /// Has events wait again, before all others.
    pub(super) fn put_back(&self, batch: Batch) {
        let mut waiting = self.lock();
        waiting.lost += batch.lost;
        batch.events.into_iter().rev().for_each(|event| waiting.events.push_front(event));
    }

    /// Waits for a time; less, if no more events come.
    pub(super) fn pause(&self, span: Duration) {
        let until = Instant::now() + span;
        let mut waiting = self.lock();
        let ended = waiting.ends;
        while waiting.ends == ended {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No more events come: what waits is tried a few times more.
    pub(super) fn end(&self) {
        self.lock().ends = true;
        self.changed.notify_all();
    }

    pub(super) fn ends(&self) -> bool {
        self.lock().ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(batch: &Batch) -> Vec<String> {
        batch.events.iter().map(|one| format!("{} {}", one.event, one.array)).collect()
    }

    #[test]
    fn what_needs_attention_comes_first_and_each_array_in_its_order() {
        let queue = Queue::default();
        let events =
            [("NewArray", "a"), ("Fail", "a"), ("NewArray", "b"), ("SpareActive", "a"), ("Fail", "b")];
        queue.push(events.map(|(event, array)| Happened::new(event, array)));
        let first = queue.one().unwrap();
        assert_eq!(names(&first), ["Fail a"]);
        let other = queue.one().unwrap();
        assert_eq!(names(&other), ["Fail b"]);
        queue.done(&first);
        let next = queue.one().unwrap();
        assert_eq!(names(&next), ["SpareActive a"]);
        queue.done(&other);
        assert_eq!(names(&queue.one().unwrap()), ["NewArray b"]);
        queue.done(&next);
        queue.end();
        let last = queue.one().unwrap();
        assert_eq!(names(&last), ["NewArray a"]);
        queue.done(&last);
        assert!(queue.one().is_none());
    }

    #[test]
    fn all_that_finds_no_room_is_counted_and_what_needs_attention_stays() {
        let queue = Queue::default();
        let many =
            |event: &'static str, count: usize| (0..count).map(move |n| Happened::new(event, &n.to_string()));
        assert_eq!(queue.push(many("RebuildStarted", MOST)), None);
        assert_eq!(queue.push(many("Fail", 3)), Some(3));
        assert_eq!(queue.push(many("RebuildFinished", 2)), None, "it was said");
        let batch = queue.all().unwrap();
        let count = |event: &str| batch.events.iter().filter(|one| one.event == event).count();
        assert_eq!((count("RebuildStarted"), count("Fail"), batch.lost), (MOST - 3, 3, 5));
        queue.put_back(batch);
        assert_eq!(queue.all().unwrap().lost, 5);
    }
}

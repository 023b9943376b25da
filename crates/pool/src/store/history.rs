//! The history of a pool: commands that changed it, and what happened to it.
//!
//! It is bounded by pages, which a checkpoint writes with its other lists; the oldest go where there is no room. Records wait until the next
//! checkpoint takes them up, so that no page comes to be between two of them: a record may be made at any moment.

use core::cell::RefCell;
use std::collections::VecDeque;

use brindle_format::pool::{HISTORY_PAGES, HistoryPage, HistoryRecord, Label, PoolError};

/// The most records that wait: of more the oldest go.
const WAITING: usize = 256;
/// Blocks of a pool for each page of its history.
const BLOCKS_OF_PAGE: u64 = 4096;

/// The history, as the next checkpoint is to have it.
#[derive(Default)]
pub(crate) struct PoolHistory {
    pages: RefCell<VecDeque<HistoryPage>>,
    waiting: RefCell<VecDeque<HistoryRecord>>,
}

/// The most pages that the history of a pool has.
pub(crate) fn most_pages(label: &Label) -> usize {
    let blocks: u64 = label.vdevs.iter().map(|vdev| u64::from(vdev.units) << vdev.unit >> 12).sum();
    (blocks / BLOCKS_OF_PAGE).clamp(1, HISTORY_PAGES.into()) as usize
}

/// Pages of a list of so many, with the one of pointers to them.
const fn listed(pages: usize) -> u64 {
    pages as u64 + (pages > 1) as u64
}

impl PoolHistory {
    /// The history that a checkpoint named.
    pub(crate) fn found(&self, pages: Vec<HistoryPage>) {
        self.pages.replace(pages.into());
    }

    /// One more record.
    pub(crate) fn add(&self, record: HistoryRecord) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() == WAITING {
            drop(waiting.pop_front());
        }
        waiting.push_back(record);
    }

    /// Pages that it takes on the members, without pointers.
    pub(crate) fn pages(&self) -> usize {
        self.pages.borrow().len()
    }

    /// Records that wait go to pages, of which there are so many at most; `room` is left for pages of the next checkpoint and the one behind it.
    /// Gives whether there are more pages than before.
    pub(crate) fn take_up(&self, most: usize, mut room: u64) -> bool {
        let (mut pages, mut waiting) = (self.pages.borrow_mut(), self.waiting.borrow_mut());
        let before = pages.len();
        while let Some(record) = waiting.pop_front() {
            let record = match pages.back_mut().map(|last| last.add(record.clone())) {
                Some(Ok(())) => continue,
                Some(Err(record)) => record,
                None => record,
            };
            let takes = 2 * (listed(pages.len() + 1) - listed(pages.len()));
            if pages.len() < most && takes <= room {
                room -= takes;
            } else if pages.len() > 1 {
                drop(pages.pop_front());
            } else {
                // The only page makes room by its oldest records; without one they wait.
                let Some(page) = pages.back_mut() else {
                    waiting.push_front(record);
                    break;
                };
                page.make_room(record);
                continue;
            }
            let mut page = HistoryPage::default();
            page.make_room(record);
            pages.push_back(page);
        }
        pages.len() > before
    }

    /// The bytes of its pages.
    ///
    /// # Errors
    /// None: what a page takes fits.
    pub(crate) fn encoded(&self) -> Result<Vec<Vec<u8>>, PoolError> {
        (0..).zip(self.pages.borrow().iter()).map(|(number, page)| page.encode(number)).collect()
    }

    /// All records, from the oldest on.
    pub(crate) fn records(&self) -> Vec<HistoryRecord> {
        let pages = self.pages.borrow();
        let waiting = self.waiting.borrow();
        pages.iter().flat_map(HistoryPage::records).chain(waiting.iter()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::HistoryKind;

    use super::*;

    fn record(n: u64) -> HistoryRecord {
        HistoryRecord::new(n, HistoryKind::Internal, "h", &"x".repeat(1000))
    }

    fn times(history: &PoolHistory) -> Vec<u64> {
        history.records().iter().map(|record| record.time).collect()
    }

    #[test]
    fn records_wait_until_they_are_taken_up_and_the_oldest_page_goes() {
        let history = PoolHistory::default();
        (0..4).for_each(|n| history.add(record(n)));
        assert_eq!((history.pages(), times(&history)), (0, vec![0, 1, 2, 3]));
        // Three fit into a page.
        assert!(history.take_up(2, 100));
        assert_eq!((history.pages(), times(&history)), (2, vec![0, 1, 2, 3]));
        (4..7).for_each(|n| history.add(record(n)));
        assert!(!history.take_up(2, 100));
        assert_eq!((history.pages(), times(&history)), (2, vec![3, 4, 5, 6]));
        let other = PoolHistory::default();
        let pages = history.encoded().expect("they fit").into_iter().zip(0..);
        other.found(pages.map(|(bytes, n)| HistoryPage::parse(&bytes, n).expect("whole")).collect());
        assert_eq!(times(&other), [3, 4, 5, 6]);
    }

    #[test]
    fn it_takes_no_page_for_which_there_is_no_room() {
        let history = PoolHistory::default();
        history.add(record(0));
        assert!(!history.take_up(9, 1));
        assert_eq!((history.pages(), times(&history)), (0, vec![0]));
        (1..6).for_each(|n| history.add(record(n)));
        // One page, and the same in the lists of the next checkpoint: a second one would need pointers, too.
        assert!(history.take_up(9, 5));
        assert_eq!((history.pages(), times(&history)), (1, vec![3, 4, 5]));
        (6..700).for_each(|n| history.add(record(n)));
        assert_eq!(history.records().len(), 3 + WAITING);
    }
}

//! A list that grows at its end while its entries are in use, for roles that an owner gets later.

use core::cell::OnceCell;
use core::ops::Index;

/// A list whose entries stay in place when it grows.
pub(crate) struct Grown<T> {
    first: Vec<T>,
    more: OnceCell<Box<Grown<T>>>,
}

impl<T> Grown<T> {
    pub(crate) fn new(entries: Vec<T>) -> Self {
        Self { first: entries, more: OnceCell::new() }
    }

    /// Adds entries behind the last.
    pub(crate) fn grow(&self, entries: Vec<T>) {
        let mut last = self;
        while let Some(more) = last.more.get() {
            last = more;
        }
        let _it_was_empty = last.more.set(Box::new(Self::new(entries)));
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        core::iter::successors(Some(self), |list| list.more.get().map(|more| &**more))
            .flat_map(|list| &list.first)
    }

    #[cold]
    fn beyond(&self, at: usize) -> &T {
        match self.more.get() {
            Some(more) => &more[at - self.first.len()],
            None => panic!("there is no entry {at} beyond {}", self.first.len()),
        }
    }
}

impl<T> Index<usize> for Grown<T> {
    type Output = T;

    // An entry that was there from the beginning costs as much as in a list.
    #[inline(always)]
    fn index(&self, at: usize) -> &T {
        match self.first.get(at) {
            Some(entry) => entry,
            None => self.beyond(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are_when_more_come() {
        let list = Grown::new(vec![1, 2]);
        let second = &list[1];
        list.grow(vec![3]);
        list.grow(Vec::new());
        list.grow(vec![4, 5]);
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!((list.len(), list[2], list[4]), (5, 3, 5));
        assert!(core::ptr::eq(second, &list[1]));
    }

    #[test]
    #[should_panic(expected = "there is no entry")]
    fn what_is_beyond_the_end_is_none_of_it() {
        let list = Grown::new(vec![1]);
        list.grow(vec![2]);
        let _none = list[2];
    }
}

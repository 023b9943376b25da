//! A handle on something that is replaced as a whole while it is used: each use from then on finds the newest.
//!
//! Nothing is counted or locked for a use. So the earlier ones stay in memory until the last handle goes: what they were is
//! still borrowed by those who began with it.

use core::cell::OnceCell;
use core::ops::Deref;
use std::rc::{Rc, Weak};

struct Link<T> {
    value: T,
    successor: OnceCell<Rc<Link<T>>>,
}

/// The handle. It is all of those that it was cloned from.
pub(crate) struct Lineage<T>(Rc<Link<T>>);

/// The same, which keeps nothing alive.
pub(crate) struct WeakLineage<T>(Weak<Link<T>>);

impl<T> Lineage<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Rc::new(Link { value, successor: OnceCell::new() }))
    }

    /// Uses that begin from here on find `value`.
    pub(crate) fn succeed(&self, value: T) {
        let made = Rc::new(Link { value, successor: OnceCell::new() });
        let newest = self.newest();
        // A link without a successor is free to have one.
        newest.successor.get_or_init(|| made);
    }

    #[inline(always)]
    fn newest(&self) -> &Link<T> {
        if self.0.successor.get().is_none() { &self.0 } else { self.later() }
    }

    #[cold]
    fn later(&self) -> &Link<T> {
        let mut link = &*self.0;
        while let Some(next) = link.successor.get() {
            link = next;
        }
        link
    }

    pub(crate) fn downgrade(&self) -> WeakLineage<T> {
        WeakLineage(Rc::downgrade(&self.0))
    }
}

impl<T> WeakLineage<T> {
    pub(crate) fn upgrade(&self) -> Option<Lineage<T>> {
        self.0.upgrade().map(Lineage)
    }
}

impl<T> Clone for Lineage<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Clone for WeakLineage<T> {
    fn clone(&self) -> Self {
        Self(Weak::clone(&self.0))
    }
}

impl<T> Deref for Lineage<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.newest().value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_handles_find_the_newest_and_earlier_borrows_stay() {
        let handle = Lineage::new(1);
        let (other, weak, first) = (handle.clone(), handle.downgrade(), &*handle);
        other.succeed(2);
        handle.succeed(3);
        assert_eq!((*first, *handle, *other), (1, 3, 3));
        assert_eq!(weak.upgrade().map(|handle| *handle), Some(3));
        drop(other);
        drop(handle);
        assert!(weak.upgrade().is_none());
    }
}

//! The pages of a stripe that md reads before it can answer a read of lost data, or write.
//!
//! A stripe is a page of each member; of each page md knows whether it has its content in memory, *held* here. The rules were found by
//! counting the bytes that md moves of each member (`reference/md-bytes-*.csv`), which is what holds them.

use brindle_layout::Row;

use super::roles::Roles;

/// A stripe as far as rules ask about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stripe {
    /// All roles.
    pub(super) all: Roles,
    /// Data.
    pub(super) data: Roles,
    /// P and Q.
    pub(super) parity: Roles,
    /// Roles without a member.
    pub(super) missing: Roles,
    /// Pages in memory.
    pub(super) held: Roles,
}

/// Pages that are written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// All that are, in whole or in part.
    pub(super) any: Roles,
    /// Those of which only a part is written.
    pub(super) part: Roles,
}

impl Written {
    pub(super) fn join(&mut self, more: Self) {
        // A page of which two write parts is not known to be whole.
        let whole = self.any.without(self.part).or(more.any.without(more.part));
        self.any = self.any.or(more.any);
        self.part = self.any.without(whole);
    }
}

impl Stripe {
    pub(super) fn of(row: &Row, members: u16, missing: Roles, held: Roles) -> Self {
        let parity = Roles::of([row.p()].into_iter().chain(row.q()));
        let all = Roles::of(0..members);
        Self { all, data: all.without(parity), parity, missing, held }
    }

    /// Pages of members that are not in memory.
    fn unread(&self) -> Roles {
        self.all.without(self.missing).without(self.held)
    }

    /// A page can be had only by computing it.
    fn lacks(&self, roles: Roles) -> bool {
        !roles.and(self.missing).without(self.held).is_empty()
    }

    /// The pages to be read for some that are wanted. For one that is lost md reads all others: of RAID 6 Q as well.
    pub(super) fn before_read(&self, wanted: Roles) -> Roles {
        if self.lacks(wanted) { self.unread() } else { wanted.and(self.unread()) }
    }

    /// The pages to be read before those are written. md takes the way that reads fewer pages, of equal ones that by all data of the stripe; a
    /// page in memory costs nothing, and one that is lost more than all others.
    pub(super) fn before_write(&self, written: &Written) -> Roles {
        if self.lacks(written.part) || self.must_know_all(written) {
            return self.unread();
        }
        let changed = written.any.or(self.parity).without(self.held);
        let others = self.data.without(written.any.without(written.part)).without(self.held);
        let cost = |pages: Roles| pages.len() + 2 * self.all.len() * pages.and(self.missing).len();
        let way = if cost(changed) < cost(others) { changed } else { others };
        way.or(written.part).and(self.unread())
    }

    /// Where two are lost, and one of them is written to or is parity: lost data that stay are computed first.
    fn must_know_all(&self, written: &Written) -> bool {
        let lost = self.missing.without(self.held);
        let kept = lost.and(self.data).without(written.any.without(written.part));
        self.missing.len() > 1 && !kept.is_empty() && !lost.and(written.any.or(self.parity)).is_empty()
    }

    /// The lost pages that md computes before those are written, once it has all others.
    pub(super) fn computed(&self, written: &Written) -> Roles {
        if self.lacks(written.part) || self.must_know_all(written) { self.missing } else { Roles::default() }
    }

    /// The pages in memory once those that are lost of `wanted` were computed, if all others are there. Where two are lost md computes both.
    pub(super) fn held_with(&self, wanted: Roles) -> Roles {
        match self.missing.len() {
            _ if !self.unread().is_empty() || !self.lacks(wanted) => self.held,
            1 => self.held.or(self.missing.and(wanted)),
            _ => self.held.or(self.missing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe(members: u16, parity: &[u16], missing: &[u16], held: &[u16]) -> Stripe {
        let all = Roles::of(0..members);
        let of = |roles: &[u16]| Roles::of(roles.iter().copied());
        let parity = of(parity);
        Stripe { all, data: all.without(parity), parity, missing: of(missing), held: of(held) }
    }

    fn before(stripe: Stripe, written: &[u16]) -> Vec<u16> {
        let any = Roles::of(written.iter().copied());
        stripe.before_write(&Written { any, part: Roles::default() }).each().collect()
    }

    #[test]
    fn the_way_that_reads_less_is_taken_and_of_equal_ones_that_by_all_data() {
        assert_eq!(before(stripe(6, &[5], &[], &[]), &[0]), [0, 5]);
        assert_eq!(before(stripe(4, &[3], &[], &[]), &[0]), [1, 2], "two each");
        assert_eq!(before(stripe(4, &[3], &[], &[0, 3]), &[0]), [0; 0], "all is in memory");
        assert_eq!(before(stripe(4, &[3], &[], &[]), &[0, 1, 2]), [0; 0], "a whole stripe");
        assert_eq!(before(stripe(6, &[5], &[], &[5]), &[0, 1]), [0, 1], "parity is in memory");
    }

    #[test]
    fn lost_pages_forbid_the_way_that_needs_them() {
        assert_eq!(before(stripe(4, &[3], &[0], &[]), &[0]), [1, 2]);
        assert_eq!(before(stripe(4, &[3], &[1], &[]), &[0]), [0, 3]);
        assert_eq!(before(stripe(4, &[3], &[3], &[]), &[0]), [1, 2], "though no parity is written");
        // Two lost: one that is written to, and one that stays.
        assert_eq!(before(stripe(6, &[4, 5], &[0, 1], &[]), &[0]), [2, 3, 4, 5]);
        assert_eq!(before(stripe(6, &[4, 5], &[0, 1], &[]), &[2]), [2, 4, 5]);
    }

    #[test]
    fn lost_data_are_read_from_all_others_once() {
        let mut lacking = stripe(5, &[3, 4], &[1], &[0]);
        let wanted = Roles::of([1]);
        let read = lacking.before_read(wanted);
        assert_eq!(read.each().collect::<Vec<_>>(), [2, 3, 4], "Q, too");
        lacking.held = lacking.held.or(read);
        lacking.held = lacking.held_with(wanted);
        assert!(lacking.held == lacking.all && lacking.before_read(wanted).is_empty());
        assert_eq!(stripe(5, &[3, 4], &[1], &[]).before_read(Roles::of([0])), Roles::of([0]));
    }

    #[test]
    fn parts_of_a_page_need_the_rest_of_it() {
        let part = Roles::of([0]);
        let read = stripe(4, &[3], &[], &[1, 2]).before_write(&Written { any: part, part });
        assert_eq!(read, part);
        let mut both = Written { any: part, part };
        both.join(Written { any: part, part: Roles::default() });
        assert!(both.part.is_empty());
    }
}

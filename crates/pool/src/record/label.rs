//! The config of a pool as its members have it now, and where it stands on them.

use core::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use brindle_format::pool::Label;

/// One of the two places of a label: the member, the byte of the label on it, and the number of the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfigPlace {
    pub(crate) member: u16,
    pub(crate) at: u64,
    pub(crate) place: usize,
}

/// The cell that a label stands behind: nothing keeps a label for longer than it takes to look something up.
pub(crate) struct CurrentLabel {
    label: RefCell<Rc<Label>>,
    /// Labels whose second place alone has it for sure, by member and byte. All others of members in use have it in the first.
    seconds: RefCell<BTreeSet<(u16, u64)>>,
}

impl CurrentLabel {
    /// The label that was found on the members, and the labels whose second place is the one that has it, or is given it.
    pub(crate) fn found(label: Label, seconds: impl IntoIterator<Item = (u16, u64)>) -> Self {
        let seconds = RefCell::new(seconds.into_iter().collect());
        Self { label: RefCell::new(Rc::new(label)), seconds }
    }

    /// The label of now.
    pub(crate) fn get(&self) -> Rc<Label> {
        Rc::clone(&self.label.borrow())
    }

    /// Another counts from now on, and stands in these places alone.
    pub(super) fn set(&self, label: Label, places: &[ConfigPlace]) {
        self.label.replace(Rc::new(label));
        places.iter().for_each(|place| self.stands(place));
    }

    /// The place of a label that has the config that counts for sure.
    pub(super) fn place_of(&self, member: u16, at: u64) -> usize {
        usize::from(self.seconds.borrow().contains(&(member, at)))
    }

    /// The config that counts stands in that place.
    pub(super) fn stands(&self, place: &ConfigPlace) {
        let (mut seconds, label) = (self.seconds.borrow_mut(), (place.member, place.at));
        let _was = if place.place == 0 { seconds.remove(&label) } else { seconds.insert(label) };
    }
}

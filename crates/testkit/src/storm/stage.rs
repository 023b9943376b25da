//! The world of one boot.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_io::MemberId;
use brindle_io::sim::Sim;

use super::plan::StormPlan;
use crate::oracle::Oracle;

/// The array, its drives and the oracle of one boot.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) plan: Rc<StormPlan>,
    pub(super) sim: Sim,
    /// Members by role, then spares.
    pub(super) drives: Rc<[MemberId]>,
    /// The second devices of the roles, if they have some.
    pub(super) seconds: Rc<[MemberId]>,
    /// Files that bitmaps may stand in, if there are some: the first has it at first.
    pub(super) files: Rc<[MemberId]>,
    pub(super) oracle: Rc<RefCell<Oracle>>,
}

//! Commands of measuring, predicting and planning: the fronts of crates `lab` and `planner`.

pub(crate) mod advise;
pub(crate) mod bench;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod reliability;
pub(crate) mod sweep;

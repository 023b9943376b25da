//! Storms that are always run, and what is made only of tools of tests, by subject.

mod channel_writes;
mod channel_zeroes;
mod channels;
mod conformance;
mod container;
mod door;
mod forwarded;
mod growing;
mod hosts;
mod pair;
mod pool_names;
mod pool_replaced;
mod redo;
mod storm;
mod trial_door;
mod trial_kind;
mod volumes;
mod widening;

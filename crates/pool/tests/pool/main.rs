//! Pools in the sim and the memory world, by subject.

mod changes;
mod config;
mod contract;
mod damage;
mod faults;
mod full;
mod golden;
mod grow;
mod history;
mod hosts;
mod in_memory;
mod labels;
mod map;
mod members;
mod numbers;
mod reads;
mod replace;
mod resilver;
mod reuse;
mod room;
mod runs;
mod scrub;
mod storm;
mod table;

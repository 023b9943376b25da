//! The one binary of all tests that cross crates: one link, one place to look.

mod advised;
mod attached;
mod boot;
mod cat;
mod cli;
mod defaults;
mod engine;
mod examine;
mod features;
mod foreign;
mod format;
mod from_md;
mod golden;
mod initiators;
mod killed;
mod machine;
mod md_bytes;
mod packaged;
mod pasted;
mod pool_members;
mod pools;
mod reshape;
mod server;
mod soak;
mod swap;
mod tomd;

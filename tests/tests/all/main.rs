//! The one binary of all tests that cross crates: one link, one place to look.

mod engine;
mod format;
mod golden;
mod machine;

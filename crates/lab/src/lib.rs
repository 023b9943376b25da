//! Measuring. What is to be measured is said as fio says it.
//!
//! | part | does |
//! |---|---|
//! | [`job`] | fio's job files and options: text in, typed jobs out; no I/O |

pub mod job;

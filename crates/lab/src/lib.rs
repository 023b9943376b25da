//! Measuring: jobs in fio's words, run on volumes in process, and reported as fio does.
//!
//! A job's text becomes a typed job, that a load of requests, that outcomes, and those a report.
//!
//! | part | does |
//! |---|---|
//! | [`job`] | fio's job files and options: text in, typed jobs out; no I/O |
//! | [`load`] | the requests that a job asks for, and what they write; no I/O |
//! | [`measure`] | latencies, throughput over time, steady state; no I/O |
//! | [`run`] | jobs on volumes, in any world |
//! | [`report`] | what came of them, as fio writes it; no I/O |
//! | [`drive`] | models of drives: files, those that ship, fits to measured tables; no I/O |
//! | [`predict`] | what arrays of modelled drives would do: the engine itself in virtual time |
//! | [`trace`] | traces that others recorded: read, paced, weighed; no I/O of its own |
//! | [`sweep`] | cross products of arrays and loads, and reports on them; no I/O |
//! | [`points`] | what runs the points of a sweep: in virtual time, or on devices that somebody gives up |
//! | [`page`] | reports as pages that need no network, drawn by libraries of others; no I/O |
//! | [`suite`] | loads that have a name, and scores over them; no I/O |

pub mod drive;
pub mod job;
pub mod load;
pub mod measure;
pub mod page;
pub mod points;
pub mod predict;
pub mod report;
pub mod run;
pub mod suite;
pub mod sweep;
pub mod trace;

//! Measuring and predicting, by subject.

mod accuracy;
mod conformance;
mod drive;
mod examples;
mod load;
mod made;
mod md_bytes;
mod pages;
mod parsing;
mod predict;
mod report;
mod run;
mod suite;
mod sweep;
mod trace;

//! Advice on an array that there is: facts about it and its drives are judged, and each finding says what to change, by which
//! command, and what that is expected to give. Facts are gathered by others, and a [`Simulator`] that they bring runs the engine.

mod bitmap;
mod chunk;
mod drives;
mod facts;
mod files;
mod finding;
mod loss_risk;
mod simulator;
mod tuning;

pub use chunk::{Chunks, chunks};
pub use facts::{ArrayContent, Bitmap, Drive, Facts, Md, MemberPath};
pub use finding::{Finding, Prediction, Verdict, text};
pub use simulator::{Load, On, Simulator};

/// All findings, the most urgent first.
pub fn advise(facts: &Facts, chunks: Chunks, simulator: Option<&dyn Simulator>) -> Vec<Finding> {
    let (md, drives) = (facts.md.as_ref(), &facts.drives[..]);
    let mut findings = vec![tuning::state(facts, drives, simulator), chunk::judge(facts, md, chunks)];
    findings.extend(files::judge(facts, md, simulator));
    findings.extend(files::members(facts, drives, simulator));
    findings.extend(tuning::judge(facts, md, drives, simulator));
    findings.extend(drives::judge(drives, facts, md, simulator));
    findings
}

#[cfg(test)]
mod tests;

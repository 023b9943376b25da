//! The predictions of a model for the rows that it was fitted to.

use super::{PredictError, alone, job};
use crate::drive::{Drive, Measure, Row};
use crate::job::{Direction, Job};

/// A measured figure and the model's.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The measured row.
    pub row: Row,
    /// The model's figure.
    pub model: f64,
}

impl Compared {
    /// Per cent by which the model is above the figure.
    pub fn error(&self) -> f64 {
        (self.model / self.row.value - 1.0) * 100.0
    }
}

/// Lets the modelled drive run each row's load. Rows that tell of the longest latency are left out.
///
/// # Errors
/// As [`super::predict`].
pub fn compare(drive: &Drive, rows: &[Row]) -> Result<Vec<Compared>, PredictError> {
    let wanted = rows.iter().filter(|row| row.measure != Measure::Longest);
    wanted.map(|row| Ok(Compared { row: row.clone(), model: model(drive, row)? })).collect()
}

fn model(drive: &Drive, row: &Row) -> Result<f64, PredictError> {
    let depth = if row.measure == Measure::Saturated { 2048 } else { 1 };
    let predicted = alone(drive, load(row, depth)?)?;
    let mixed = predicted.outcome.mixed();
    Ok(match row.measure {
        Measure::Alone => mixed.bandwidth() / 1_048_576.0,
        Measure::Saturated => mixed.iops(),
        Measure::Latency | Measure::Longest => mixed.total.mean() / 1e6,
    })
}

fn load(row: &Row, depth: u32) -> Result<Job, PredictError> {
    let kind = match row.reads {
        100 => Direction::Read.name(),
        0 => Direction::Write.name(),
        _ => "rw",
    };
    let access = format!("{}{kind}", if row.random { "rand" } else { "" });
    // The number in flight is limited by the drive's use for it, and by memory.
    let depth = u64::from(depth).min(((1 << 30) / row.size).max(1));
    let words = [
        ("rw", access.as_str()),
        ("bs", &row.size.to_string()),
        ("rwmixread", &row.reads.to_string()),
        ("iodepth", &depth.to_string()),
    ];
    Ok(job(&words)?)
}

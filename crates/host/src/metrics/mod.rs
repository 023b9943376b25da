//! Metrics of all that is served. docs/metrics.md lists them.
//!
//! They are made from the status that the arrays' thread has published last, on the thread that is asked, so that a scrape costs that
//! thread nothing and has an answer while it hangs.

mod arrays;
mod family;
mod http;
mod pools;
mod text;

use crate::status::Report;

pub use family::{Families, Family, Kind, Sample};
pub use http::{Bearer, Metrics, ScrapeListener};

/// Series of an array where not all were asked for, however many members it has.
pub const MOST_SERIES: usize = 100;

/// When a server began, and when its status was made.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Seconds since the status was made.
    pub age: f64,
    /// Seconds from 1970 to the start of the server.
    pub started: f64,
}

impl Families {
    /// The metrics of all that a server serves at this moment. Without `full` an array has [`MOST_SERIES`] at most.
    pub fn of(server: &str, version: &str, moment: Moment, reports: &[Report], full: bool) -> Self {
        let mut all = Self::default();
        let labels = [("server", server), ("version", version)];
        all.gauge("brindle_server_info", "1, of a server that answers.", &labels, 1.0);
        let help = "How old the status is of which the metrics are: more than a second or two if the arrays' thread hangs.";
        all.gauge("brindle_server_status_age_seconds", help, &labels[..1], moment.age);
        let help = "When the server began, in seconds since 1970.";
        all.gauge("brindle_server_start_time_seconds", help, &labels[..1], moment.started);
        for report in reports {
            served(&mut all, report);
            match report {
                Report::Array(array) => arrays::export(&mut all, array, moment.started, full),
                Report::Pool(pool) => pools::pool(&mut all, pool, full),
                Report::Absent(_) | Report::Other(_) => {}
            }
        }
        all
    }
}

/// Whether something is served that should be.
fn served(to: &mut Families, report: &Report) {
    let kind = match report {
        Report::Array(_) => "array",
        Report::Pool(_) => "pool",
        Report::Absent(absent) => &*absent.kind,
        Report::Other(other) => &*other.kind,
    };
    let labels = [(kind, report.name())];
    let help = "1, of all that the server serves or should serve.";
    to.gauge(&format!("brindle_{kind}_configured"), help, &labels, 1.0);
    let help = "1 if it is served, 0 if the settings name it and it is not.";
    let is_served = f64::from(u8::from(!report.is_absent()));
    to.gauge(&format!("brindle_{kind}_served"), help, &labels, is_served);
}

//! One page that needs no other file: the figures, the charts that its own script draws of them, and a table for
//! browsers without scripts.

use core::fmt::Write;

use super::{Finished, Point};

/// The facts of the run that the page shows.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The thing that was swept.
    pub title: String,
    /// Names and values: program, kernel, processor, drive.
    pub facts: Vec<(String, String)>,
    /// How each point is run by itself: what stands before its own words.
    pub command: String,
}

const STYLE: &str = "body{font:15px sans-serif;margin:2em auto;padding:0 1em;max-width:75em}\
    table{border-collapse:collapse;max-width:100%}td,th{border:1px solid #ccc;padding:2px 6px;text-align:right;overflow-wrap:anywhere}\
    th{background:#f4f4f4}td:first-child,table:first-of-type td{text-align:left}\
    svg{font:12px sans-serif;display:block;margin:1em 0;max-width:100%;height:auto}h2{font-size:1.1em}\
    label{margin-right:1em}summary{cursor:pointer}code{white-space:pre-wrap}";

/// Nothing but what stands in the page: a browser asks no network for it, whatever a name in it says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// How a page begins that needs nothing else: up to a table of names and values.
pub fn head(title: &str, facts: &[(String, String)]) -> String {
    let title = escaped(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<table>"
    );
    for (name, value) in facts {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    }
    page.push_str("</table>\n");
    page
}

/// The report.
pub fn html(environment: &Environment, all: &[Finished]) -> String {
    let mut page = head(&environment.title, &environment.facts);
    page.push_str(
        "<p><label>x <select id=\"x\"></select></label><label>series <select id=\"series\"></select></label>\
         <label>figure <select id=\"figure\"></select></label></p><p id=\"held\"></p>\n\
         <svg id=\"lines\" width=\"900\" height=\"345\" viewBox=\"0 0 900 345\"></svg>\n\
         <svg id=\"heat\" width=\"900\" height=\"300\"></svg>\n\
         <h2>Latencies: how many requests took how long</h2>\n<p><label>at <select id=\"at\"></select></label></p>\n\
         <svg id=\"latency\" width=\"900\" height=\"345\" viewBox=\"0 0 900 345\"></svg>\n\
         <h2>Over time</h2>\n<p><label>at <select id=\"then\"></select></label><label>figure <select id=\"over\"></select></label></p>\n\
         <svg id=\"time\" width=\"900\" height=\"345\" viewBox=\"0 0 900 345\"></svg>\n\
         <h2>All points</h2>\n<p>To JBOD: relative to the same load on as many drives without an array. To limit: relative to the \
         fewest operations that the load can cost these drives, were they all busy. A point unfolds to its command.</p>\n",
    );
    table(&mut page, environment, all);
    // Nothing in it may end the element.
    let data = serde_json::to_string(all).unwrap_or_default().replace('<', "\\u003c");
    let _ = write!(page, "<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n");
    page.push_str(include_str!("report.js"));
    page.push_str("</script></body></html>\n");
    page
}

fn table(page: &mut String, environment: &Environment, all: &[Finished]) {
    page.push_str(
        "<table id=\"points\"><tr><th>point</th><th>MiB/s</th><th>IOPS</th><th>mean us</th><th>p50 us</th><th>p99 us</th>\
         <th>busiest</th><th>to JBOD</th><th>to limit</th></tr>\n",
    );
    for one in all {
        let label: Vec<&str> =
            one.point.columns().iter().map(|(_, value)| *value).filter(|value| !value.is_empty()).collect();
        let _ = write!(
            page,
            "<tr><td><details><summary>{}</summary><code>{}</code></details></td>",
            escaped(&label.join(" ")),
            escaped(&command(environment, &one.point))
        );
        match &one.figures {
            Some(of) => {
                let ratio =
                    |to: Option<f64>| to.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
                let _ = writeln!(
                    page,
                    "<td>{:.1}</td><td>{:.0}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    of.mb_s,
                    of.iops,
                    of.mean_us,
                    of.p50_us,
                    of.p99_us,
                    of.utilisation.map_or_else(|| "-".to_owned(), |busy| format!("{:.0} %", busy * 100.0)),
                    ratio(of.to_jbod),
                    ratio(of.to_limit)
                );
            }
            None => {
                let why = escaped(one.refused.as_deref().unwrap_or_default());
                let _ = writeln!(page, "<td colspan=\"8\">{why}</td></tr>");
            }
        }
    }
    page.push_str("</table>\n");
}

fn command(environment: &Environment, point: &Point) -> String {
    let mut words = environment.command.clone();
    for (name, value) in point.columns().iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(words, " --{name} {value}");
    }
    words
}

/// Text that a page may hold.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! One page that needs nothing else: the figures, the charts that a script of its own draws of them, and a table for whoever
//! runs no scripts.

use core::fmt::Write;

use super::{Finished, Point};

/// What the page says of the run.
#[derive(Clone, Debug)]
pub struct Environment {
    /// What was swept.
    pub title: String,
    /// Names and values: program, kernel, processor, drive.
    pub facts: Vec<(String, String)>,
    /// How each point is run by itself: what stands before its own words.
    pub command: String,
}

const STYLE: &str = "body{font:15px sans-serif;margin:2em;max-width:75em}table{border-collapse:collapse}\
    td,th{border:1px solid #ccc;padding:2px 6px;text-align:right}svg{font:12px sans-serif;display:block;margin:1em 0}\
    label{margin-right:1em}code{white-space:nowrap}";

/// The report.
pub fn html(environment: &Environment, all: &[Finished]) -> String {
    let mut page = String::new();
    let title = escaped(&environment.title);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<table>"
    );
    for (name, value) in &environment.facts {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    }
    page.push_str(
        "</table>\n<p><label>x <select id=\"x\"></select></label><label>series <select id=\"series\"></select></label>\
         <label>figure <select id=\"figure\"></select></label></p><p id=\"held\"></p>\n\
         <svg id=\"lines\" width=\"900\" height=\"345\"></svg>\n<svg id=\"heat\" width=\"900\" height=\"300\"></svg>\n",
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
        "<table><tr><th>point</th><th>MiB/s</th><th>IOPS</th><th>mean us</th><th>p99 us</th><th>busiest</th>\
                   <th>to JBOD</th><th>command</th></tr>\n",
    );
    for one in all {
        let label: Vec<&str> =
            one.point.columns().iter().map(|(_, value)| *value).filter(|value| !value.is_empty()).collect();
        let _ = write!(page, "<tr><td>{}</td>", escaped(&label.join(" ")));
        match &one.figures {
            Some(of) => {
                let jbod = of.to_jbod.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
                let _ = write!(
                    page,
                    "<td>{:.1}</td><td>{:.0}</td><td>{:.1}</td><td>{:.1}</td><td>{:.0} %</td><td>{jbod}</td>",
                    of.mb_s,
                    of.iops,
                    of.mean_us,
                    of.p99_us,
                    of.utilisation * 100.0
                );
            }
            None => {
                let _ = write!(
                    page,
                    "<td colspan=\"6\">{}</td>",
                    escaped(one.refused.as_deref().unwrap_or_default())
                );
            }
        }
        let _ = writeln!(page, "<td><code>{}</code></td></tr>", escaped(&command(environment, &one.point)));
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

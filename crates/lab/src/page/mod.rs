//! Pages that need nothing else: figures, the library that draws them, and what the reader sorts, filters and hides.

mod library;

use core::fmt::Write;

use serde::Serialize;

pub use library::Library;

const STYLE: &str = include_str!("page.css");
const SHARED: &str = include_str!("page.js");

/// Nothing but what stands in the page: a browser asks no network for it, whatever a name in it says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// A page that is being written.
#[derive(Clone, Debug)]
pub struct Page(String);

impl Page {
    /// A page with a title, and below it the folded facts of the measurement: names and values.
    pub fn new(title: &str, facts: &[(String, String)]) -> Self {
        let title = escaped(title);
        let mut page = Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"><meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
        ));
        if !facts.is_empty() {
            page.push("<details class=\"facts\"><summary>About this run</summary><dl>\n");
            for (name, value) in facts {
                page.push(&format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value)));
            }
            page.push("</dl></details>\n");
        }
        page.push("<noscript><p>A script draws this page, and scripts are off. The same figures come as CSV, JSON and text.</p></noscript>\n");
        page
    }

    /// Appends markup without escaping it.
    pub fn push(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// The whole: what `script` draws of `data` with the help of `library`.
    pub fn drawn(mut self, library: Library, data: &impl Serialize, script: &str) -> String {
        // Nothing in it may end the element that holds it.
        let data = serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c");
        self.push("</main>\n");
        let _ = writeln!(self.0, "<!--\n{}-->", library::LICENSES);
        library.write(&mut self.0);
        let _ = write!(
            self.0,
            "<script type=\"application/json\" id=\"data\">{data}</script>\n\
             <script>\n{SHARED}{script}</script>\n</body></html>\n"
        );
        self.0
    }
}

/// Text that a page may hold.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

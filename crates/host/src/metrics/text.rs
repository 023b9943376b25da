//! Prometheus' text format, version 0.0.4.
//!
//! Its source is the page "Exposition formats" of Prometheus' documentation. OpenMetrics, which differs in the names of counters, is
//! not written: node_exporter's textfile collector and `promtool check metrics` read this one.

use std::fmt::Write;

use super::family::{Families, Sample};

/// The type of the content, for HTTP.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Families {
    /// All families as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.0 {
            let name = &family.name;
            text.push_str(&format!("# HELP {name} {}\n", escaped(&family.help, false)));
            text.push_str(&format!("# TYPE {name} {}\n", family.kind.word()));
            family.samples.iter().for_each(|sample| line(&mut text, name, sample));
        }
        text
    }
}

fn line(text: &mut String, name: &str, sample: &Sample) {
    text.push_str(name);
    text.push_str(&sample.suffix);
    for (at, (label, value)) in sample.labels.iter().enumerate() {
        let before = if at == 0 { '{' } else { ',' };
        let _ = write!(text, "{before}{label}=\"{}\"", escaped(value, true));
    }
    if !sample.labels.is_empty() {
        text.push('}');
    }
    let _ = writeln!(text, " {}", sample.value);
}

/// Text in which nothing ends a line; nor, if it is quoted, its quotes.
fn escaped(text: &str, quoted: bool) -> String {
    let mut escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quoted {
        escaped = escaped.replace('"', "\\\"");
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_disks_are_data() {
        let mut families = Families::default();
        families.gauge("a_bytes", "of a \\ b\nc", &[("array", "\"} 1\n\\x"), ("b", "c")], 3.0);
        families.counter("b_total", "b", &[], 1 << 50);
        let text = "# HELP a_bytes of a \\\\ b\\nc\n# TYPE a_bytes gauge\na_bytes{array=\"\\\"} 1\\n\\\\x\",b=\"c\"} 3\n\
                    # HELP b_total b\n# TYPE b_total counter\nb_total 1125899906842624\n";
        assert_eq!(families.text(), text);
    }
}

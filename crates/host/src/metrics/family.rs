//! Families of samples: a metric with its meaning, and its values by labels. They go over the control socket as JSON.

use serde::{Deserialize, Serialize};

/// The kind of a metric, as Prometheus has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only goes up, until its server ends.
    Counter,
    /// Counts below bounds, by the label `le`.
    Histogram,
}

impl Kind {
    /// The word of the text format.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// A value at one set of labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Behind the name of the family: `_bucket` and the like of histograms.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suffix: String,
    /// Names and values of its labels, in order.
    pub labels: Vec<(String, String)>,
    /// The value, in the unit of the name.
    pub value: f64,
}

/// A metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// With its unit.
    pub name: String,
    /// The family's meaning.
    pub help: String,
    /// The family's kind.
    pub kind: Kind,
    /// The family's values; no two have the same labels.
    pub samples: Vec<Sample>,
}

/// Labels of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Families by name, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Families(pub Vec<Family>);

impl Families {
    /// One value more of a gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        self.sample(name, help, Kind::Gauge, "", labels, value);
    }

    /// One value more of a counter.
    pub(super) fn counter(&mut self, name: &str, help: &str, labels: Labels<'_>, value: u64) {
        self.sample(name, help, Kind::Counter, "", labels, value as f64);
    }

    /// Writes one sample for each word, 1 where it holds. All words are written, so that a query finds each.
    pub(super) fn states<'a>(
        &mut self,
        name: &str,
        help: &str,
        (labels, label): (Labels<'_>, &str),
        states: impl IntoIterator<Item = (&'a str, usize)>,
    ) {
        for (state, count) in states {
            let mut all = labels.to_vec();
            all.push((label, state));
            self.gauge(name, help, &all, count as f64);
        }
    }

    /// A histogram whose bucket `n` counts requests of at least 2^(n-1) and less than 2^n microseconds; the last all
    /// that took longer. Sums are not kept.
    pub(super) fn latencies(&mut self, name: &str, help: &str, labels: Labels<'_>, buckets: &[u64]) {
        let mut below = 0;
        for (n, count) in buckets.iter().enumerate() {
            below += count;
            let last = n + 1 == buckets.len();
            let bound = if last { "+Inf".to_owned() } else { (2f64.powi(n as i32) / 1e6).to_string() };
            let mut all = labels.to_vec();
            all.push(("le", &bound));
            self.sample(name, help, Kind::Histogram, "_bucket", &all, below as f64);
        }
        if !buckets.is_empty() {
            self.sample(name, help, Kind::Histogram, "_count", labels, below as f64);
        }
    }

    fn sample(&mut self, name: &str, help: &str, kind: Kind, suffix: &str, labels: Labels<'_>, value: f64) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let sample = Sample { suffix: suffix.to_owned(), labels, value };
        debug_assert!(self.fits(name, &sample), "samples of {name} with unlike labels");
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => self.0.push(Family {
                name: name.to_owned(),
                help: help.to_owned(),
                kind,
                samples: vec![sample],
            }),
        }
    }

    /// One metric has one set of labels, but for the bounds of histograms: else no query finds all of its samples.
    fn fits(&self, name: &str, sample: &Sample) -> bool {
        let names = |sample: &Sample| -> Vec<String> {
            sample.labels.iter().map(|(name, _)| name.clone()).filter(|name| name != "le").collect()
        };
        let other =
            self.0.iter().find(|family| family.name == name).and_then(|family| family.samples.first());
        other.is_none_or(|other| names(other) == names(sample))
    }

    /// Takes in those of another server. A volume that has the name of one that is known already is called `SERVER/NAME`.
    pub fn merge(&mut self, server: &str, others: Self) {
        let own: Vec<String> = self.volumes().map(str::to_owned).collect();
        for mut family in others.0 {
            for (name, value) in family.samples.iter_mut().flat_map(|sample| &mut sample.labels) {
                if VOLUMES.contains(&&**name) && own.contains(value) {
                    *value = format!("{server}/{value}");
                }
            }
            match self.0.iter_mut().find(|known| known.name == family.name) {
                Some(known) => known.samples.append(&mut family.samples),
                None => self.0.push(family),
            }
        }
    }

    fn volumes(&self) -> impl Iterator<Item = &str> {
        let labels = self.0.iter().flat_map(|family| &family.samples).flat_map(|sample| &sample.labels);
        labels.filter(|(name, _)| VOLUMES.contains(&&**name)).map(|(_, value)| &**value)
    }
}

/// Labels that name an array or a pool.
const VOLUMES: [&str; 2] = ["array", "pool"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_all_below_their_bounds() {
        let mut families = Families::default();
        families.latencies("a_seconds", "a", &[("x", "y")], &[1, 0, 2, 4]);
        let [family] = &families.0[..] else { panic!("one family") };
        let of =
            |sample: &Sample| (sample.suffix.clone(), sample.labels.last().unwrap().1.clone(), sample.value);
        let all: Vec<_> = family.samples.iter().map(of).collect();
        let bucket = |bound: &str, value| ("_bucket".to_owned(), bound.to_owned(), value);
        let buckets =
            [bucket("0.000001", 1.0), bucket("0.000002", 1.0), bucket("0.000004", 3.0), bucket("+Inf", 7.0)];
        assert_eq!(all[..4], buckets);
        assert_eq!(all[4], ("_count".to_owned(), "y".to_owned(), 7.0));
    }

    #[test]
    #[should_panic(expected = "unlike labels")]
    fn one_metric_has_one_set_of_labels() {
        let mut families = Families::default();
        families.gauge("a", "a", &[("pool", "tank"), ("for", "pages")], 1.0);
        families.gauge("a", "a", &[("pool", "tank"), ("member", "0.0")], 1.0);
    }

    #[test]
    fn volumes_of_one_name_are_told_apart() {
        let one = |value| {
            let mut families = Families::default();
            families.gauge("a", "a", &[("array", "data"), ("state", "clean")], value);
            families
        };
        let mut all = Families::default();
        all.merge("first", one(1.0));
        all.merge("second", one(2.0));
        let names: Vec<_> = all.volumes().collect();
        assert_eq!(names, ["data", "second/data"]);
        assert_eq!(all.0.len(), 1);
    }
}

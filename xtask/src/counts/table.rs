//! Counts beside the stored ones: what is too much, and the table.

use std::fmt::Write;

use super::callgrind::Count;
use super::store::{Store, Stored};
use super::tolerance::{TOLERANCE, above, below};

/// How a path does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// As the base, or less.
    Fine,
    /// More than the base, and stored with a reason.
    Accepted,
    /// Less than what it is held against: that may be taken down.
    Lower,
    /// More than is allowed.
    Raised,
    /// Counted, and not stored.
    Unknown,
    /// Stored, and not counted.
    Lost,
}

/// A path, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    stored: Stored,
    /// Instructions for each operation.
    now: Option<u64>,
    verdict: Verdict,
}

impl Judged {
    fn new(stored: Stored, now: u64) -> Self {
        let verdict = match (stored.allowed(), stored.accepted) {
            (None, _) => Verdict::Unknown,
            (Some(allowed), _) if above(allowed, now) => Verdict::Raised,
            (Some(allowed), _) if below(allowed, now) => Verdict::Lower,
            (_, Some(_)) => Verdict::Accepted,
            _ => Verdict::Fine,
        };
        Self { stored, now: Some(now), verdict }
    }

    /// Whether something is to be mended.
    pub(crate) fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::Raised | Verdict::Unknown | Verdict::Lost)
    }

    /// Whether a lower count would be well.
    pub(crate) fn is_raised(&self) -> bool {
        self.verdict == Verdict::Raised
    }

    /// The remark beside the table.
    pub(crate) fn reported(&self) -> Option<String> {
        let (name, now) = (&self.stored.name, self.now.unwrap_or(0));
        let allowed = self.stored.allowed().unwrap_or(0);
        Some(match self.verdict {
            Verdict::Fine | Verdict::Accepted => return None,
            Verdict::Lower => format!("{name}: {now}, down from {allowed}"),
            Verdict::Raised => {
                format!(
                    "{name}: {now}, more than {TOLERANCE} % above {allowed}; make it cheaper, or say why not"
                )
            }
            Verdict::Unknown => format!("{name}: not stored; `cargo xtask counts --update` stores it"),
            Verdict::Lost => {
                format!("{name}: stored and not counted; `cargo xtask counts --update` takes it off")
            }
        })
    }

    /// Per cent above the base.
    fn change(&self) -> Option<f64> {
        let (base, now) = (self.stored.base?, self.now?);
        Some((now as f64 / base as f64 - 1.0) * 100.0)
    }

    fn words(&self) -> &'static str {
        match self.verdict {
            Verdict::Fine => "",
            Verdict::Accepted => "accepted",
            Verdict::Lower => "lower",
            Verdict::Raised => "RAISED",
            Verdict::Unknown => "not stored",
            Verdict::Lost => "not counted",
        }
    }
}

/// Every path that is counted or stored, in order.
pub(crate) fn judge(store: &Store, counts: &[Count]) -> Vec<Judged> {
    let stored = |count: &Count| {
        let known = store.paths.iter().find(|path| path.name == count.name).cloned();
        known.unwrap_or_else(|| Stored { name: count.name.clone(), ..Stored::default() })
    };
    let counted = counts.iter().map(|count| Judged::new(stored(count), count.instructions));
    let lost = store.paths.iter().filter(|path| counts.iter().all(|count| count.name != path.name));
    counted
        .chain(lost.map(|path| Judged { stored: path.clone(), now: None, verdict: Verdict::Lost }))
        .collect()
}

/// The table; `commit` is the one to compare with.
pub(crate) fn render(commit: &str, judged: &[Judged]) -> String {
    let mut text = String::new();
    row(&mut text, ["instructions for each", commit, "accepted", "now", "change", "", ""]);
    for path in judged {
        let number = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        let change = path.change().map_or("-".to_owned(), |change| format!("{change:+.1} %"));
        let Stored { name, base, accepted, why, absent, pin: _ } = &path.stored;
        let why = absent.clone().unwrap_or_else(|| why.join(", "));
        let [base, accepted, now] = [*base, *accepted, path.now].map(number);
        row(&mut text, [name, &base, &accepted, &now, &change, path.words(), &why]);
    }
    text
}

fn row(text: &mut String, [name, base, accepted, now, change, words, why]: [&str; 7]) {
    let line = format!("{name:<40} {base:>8} {accepted:>8} {now:>8} {change:>9}  {words:<9} {why}");
    writeln!(text, "{}", line.trim_end()).expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(base: u64, accepted: Option<u64>) -> Stored {
        Stored { name: "a".to_owned(), base: Some(base), accepted, ..Stored::default() }
    }

    fn verdict(base: u64, accepted: Option<u64>, now: u64) -> (Verdict, bool) {
        let judged = Judged::new(stored(base, accepted), now);
        (judged.verdict, judged.fails())
    }

    #[test]
    fn a_count_may_be_three_per_cent_above_the_base() {
        assert_eq!(verdict(1000, None, 1030), (Verdict::Fine, false));
        assert_eq!(verdict(1000, None, 1031), (Verdict::Raised, true));
    }

    #[test]
    fn an_accepted_raise_may_not_grow() {
        assert_eq!(verdict(1000, Some(1200), 1200), (Verdict::Accepted, false));
        assert_eq!(verdict(1000, Some(1200), 1236), (Verdict::Accepted, false));
        assert_eq!(verdict(1000, Some(1200), 1237), (Verdict::Raised, true));
    }

    #[test]
    fn what_is_lower_is_reported_and_does_not_fail() {
        assert_eq!(verdict(1000, None, 970), (Verdict::Fine, false));
        assert_eq!(verdict(1000, None, 969), (Verdict::Lower, false));
        assert_eq!(verdict(1000, Some(1200), 1100), (Verdict::Lower, false));
        assert_eq!(
            Judged::new(stored(1000, None), 900).reported(),
            Some("a: 900, down from 1000".to_owned())
        );
        assert_eq!(Judged::new(stored(1000, None), 1000).reported(), None);
    }

    #[test]
    fn paths_that_are_on_one_side_only_fail() {
        let store = Store {
            commit: "f8c2f50".to_owned(),
            compiler: String::new(),
            kernel: String::new(),
            pinned: None,
            reasons: [].into(),
            paths: vec![stored(1000, None)],
        };
        let judged = judge(&store, &[Count { name: "b".to_owned(), instructions: 7 }]);
        let verdicts: Vec<_> = judged.iter().map(|path| (path.stored.name.as_str(), path.verdict)).collect();
        assert_eq!(verdicts, [("b", Verdict::Unknown), ("a", Verdict::Lost)]);
        assert!(judged.iter().all(|path| path.fails() && path.reported().is_some()));
        let table = render(&store.commit, &judged);
        assert!(table.contains("f8c2f50"), "{table}");
        assert!(table.lines().any(|line| line.starts_with("a ") && line.ends_with("not counted")), "{table}");
    }
}

//! The stored counts: what each path took at the commit to compare with, and which raises since then are accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;

use super::callgrind::Count;
use super::tolerance::{above, nearly_above};

/// The comment above the figures.
const HEAD: &str = "\
# Instructions for each operation of the hot paths, as callgrind counts them: `cargo xtask counts` compares.
#
# `base` is the count at `commit`; `absent` says why there is none. A count more than 3 % above the
# base is refused, unless `accepted` holds it with the reasons for it: then it may be 3 % above that. What raises a count
# comes with a reason, here and in the commit. `cargo xtask counts --update` puts the counts of now here,
# `cargo xtask counts --base` counts `commit` anew, with another compiler, say.
#
# `pin` is the count at commit `pinned`, from which the house is rebuilt: no update touches it. No path may be more than 3 %
# above its pin, and all together not more than 1 %. `cargo xtask counts --pin` pins the counts of now.
";

/// The file of stored counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Store {
    /// The commit to compare with.
    pub(crate) commit: String,
    /// The compiler of the counts, as `rustc --version` prints it.
    pub(crate) compiler: String,
    /// The parity kernel that ran.
    pub(crate) kernel: String,
    /// The commit whose counts are pinned.
    pub(crate) pinned: Option<String>,
    /// Why counts have risen, by a short name.
    #[serde(default)]
    pub(crate) reasons: BTreeMap<String, String>,
    /// In the order of the program.
    #[serde(default, rename = "path")]
    pub(crate) paths: Vec<Stored>,
}

/// The stored counts of one path, in instructions per operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    pub(crate) name: String,
    /// At the commit to compare with.
    pub(crate) base: Option<u64>,
    /// At the commit that is pinned.
    pub(crate) pin: Option<u64>,
    /// Why that commit doesn't have it.
    pub(crate) absent: Option<String>,
    /// The accepted count, if it was raised.
    pub(crate) accepted: Option<u64>,
    /// Names of the reasons.
    #[serde(default)]
    pub(crate) why: Vec<String>,
}

impl Stored {
    /// The count that must not be exceeded.
    pub(crate) fn allowed(&self) -> Option<u64> {
        self.accepted.or(self.base)
    }

    fn complaint(&self) -> Option<&str> {
        match (self.base, &self.absent, self.accepted) {
            (None, None, _) => Some("neither base nor absent"),
            (Some(_), Some(_), _) => Some("both base and absent"),
            (None, Some(why), _) if why.is_empty() => Some("absent for no reason"),
            (None, Some(_), None) => Some("absent, and nothing is accepted"),
            (Some(_), None, Some(_)) if self.why.is_empty() => Some("accepted without why"),
            (_, _, None) if !self.why.is_empty() => Some("why, and nothing is accepted"),
            _ => None,
        }
    }
}

impl Store {
    /// Reads the file.
    ///
    /// # Errors
    /// A message for text that is not TOML, lacks something or contradicts itself.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let store: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut unused: BTreeSet<&String> = store.reasons.keys().collect();
        let mut names = BTreeSet::new();
        for path in &store.paths {
            let name = &path.name;
            if let Some(complaint) = path.complaint() {
                return Err(format!("{name}: {complaint}"));
            }
            if !names.insert(name) {
                return Err(format!("{name}: stored twice"));
            }
            for why in &path.why {
                if store.reasons.get(why).is_none_or(String::is_empty) {
                    return Err(format!("{name}: there is no reason {why:?}"));
                }
                unused.remove(why);
            }
        }
        match unused.first() {
            Some(name) => Err(format!("nothing is dearer by reason of {name:?}: take it off")),
            None => Ok(store),
        }
    }

    /// Takes counts for those of the commit to compare with, made by `compiler`.
    pub(crate) fn rebase(&mut self, counts: &[Count], compiler: &str) {
        compiler.clone_into(&mut self.compiler);
        for count in counts {
            let path = self.entry(&count.name);
            path.base = Some(count.instructions);
            path.absent = None;
        }
    }

    /// Accepts what is more than the tolerance above the base, or nearly, and no more than that. The caller for it has
    /// to say why: a store whose raises have no reason is refused when it is read.
    pub(crate) fn accept(&mut self, counts: &[Count]) {
        self.paths.retain(|path| counts.iter().any(|count| count.name == path.name));
        for count in counts {
            let path = self.entry(&count.name);
            let dearer = path.base.is_none_or(|base| nearly_above(base, count.instructions));
            path.accepted = dearer.then_some(count.instructions);
            if !dearer {
                path.why.clear();
            }
            if path.base.is_none() && path.absent.is_none() {
                path.absent = Some(String::new());
            }
        }
        let used: BTreeSet<&String> = self.paths.iter().flat_map(|path| &path.why).collect();
        self.reasons.retain(|name, _| used.contains(name));
    }

    /// Pins counts as those of `commit`.
    pub(crate) fn pin(&mut self, counts: &[Count], commit: String) {
        self.pinned = Some(commit);
        self.paths.iter_mut().for_each(|path| path.pin = None);
        counts.iter().for_each(|count| self.entry(&count.name).pin = Some(count.instructions));
    }

    /// The paths above their pins by too much, in words.
    pub(crate) fn above_pins(&self, counts: &[Count]) -> Vec<String> {
        let pinned = self.pinned.as_deref().unwrap_or("no commit");
        let pin = |count: &Count| {
            let path = self.paths.iter().find(|path| path.name == count.name)?;
            path.pin.map(|pin| (pin, count.instructions))
        };
        let mut reported = Vec::new();
        for count in counts {
            if let Some((pin, now)) = pin(count).filter(|&(pin, now)| above(pin, now)) {
                reported.push(format!("{}: {now}, more than 3 % above {pin} at {pinned}", count.name));
            }
        }
        let pairs: Vec<(u64, u64)> = counts.iter().filter_map(pin).collect();
        let ratios: f64 = pairs.iter().map(|&(pin, now)| now as f64 / pin as f64).sum();
        let mean = ratios / pairs.len().max(1) as f64;
        if mean > 1.01 {
            let above = (mean - 1.0) * 100.0;
            reported.push(format!("all together: {above:.1} % above those at {pinned}, more than 1 %"));
        }
        reported
    }

    fn entry(&mut self, name: &str) -> &mut Stored {
        let at = self.paths.iter().position(|path| path.name == name).unwrap_or_else(|| {
            self.paths.push(Stored { name: name.to_owned(), ..Stored::default() });
            self.paths.len() - 1
        });
        &mut self.paths[at]
    }

    /// The file's text.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (name, value) in
            [("commit", &self.commit), ("compiler", &self.compiler), ("kernel", &self.kernel)]
        {
            line(&mut text, name, quoted(value));
        }
        self.pinned.iter().for_each(|commit| line(&mut text, "pinned", quoted(commit)));
        text += "\n[reasons]\n";
        for (name, reason) in &self.reasons {
            line(&mut text, name, format!("\"\"\"\n{}\"\"\"", reason.replace('\\', "\\\\")));
        }
        for path in &self.paths {
            text += "\n[[path]]\n";
            line(&mut text, "name", quoted(&path.name));
            for (name, count) in [("base", path.base), ("accepted", path.accepted), ("pin", path.pin)] {
                count.into_iter().for_each(|count| line(&mut text, name, count));
            }
            path.absent.iter().for_each(|why| line(&mut text, "absent", quoted(why)));
            if path.accepted.is_some() && path.base.is_some() {
                let why: Vec<_> = path.why.iter().map(|why| quoted(why)).collect();
                line(&mut text, "why", format!("[{}]", why.join(", ")));
            }
        }
        text
    }
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    writeln!(text, "{name} = {value}").expect("a string takes all");
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        commit = "f8c2f50"
        compiler = "rustc 1"
        kernel = "avx2"
        [reasons]
        counters = "each member has counters"
        [[path]]
        name = "a"
        base = 1000
        [[path]]
        name = "b"
        base = 1000
        accepted = 1100
        why = ["counters"]
        [[path]]
        name = "c"
        absent = "it had no c"
        accepted = 50
    "#;

    fn count(name: &str, instructions: u64) -> Count {
        Count { name: name.to_owned(), instructions }
    }

    fn store() -> Store {
        Store::parse(TEXT).expect("a store")
    }

    #[test]
    fn a_store_is_read_as_it_is_written() {
        assert_eq!(Store::parse(&store().render()), Ok(store()));
        let allowed: Vec<_> = store().paths.iter().map(Stored::allowed).collect();
        assert_eq!(allowed, [Some(1000), Some(1100), Some(50)]);
    }

    #[test]
    fn a_raise_needs_a_reason() {
        let refused = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            Store::parse(&TEXT.replacen(from, to, 1)).expect_err("a complaint")
        };
        assert_eq!(refused("why = [\"counters\"]", "why = []"), "b: accepted without why");
        assert_eq!(refused("why = [\"counters\"]", "why = [\"haste\"]"), "b: there is no reason \"haste\"");
        assert_eq!(refused("each member has counters", ""), "b: there is no reason \"counters\"");
        assert_eq!(refused("it had no c", ""), "c: absent for no reason");
        assert_eq!(refused("accepted = 50", ""), "c: absent, and nothing is accepted");
        assert_eq!(refused("name = \"b\"", "name = \"a\""), "a: stored twice");
        let idle = refused("accepted = 1100\n        why = [\"counters\"]", "");
        assert_eq!(idle, "nothing is dearer by reason of \"counters\": take it off");
        assert!(refused("base = 1000", "bass = 1000").contains("bass"));
    }

    #[test]
    fn update_accepts_what_is_dearer_and_leaves_why_to_whoever_asked() {
        let mut store = store();
        store.accept(&[count("a", 1021), count("b", 1020), count("d", 7)]);
        let accepted: Vec<_> = store.paths.iter().map(|path| (path.name.as_str(), path.accepted)).collect();
        assert_eq!(accepted, [("a", Some(1021)), ("b", None), ("d", Some(7))]);
        assert!(store.reasons.is_empty());
        assert_eq!(Store::parse(&store.render()), Err("a: accepted without why".to_owned()));
    }

    #[test]
    fn update_keeps_reasons_that_still_hold() {
        let mut store = store();
        store.accept(&[count("a", 900), count("b", 1050), count("c", 40)]);
        assert_eq!(store.paths[1].accepted, Some(1050));
        assert_eq!(Store::parse(&store.render()), Ok(store));
    }

    #[test]
    fn no_update_touches_pins_and_no_small_steps_get_past_them() {
        let mut store = store();
        store.pin(&[count("a", 1000), count("b", 1000)], "1a4c58f".to_owned());
        store.accept(&[count("a", 1100), count("b", 1100), count("c", 1)]);
        let pins: Vec<_> = store.paths.iter().map(|path| path.pin).collect();
        assert_eq!(pins, [Some(1000), Some(1000), None]);
        assert!(store.above_pins(&[count("a", 1030), count("b", 990), count("c", 900)]).is_empty());
        let reported = store.above_pins(&[count("a", 1031), count("b", 900)]);
        assert_eq!(reported, ["a: 1031, more than 3 % above 1000 at 1a4c58f"]);
        let reported = store.above_pins(&[count("a", 1011), count("b", 1011)]);
        assert_eq!(reported, ["all together: 1.1 % above those at 1a4c58f, more than 1 %"]);
        store.paths[0].why.push("counters".to_owned());
        store.paths[1].why.push("counters".to_owned());
        store.reasons.insert("counters".to_owned(), "each member has counters\n".to_owned());
        assert_eq!(Store::parse(&store.render()), Ok(store));
    }

    #[test]
    fn the_base_can_be_counted_anew() {
        let mut store = store();
        store.rebase(&[count("a", 990), count("c", 45)], "rustc 2");
        assert_eq!((store.compiler.as_str(), store.paths[0].base), ("rustc 2", Some(990)));
        assert_eq!((store.paths[2].base, store.paths[2].absent.as_ref()), (Some(45), None));
    }
}

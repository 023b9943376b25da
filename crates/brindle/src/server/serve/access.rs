//! The file that says who may use which array or pool.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brindle_export::Gate;
use brindle_export::access::{AccessList, Rule, Who};
use brindle_export::iscsi::Server;
use brindle_export::iscsi::login::Chap;
use brindle_host::mailbox::Receiver;
use brindle_host::opening::Opening;
use brindle_host::{Any, Service};
use brindle_io::Io;

use crate::base::failure::Failure;

/// Rules, each with the array or pool that it is for. A rule that names none is for all.
#[derive(Clone, Debug)]
pub(super) struct AccessFile {
    file: PathBuf,
    rules: Rules,
}

type Rules = Vec<(Option<String>, Rule)>;

/// The names of all that can ever be served, as they are now, unless more may come; and names that were given up. Files are read on a
/// thread of their own.
#[derive(Clone, Default)]
pub(super) struct Servable(Arc<Mutex<Called>>);

#[derive(Default)]
struct Called {
    only: Option<Vec<String>>,
    /// Names that were given up, and what the pools are called now.
    former: BTreeMap<String, String>,
}

impl Servable {
    /// These alone.
    pub(super) fn only(names: Vec<String>) -> Self {
        Self(Arc::new(Mutex::new(Called { only: Some(names), former: BTreeMap::new() })))
    }

    fn called(&self) -> MutexGuard<'_, Called> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of them is called otherwise from now on.
    pub(super) fn rename(&self, from: &str, to: &str) {
        let mut called = self.called();
        let names = called.only.iter_mut().flatten();
        names.filter(|name| *name == from).for_each(|name| to.clone_into(name));
        called.former.values_mut().filter(|now| *now == from).for_each(|now| to.clone_into(now));
        called.former.remove(to);
        called.former.insert(from.to_owned(), to.to_owned());
    }

    /// Something of this name has come: a name that was given up is in use again.
    fn comes(&self, name: &str) {
        self.called().former.remove(name);
    }

    /// The names of now, if they are all that there can be.
    pub(super) fn now(&self) -> Option<Vec<String>> {
        self.called().only.clone()
    }

    /// Rules that were read anew, unless they are for a pool by a name that it has no more, and none by the one that it has.
    pub(super) fn heed(&self, access: AccessFile) -> Result<AccessFile, Failure> {
        let called = self.called();
        let has = |name: &str| access.rules.iter().any(|(of, _)| of.as_deref() == Some(name));
        let stale = called.former.iter().find(|(from, to)| has(from) && !has(to));
        let Some((from, to)) = stale else { return Ok(access) };
        Err(Failure::Refused(format!(
            "{} has lines for {from:?}, which is called {to:?} now, and none for that: give the new name there",
            access.file.display()
        )))
    }
}

/// The ways in for clients, each as the rules that hold now and the settings have it.
#[derive(Clone)]
pub(super) struct Gates {
    pub(super) io: Io,
    /// Rules that hold now, if a file has some.
    pub(super) access: Option<Rc<RefCell<AccessFile>>>,
    /// NBD clients may write, also to a volume that an initiator has reserved.
    pub(super) is_shared: bool,
    pub(super) servable: Servable,
}

impl Gates {
    /// The way in to the array or pool of that name and UUID.
    pub(super) fn of(&self, opening: &Opening, name: &str, uuid: &str) -> Rc<Gate> {
        self.servable.comes(name);
        let gate = if self.is_shared { Gate::shared() } else { Gate::default() };
        let gate = Rc::new(gate.for_those(self.access.as_ref().map(|access| access.borrow().of(name))));
        gate.set_rates(&self.io, opening.limits_of(name, uuid).map(Into::into).unwrap_or_default());
        gate.withdraw(opening.withdraws(name, uuid));
        gate
    }

    /// Warns if no line lets a client in to an array or pool that has come.
    pub(super) fn warn_of(&self, name: &str) {
        let access = self.access.as_ref().map(|access| access.borrow());
        if let Some(remark) = access.and_then(|access| access.lacks(name)) {
            tracing::warn!("{remark}");
        }
    }
}

/// Rules and secrets that have been read, and take effect together.
pub(super) struct Admitted {
    pub(super) access: Option<AccessFile>,
    pub(super) chap: Option<Chap>,
}

/// Ways in which clients can prove their names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proofs {
    /// There are secrets of initiators.
    pub(super) secrets: bool,
    /// There are authorities that sign certificates of clients.
    pub(super) authorities: bool,
}

impl Proofs {
    /// The reason why a rule matches no client.
    fn lack(self, who: &Who) -> Option<&'static str> {
        match who {
            Who::Chap(_) if !self.secrets => {
                Some("is nobody, since no secrets prove names: give --iscsi-secrets, or leave the line out")
            }
            Who::Certificate(_) if !self.authorities => Some(
                "is nobody, since no authorities vouch for names: give --tls-clients, or leave the line out",
            ),
            _ => None,
        }
    }
}

/// Lets clients in as each file has it that comes.
pub(super) async fn admit(
    files: Receiver<Admitted>,
    now: Option<Rc<RefCell<AccessFile>>>,
    service: Rc<Service>,
    initiators: Option<Server<Any>>,
) {
    loop {
        let Admitted { access, chap } = files.next().await;
        if let Some(chap) = &chap {
            let strangers = access.iter().flat_map(|access| access.strangers(chap));
            strangers.for_each(|remark| tracing::warn!("{remark}"));
        }
        if let (Some(chap), Some(initiators)) = (chap, &initiators) {
            let ended = initiators.set_chap(chap);
            tracing::info!(ended, "connections of initiators whose secret is gone or another were ended");
        }
        let (Some(access), Some(now)) = (access, &now) else { continue };
        let ended = service.admit(|name| access.of(name));
        let names: Vec<&String> = ended.iter().map(|(name, _)| name).collect();
        access.remarks(&names).iter().for_each(|remark| tracing::warn!("{remark}"));
        for (array, ended) in &ended {
            tracing::info!(array, ended, "connections of those whose right is another were ended");
        }
        now.replace(access);
    }
}

impl AccessFile {
    /// Reads the file; `only` are all that can ever be served, if that is known: a line for another is refused then.
    pub(super) fn read(
        path: &Path,
        only: Option<&[impl AsRef<str>]>,
        proofs: Proofs,
    ) -> Result<Self, Failure> {
        let only: Option<Vec<&str>> = only.map(|only| only.iter().map(AsRef::as_ref).collect());
        let shown = path.display();
        let fail = |source| Failure::system(format!("{shown}"), source);
        let meta = fs::metadata(path).map_err(fail)?;
        if meta.permissions().mode() & 0o022 != 0 {
            return Err(Failure::Refused(format!(
                "{shown} says who may use the arrays, and others may write to it (mode {:04o}): chmod 644 it",
                meta.mode() & 0o7777
            )));
        }
        let text = fs::read_to_string(path).map_err(fail)?;
        let rules = parse(&text, only.as_deref(), proofs)
            .map_err(|(line, why)| Failure::Refused(format!("{shown}, line {line}: {why}")))?;
        Ok(Self { file: path.to_owned(), rules })
    }

    /// Remarks on names of secrets that are none of these.
    pub(super) fn strangers(&self, chap: &Chap) -> Vec<String> {
        let names = self.rules.iter().filter_map(|(_, rule)| match &rule.who {
            Who::Chap(name) if !chap.knows(name) => Some(name),
            _ => None,
        });
        let file = self.file.display();
        names.map(|name| format!("{file} names chap:{name}, which has no secret: it is nobody")).collect()
    }

    /// The rules of an array or pool.
    pub(super) fn of(&self, name: &str) -> AccessList {
        let is_for = |of: &Option<String>| of.as_deref().is_none_or(|of| of == name);
        let rules = self.rules.iter().filter(|(of, _)| is_for(of));
        AccessList(rules.map(|(_, rule)| rule.clone()).collect())
    }

    /// Remarks on volumes that are served and that no client may use, and on lines for volumes that are not served, which may come yet.
    pub(super) fn remarks(&self, served: &[impl AsRef<str>]) -> Vec<String> {
        let is_served = |name: &str| served.iter().any(|served| served.as_ref() == name);
        let mut waiting: Vec<&str> = self.rules.iter().filter_map(|(of, _)| of.as_deref()).collect();
        waiting.retain(|name| !is_served(name));
        waiting.dedup();
        let file = self.file.display();
        let waits =
            |name: &str| format!("{file} has lines for {name:?}, which is not served now: they wait for it");
        let lacking = served.iter().filter_map(|name| self.lacks(name.as_ref()));
        lacking.chain(waiting.into_iter().map(waits)).collect()
    }

    /// The remark that lines call a pool by a name that it has no more.
    pub(super) fn calls(&self, name: &str) -> Option<String> {
        let is_called = self.rules.iter().any(|(of, _)| of.as_deref() == Some(name));
        let file = self.file.display();
        is_called.then(|| {
            format!(
                "{file} has lines for {name:?}: it is not taken anew with these alone, and from the next start on they are those of nothing, give the new name there"
            )
        })
    }

    fn lacks(&self, name: &str) -> Option<String> {
        let file = self.file.display();
        self.of(name).0.is_empty().then(|| format!("{file} has no line for {name}: nobody may use it"))
    }
}

/// The rules of a text, or the number of the line that is none and why.
fn parse(text: &str, only: Option<&[&str]>, proofs: Proofs) -> Result<Rules, (usize, String)> {
    let mut rules = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (array, rule) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if let Some(only) = only.filter(|only| array != "*" && !only.contains(&array)) {
            return Err((
                at + 1,
                format!("there is no array {array:?}: give one of {}, or *", only.join(", ")),
            ));
        }
        let rule: Rule =
            rule.parse().map_err(|why| (at + 1, format!("{why}; a line is ARRAY CLIENTS RIGHT")))?;
        if let Some(lack) = proofs.lack(&rule.who) {
            return Err((at + 1, format!("{} {lack}", rule.who)));
        }
        rules.push(((array != "*").then(|| array.to_owned()), rule));
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use brindle_export::access::{Client, Right};

    use super::*;

    #[test]
    fn lines_are_for_one_array_or_for_all() {
        let text = "# of a test\n\na 10.0.0.1 none\n* 10.0.0.0/8 read\nb local write\n";
        let rules = parse(text, Some(&["a", "b", "c"]), Proofs::default()).unwrap();
        let access = AccessFile { file: "rules".into(), rules };
        let by = |array, address: Option<&str>| {
            let address = address.map(|address| address.parse().unwrap());
            access.of(array).right(&Client { address, proved: None })
        };
        assert_eq!(by("a", Some("10.0.0.1")), None);
        assert_eq!(by("b", Some("10.0.0.1")), Some(Right::Read));
        assert_eq!(by("b", None), Some(Right::Write));
        assert_eq!(by("c", None), None);
        for (wrong, line) in [("d anyone read", 1), ("\na anyone", 2), ("a", 1), ("a anyone read b", 1)] {
            assert_eq!(parse(wrong, Some(&["a"]), Proofs::default()).unwrap_err().0, line, "{wrong}");
        }
        assert_eq!(access.remarks(&["a", "b"]), Vec::<String>::new());
        assert_eq!(access.calls("c"), None);
        let calls = access.calls("a").unwrap();
        assert!(calls.contains("lines for \"a\"") && calls.contains("give the new name"), "{calls}");
        let remarks = AccessFile {
            rules: parse("a local read\nd local read\nd anyone none\n", None, Proofs::default()).unwrap(),
            ..access
        }
        .remarks(&["a", "b"]);
        let [lacks, waits] = &remarks[..] else { panic!("{remarks:?}") };
        assert!(
            lacks.contains("no line for b: nobody") && waits.contains("lines for \"d\", which is not served")
        );
    }

    #[test]
    fn a_line_is_for_a_name_of_now() {
        let servable = Servable::only(vec!["tank".to_owned(), "a".to_owned()]);
        servable.rename("tank", "lake");
        let now = servable.now().unwrap();
        let now: Vec<&str> = now.iter().map(String::as_str).collect();
        let read = |text| parse(text, Some(&now), Proofs::default()).map(|rules| rules.len());
        assert_eq!(read("lake local read\na local read\n"), Ok(2));
        let (line, why) = read("a local read\ntank local read\n").unwrap_err();
        assert!(line == 2 && why.contains("give one of lake, a"), "{why}");
        let any = Servable::default();
        any.rename("tank", "lake");
        assert_eq!(any.now(), None);
    }

    #[test]
    fn a_file_that_has_lines_for_a_former_name_alone_is_not_taken_anew() {
        let servable = Servable::default();
        let heeds = |text: &str| {
            let rules = parse(text, None, Proofs::default()).unwrap();
            servable.heed(AccessFile { file: "rules".into(), rules }).map(drop).map_err(|why| why.to_string())
        };
        let old = "* local read\ntank anyone write\n";
        assert_eq!(heeds(old), Ok(()));
        servable.rename("tank", "pond");
        servable.rename("pond", "lake");
        for text in [old, "pond local read\n"] {
            let why = heeds(text).unwrap_err();
            assert!(why.contains("is called \"lake\" now") && why.contains("give the new name"), "{why}");
        }
        // One of that name may come yet, and one has.
        for text in ["lake anyone write\n", "tank anyone none\nlake local read\n", "* local read\n"] {
            assert_eq!(heeds(text), Ok(()), "{text}");
        }
        servable.comes("tank");
        assert_eq!(heeds(old), Ok(()));
        servable.rename("lake", "pond");
        assert!(heeds("lake local read\n").is_err() && heeds("pond local read\n").is_ok());
    }

    #[test]
    fn rules_for_names_that_nobody_can_prove_are_refused() {
        let [none, both] = [false, true].map(|has| Proofs { secrets: has, authorities: has });
        for rule in ["chap:x write", "cert:x read", "chap:x none"] {
            let text = format!("a local read\na {rule}\n");
            let (line, why) = parse(&text, None, none).unwrap_err();
            assert!(line == 2 && why.contains("is nobody") && why.contains("give --"), "{why}");
            assert!(parse(&text, None, both).is_ok());
        }
    }
}

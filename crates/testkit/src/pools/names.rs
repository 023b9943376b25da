//! The name of a pool, which is changed beside the load: each change is one of the config.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::{Duration, Io};
use brindle_pool::Pool;

use crate::random::Random;

/// The words of a change in the history of the pool, before its number.
const RENAME: &str = "brindle pool rename";

/// Holds that changes went down in a history in their order, each once.
///
/// # Errors
/// They did not.
pub(super) fn judge_history(history: &[(u64, String, String)]) -> Result<(), String> {
    let of = |record: &(u64, String, String)| record.2.strip_prefix(RENAME)?.trim().parse::<u64>().ok();
    let numbers: Vec<u64> = history.iter().filter_map(of).collect();
    if numbers.is_sorted_by(|one, next| one < next) {
        Ok(())
    } else {
        Err(format!("the history has changes {numbers:?}"))
    }
}

/// Names that a pool may have.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The name that it has for sure, and the generation of the config that says so.
    settled: (String, u64),
    /// The name that it is being given.
    pending: Option<String>,
    /// Names that there have been.
    number: u64,
    /// Changes of the config in this boot that may have been made beside those of the name, at most.
    others: u64,
}

impl Names {
    /// Those of a new pool.
    pub(super) fn new(name: String) -> Self {
        Self { settled: (name, 1), pending: None, number: 0, others: 0 }
    }

    /// A change is under way.
    pub(super) fn is_changing(&self) -> bool {
        self.pending.is_some()
    }

    /// Members are about to change the config: twice at most.
    pub(super) fn others_change(&mut self) {
        self.others += 2;
    }

    /// Whether a pool may be called so.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn judge(&self, name: &str, generation: u64) -> Result<(), String> {
        let (settled, last) = (self.settled.0.as_str(), self.settled.1);
        let may_be = |first: u64| (first..=first + self.others).contains(&generation);
        let is_old = settled == name && may_be(last);
        let is_new = self.pending.as_deref() == Some(name) && may_be(last + 1);
        if is_old || is_new {
            Ok(())
        } else {
            Err(format!("it is called {name} ({generation}), and was {self:?}"))
        }
    }

    /// A pool has been opened.
    pub(super) fn opened(&mut self, pool: &Pool) -> Result<(), String> {
        self.settle(pool)?;
        // Copies go on that were begun before: each changes the config once more.
        self.others = pool.label().successors().count() as u64;
        Ok(())
    }

    /// A pool that is open for writing is called so.
    pub(super) fn settle(&mut self, pool: &Pool) -> Result<(), String> {
        let label = pool.label();
        self.judge(&label.name, label.generation)?;
        (self.settled, self.pending) = ((label.name.clone(), label.generation), None);
        Ok(())
    }
}

/// Gives a pool one name after the other until the load is done.
///
/// # Errors
/// A promise that was broken.
pub(super) async fn change(
    pool: &Pool,
    io: &Io,
    names: &Rc<RefCell<Names>>,
    seed: u64,
    done: &Cell<bool>,
) -> Result<(), String> {
    let mut random = Random::stream(seed, 0x6e61_6d65);
    while !done.get() {
        io.sleep(Duration::from_micros(random.below(6000))).await;
        let name = {
            let mut names = names.borrow_mut();
            names.number += 1;
            let name = format!("tank-{}", names.number);
            names.pending = Some(name.clone());
            name
        };
        pool.note_command(&format!("{RENAME} {}", names.borrow().number), Some(1));
        pool.rename(&name).await.map_err(|why| format!("the pool is not called {name}: {why}"))?;
        names.borrow_mut().settle(pool)?;
        if names.borrow().settled.0 != name {
            return Err(format!("it was to be called {name}: {:?}", names.borrow()));
        }
    }
    Ok(())
}

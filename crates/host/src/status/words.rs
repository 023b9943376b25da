//! Words of running arrays that are read from reports. The arrays' own code has constants: a word that is read becomes one, too, once
//! for each word, and of these there are few.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{KnownWord, ReportWord};

/// Words that servers of all versions may have between them.
const MOST: usize = 256;

static KNOWN: Mutex<BTreeSet<KnownWord>> = Mutex::new(BTreeSet::new());

fn constant<E: Error>(word: ReportWord) -> Result<KnownWord, E> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = known.get(&*word) {
        return Ok(word);
    }
    if known.len() >= MOST {
        return Err(E::custom(format!(
            "'{}' is one word too many: no server has so many",
            word.escape_debug()
        )));
    }
    let word: KnownWord = String::leak(word.into_owned());
    known.insert(word);
    Ok(word)
}

pub(super) fn one<'de, D: Deserializer<'de>>(from: D) -> Result<KnownWord, D::Error> {
    constant(ReportWord::deserialize(from)?)
}

pub(super) fn all<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KnownWord>, D::Error> {
    Vec::<ReportWord>::deserialize(from)?.into_iter().map(constant).collect()
}

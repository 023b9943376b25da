//! The values that each sector of a volume may hold, after any sequence of requests, faults and power cuts.
//!
//! Every change is noted when it begins and when it returns, on a counter of events. A read may see a change unless
//! another one, acknowledged, stands between the two. A power cut may leave a change unless another one stands after it
//! that was flushed, or was written with FUA. Nothing else may ever be seen.

use std::fmt;

use crate::stamp::{self, SECTOR, Stamp};

/// The effect of a change on its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sectors with the stamp of the change's number.
    Write,
    /// Zeroes.
    Zeroes,
    /// Discarded: anything may be read until the next change.
    Discard,
}

/// A value that a sector may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Anything,
    Is(Stamp),
}

/// A change that was begun.
#[derive(Clone, Debug)]
struct OracleEntry {
    value: Value,
    began: u64,
    /// The end of the change; `u64::MAX` while it is under way.
    ended: u64,
    acknowledged: bool,
    /// The change survives a power cut.
    stable: bool,
}

#[derive(Clone, Debug)]
struct Sector {
    /// The possible values when this start of the volume began.
    base: Vec<Value>,
    /// Later changes of the block, by their place in the list.
    over: Vec<u32>,
    /// The value that was read where several were possible.
    seen: Option<Stamp>,
}

/// A sector with a value that it must not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    sector: u64,
    found: Stamp,
    allowed: Vec<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {} holds {:?}, but may hold {}", self.sector, self.found, self.allowed.join(", "))
    }
}

/// All changes of a volume since the last start, and what was there before them.
#[derive(Clone, Debug)]
pub struct Oracle {
    now: u64,
    /// Numbers of changes go on over power cuts: no two changes have the same stamp.
    first: u64,
    changes: Vec<OracleEntry>,
    sectors: Vec<Sector>,
    /// Reads of sectors in doubt may give different values each time.
    upset: bool,
}

impl Oracle {
    /// An oracle for a volume of `size` zero bytes.
    pub fn zeroes(size: u64) -> Self {
        Self::new(size, Value::Is(Stamp::Zeroes))
    }

    /// An oracle for a volume of `size` bytes with unknown content.
    pub fn anything(size: u64) -> Self {
        Self::new(size, Value::Anything)
    }

    fn new(size: u64, base: Value) -> Self {
        let sector = Sector { base: vec![base], over: Vec::new(), seen: None };
        let sectors = vec![sector; size as usize / SECTOR];
        Self { now: 0, first: 1, changes: Vec::new(), sectors, upset: false }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A change of a range of whole sectors is about to be asked for. Gives its number, for [`stamp::stamp`].
    pub fn change_begins(&mut self, change: Change, offset: u64, len: u64) -> u64 {
        let began = self.tick();
        let at = self.changes.len() as u32;
        let number = self.first + u64::from(at);
        let value = match change {
            Change::Write => Value::Is(Stamp::Write(number)),
            Change::Zeroes => Value::Is(Stamp::Zeroes),
            Change::Discard => Value::Anything,
        };
        self.changes.push(OracleEntry { value, began, ended: u64::MAX, acknowledged: false, stable: false });
        let sectors = offset as usize / SECTOR..(offset + len) as usize / SECTOR;
        for sector in &mut self.sectors[sectors] {
            sector.over.push(at);
            sector.seen = None;
        }
        number
    }

    /// The change has returned: acknowledged, and with `fua` on stable storage; or with an error, so that it may be seen
    /// or not.
    ///
    /// # Panics
    /// If there is no such change since the last start.
    pub fn change_ended(&mut self, number: u64, acknowledged: bool, fua: bool) {
        let now = self.tick();
        let entry = &mut self.changes[(number - self.first) as usize];
        (entry.ended, entry.acknowledged, entry.stable) = (now, acknowledged, acknowledged && fua);
    }

    /// A flush is about to be asked for; for [`Oracle::flush_ended`].
    pub fn flush_begins(&mut self) -> u64 {
        self.tick()
    }

    /// A flush that began at `began` was acknowledged: what had been acknowledged by then is stable.
    pub fn flush_ended(&mut self, began: u64) {
        let covered = |entry: &&mut OracleEntry| entry.acknowledged && entry.ended < began;
        self.changes.iter_mut().filter(covered).for_each(|entry| entry.stable = true);
    }

    /// A read is about to be asked for; for [`Oracle::judge`].
    pub fn read_begins(&mut self) -> u64 {
        self.tick()
    }

    /// A member is going to be lost, or bytes of one: until the next start, what stands in doubt may be read otherwise each
    /// time.
    pub fn upset(&mut self) {
        self.upset = true;
    }

    /// Whether a read that began at `began` may have given these bytes.
    ///
    /// # Errors
    /// The first sector that holds what it must not.
    pub fn judge(&mut self, began: u64, offset: u64, bytes: &[u8]) -> Result<(), Wrong> {
        for (place, sector) in (offset / SECTOR as u64..).zip(bytes.chunks_exact(SECTOR)) {
            let found = stamp::read(sector, place);
            self.judge_sector(began, place, found)?;
        }
        Ok(())
    }

    fn judge_sector(&mut self, began: u64, place: u64, found: Stamp) -> Result<(), Wrong> {
        let at = place as usize;
        let sector = &self.sectors[at];
        if sector.over.is_empty()
            && let [Value::Is(only)] = sector.base[..]
            && only == found
        {
            return Ok(());
        }
        let possible = self.possible(sector, |next, began_after| {
            next.acknowledged && next.began > began_after && next.ended < began
        });
        // Discarded sectors may give different bytes at each read.
        if possible.contains(&Value::Anything) {
            return Ok(());
        }
        let explained = possible.contains(&Value::Is(found));
        let contradicts = !self.upset && sector.seen.is_some_and(|seen| seen != found);
        if !explained || contradicts {
            let allowed = match sector.seen.filter(|_| contradicts && explained) {
                Some(seen) => vec![format!("{seen:?} only, which was read before")],
                None => possible.iter().map(|value| format!("{value:?}")).collect(),
            };
            return Err(Wrong { sector: place, found, allowed });
        }
        // A sector that a start found in doubt gives the same value until it is changed.
        if sector.over.is_empty() && possible.len() > 1 {
            self.sectors[at].seen = Some(found);
        }
        Ok(())
    }

    /// Values of a sector that no other change `hides`; that gets a change and the end of the one it may hide.
    fn possible(&self, sector: &Sector, hides: impl Fn(&OracleEntry, u64) -> bool) -> Vec<Value> {
        let over = || sector.over.iter().map(|&at| &self.changes[at as usize]);
        let visible = |end: u64| !over().any(|next| hides(next, end));
        let mut values = Vec::new();
        if visible(0) {
            values.extend_from_slice(&sector.base);
        }
        for change in over() {
            if visible(change.ended) && !values.contains(&change.value) {
                values.push(change.value);
            }
        }
        values
    }

    /// The power went: only what was stable is sure to be there. What begins now is the next start.
    pub fn power_cut(&mut self) {
        let mut sectors = core::mem::take(&mut self.sectors);
        for sector in sectors.iter_mut().filter(|sector| !sector.over.is_empty()) {
            sector.base = self.possible(sector, |next, began_after| next.stable && next.began > began_after);
        }
        self.begin_anew(sectors);
    }

    /// The volume was stopped as it should be: all that was acknowledged is there.
    pub fn stopped(&mut self) {
        let mut sectors = core::mem::take(&mut self.sectors);
        for sector in sectors.iter_mut().filter(|sector| !sector.over.is_empty()) {
            sector.base =
                self.possible(sector, |next, began_after| next.acknowledged && next.began > began_after);
        }
        self.begin_anew(sectors);
    }

    fn begin_anew(&mut self, mut sectors: Vec<Sector>) {
        for sector in &mut sectors {
            sector.over.clear();
            sector.seen = None;
        }
        self.sectors = sectors;
        self.upset = false;
        self.first += self.changes.len() as u64;
        self.changes.clear();
    }

    /// Whether a change of the sector at `offset` was acknowledged before a read that began at `began`.
    pub fn is_written(&self, began: u64, offset: u64) -> bool {
        let sector = &self.sectors[offset as usize / SECTOR];
        let done = |entry: &OracleEntry| entry.acknowledged && entry.ended < began;
        sector.over.iter().any(|&at| done(&self.changes[at as usize]))
    }

    /// Whether the sector at `offset` may hold one thing only.
    pub fn is_certain(&self, offset: u64) -> bool {
        let sector = &self.sectors[offset as usize / SECTOR];
        let values = self.possible(sector, |next, after| next.acknowledged && next.began > after);
        matches!(values[..], [Value::Is(_)])
    }

    /// The number that the next change will have.
    pub fn next_number(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// Bytes of the volume.
    pub fn size(&self) -> u64 {
        (self.sectors.len() * SECTOR) as u64
    }

    /// Sectors that may hold one thing only.
    pub fn certain(&self) -> usize {
        (0..self.size()).step_by(SECTOR).filter(|&offset| self.is_certain(offset)).count()
    }
}

#[cfg(test)]
mod tests;

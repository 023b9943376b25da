//! The labels of one device: which of them counts, and which place of it. Nothing else of this crate decides that.
//!
//! A device has a label at its start and one at its end, and each has two places for a config. The youngest uberblock of all rings is found without
//! any config: it names the one that counts, by generation and checksum. That config may stand in any place, also on another member alone.

use std::collections::BTreeSet;

use brindle_format::pool::{
    BLOCK, CONFIG_BYTES, CONFIGS, ConfigName, LABEL, LABEL_BYTES, Label, PoolError, RING, RING_SLOTS,
    Uberblock, second_label,
};
use uuid::Uuid;

/// Bytes of a device where a label may stand.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    /// The first of them.
    pub(crate) at: u64,
    /// The bytes, if they can be read.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// A config, and where it was found.
#[derive(Clone, Debug)]
pub struct FoundConfig {
    /// The byte of its label on the device,
    pub at: u64,
    /// the place there,
    pub place: usize,
    /// what uberblocks call it,
    pub name: ConfigName,
    /// and the config.
    pub config: Label,
}

/// All that the labels of a device say.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// Its configs, at least one: all of one pool and one member.
    pub(crate) configs: Vec<FoundConfig>,
    /// Labels without a config in the first place, where one rests.
    pub(crate) damaged: Vec<u64>,
    /// The youngest uberblock.
    pub(crate) head: Option<Uberblock>,
    /// Slots that hold neither an uberblock nor zeroes in one of the rings, a bit each.
    pub(crate) torn: u64,
    /// Slots of each ring that have held nothing yet, a bit each, behind the byte of its label.
    pub(crate) blank: Vec<(u64, u64)>,
}

fn configs_of(area: &Area) -> impl Iterator<Item = (usize, Result<Label, PoolError>)> {
    let parse = |(place, at): (usize, u64)| {
        let bytes = area.bytes.as_deref()?.get(at as usize..at as usize + CONFIG_BYTES)?;
        Some((place, Label::parse(bytes)))
    };
    (0..).zip(CONFIGS).filter_map(parse)
}

/// The byte at which the second label of a config's member stands.
pub(crate) fn second_of(config: &Label) -> Option<u64> {
    config.members.get(usize::from(config.member)).map(|member| second_label(member.size))
}

/// The next byte at which a label of a device of that size may stand, of which these areas were looked at: the start, the end that a config there
/// tells, and that of the device. A device that has grown has its second label where it was.
///
/// Ends that other labels tell are not followed: else labels that each tell of another one could lead through all of a device.
pub(crate) fn next_label(size: u64, areas: &[Area]) -> Option<u64> {
    let first = areas.iter().filter(|area| area.at == LABEL);
    let told = first.flat_map(configs_of).filter_map(|(_, config)| second_of(&config.ok()?));
    let all = [LABEL].into_iter().chain(told).chain([second_label(size)]);
    let fits = |at: &u64| at.checked_add(LABEL_BYTES).is_some_and(|end| end <= size);
    all.filter(fits).find(|at| areas.iter().all(|area| area.at != *at))
}

/// The labels in these areas, which stand in the order of [`next_label`].
///
/// # Errors
/// [`PoolError`] if there is none, one is of another version, or they name different pools or members.
pub(crate) fn labels_of(areas: &[Area]) -> Result<Labels, PoolError> {
    let (mut configs, mut damaged): (Vec<FoundConfig>, _) = (Vec::new(), Vec::new());
    let mut first: Option<PoolError> = None;
    let mut rings: Vec<(u64, &[u8])> = Vec::new();
    for area in areas {
        let mut is_strange = false;
        for (place, found) in configs_of(area) {
            let known = configs.first().map(|known| &known.config);
            match found {
                Ok(config) if known.is_some_and(|known| !is_same_member(known, &config)) => {
                    // A device on which another pool ended may have one of its labels at the end still.
                    let is_told = configs.iter().any(|known| second_of(&known.config) == Some(area.at));
                    if area.at == LABEL || is_told {
                        return Err(PoolError::Contradicts { what: "labels of a device" });
                    }
                    is_strange = true;
                }
                Ok(config) => {
                    let name = config.config_name()?;
                    configs.push(FoundConfig { at: area.at, place, name, config });
                }
                Err(why) => {
                    let rests = place == 0;
                    damaged.extend(rests.then_some(area.at));
                    // A config of another version says more than one that is damaged, wherever it stands.
                    if why.is_of_another_version() || rests && first.is_none() {
                        first = Some(why);
                    }
                }
            }
        }
        if let Some(bytes) = area.bytes.as_deref().filter(|_| !is_strange) {
            rings.push((area.at, bytes));
        }
    }
    let Some(known) = configs.first() else {
        return Err(first.unwrap_or(PoolError::Magic { what: "label" }));
    };
    let (head, torn) = youngest(&rings, known.config.pool)?;
    let blank = |slot: &[u8]| slot.iter().all(|byte| *byte == 0);
    let blank = |ring| slots_of(ring).filter(|(_, slot)| blank(slot)).fold(0, |mask, (n, _)| mask | 1 << n);
    let blank = rings.iter().map(|&(at, ring)| (at, blank(ring))).collect();
    Ok(Labels { configs, damaged, head, torn, blank })
}

fn is_same_member(one: &Label, other: &Label) -> bool {
    one.pool == other.pool && one.member == other.member
}

/// The youngest uberblock of all rings, and the slots that hold neither one nor zeroes, a bit each.
fn youngest(rings: &[(u64, &[u8])], pool: Uuid) -> Result<(Option<Uberblock>, u64), PoolError> {
    let (mut head, mut torn): (Option<Uberblock>, u64) = (None, 0);
    for (n, slot) in rings.iter().flat_map(|(_, ring)| slots_of(ring)) {
        match Uberblock::parse(slot, pool) {
            Ok(next) if head.as_ref().is_none_or(|best| is_after(&next, best)) => head = Some(next),
            Ok(_) => {}
            // It may be the one that counts.
            Err(why) if why.is_of_another_version() => return Err(why),
            Err(_) => torn |= u64::from(slot.iter().any(|byte| *byte != 0)) << n,
        }
    }
    Ok((head, torn))
}

/// The slots of a label's ring, with their numbers.
fn slots_of(label: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let slot = |n: u64| Some((n, label.get((RING + n * BLOCK as u64) as usize..)?.get(..BLOCK)?));
    (0..RING_SLOTS).filter_map(slot)
}

/// Whether one state of the pool comes from the other, by lineage.
pub(crate) fn is_after(a: &Uberblock, b: &Uberblock) -> bool {
    if a.opening == b.opening { a.record > b.record } else { a.lineage.contains(&b.opening) }
}

impl Labels {
    /// The config that the device by itself believes: the one that its youngest uberblock names, else the one with the greatest generation.
    pub(crate) fn own(&self) -> Option<&Label> {
        let named = self.head.as_ref().and_then(|head| named(&self.configs, head.config));
        let youngest = || self.configs.iter().rev().max_by_key(|found| found.name.generation);
        named.or_else(|| youngest().map(|found| &found.config))
    }
}

/// The config of that name.
pub(crate) fn named<'a>(
    configs: impl IntoIterator<Item = &'a FoundConfig>,
    name: ConfigName,
) -> Option<&'a Label> {
    configs.into_iter().find(|found| found.name == name).map(|found| &found.config)
}

/// The label of a device of that size, by itself; `read` gives [`LABEL_BYTES`] from a byte on.
///
/// # Errors
/// [`PoolError`] if it has none that this release can use.
pub fn label_of(size: u64, read: impl FnMut(u64) -> Option<Vec<u8>>) -> Result<Label, PoolError> {
    labels_of(&areas_of(size, read))?.own().cloned().ok_or(PoolError::Magic { what: "label" })
}

/// A member's label, and its youngest uberblock.
#[derive(Clone, Debug)]
pub struct MemberHead {
    /// The label that it believes by itself.
    pub label: Label,
    /// The uberblock; none of a member that was cut off while the pool was made.
    pub head: Option<Uberblock>,
}

/// The same with its youngest uberblock.
///
/// # Errors
/// As of [`label_of`].
pub fn head_of(size: u64, read: impl FnMut(u64) -> Option<Vec<u8>>) -> Result<MemberHead, PoolError> {
    let labels = labels_of(&areas_of(size, read))?;
    let label = labels.own().cloned().ok_or(PoolError::Magic { what: "label" })?;
    Ok(MemberHead { label, head: labels.head })
}

/// The uberblock from which none of the others comes. Of members that were written apart it is that of any side.
pub fn youngest_of<'a>(heads: impl IntoIterator<Item = &'a Uberblock>) -> Option<&'a Uberblock> {
    let younger = |best: &'a Uberblock, next: &'a Uberblock| if is_after(next, best) { next } else { best };
    heads.into_iter().reduce(younger)
}

/// The pools that the configs of a device of that size name, also those of versions that this release does not read.
pub fn pools_named(size: u64, read: impl FnMut(u64) -> Option<Vec<u8>>) -> BTreeSet<Uuid> {
    let areas = areas_of(size, read);
    let bytes = areas.iter().filter_map(|area| area.bytes.as_deref());
    let configs = bytes.flat_map(|bytes| CONFIGS.iter().filter_map(|&at| bytes.get(at as usize..)));
    configs.filter_map(Label::pool_in).collect()
}

fn areas_of(size: u64, mut read: impl FnMut(u64) -> Option<Vec<u8>>) -> Vec<Area> {
    let mut areas = Vec::new();
    while let Some(at) = next_label(size, &areas) {
        areas.push(Area { at, bytes: read(at) });
    }
    areas
}

//! Members without a superblock, as it was erased, or cut off with their end where 0.90 and 1.0 have it: the command that reads them with
//! the geometry that the other members tell.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use brindle_format::md::{Superblock, Uuid, Version};
use brindle_io::device::DeviceAccess;
use brindle_layout::{Layout, Level};

use super::joined::parts;
use super::members::{LeftOut, Set};
use super::place;
use crate::base::failure::Failure;
use crate::base::look;
use crate::base::report::OpenRole;
use crate::base::text::shell;

/// Lines that are given for one array, at most.
const MOST: usize = 64;

/// Something that was named, or a partition of it, and has no superblock that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Bare {
    label: String,
    size: u64,
    /// The array that a damaged superblock claims.
    of: Option<Uuid>,
}

/// The geometry that the members of an array tell of those that can't.
struct ToldGeometry<'a> {
    newest: &'a Superblock,
    /// As `--assume` takes it, up to the order.
    geometry: String,
    /// The byte of each member at which its data end.
    end: u64,
}

/// Finds those of the named devices, and of their partitions, that have no superblock that can be used. Ones of which nothing was ever
/// written are none.
pub(crate) fn bare(names: &[PathBuf], sets: &[Set]) -> Vec<Bare> {
    let is_used = |label: &str| sets.iter().flat_map(|set| &set.members).any(|named| named.label == label);
    // A device that did not answer is asked nothing more.
    let is_silent = |label: &str| {
        let left_out = sets.iter().flat_map(|set| &set.left_out);
        left_out.filter(|left| left.label == label).any(|left| left.bare.is_none() && left.claim.is_none())
    };
    let mut all = Vec::new();
    for name in names {
        let label = name.display().to_string();
        if parts(name).is_some() || is_used(&label) || is_silent(&label) {
            continue;
        }
        // A disk of which the search has found members is none itself.
        let is_of = |other: &str| other != label && disk(other) == label;
        let left_out = || sets.iter().flat_map(|set| &set.left_out).map(|left| &left.label);
        let members = sets.iter().flat_map(|set| &set.members).map(|named| &named.label);
        let inside = place::inside(name).unwrap_or_default();
        if inside.is_empty() && members.chain(left_out()).any(|other| is_of(other)) {
            continue;
        }
        let places = if inside.is_empty() { vec![name.clone()] } else { inside };
        let unused = places.iter().filter(|place| !is_used(&place.display().to_string()));
        all.extend(unused.filter_map(|place| Bare::see(place)));
    }
    all
}

/// The disk of which a part may be named.
fn disk(label: &str) -> &str {
    label.rfind(['#', '@']).map_or(label, |at| &label[..at])
}

impl Bare {
    fn see(place: &Path) -> Option<Self> {
        let device = place::open(place, DeviceAccess::Examine).ok()?;
        let (label, size) = (place.display().to_string(), device.info().size);
        if device.is_hole(0, size).unwrap_or(false) {
            return None;
        }
        let candidate = look::candidate(&label, device.info(), look::reader(&device)).ok()?;
        let of = match candidate.found.first() {
            None => None,
            Some(_) => Some(candidate.damage()?.1?.array),
        };
        Some(Self { label, size, of })
    }
}

impl Set {
    /// Says how a member is read that was cut before its superblock, where the others can't do without it.
    pub(super) fn way_to_cut(&self, failure: Failure) -> Failure {
        let is_short = matches!(&failure, Failure::Without { source, .. } if source.too_few());
        match self.cut_off().filter(|_| is_short) {
            Some(way) => Failure::Cut { source: Box::new(failure), way },
            None => failure,
        }
    }

    /// For each role that no member fills, and each device that may be its member, the command that reads the array so.
    pub(crate) fn open_roles(&self, bare: &[Bare]) -> Vec<OpenRole> {
        let Some(told) = self.told() else { return Vec::new() };
        let array = told.newest.set_uuid;
        // A disk has one member of an array.
        let has_one = |label: &str| self.members.iter().any(|named| disk(&named.label) == disk(label));
        let may_be =
            |one: &&Bare| !has_one(&one.label) && one.of.map_or(one.size >= told.end, |of| of == array);
        let fit: Vec<&str> = bare.iter().filter(may_be).map(|one| one.label.as_str()).collect();
        let Some(order) = self.order(told.newest) else { return Vec::new() };
        let open: Vec<usize> = (0..order.len()).filter(|role| order[*role].is_none()).collect();
        let mut all = Vec::new();
        for label in &fit {
            for role in &open {
                let mut order = order.clone();
                order[*role] = Some((*label).to_owned());
                // Others that may be members fill what is left, so that the line has enough of them.
                let places = order.iter_mut().filter(|place| place.is_none());
                let others = fit.iter().filter(|other| *other != label);
                places.zip(others).for_each(|(place, other)| *place = Some((*other).to_owned()));
                let command = told.command("brindle cat --assume", order);
                all.extend(command.map(|command| OpenRole {
                    path: (*label).to_owned(),
                    role: *role as u16,
                    command,
                }));
            }
        }
        all.truncate(MOST);
        all
    }

    fn told(&self) -> Option<ToldGeometry<'_>> {
        let all: Vec<&Superblock> =
            self.members.iter().filter_map(|named| Some(named.candidate.superblock().ok()?.0)).collect();
        let newest = *all.iter().max_by_key(|superblock| superblock.events)?;
        let level = Level::from_md(newest.level).ok()?;
        let used = |superblock: &Superblock| match level.is_redundant() {
            true => superblock.component_size,
            false => superblock.data_size,
        };
        let alike = all.iter().all(|one| (one.data_offset, used(one)) == (newest.data_offset, used(newest)));
        if !alike || newest.reshape.is_some() {
            return None;
        }
        let end = newest.data_offset.checked_add(used(newest))?;
        let mut geometry = format!("level={}", level.name());
        if newest.chunk != 0 {
            let _ = write!(geometry, ",chunk={}K", newest.chunk >> 10);
        }
        let layout = Layout::from_md(level, newest.layout).ok()?;
        if layout != Layout::None {
            let _ = write!(geometry, ",layout={}", layout.name());
        }
        let (offset, size) = (newest.data_offset / 512, used(newest) / 512);
        let _ = write!(geometry, ",offset={offset}s,size={size}s,order=");
        Some(ToldGeometry { newest, geometry, end })
    }

    fn cut_off(&self) -> Option<String> {
        let told = self.told()?;
        let newest = told.newest;
        if !matches!(newest.version, Version::V0_90(_) | Version::V1_0) {
            return None;
        }
        let is_cut =
            |left: &&LeftOut| left.bare.is_some_and(|size| newest.data_offset < size && size < told.end);
        let cut: Vec<&LeftOut> = self.left_out.iter().filter(is_cut).collect();
        let mut order = self.order(newest)?;
        let missing = order.iter().filter(|place| place.is_none()).count();
        if cut.is_empty() || cut.len() > missing {
            return None;
        }
        let places = order.iter_mut().filter(|place| place.is_none());
        places.zip(&cut).for_each(|(place, left)| *place = Some(left.label.clone()));
        let command = told.command("brindle cat --force --assume", order)?;
        let names: Vec<&str> = cut.iter().map(|left| left.label.as_str()).collect();
        let (names, metadata) = (names.join(", "), newest.version);
        let mut way = format!(
            "{names} may be cut at its end, where metadata {metadata} has the superblock: {command} reads it as far as it goes"
        );
        if missing > 1 {
            way.push_str(
                "; its place in order= is a guess where more than one is missing, so try the others",
            );
        }
        Some(way)
    }

    /// The members by their roles; one that is out of date counts as missing.
    fn order(&self, newest: &Superblock) -> Option<Vec<Option<String>>> {
        let mut order = vec![None; usize::try_from(newest.raid_disks).ok().filter(|roles| *roles <= 4096)?];
        for named in &self.members {
            let (superblock, _) = named.candidate.superblock().ok()?;
            if superblock.events.saturating_add(1) < newest.events {
                continue;
            }
            if let Some(place) = superblock.role().active().and_then(|role| order.get_mut(usize::from(role)))
            {
                *place = Some(named.label.clone());
            }
        }
        Some(order)
    }
}

impl ToldGeometry<'_> {
    /// The command with the geometry and this order; `None` if a name can't be in such a list.
    fn command(&self, command: &str, order: Vec<Option<String>>) -> Option<String> {
        let names: Vec<String> =
            order.into_iter().map(|name| name.unwrap_or_else(|| "missing".to_owned())).collect();
        let fits = !names.iter().any(|name| name.contains(','));
        fits.then(|| format!("{command} {}", shell(&format!("{}{}", self.geometry, names.join(",")))))
    }
}

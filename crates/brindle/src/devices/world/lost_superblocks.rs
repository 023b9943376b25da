//! Members whose superblock was cut off with their end, as 0.90 and 1.0 have it there: the command that reads them with the geometry that
//! the other members tell.

use std::fmt::Write as _;

use brindle_format::md::{Superblock, Version};
use brindle_layout::{Layout, Level};

use super::members::{LeftOut, Set};
use crate::base::failure::Failure;
use crate::base::text::shell;

impl Set {
    /// Says how a member is read that was cut before its superblock, where the others can't do without it.
    pub(super) fn way_to_cut(&self, failure: Failure) -> Failure {
        let is_short = matches!(&failure, Failure::Without { source, .. } if source.too_few());
        match self.cut_off().filter(|_| is_short) {
            Some(way) => Failure::Cut { source: Box::new(failure), way },
            None => failure,
        }
    }

    fn cut_off(&self) -> Option<String> {
        let all: Vec<&Superblock> =
            self.members.iter().filter_map(|named| Some(named.candidate.superblock().ok()?.0)).collect();
        let newest = *all.iter().max_by_key(|superblock| superblock.events)?;
        let level = Level::from_md(newest.level).ok()?;
        let used = |superblock: &Superblock| match level.is_redundant() {
            true => superblock.component_size,
            false => superblock.data_size,
        };
        let alike = all.iter().all(|one| (one.data_offset, used(one)) == (newest.data_offset, used(newest)));
        let at_its_end = matches!(newest.version, Version::V0_90(_) | Version::V1_0);
        if !at_its_end || !alike || newest.reshape.is_some() {
            return None;
        }
        let end = newest.data_offset.checked_add(used(newest))?;
        let is_cut = |left: &&LeftOut| left.bare.is_some_and(|size| newest.data_offset < size && size < end);
        let cut: Vec<&LeftOut> = self.left_out.iter().filter(is_cut).collect();
        let (order, guessed) = self.order(newest, &cut)?;
        let mut geometry = format!("level={}", level.name());
        if newest.chunk != 0 {
            let _ = write!(geometry, ",chunk={}K", newest.chunk >> 10);
        }
        let layout = Layout::from_md(level, newest.layout).ok()?;
        if layout != Layout::None {
            let _ = write!(geometry, ",layout={}", layout.name());
        }
        let (offset, size) = (newest.data_offset / 512, used(newest) / 512);
        let _ = write!(geometry, ",offset={offset}s,size={size}s,order={}", order.join(","));
        let names: Vec<&str> = cut.iter().map(|left| left.label.as_str()).collect();
        let (names, metadata) = (names.join(", "), newest.version);
        let mut way = format!(
            "{names} may be cut at its end, where metadata {metadata} has the superblock: brindle cat --force --assume {} \
             reads it as far as it goes",
            shell(&geometry)
        );
        if guessed {
            way.push_str(
                "; its place in order= is a guess where more than one is missing, so try the others",
            );
        }
        Some(way)
    }

    /// The members by their roles, those that were cut in the places of the first that are missing, and whether that
    /// is a guess. The list for `order=`; `None` if a name can't be in such a list.
    fn order(&self, newest: &Superblock, cut: &[&LeftOut]) -> Option<(Vec<String>, bool)> {
        let mut order = vec![None; usize::try_from(newest.raid_disks).ok().filter(|roles| *roles <= 4096)?];
        for named in &self.members {
            let (superblock, _) = named.candidate.superblock().ok()?;
            // A member that is out of date counts as missing.
            if superblock.events + 1 < newest.events {
                continue;
            }
            if let Some(place) = superblock.role().active().and_then(|role| order.get_mut(usize::from(role)))
            {
                *place = Some(named.label.clone());
            }
        }
        let missing = order.iter().filter(|place| place.is_none()).count();
        if cut.is_empty() || cut.len() > missing {
            return None;
        }
        let places = order.iter_mut().filter(|place| place.is_none());
        places.zip(cut).for_each(|(place, left)| *place = Some(left.label.clone()));
        let names: Vec<String> =
            order.into_iter().map(|name| name.unwrap_or_else(|| "missing".to_owned())).collect();
        (!names.iter().any(|name| name.contains(','))).then_some((names, missing > 1))
    }
}

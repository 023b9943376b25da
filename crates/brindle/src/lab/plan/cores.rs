//! How many cores a server needs for what the drives of a plan do.

use brindle_lab::predict::{Door, Group, Requests, Shape, cores};
use brindle_layout::{Layout, Level};
use brindle_planner::{Configuration, Scheme, Speed};

use super::simulated::shape;
use super::{Row, USUAL_CHUNK};
use crate::base::units::Bytes;
use crate::lab::predict::load::AskedLoad;

/// Bytes of a small request, and of one in sequence, as the columns have them.
const SMALL: u64 = 4 << 10;
const LONG: u64 = 1 << 20;

/// Fills in the cores; a note where no number of them does.
pub(super) fn fill(rows: &mut [Row], asked: Option<&AskedLoad>, chunk: Option<Bytes>) -> Option<String> {
    let chunk = chunk.map_or(USUAL_CHUNK, |chunk| chunk.0);
    let mut is_out_of_reach = false;
    for row in rows.iter_mut().filter(|row| row.figures.is_of_md) {
        let groups = groups(&row.configuration, chunk);
        let found = needed(&groups, &row.figures.speed, asked);
        row.figures.cores = found;
        let is_nested = groups.iter().map(|group| group.count).sum::<u32>() > 1;
        let is_known = asked.is_none() || row.figures.speed.load_iops.is_some();
        is_out_of_reach |= found.is_none() && is_nested && is_known;
    }
    is_out_of_reach.then(|| {
        "no number of cores makes arrays of arrays as fast as such drives: one core carries out what concerns them".to_owned()
    })
}

/// The cores for the load; without one, for whichever column takes most. None if no number of them does.
fn needed(groups: &[Group], speed: &Speed, asked: Option<&AskedLoad>) -> Option<u32> {
    let all = match asked {
        Some(AskedLoad { load, .. }) => {
            let (read_size, write_size) = (load.read_size, load.write_size);
            vec![(Requests { reads: load.reads, read_size, write_size }, speed.load_iops?)]
        }
        None => {
            let of = |reads, size| Requests { reads, read_size: size, write_size: size };
            let long = |rate: Option<f64>| rate.unwrap_or(0.0) / LONG as f64;
            vec![
                (of(1.0, SMALL), speed.read_iops),
                (of(0.0, SMALL), speed.write_iops),
                (of(1.0, LONG), long(speed.read_rate)),
                (of(0.0, LONG), long(speed.write_rate)),
            ]
        }
    };
    let each = all.iter().map(|(requests, rate)| cores(groups, Door::default(), requests, *rate).ok()?);
    each.collect::<Option<Vec<u32>>>()?.into_iter().max()
}

/// The arrays that members are, or one array. Requests go where the room is.
fn groups(configuration: &Configuration, chunk: u64) -> Vec<Group> {
    let all = configuration.net().max(1) as f64;
    let parts = &configuration.parts;
    if parts.iter().all(|part| part.scheme == Scheme::Stripe) {
        let members = configuration.disks() as u16;
        let shape = Shape { level: Level::Raid0, layout: Layout::None, chunk, members, bitmap: None };
        let member = parts.iter().map(|part| part.disk.size).min().unwrap_or_default();
        return vec![Group { shape, member, count: 1, share: 1.0 }];
    }
    let each = parts.iter().map(|part| {
        let share = part.net() as f64 / all;
        Group { shape: shape(part, chunk), member: part.disk.size, count: part.groups, share }
    });
    each.collect()
}

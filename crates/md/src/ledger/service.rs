//! The times in which roles had a member, as event counts of the record.

use std::collections::BTreeMap;

use crate::assembly::{Assembly, DeviceUse};

/// Indexed by role, the event counts at which the record had a member in it: each stretch from its first count to the one at which it was
/// empty again.
#[derive(Default)]
pub(super) struct Service {
    stretches: BTreeMap<u16, Vec<(u64, Option<u64>)>>,
    /// The count at which the run began: the state of the members before it comes from their superblocks.
    opened: u64,
}

impl Service {
    /// The times of service for a run that begins at this count.
    pub(super) fn since(opened: u64) -> Self {
        Self { opened, ..Self::default() }
    }

    /// Whether the record of this count was made in this run.
    pub(super) fn is_of_this_run(&self, count: u64) -> bool {
        count > self.opened
    }

    /// A member is in the role by the record of this count, and by later ones.
    pub(super) fn begin(&mut self, role: u16, count: u64) {
        let stretches = self.stretches.entry(role).or_default();
        if stretches.last().is_none_or(|(_, end)| end.is_some()) {
            stretches.push((count, None));
        }
    }

    /// No member is in the role by the record of this count.
    pub(super) fn end(&mut self, role: u16, count: u64) {
        if let Some((_, end)) = self.stretches.get_mut(&role).and_then(|stretches| stretches.last_mut()) {
            end.get_or_insert(count);
        }
    }

    /// Whether a member was in the role by the record of this count, as far as is known.
    pub(super) fn was_filled(&self, role: u16, count: u64) -> bool {
        let holds = |(begin, end): &(u64, Option<u64>)| *begin <= count && end.is_none_or(|end| count < end);
        self.stretches.get(&role).is_some_and(|stretches| stretches.iter().any(holds))
    }
}

/// Whole members have been in service for an unknown time; others, not before now.
pub(super) fn in_service(assembly: &Assembly) -> Service {
    let mut service = Service::since(assembly.events);
    for device in &assembly.devices {
        match device.usage {
            DeviceUse::Active { role } => service.begin(role, 0),
            DeviceUse::Recovering { role, .. } => service.begin(role, assembly.events.saturating_add(1)),
            _ => {}
        }
    }
    service
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_held_against_the_stretch_in_which_it_lies() {
        let mut service = Service::default();
        service.begin(1, 0);
        service.begin(1, 5);
        service.end(1, 7);
        service.end(1, 9);
        service.begin(1, 12);
        let filled: Vec<u64> = (0..15).filter(|count| service.was_filled(1, *count)).collect();
        assert_eq!(filled, [0, 1, 2, 3, 4, 5, 6, 12, 13, 14]);
        assert!(!service.was_filled(0, 3));
    }
}

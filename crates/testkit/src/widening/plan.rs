//! The meaning of a seed: an array, how many members it gets, its drives, and what strikes them when.

use brindle_format::md::Version;
use brindle_io::Duration;
use brindle_io::sim::Model;
use brindle_layout::{Geometry, Level};

use crate::faults::{Atlas, Fault};
use crate::load::Mix;
use crate::random::Random;
use crate::shape::{Shape, planned};
use crate::storm::Planned;

/// Levels, members before, and after.
const KINDS: [(Level, usize, usize); 7] = [
    (Level::Raid5, 2, 3),
    (Level::Raid5, 3, 4),
    (Level::Raid5, 3, 5),
    (Level::Raid5, 4, 5),
    (Level::Raid6, 4, 5),
    (Level::Raid6, 4, 6),
    (Level::Raid4, 3, 4),
];

/// Steps that are shortly before a cut.
const SHORTLY: u64 = 30;

/// A storm of an array that gets more members.
#[derive(Clone, Debug)]
pub(super) struct WideningPlan {
    pub(super) seed: u64,
    /// The array, with as many spares as it gets members.
    pub(super) shape: Shape,
    /// Members after.
    pub(super) to: usize,
    pub(super) model: Model,
    pub(super) lanes: u64,
    /// Requests of each client in the first boot.
    pub(super) requests: u64,
    pub(super) mix: Mix,
    pub(super) idle: Duration,
    pub(super) daemon_sleep: Duration,
    /// The array is written whole first.
    pub(super) filled: bool,
    /// Per mille of transfers that are short.
    pub(super) short_transfers: u32,
    /// A guard watches what members are sent, once all has moved.
    pub(super) watched: bool,
    /// By boot, the step before which the power goes.
    pub(super) cuts: Vec<Option<u64>>,
    /// By boot.
    faults: Vec<Vec<Planned>>,
    pub(super) stays_dead: bool,
}

impl WideningPlan {
    pub(super) fn new(seed: u64, cut: Option<u64>) -> Self {
        let mut random = Random::stream(seed, 0x7769_6465);
        let &(level, from, to) = random.pick(&KINDS);
        let version = *random.pick(&[Version::V1_2, Version::V1_1]);
        let mut shape = Shape { spares: to - from, ..Shape::new(level, from).metadata(version, 0) };
        shape.rows = *random.pick(&[8, 19, 33]);
        if random.one_in(2) {
            (shape.bitmap, shape.rows) = (Some(*random.pick(&[4096, 8192])), shape.rows.max(16));
        }
        let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
        let large = Model { logical_block: 4096, tear_unit: 4096, ..quick };
        let model = *random.pick(&[quick, quick, Model { tear_unit: 4096, ..quick }, large, Model::nvme()]);
        let lanes = 1 + random.below(4);
        let mix = Mix {
            flushes: *random.pick(&[1, 2, 4]),
            most: *random.pick(&[4096, 16 << 10, 48 << 10]),
            block: u64::from(model.logical_block),
            ..Mix::default()
        };
        let plan = Self {
            seed,
            shape,
            to,
            model,
            lanes,
            requests: 48_u64.div_ceil(lanes),
            mix,
            idle: Duration::from_micros(*random.pick(&[300, 2000])),
            daemon_sleep: Duration::from_micros(*random.pick(&[100, 400, 3000])),
            filled: !random.one_in(4),
            short_transfers: *random.pick(&[0, 0, 0, 20]),
            watched: random.one_in(2),
            cuts: Vec::new(),
            faults: Vec::new(),
            stays_dead: false,
        };
        match cut {
            Some(cut) => plan.struck_and_cut(cut),
            None => plan,
        }
    }

    fn struck_and_cut(mut self, cut: u64) -> Self {
        let mut random = Random::stream(self.seed, cut + 1);
        let within = if random.one_in(2) { 60 } else { 400 };
        let again = (!random.one_in(3)).then(|| random.below(within));
        let wider = Shape { members: self.to, spares: 0, ..self.shape };
        let wider = planned(&wider.spec()).geometry;
        let mut struck = Vec::new();
        self.faults = [cut + 8, again.unwrap_or(200) + 8]
            .map(|steps| choose(&wider, &mut struck, steps, &mut random))
            .to_vec();
        self.cuts = vec![Some(cut), again];
        self.stays_dead = random.one_in(2);
        self
    }

    /// Bytes of the array before.
    pub(super) fn size(&self) -> u64 {
        planned(&self.shape.spec()).geometry.size()
    }

    pub(super) fn faults_of(&self, boot: u64) -> &[Planned] {
        self.faults.get(boot as usize - 1).map_or(&[], Vec::as_slice)
    }

    /// Roles from which something is taken, in some boot.
    pub(super) fn struck(&self) -> impl Iterator<Item = u16> {
        self.faults.iter().flatten().filter(|planned| planned.fault.harms()).map(|planned| planned.role)
    }

    pub(super) fn is_any_struck(&self) -> bool {
        self.struck().next().is_some()
    }

    /// Some blocks of a drive where rows are, before or after.
    pub(super) fn place(&self, random: &mut Random) -> core::ops::Range<u64> {
        let block = u64::from(self.model.logical_block);
        let area = self.shape.chunk * self.shape.rows;
        let start = self.shape.data_offset() + random.below(area / block) * block;
        start..start + block * (1 + random.below(4))
    }
}

/// Faults of one boot, as the array can bear them beside those before.
fn choose(geometry: &Geometry, struck: &mut Vec<u16>, steps: u64, random: &mut Random) -> Vec<Planned> {
    let mut atlas = Atlas::new(geometry, struck);
    let mut chosen = Vec::new();
    for _ in 0..random.below(3) {
        let Some((fault, role)) = atlas.choose(&Fault::ALL, random) else { break };
        let step =
            if random.one_in(2) { steps.saturating_sub(random.below(SHORTLY)) } else { random.below(steps) };
        chosen.push(Planned { step, fault, role });
        if fault.harms() {
            struck.push(role);
        }
    }
    chosen
}

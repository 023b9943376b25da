//! Everything that a plan says of a configuration.

use crate::configuration::{Configuration, MadeAs, Part};
use crate::fraction::Fraction;
use crate::lethal_sets::losses;
use crate::link::{limited, rebuilt};
use crate::load::Load;
use crate::raidz::Allocation;
use crate::risk::Risk;
use crate::speed::{Speed, speed};

/// The facts beside the drives on which figures depend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// How RAID-Z allocates.
    pub allocation: Allocation,
    /// Share of the drives' time that clients take while a drive is rebuilt, from 0 to less than 1.
    pub busy: f64,
    /// The load on the array.
    pub load: Option<Load>,
    /// Bytes a second that all drives move together, on one link or adapter.
    pub link: Option<f64>,
}

/// The figures of a configuration. Sizes are bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Drives.
    pub disks: u32,
    /// Level.
    pub level: String,
    /// How drives are shared out.
    pub config: String,
    /// Nominal bytes for data.
    pub net: u64,
    /// The usable bytes of RAID-Z for blocks of the given size.
    pub allocated: Option<u64>,
    /// Requests and bytes a second.
    pub speed: Speed,
    /// The speed by formulas, where the simulator's has taken its place.
    pub formulas: Option<Speed>,
    /// Cores of a server that carries all that, if that was asked and some number of them does.
    pub cores: Option<u32>,
    /// How many drives may be lost, whichever they are.
    pub tolerance: u32,
    /// See [`crate::Losses`].
    pub double: Option<Fraction>,
    /// See [`crate::Losses`].
    pub triple: Option<Fraction>,
    /// See [`crate::Losses`].
    pub third: Option<Fraction>,
    /// Seconds until a lost drive is rebuilt, if the drives' rates are known; none where nothing can be rebuilt.
    pub rebuild: Option<f64>,
    /// The price of all drives.
    pub price: Option<f64>,
    /// The risk of data loss, if [`crate::reliability`] was asked.
    pub risk: Option<Risk>,
    /// Whether it is md's.
    pub is_of_md: bool,
    /// Whether Brindle makes an array of it or a pool, if it can.
    pub made_as: Option<MadeAs>,
    /// Whether unlike drives all count as the least of them.
    pub as_the_least: bool,
}

/// Computes the figures of a configuration.
pub fn figures(configuration: &Configuration, terms: &Terms) -> Figures {
    let losses = losses(configuration);
    let load = terms.load.as_ref();
    let own = speed(configuration, load);
    Figures {
        disks: configuration.disks(),
        level: configuration.level(),
        config: configuration.config(),
        net: configuration.net(),
        allocated: terms.allocation.room(configuration),
        speed: terms.link.map_or(own, |link| limited(own, configuration, load, link)),
        formulas: None,
        cores: None,
        tolerance: configuration.tolerance(),
        double: losses.double,
        triple: losses.triple,
        third: losses.third,
        rebuild: rebuild(configuration, terms),
        price: configuration.price,
        risk: None,
        is_of_md: configuration.is_of_md(),
        made_as: configuration.made_as(),
        as_the_least: configuration.as_the_least,
    }
}

/// All of a drive is written, as fast as it takes it and the others, which are all read at once, give it; beside clients in the
/// time that they leave. Of unlike drives the one that takes longest.
fn rebuild(configuration: &Configuration, terms: &Terms) -> Option<f64> {
    if configuration.tolerance() == 0 {
        return None;
    }
    let of = |part: &Part| Some(part.disk.size as f64 / rebuilt(part, terms.link)? / (1.0 - terms.busy));
    let each = configuration.parts.iter().map(of);
    each.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max))
}

impl Figures {
    /// The usable size: for RAID-Z, the size after its allocation overhead.
    pub fn usable(&self) -> u64 {
        self.allocated.unwrap_or(self.net)
    }

    /// The price of 10^12 bytes of net capacity.
    pub fn price_per_tb(&self) -> Option<f64> {
        Some(self.price? / (self.net as f64 / 1e12))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::candidates::configurations;
    use crate::disk::{Disk, Set};
    use crate::testing::{disk, set};

    #[test]
    fn a_rebuild_takes_as_long_as_all_of_a_drive_and_the_load_let_it() {
        let disk = Disk { whole_rate: Some(1e8), price: Some(50.0), ..disk() };
        let all = configurations(&[Set { count: 4, disk }]);
        let of = |level: &str, busy: f64| {
            let one = all.iter().find(|one| one.level() == level).expect(level);
            figures(one, &Terms { busy, ..Terms::default() })
        };
        assert_eq!(of("raid5", 0.0).rebuild, Some(20_000.0));
        assert_eq!(of("raid5", 0.5).rebuild, Some(40_000.0));
        assert_eq!(of("raid0", 0.0).rebuild, None);
        assert_eq!(
            (of("raid5", 0.0).price, of("raid5", 0.0).price_per_tb()),
            (Some(200.0), Some(200.0 / 6.0))
        );
    }

    #[test]
    fn room_that_can_be_used_is_what_is_allocated_and_money_is_of_what_is_nominal() {
        let disk = Disk { price: Some(50.0), ..disk() };
        let all = configurations(&[Set { count: 4, disk }]);
        let pool = all.iter().find(|one| one.level() == "raidz").expect("four drives");
        let pool = figures(pool, &Terms::default());
        assert_eq!((pool.net, pool.price_per_tb()), (6_000_000_000_000, Some(200.0 / 6.0)));
        assert!(pool.allocated == Some(pool.usable()) && pool.usable() < pool.net, "{pool:?}");
    }

    proptest! {
        #[test]
        fn more_drives_or_larger_ones_never_hold_less(drives in 2_u32..24, size in 1_u64 << 32..1 << 45) {
            let of = |drives, size| {
                let sets = [Set { disk: Disk { size, ..disk() }, ..set(drives) }];
                configurations(&sets).iter().map(|one| figures(one, &Terms::default())).collect::<Vec<_>>()
            };
            for small in of(drives, size) {
                prop_assert!(small.usable() <= small.net && small.net <= size * u64::from(drives));
                prop_assert!(small.double <= small.triple || small.triple.is_none());
                let same = |other: &&Figures| other.level == small.level && other.config == small.config;
                let larger = of(drives, size + size / 10);
                let larger = larger.iter().find(same).expect("the same of larger drives");
                prop_assert!(larger.net > small.net && larger.usable() >= small.usable());
            }
            for level in ["raid0", "raid5", "raid6", "raidz", "raidz2", "raidz3"] {
                let net = |drives| of(drives, size).iter().find(|one| one.level == level).map(|one| one.net);
                prop_assert!(net(drives).is_none() || net(drives) < net(drives + 1));
            }
        }
    }
}

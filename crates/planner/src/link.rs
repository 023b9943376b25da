//! A link or adapter that all drives of an array share: the bytes that pass it for each byte of users' data.

use crate::configuration::{Configuration, Part, Scheme};
use crate::load::Load;
use crate::speed::{Speed, old_blocks};

/// Bytes of a small request.
const SMALL: f64 = 4096.0;

/// No more than a link carries that moves `link` bytes a second.
pub(crate) fn limited(speed: Speed, configuration: &Configuration, load: Option<&Load>, link: f64) -> Speed {
    let all = configuration.net() as f64;
    // Each part has its share of the room, and of the requests.
    let mean = |of: &dyn Fn(&Part) -> f64| -> f64 {
        configuration.parts.iter().map(|part| of(part) * part.net() as f64 / all).sum()
    };
    let (stream, small) = (mean(&streamed), mean(&written));
    let loaded = |load: &Load| {
        let writes = if load.random { small } else { stream };
        load.reads * load.read_size as f64 + (1.0 - load.reads) * load.write_size as f64 * writes
    };
    Speed {
        read_iops: speed.read_iops.min(link / SMALL),
        write_iops: speed.write_iops.min(link / SMALL / small),
        read_rate: speed.read_rate.map(|rate| rate.min(link)),
        write_rate: speed.write_rate.map(|rate| rate.min(link / stream)),
        load_iops: speed
            .load_iops
            .map(|iops| load.map_or(iops, |load| iops.min(link / loaded(load).max(1.0)))),
    }
}

/// Bytes a second at which a drive of a part is rebuilt, if that is known: all that is read for it passes the link, and what is written.
pub(crate) fn rebuilt(part: &Part, link: Option<f64>) -> Option<f64> {
    let moved = match part.scheme {
        Scheme::Stripe => return part.disk.whole_rate,
        Scheme::Mirror | Scheme::Raid10(_) => 2.0,
        Scheme::DedicatedParity | Scheme::Parity(_) | Scheme::RaidZ(_) => f64::from(part.width),
    };
    let of_link = link.map_or(f64::INFINITY, |link| link / moved);
    part.disk.whole_rate.map(|rate| rate.min(of_link))
}

/// Bytes for each that a long write in order brings.
fn streamed(part: &Part) -> f64 {
    let width = f64::from(part.width);
    match part.scheme {
        Scheme::Stripe => 1.0,
        Scheme::Mirror => width,
        Scheme::Raid10(layout) => f64::from(layout.copies()),
        Scheme::DedicatedParity | Scheme::Parity(_) | Scheme::RaidZ(_) => {
            width / (width - f64::from(part.scheme.tolerance(part.width)))
        }
    }
}

/// Bytes for each of a small write: old blocks are read where there is parity.
fn written(part: &Part) -> f64 {
    match part.scheme {
        Scheme::DedicatedParity | Scheme::Parity(_) => {
            let parity = f64::from(part.scheme.tolerance(part.width));
            old_blocks(f64::from(part.width), parity) + 1.0 + parity
        }
        _ => streamed(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::configurations;
    use crate::disk::Set;
    use crate::figures::{Terms, figures};
    use crate::testing::disk;

    #[test]
    fn a_link_carries_copies_and_parity_too() {
        let fast = crate::Disk {
            read_iops: 1e6,
            write_iops: 1e6,
            read_rate: Some(3e9),
            write_rate: Some(3e9),
            whole_rate: Some(3e9),
            ..disk()
        };
        let all = configurations(&[Set { count: 6, disk: fast }]);
        let load = Load { reads: 0.5, random: true, read_size: 8192, write_size: 8192, depth: 256 };
        let of = |level: &str, config: &str, link| {
            let one = all.iter().find(|one| one.level() == level && one.config() == config).expect("listed");
            figures(one, &Terms { link, load: Some(load), ..Terms::default() })
        };
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
        let six = of("raid6", "4+2", Some(2e9));
        near(six.speed.read_iops, 2e9 / 4096.0);
        // Three old blocks are read, and three are written.
        near(six.speed.write_iops, 2e9 / 4096.0 / 6.0);
        near(six.speed.read_rate.unwrap(), 2e9);
        near(six.speed.write_rate.unwrap(), 2e9 * 4.0 / 6.0);
        near(six.speed.load_iops.unwrap(), 2e9 / (0.5 * 8192.0 + 0.5 * 8192.0 * 6.0));
        // Five are read for the one that is written.
        near(six.rebuild.unwrap(), fast.size as f64 / (2e9 / 6.0));
        let pairs = of("raid10", "3x(1+1)", Some(2e9));
        near(pairs.speed.write_rate.unwrap(), 1e9);
        near(pairs.rebuild.unwrap(), fast.size as f64 / 1e9);
        // One that is wide enough changes nothing.
        assert_eq!(of("raid6", "4+2", Some(1e15)), of("raid6", "4+2", None));
        assert!(of("raid6", "4+2", None).speed.read_iops > 5e6);
    }
}

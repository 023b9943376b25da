//! Descriptions of drives to be planned with, as users write them. Input: which (1 byte), then the text; or numbers
//! of drives, to be planned.

use brindle_planner::{
    Disk, Fraction, Set, Terms, all_columns, configurations, counts, figures, number, recommend, second_set,
    size,
};

use crate::feed::Feed;

/// Takes the bytes as one of the texts, or as drives.
pub fn run(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match which % 5 {
        0 => {
            if let Ok(all) = counts(&text) {
                assert!(!all.is_empty() && all.iter().all(|count| (2..=384).contains(count)));
            }
        }
        1 => {
            if let Ok(bytes) = size(&text) {
                assert_eq!(size(&bytes.to_string()), Ok(bytes));
            }
            assert!(number(&text).is_ok_and(|number| number > 0.0) || number(&text).is_err());
        }
        2 => {
            if let Ok(share) = text.parse::<Fraction>() {
                assert_eq!(share.to_string().parse(), Ok(share));
                assert!((0.0..=1.0).contains(&share.as_f64()) && share.rest().rest() == share);
            }
        }
        3 => {
            if let Ok((count, _, said)) = second_set(&text) {
                assert!((2..=384).contains(&count) && said.len() <= text.len());
            }
        }
        _ => drives(rest),
    }
}

/// Whatever drives there are: nothing holds more than they do, and shares are shares.
fn drives(data: &[u8]) {
    let mut feed = Feed(data);
    let sets: Vec<Set> = (0..=feed.u8() % 2)
        .map(|_| {
            let count = 2 + u32::from(feed.u8() % 31);
            let iops = f64::from(1 + u32::from(feed.u16()));
            let rate = Some(1e3 + f64::from(feed.u32()));
            let size = 1_000_000 + feed.u64() % 1_000_000_000_000_000;
            Set {
                count,
                disk: Disk {
                    size,
                    read_iops: iops,
                    write_iops: iops,
                    read_rate: rate,
                    write_rate: rate,
                    whole_rate: rate,
                    queued: None,
                    price: None,
                },
            }
        })
        .collect();
    let raw: u64 = sets.iter().map(|set| u64::from(set.count) * set.disk.size).sum();
    let all: Vec<_> = configurations(&sets).iter().map(|one| figures(one, &Terms::default())).collect();
    for one in &all {
        assert!(one.net > 0 && one.net <= raw && one.usable() <= one.net, "{one:?}");
        assert!(one.triple.is_none() || one.double <= one.triple);
        assert!(one.speed.read_iops.is_finite() && one.speed.write_iops > 0.0, "{one:?}");
    }
    let all: Vec<_> = all.iter().collect();
    let (place, why) = recommend(&all, brindle_planner::Goal::Balance).expect("RAID 0 at least");
    assert!(all[place].is_of_md && !why.is_empty());
    assert_eq!(all_columns(&all, Some(place)).lines().count(), all.len() + 1);
}

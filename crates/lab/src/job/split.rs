//! `bssplit` and the zones of `random_distribution`: lists of shares.

use super::error::Wants;
use super::number::Base;
use super::options::{Blocks, Distribution, Each, JobExtent, Zone};

/// Most entries of a list.
const MOST: usize = 256;

/// `4k/50:1k/:32k/`: sizes with their shares of 100; those without share what is left.
pub(super) fn blocks(base: Base, text: &str) -> Result<Blocks, Wants> {
    const WANTS: Wants = Wants("sizes with their shares, for example 4k/60:64k/40; shares come to 100");
    let mut list: Vec<(u64, Option<u64>)> = Vec::new();
    for entry in text.split(':') {
        let (size, share) = entry.split_once('/').unwrap_or((entry, ""));
        let size = base.size(size).ok().filter(|&size| size > 0).ok_or(WANTS)?;
        list.push((size, share_of(share).ok_or(WANTS)?));
    }
    let weights = weigh(&list).ok_or(WANTS)?;
    if weights.len() > MOST { Err(WANTS) } else { Ok(Blocks::Split(weights)) }
}

/// A share of 100, or none where it is left out.
fn share_of(text: &str) -> Option<Option<u64>> {
    match text.trim() {
        "" => Some(None),
        text => text.parse().ok().filter(|share| *share <= 100).map(Some),
    }
}

/// Weights in whole numbers; none where the shares don't come to 100. Sizes that never come are left out.
fn weigh(list: &[(u64, Option<u64>)]) -> Option<Vec<(u64, u64)>> {
    let said: u64 = list.iter().filter_map(|(_, share)| *share).sum();
    let open = list.iter().filter(|(_, share)| share.is_none()).count() as u64;
    let left = 100u64.checked_sub(said)?;
    if left > 0 && open == 0 {
        return None;
    }
    let weight = |share: Option<u64>| share.map_or(left, |share| share * open.max(1));
    Some(list.iter().map(|(size, share)| (*size, weight(*share))).filter(|(_, w)| *w > 0).collect())
}

/// `random`, `zipf:1.2`, `pareto:0.9`, `zoned:60/10:40/90`, `zoned_abs:60/1g:40/2g`.
pub(super) fn distribution(base: Base, text: &str) -> Result<Distribution, Wants> {
    const WANTS: Wants = Wants(
        "random, zipf:THETA (above 0, not 1), pareto:POWER (above 0, below 1), zoned:60/10:40/90 or zoned_abs:60/1g:40/2g; \
         shares come to 100",
    );
    let (kind, rest) = text.split_once([':', '=']).unwrap_or((text, ""));
    let positive = |default: f64| match rest {
        "" => Ok(default),
        rest => rest.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0 && *n != 1.0).ok_or(WANTS),
    };
    match kind {
        "random" if rest.is_empty() => Ok(Distribution::Uniform),
        "zipf" => positive(1.1).map(Distribution::Zipf),
        "pareto" => match positive(0.2)? {
            power if power < 1.0 => Ok(Distribution::Pareto(power)),
            _ => Err(WANTS),
        },
        "zoned" => zones(rest, |text| Some(JobExtent::Percent(text.trim().parse().ok()?))).ok_or(WANTS),
        "zoned_abs" => zones(rest, |text| base.size(text).ok().map(JobExtent::Bytes)).ok_or(WANTS),
        _ => Err(WANTS),
    }
}

fn zones(text: &str, extent: impl Fn(&str) -> Option<JobExtent>) -> Option<Distribution> {
    let lists: Vec<Vec<Zone>> =
        text.split(',').map(|list| of_direction(list, &extent)).collect::<Option<_>>()?;
    let last = lists.last()?.clone();
    let mut each: Each<Vec<Zone>> = [last.clone(), last.clone(), last];
    if lists.len() > each.len() {
        return None;
    }
    each.iter_mut().zip(lists).for_each(|(slot, list)| *slot = list);
    Some(Distribution::Zoned(Box::new(each)))
}

fn of_direction(text: &str, extent: impl Fn(&str) -> Option<JobExtent>) -> Option<Vec<Zone>> {
    let entry = |entry: &str| {
        let (share, size) = entry.split_once('/')?;
        let size = Some(size.trim()).filter(|size| !size.is_empty());
        Some((share.trim().parse::<u64>().ok()?, size.map(&extent)))
    };
    let entries: Vec<(u64, Option<Option<JobExtent>>)> = text.split(':').map(entry).collect::<Option<_>>()?;
    let shares = entries.iter().try_fold(0u64, |sum, (share, _)| sum.checked_add(*share))?;
    let sizes: Vec<JobExtent> = entries.iter().filter_map(|(_, size)| *size).collect::<Option<_>>()?;
    let rest = rest(&sizes, entries.len() - sizes.len())?;
    let zones =
        entries.iter().map(|(share, size)| Zone { share: *share, extent: size.flatten().unwrap_or(rest) });
    (shares == 100 && entries.len() <= MOST).then(|| zones.collect())
}

/// The share left for each zone without a size; `None` where the zones don't add up to a whole.
fn rest(sizes: &[JobExtent], open: usize) -> Option<JobExtent> {
    let sum = |of: fn(&JobExtent) -> u64| sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(of(size)));
    let percents = sum(|size| if let JobExtent::Percent(percent) = size { (*percent).into() } else { 0 })?;
    let bytes = sum(|size| if let JobExtent::Bytes(bytes) = size { *bytes } else { 0 })?;
    if bytes > 0 {
        return (open == 0).then_some(JobExtent::Percent(0));
    }
    let left = 100u64.checked_sub(percents)?;
    let open = open as u64;
    let fits = if open == 0 { left == 0 } else { left.is_multiple_of(open) && left > 0 };
    fits.then(|| JobExtent::Percent((left / open.max(1)) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_are_left_out_share_the_rest() {
        let of = |text| blocks(Base::Old, text);
        assert_eq!(of("4k/10:64k/50:32k/40"), Ok(Blocks::Split(vec![(4096, 10), (65536, 50), (32768, 40)])));
        assert_eq!(of("4k/50:1k/:32k/"), Ok(Blocks::Split(vec![(4096, 100), (1024, 50), (32768, 50)])));
        assert_eq!(of("4k:8k"), Ok(Blocks::Split(vec![(4096, 100), (8192, 100)])));
        assert_eq!(of("4k/100:8k/0"), Ok(Blocks::Split(vec![(4096, 100)])));
        for wrong in ["", "4k/101", "4k/60:8k/50", "4k/60", "0/100", "x/100", "4k/-1:8k/", "4k/1.5:8k/"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn distributions_are_read() {
        let of = |text| distribution(Base::Old, text);
        assert_eq!(of("random"), Ok(Distribution::Uniform));
        assert_eq!(of("zipf:1.2"), Ok(Distribution::Zipf(1.2)));
        assert_eq!(of("zipf"), Ok(Distribution::Zipf(1.1)));
        assert_eq!(of("pareto:0.3"), Ok(Distribution::Pareto(0.3)));
        let Ok(Distribution::Zoned(zones)) = of("zoned:60/10:40/90,100/100") else { panic!("zones") };
        assert_eq!(zones[0].iter().map(|zone| zone.share).collect::<Vec<_>>(), [60, 40]);
        assert_eq!(zones[1], zones[2]);
        let Ok(Distribution::Zoned(zones)) = of("zoned:50/5:30/15:20/") else { panic!("zones") };
        assert_eq!(zones[0][2], Zone { share: 20, extent: JobExtent::Percent(80) });
        let Ok(Distribution::Zoned(zones)) = of("zoned_abs=60/20G:40/100G") else { panic!("zones") };
        assert_eq!(zones[2][1].extent, JobExtent::Bytes(100 << 30));
        for wrong in [
            "",
            "zipf:1",
            "zipf:0",
            "zipf:nan",
            "zipf:inf",
            "pareto:1.5",
            "zoned",
            "zoned:60/10:40/80",
            "normal:50",
            "zoned:60/10",
            "zoned_abs:100/0",
            "zoned:100/100,100/100,100/100,100/100",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}

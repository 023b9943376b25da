//! Values that are words.

use super::error::Wants;
use super::options::{Direction, Each, IoPattern, Kinds, Unified};

/// `0`, `1`, and nothing for 1.
pub(super) fn boolean(text: Option<&str>) -> Result<bool, Wants> {
    match text {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err(Wants("0 or 1")),
    }
}

/// The words of `rw`.
pub(super) const RW: [(&str, Kinds, bool); 11] = [
    ("read", Kinds::One(Direction::Read), false),
    ("write", Kinds::One(Direction::Write), false),
    ("trim", Kinds::One(Direction::Trim), false),
    ("randread", Kinds::One(Direction::Read), true),
    ("randwrite", Kinds::One(Direction::Write), true),
    ("randtrim", Kinds::One(Direction::Trim), true),
    ("rw", Kinds::Mixed, false),
    ("readwrite", Kinds::Mixed, false),
    ("randrw", Kinds::Mixed, true),
    ("trimwrite", Kinds::TrimThenWrite, false),
    ("randtrimwrite", Kinds::TrimThenWrite, true),
];

/// A word of [`RW`], and how many requests go on from a drawn place, or the hole behind each; `size` reads it.
pub(super) fn access(text: &str, size: impl Fn(&str) -> Result<u64, Wants>) -> Result<IoPattern, Wants> {
    const WANTS: Wants = Wants(
        "read, write, trim, rw, trimwrite, or one of these with rand before it; a number may follow: randread:8",
    );
    let (word, step) = text.split_once(':').map_or((text, None), |(word, step)| (word, Some(step)));
    let (_, kinds, random) = RW.iter().find(|(name, ..)| *name == word).ok_or(WANTS)?;
    let step = match step.map(|step| step.strip_prefix('-').map_or((1, step), |step| (-1, step))) {
        None => 0,
        Some((-1, _)) if *random => return Err(WANTS),
        Some((sign, step)) => sign * i64::try_from(size(step).map_err(|_| WANTS)?).map_err(|_| WANTS)?,
    };
    Ok(IoPattern { kinds: *kinds, random: *random, step })
}

pub(super) fn sync(text: Option<&str>) -> Result<bool, Wants> {
    match text {
        Some("none" | "0") => Ok(false),
        None | Some("sync" | "dsync" | "1") => Ok(true),
        Some(_) => Err(Wants("none, sync or dsync")),
    }
}

pub(super) fn unified(text: Option<&str>) -> Result<Unified, Wants> {
    match text {
        Some("none" | "0") => Ok(Unified::None),
        None | Some("mixed" | "1") => Ok(Unified::Mixed),
        Some("both" | "2") => Ok(Unified::Both),
        Some(_) => Err(Wants("none, mixed or both")),
    }
}

/// Values for reads, writes and trims. One that is left out keeps what was; after the last one that is given it counts on, unless
/// a comma follows.
pub(super) fn each<T: Clone>(
    text: &str,
    slots: &mut Each<T>,
    read: impl Fn(&str) -> Result<T, Wants>,
) -> Result<(), Wants> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > slots.len() || parts.iter().all(|part| part.is_empty()) {
        return Err(Wants("up to three values with commas between them: for reads, writes and trims"));
    }
    for (slot, part) in slots.iter_mut().zip(&parts) {
        if !part.is_empty() {
            *slot = read(part)?;
        }
    }
    if let Some(last) = parts.last().filter(|last| !last.is_empty()) {
        let value = read(last)?;
        slots[parts.len()..].fill(value);
    }
    Ok(())
}

/// Percentiles, with colons or commas between them.
pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, Wants> {
    const WANTS: Wants = Wants("at most 20 numbers above 0 and up to 100, with colons between them");
    let read = |part: &str| part.trim().parse().ok().filter(|p| (f64::MIN_POSITIVE..=100.0).contains(p));
    let mut list: Vec<f64> = text.split([':', ',']).map(read).collect::<Option<_>>().ok_or(WANTS)?;
    list.sort_by(f64::total_cmp);
    if list.len() > 20 { Err(WANTS) } else { Ok(list) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u64, Wants> {
        text.parse().map_err(|_| Wants("a number"))
    }

    #[test]
    fn every_word_of_rw_is_known() {
        let of = |text| access(text, number).map(|access| (access.kinds, access.random, access.step));
        assert_eq!(of("randrw"), Ok((Kinds::Mixed, true, 0)));
        assert_eq!(of("readwrite"), of("rw"));
        assert_eq!(of("randtrimwrite"), Ok((Kinds::TrimThenWrite, true, 0)));
        assert_eq!(of("randread:8"), Ok((Kinds::One(Direction::Read), true, 8)));
        assert_eq!(of("read:-8"), Ok((Kinds::One(Direction::Read), false, -8)));
        for wrong in
            ["", "reads", "randread:", "randread:-8", "read:--8", "write:x", "read:18446744073709551615"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_directions_go_on_as_fio_has_it() {
        let of = |text| {
            let mut slots = [1, 1, 1];
            each(text, &mut slots, number).map(|()| slots)
        };
        assert_eq!(of("256"), Ok([256, 256, 256]));
        assert_eq!(of("8,32"), Ok([8, 32, 32]));
        assert_eq!(of("8,32,"), Ok([8, 32, 1]));
        assert_eq!(of(",8"), Ok([1, 8, 8]));
        assert_eq!(of(",8,"), Ok([1, 8, 1]));
        assert_eq!(of("1,2,3"), Ok([1, 2, 3]));
        for wrong in ["", ",", ",,", "1,2,3,4", "x"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentiles_are_put_in_order() {
        assert_eq!(percentiles("99.9:50"), Ok(vec![50.0, 99.9]));
        for wrong in ["", "0", "100.1", "nan", "-1", "1:x", &["1"; 21].join(":")] {
            assert!(percentiles(wrong).is_err(), "{wrong}");
        }
    }
}

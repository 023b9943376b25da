//! The columns of a plan: heads, their meaning, the format of figures.

/// Two lines of heads.
pub(super) const HEADS: [(&str, &str); 22] = [
    ("", "disks"),
    ("", "level"),
    ("", "config"),
    ("net", "TB"),
    ("alloc.", "TB"),
    ("random", "reads/s"),
    ("random", "writes/s"),
    ("load", "IOPS"),
    ("seq. read", "MB/s"),
    ("seq. write", "MB/s"),
    ("formulas", "differ by %"),
    ("", "cores"),
    ("tole-", "rates"),
    ("loss on", "double"),
    ("loss on", "triple"),
    ("loss on", "third"),
    ("rebuild", "hours"),
    ("price", "all"),
    ("price", "per TB"),
    ("loses data", "1 in"),
    ("probability", "of loss"),
    ("bytes lost", "a year"),
];

/// Meanings of the columns after the first three, in the order of [`HEADS`].
const COLUMNS: [&str; HEADS.len() - 3] = [
    "room for data",
    "of that, what ZFS gives to blocks of the usual size: the rest is padding",
    "4 KiB reads at random places that all drives together do in a second",
    "the same for writes",
    "requests of the asked load in a second",
    "long reads in order, in a million bytes a second",
    "the same for writes",
    "by how much the simulator is above (+) or below (-) the formulas, column by column",
    "of a server that carries the load by NBD over TCP; without a load, any of these figures",
    "drives that may fail, whichever they are, without loss of data",
    "share of the pairs of drives whose failure at once loses data",
    "the same for three drives",
    "where two drives have failed and all is there yet: share of the others whose failure loses data",
    "a drive is written whole, at the speed that it has in order",
    "of all drives",
    "of a million million bytes of room",
    "of so many such arrays one loses data within the years that were asked for",
    "that as a probability, with the interval in which it lies 95 times of 100",
    "bytes that such an array loses in a year on average",
];

/// Meanings of the columns in which anything stands.
pub(super) fn columns(wanted: &[bool]) -> Vec<(String, &'static str)> {
    let heads = HEADS.iter().zip(wanted).skip(3).zip(COLUMNS);
    let wanted = heads.filter(|((_, wanted), _)| **wanted);
    wanted.map(|((head, _), means)| (name(*head), means)).collect()
}

/// Both lines of a head.
pub(super) fn name((above, below): (&str, &str)) -> String {
    match above.strip_suffix('-') {
        None if above.is_empty() => below.to_owned(),
        Some(above) => format!("{above}{below}"),
        None => format!("{above} {below}"),
    }
}

/// One in how many such arrays loses data; empty if none did.
pub(super) fn one_in(probability: f64) -> String {
    match 1.0 / probability {
        of if !of.is_finite() => String::new(),
        of if of < 10.0 => short(of),
        of if of < 1e7 => format!("{of:.0}"),
        of if of < 999.5e6 => format!("{:.0} million", of / 1e6),
        of if of < 999.5e9 => format!("{:.0} billion", of / 1e9),
        of => format!("{of:.1e}"),
    }
}

/// Two decimals at most, except for values that these would round to nothing.
pub(super) fn short(value: f64) -> String {
    if value > 0.0 && value < 0.1 {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_told_as_one_of_so_many() {
        let reported = [8.2e-3, 0.5, 1.0, 1.5e-5, 1.67e-8, 1e-9, 0.0].map(one_in);
        assert_eq!(reported, ["122", "2", "1", "66667", "60 million", "1 billion", ""]);
    }

    #[test]
    fn columns_are_explained_in_their_order() {
        let all = columns(&[true; HEADS.len()]);
        assert_eq!(all.len(), COLUMNS.len());
        for (line, starts) in [(0, "net TB"), (8, "cores"), (9, "tolerates"), (16, "loses data 1 in")] {
            assert_eq!(all[line].0, starts);
        }
        assert!(columns(&[false; HEADS.len()]).is_empty());
    }
}

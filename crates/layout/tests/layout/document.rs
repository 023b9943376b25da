//! `docs/formats/layouts.md` draws what the code does: numbers, names, places of parity and of data.

use brindle_layout::{Family, Geometry, Layout, Level, Raid10Layout};

const PAGE: &str = include_str!("../../../../docs/formats/layouts.md");
const CHUNK: u64 = 4096;
const ROWS: u64 = 24;

/// The member that a formula of the page names, in row `r` of `n` members.
fn member(formula: &str, n: u64, r: u64, p: u64) -> u64 {
    match formula {
        "0" => 0,
        "1" => 1,
        "n-1" => n - 1,
        "n-2" => n - 2,
        "r mod n" => r % n,
        "n-1 - r mod n" => n - 1 - r % n,
        "n-1 - (r+1) mod n" => n - 1 - (r + 1) % n,
        "r mod (n-1)" => r % (n - 1),
        "n-2 - r mod (n-1)" => n - 2 - r % (n - 1),
        "(P+1) mod n" => (p + 1) % n,
        "(P-1) mod n" => (p + n - 1) % n,
        other => panic!("a formula that this test does not know: {other}"),
    }
}

/// Members without parity, from `first` on, around.
fn around(first: u64, n: u64, parity: &[u64]) -> Vec<u64> {
    (0..n).map(|step| (first + step) % n).filter(|member| !parity.contains(member)).collect()
}

#[test]
fn parity_stands_where_the_page_says() {
    let mut checked = 0;
    for line in PAGE.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [level, number, name, p, q, data] = cells[..] else { continue };
        let Ok(level) = level.parse::<i32>() else { continue };
        let (level, number) = (Level::from_md(level).unwrap(), number.parse().unwrap());
        let layout = Layout::from_md(level, number).unwrap();
        assert_eq!(layout.name(), name.trim_matches('`'));
        for n in 4..8 {
            check_rows(level, layout, n, [p, q, data]);
        }
        checked += 1;
    }
    assert_eq!(checked, 1 + 6 + 14, "rows of the table");
}

fn check_rows(level: Level, layout: Layout, n: u64, [p, q, data]: [&str; 3]) {
    let geometry = Geometry::new(level, layout, CHUNK, &vec![CHUNK * ROWS; n as usize]).unwrap();
    let Family::Parity(rows) = geometry.family() else { panic!("{level} has no parity") };
    for r in 0..ROWS {
        let place = format!("{level} {layout}, {n} members, row {r}");
        let row = rows.row(r);
        let p = member(p, n, r, 0);
        let mut parity = vec![p];
        let q = (!q.is_empty()).then(|| member(q, n, r, p));
        parity.extend(q);
        assert_eq!((u64::from(row.p()), row.q().map(u64::from)), (p, q), "{place}");
        let first = match data {
            "ascending" => 0,
            "behind P" => p,
            "behind Q" => q.unwrap(),
            other => panic!("{other}"),
        };
        let members: Vec<u64> = (0..rows.data_members()).map(|i| u64::from(row.data_member(i))).collect();
        assert_eq!(members, around(first, n, &parity), "{place}");
        let Some(q) = q else { continue };
        let exponents = around((q + 1) % n, n, &parity);
        for (index, member) in (0..).zip(&members) {
            let ddf = layout.name().starts_with("ddf");
            let exponent = exponents.iter().position(|m| m == member).unwrap() as u64;
            let exponent = if ddf { *member } else { exponent };
            assert_eq!(u64::from(row.data_slot(index)), exponent, "{place}: power of member {member}");
        }
    }
}

#[test]
fn copies_stand_where_the_page_says() {
    for (number, near, far, offset) in
        [(0x102, 2, 1, false), (0x201, 1, 2, false), (0x10201, 1, 2, true), (0x202, 2, 2, false)]
    {
        let layout = Raid10Layout { near, far, offset, ..Raid10Layout::near(1) };
        assert_eq!(Layout::from_md(Level::Raid10, number), Ok(Layout::Raid10(layout)));
        for n in 4u64..7 {
            check_copies(layout, n);
        }
    }
}

fn check_copies(layout: Raid10Layout, n: u64) {
    let size = CHUNK * ROWS;
    let geometry =
        Geometry::new(Level::Raid10, Layout::Raid10(layout), CHUNK, &vec![size; n as usize]).unwrap();
    let Family::Mirrored(copies) = geometry.family() else { panic!("no copies") };
    let (near, far) = (u64::from(layout.near), u64::from(layout.far));
    for chunk in 0..geometry.size() / CHUNK {
        let mut wanted = Vec::new();
        for (j, k) in (0..far).flat_map(|k| (0..near).map(move |j| (j, k))) {
            let i = chunk * near + j;
            let at = if layout.offset { (i / n * far + k) * CHUNK } else { i / n * CHUNK + k * (size / far) };
            wanted.push(((i + k * near) % n, at));
        }
        let mut found: Vec<(u64, u64)> = (0..copies.copies())
            .map(|copy| copies.locate(chunk * CHUNK, copy))
            .map(|extent| (u64::from(extent.member), extent.offset))
            .collect();
        wanted.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, wanted, "{layout:?}, {n} members, chunk {chunk}");
    }
}

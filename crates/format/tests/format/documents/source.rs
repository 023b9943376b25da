//! Compares a table with the struct that lays out the bytes.

use brindle_format::md::MAX_DEVICES_0_90;
use brindle_format::md::ppl::PPL_MAX_ENTRIES;

use super::page::Row;

/// Fields of a struct as its source declares them: name and type.
fn declared<'a>(source: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let start = source.lines().position(|line| {
        line.strip_prefix("struct ")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with([' ', '<']))
    });
    let body = source.lines().skip(start.unwrap_or_else(|| panic!("no struct {name}")) + 1);
    let fields = body.map(str::trim).take_while(|line| *line != "}").filter(|line| !line.starts_with("//"));
    fields.filter_map(|line| line.strip_suffix(',')?.split_once(": ")).collect()
}

/// Bytes of a type, and the order of the bytes within it.
fn shape(kind: &str) -> (usize, &'static str) {
    if let Some((element, count)) =
        kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')?.rsplit_once("; "))
    {
        let count = match count {
            "NAME_BYTES" => 32,
            "RESERVED" => 512,
            "PPL_MAX_ENTRIES" => PPL_MAX_ENTRIES,
            "MAX_DEVICES_0_90" => MAX_DEVICES_0_90,
            number => number.parse().unwrap(),
        };
        let (bytes, order) = shape(element);
        return (bytes * count, order);
    }
    match kind {
        "u8" => (1, "bytes"),
        "U16" | "I16" => (2, "le"),
        "U32" | "I32" => (4, "le"),
        "U64" => (8, "le"),
        "RawEntry" => (24, "le"),
        "U32<O>" => (4, "host"),
        "U64<O>" => (8, "host"),
        "DiskDescriptor<O>" => (128, "host"),
        other => panic!("a type that this test does not know: {other}"),
    }
}

/// The rows name every field of the struct in its place, and leave no byte out. A second row of a place tells what
/// else can stand there; rows behind the struct tell what follows it.
pub(crate) fn check_layout(rows: &[Row<'_>], source: &str, name: &str) {
    let mut at = 0;
    for (field, kind) in declared(source, name) {
        let field = field.trim_start_matches("r#");
        let (bytes, order) = shape(kind);
        let row = rows
            .iter()
            .find(|row| row.offset == at)
            .unwrap_or_else(|| panic!("{name}.{field}: no row at {at}"));
        assert_eq!((row.name, row.width), (field, Some(bytes)), "{name} at {at}");
        // One field is a union whose arms are numbers, but is kept as bytes.
        assert!(row.order == order || field == "bitmap_offset", "{name}.{field}: {}", row.order);
        at += bytes;
    }
    let mut ends: Vec<usize> = rows.iter().filter_map(Row::end).collect();
    ends.push(0);
    for row in rows {
        assert!(ends.contains(&row.offset) || row.offset >= at, "{name}.{}: a gap before it", row.name);
    }
}

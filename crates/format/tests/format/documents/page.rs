//! Reads the tables and examples of a page.

/// One row of a table: a field of a structure on disk.
#[derive(Debug, Clone)]
pub(crate) struct Row<'a> {
    /// Bytes from the start of the structure.
    pub(crate) offset: usize,
    /// Bytes; `None` if they depend on another field.
    pub(crate) width: Option<usize>,
    /// `le`, `host` or `bytes`.
    pub(crate) order: &'a str,
    /// As in the struct that lays out the bytes.
    pub(crate) name: &'a str,
    /// The meaning of the row for the code.
    pub(crate) meaning: Meaning<'a>,
}

/// The column *in Brindle*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning<'a> {
    /// Any other value is refused.
    Checked,
    /// Not looked at.
    Kept,
    /// Fields of the public struct, which a change of the bytes changes.
    Fields(Vec<&'a str>),
}

impl Row<'_> {
    /// First byte behind the field, if its width is fixed.
    pub(crate) fn end(&self) -> Option<usize> {
        Some(self.offset + self.width?)
    }
}

/// All rows of the tables that follow "Layout ... `WHAT`", up to the next such line.
pub(crate) fn rows<'a>(page: &'a str, what: &str) -> Vec<Row<'a>> {
    let mut here = false;
    let mut rows = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    for line in page.lines() {
        if line.contains("Layout") {
            here = line.contains(what);
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if cells.first() == Some(&"offset") {
            columns = cells;
        } else if here && line.starts_with("| ") && cells.get(1).is_some_and(|cell| cell.starts_with("0x")) {
            assert_eq!(cells.len(), columns.len(), "{line}");
            rows.push(row(&columns, &cells));
        }
    }
    assert!(!rows.is_empty(), "no table for {what}");
    rows
}

fn row<'a>(columns: &[&str], cells: &[&'a str]) -> Row<'a> {
    let cell = |name: &str| {
        let place = columns.iter().position(|column| *column == name);
        cells[place.unwrap_or_else(|| panic!("no column {name} in {columns:?}"))]
    };
    let offset = cell("offset").parse().unwrap();
    assert_eq!(cell("hex"), format!("{offset:#x}"), "{cells:?}");
    if columns.contains(&"word") {
        assert_eq!(cell("word").parse(), Ok(offset / 4), "{cells:?}");
    }
    assert!(!cell("meaning").is_empty(), "{cells:?}");
    assert!(!cell("writer").is_empty(), "{cells:?}");
    let meaning = match cell("in Brindle") {
        "checked" => Meaning::Checked,
        "kept" => Meaning::Kept,
        names => Meaning::Fields(names.split(", ").map(|name| name.trim_matches('`')).collect()),
    };
    Row {
        offset,
        width: cell("width").parse().ok(),
        order: cell("order"),
        name: cell("name").trim_matches('`'),
        meaning,
    }
}

/// One row of a table of the bits of a number.
#[derive(Debug)]
pub(crate) struct Bits<'a> {
    /// Lowest and highest bit.
    pub(crate) bits: (u32, u32),
    /// As the source of the format calls it.
    pub(crate) name: &'a str,
    /// Field of the public struct.
    pub(crate) field: &'a str,
}

/// The rows of the table of this struct's bits, which leave no bit of 64 out.
pub(crate) fn bits<'a>(page: &'a str, of: &str) -> Vec<Bits<'a>> {
    let mut lines = page.lines().skip_while(|line| !line.starts_with("| bits |"));
    let cells =
        |line: &'a str| -> Vec<&'a str> { line.trim_matches('|').split(" | ").map(str::trim).collect() };
    let columns = cells(lines.next().expect("a table of bits"));
    assert_eq!(columns, ["bits", "width", "order", "name", "in Brindle", "meaning"]);
    let mut next = 0;
    let mut rows = Vec::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let [range, width, order, name, field, meaning] = cells(line)[..] else { panic!("{line}") };
        let (low, high) = range.split_once(" to ").unwrap();
        let (low, high): (u32, u32) = (low.parse().unwrap(), high.parse().unwrap());
        assert_eq!((low, width), (next, &*format!("{} bits", high + 1 - low)), "{line}");
        assert!(order == "le" && !meaning.is_empty(), "{line}");
        let field = field.trim_matches('`').split_once("::").filter(|(name, _)| *name == of);
        rows.push(Bits { bits: (low, high), name, field: field.unwrap_or_else(|| panic!("{line}")).1 });
        next = high + 1;
    }
    assert_eq!(next, 64);
    rows
}

/// Bytes that a page shows as `hexdump -C` does.
#[derive(Debug)]
pub(crate) struct Example<'a> {
    attributes: &'a str,
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Example<'_> {
    /// `VALUE` of `NAME=VALUE` behind the opening fence.
    pub(crate) fn attribute(&self, name: &str) -> &str {
        let pairs = self.attributes.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.clone().find(|(key, _)| *key == name).unwrap_or_else(|| panic!("no {name}")).1
    }
}

/// All examples of a page.
pub(crate) fn examples(page: &str) -> Vec<Example<'_>> {
    let blocks = page.split("```text example=").skip(1);
    let examples = blocks.map(|block| {
        let (attributes, rest) = block.split_once('\n').unwrap();
        let dump = rest.split("```").next().unwrap();
        Example { attributes, bytes: undump(dump) }
    });
    examples.collect()
}

/// The bytes of a dump; a line with a star repeats the one before it up to the next offset.
fn undump(dump: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for line in dump.lines().filter(|line| *line != "*") {
        let (offset, rest) = line.split_once("  ").unwrap_or((line, ""));
        let offset = usize::from_str_radix(offset, 16).unwrap();
        while bytes.len() < offset {
            let repeated = bytes[bytes.len() - 16..].to_vec();
            bytes.extend(repeated);
        }
        let hex = rest.split('|').next().unwrap().split_whitespace();
        bytes.extend(hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    bytes
}

//! A geometry by hand, as it is written.

use std::path::PathBuf;

use brindle_layout::{Layout, Level};

use crate::base::units::Bytes;

/// An array as `--assume` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assume {
    /// The text that was given.
    pub(crate) text: String,
    pub(crate) level: Level,
    pub(crate) layout: Layout,
    /// Bytes; 0 where there are no chunks.
    pub(crate) chunk: u64,
    /// Byte of each member at which data begin.
    pub(crate) offset: u64,
    /// Bytes used of each member.
    pub(crate) size: Option<u64>,
    /// The member of each role.
    pub(crate) order: Vec<Option<PathBuf>>,
}

/// More roles than any array of md has are a mistake.
const MOST: usize = 384;

impl Assume {
    /// # Errors
    /// A sentence on what is wrong with it, and what is to be written.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (head, order) = match text.split_once("order=") {
            Some((head, order)) if head.is_empty() || head.ends_with(',') => (head, order),
            _ => {
                return Err(
                    "it needs order=A,B,missing,... at its end: the members by their roles".to_owned()
                );
            }
        };
        let (mut level, mut layout, mut chunk, mut offset, mut size) = (None, None, None, None, None);
        for word in head.split(',').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is no KEY=VALUE"))?;
            let place = match key {
                "level" => &mut level,
                "layout" => &mut layout,
                "chunk" => &mut chunk,
                "offset" => &mut offset,
                "size" => &mut size,
                _ => return Err(format!("'{key}' is not known: level, chunk, layout, offset, size, order")),
            };
            if place.replace(value).is_some() {
                return Err(format!("{key} is there twice"));
            }
        }
        let level = level.ok_or("it needs a level, as in level=5")?;
        let level: Level = level.parse().map_err(|error| format!("level: {error}"))?;
        let layout = match layout {
            Some(text) => Layout::parse(level, text).map_err(|error| format!("layout: {error}"))?,
            None => Layout::default_for(level),
        };
        let bytes = |value: Option<&str>| value.map(Bytes::parse).transpose();
        let chunk = match (bytes(chunk)?, level) {
            (Some(chunk), _) => chunk.0,
            (None, Level::Raid1 | Level::Linear) => 0,
            (None, _) => {
                return Err(
                    "it needs a chunk, as in chunk=64K: mdadm makes 512K unless told otherwise".to_owned()
                );
            }
        };
        let order: Vec<Option<PathBuf>> =
            order.split(',').map(|name| (name != "missing").then(|| PathBuf::from(name))).collect();
        if order.iter().flatten().any(|name| name.as_os_str().is_empty()) {
            return Err(
                "a name in order= is empty: write 'missing' for a member that is not there".to_owned()
            );
        }
        if order.len() > MOST || order.iter().all(Option::is_none) {
            return Err(format!("order= has to name between one member and {MOST}"));
        }
        let (offset, size) = (bytes(offset)?.map_or(0, |offset| offset.0), bytes(size)?.map(|size| size.0));
        Ok(Self { text: text.to_owned(), level, layout, chunk, offset, size, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometry_is_read_as_it_is_written() {
        let all =
            Assume::parse("level=5,chunk=64K,layout=ra,offset=2048s,size=1M,order=a,missing,b=c").unwrap();
        assert_eq!(
            (all.level, all.chunk, all.offset, all.size),
            (Level::Raid5, 65_536, 1 << 20, Some(1 << 20))
        );
        assert_eq!(all.layout.name(), "right-asymmetric");
        assert_eq!(all.order, [Some("a".into()), None, Some("b=c".into())]);
        let mirror = Assume::parse("level=1,order=a,b").unwrap();
        assert_eq!((mirror.chunk, mirror.offset, mirror.size), (0, 0, None));
    }

    #[test]
    fn what_is_no_geometry_is_reported() {
        for (text, words) in [
            ("", "order="),
            ("level=5,chunk=64K", "order="),
            ("order=a,b", "level=5"),
            ("level=5,order=a,b", "chunk=64K"),
            ("level=7,order=a,b", "level"),
            ("level=5,layout=n2,chunk=64K,order=a,b", "layout"),
            ("level=1,level=1,order=a,b", "twice"),
            ("level=1,colour=red,order=a,b", "colour"),
            ("level=1,offset=-1,order=a,b", "below 0"),
            ("level=1,order=a,,b", "empty"),
            ("level=1,order=missing", "between"),
        ] {
            let why = Assume::parse(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}

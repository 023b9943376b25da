//! Names and amounts in sentences.

/// Longest part of a sentence that a name may have.
const MOST: usize = 96;

/// A name as part of a sentence: nothing in it steers, turns round or goes on without end. Pages set it as text.
pub(crate) fn plain(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at == MOST {
            text.push('…');
            break;
        }
        if letter.is_control() || turns(letter) {
            text.extend(letter.escape_unicode());
        } else {
            text.push(letter);
        }
    }
    text
}

/// Signs that are not seen and change the order of others.
fn turns(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{feff}' | '\u{ad}')
}

/// The last part of a path.
pub(crate) fn file(path: &str) -> String {
    plain(path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path))
}

/// Bytes as people write them.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = count as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let digits = usize::from(value < 10.0 && unit != "B" && value.fract() > 0.04);
    format!("{value:.digits$} {unit}")
}

/// `one member`, `2 members`.
pub(crate) fn count(of: u64, one: &str, many: &str) -> String {
    if of == 1 { format!("one {one}") } else { format!("{of} {many}") }
}

/// The first letter as a capital.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_neither_steer_nor_go_on() {
        assert_eq!(plain("sda"), "sda");
        assert_eq!(plain("a\u{202e}b\n"), "a\\u{202e}b\\u{a}");
        assert_eq!(plain(&"x".repeat(4096)).chars().count(), MOST + 1);
        assert_eq!((&*file("/dev/disk/by-id/ata-X"), &*file("a/")), ("ata-X", "a"));
    }

    #[test]
    fn amounts_are_short() {
        let all = [0, 512, 1024, 1536, 10 << 20, 18 << 40].map(bytes);
        assert_eq!(all, ["0 B", "512 B", "1 KiB", "1.5 KiB", "10 MiB", "18 TiB"]);
        assert_eq!(
            (&*count(1, "member", "members"), &*count(3, "member", "members")),
            ("one member", "3 members")
        );
        assert_eq!((&*sentence("abc"), &*sentence("")), ("Abc", ""));
    }
}

//! Text files that a user wrote, and words that a user can give to a shell.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(crate) use brindle_host::status::shell;

/// Most bytes of a file that is read as a whole. A device that never ends exceeds them.
const MOST: u64 = 64 << 20;

/// The text of a file.
///
/// # Errors
/// If the file can't be read, has more than 64 MiB, or is not text; names the line.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::other(format!("more than {} MiB", MOST >> 20)));
    }
    String::from_utf8(bytes).map_err(|why| {
        let valid = why.utf8_error().valid_up_to();
        let line = why.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::other(format!("line {line} is not text (UTF-8)"))
    })
}

/// Text for a terminal: signs that would steer it, as names may have them, are written out.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let each = |c: char| if steers(c) { c.escape_debug().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(each).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_written_out() {
        assert_eq!(shown("a\u{1b}[2Jb\r\n\t\u{9b}c"), "a\\u{1b}[2Jb\\r\n\t\\u{9b}c");
        assert!(matches!(shown("it's <b>fine</b>\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_no_text_or_never_ends_is_refused() {
        let file = std::env::temp_dir().join(format!("brindle-text-{}", std::process::id()));
        std::fs::write(&file, b"one\ntwo\n\xff\n").unwrap();
        assert_eq!(read(&file).unwrap_err().to_string(), "line 3 is not text (UTF-8)");
        std::fs::write(&file, "one\n").unwrap();
        assert_eq!(read(&file).unwrap(), "one\n");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read(Path::new("/dev/zero")).unwrap_err().to_string(), "more than 64 MiB");
    }
}

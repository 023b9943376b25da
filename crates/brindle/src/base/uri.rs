//! Names in URIs: bytes that mean something there are percent-encoded (RFC 3986).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bytes that stand for themselves everywhere.
const PLAIN: &[u8] = b"-._~";

fn encoded(bytes: &[u8], plain: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
    let encode =
        |&byte: &u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(encode).collect()
}

/// A name as one part of a URI.
pub(crate) fn name(name: &str) -> String {
    encoded(name.as_bytes(), PLAIN)
}

/// A path as the value of a query: slashes stay.
pub(crate) fn path(path: &Path) -> String {
    encoded(path.as_os_str().as_bytes(), b"-._~/")
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits =
            digits.filter(|digits| first == b'%' && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            // A % by itself is meant as one.
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}

/// The name that a part of a URI means; none if it is not of UTF-8.
pub(crate) fn name_of(text: &str) -> Option<String> {
    String::from_utf8(decoded(text)).ok()
}

/// The path that the value of a query means.
pub(crate) fn path_of(text: &str) -> PathBuf {
    OsString::from_vec(decoded(text)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_path_comes_back() {
        for text in ["tank/v", "a", "", "100%", "%2F", "\u{e4} ?&#=+", "a%zz", "%", "-._~"] {
            assert_eq!(name_of(&name(text)).as_deref(), Some(text));
            assert_eq!(path_of(&path(Path::new(text))), Path::new(text));
        }
        assert_eq!(
            (name("a/b ?"), path(Path::new("/a b/c"))),
            ("a%2Fb%20%3F".to_owned(), "/a%20b/c".to_owned())
        );
        assert_eq!((name_of("a/b%2f"), name_of("%ff")), (Some("a/b/".to_owned()), None));
    }
}

//! Text keys: `KEY=VALUE`, each ended by a NUL (RFC 7143, 6).

/// The longest name of a key, and the longest value.
const LONGEST_KEY: usize = 63;
const LONGEST_VALUE: usize = 8192;
/// The most keys of one negotiation step.
const MOST_KEYS: usize = 64;

/// Reasons why bytes are not text keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A key has no value, or something is too long or no text.
    #[error("a text is not KEY=VALUE in UTF-8 that ends with a NUL")]
    Malformed,
    /// A key stands there twice.
    #[error("a key is given twice")]
    Twice,
}

/// Keys with their values, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<(String, String)>);

impl Keys {
    /// Reads keys.
    ///
    /// # Errors
    /// [`TextError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, TextError> {
        let mut keys = Self::default();
        for pair in bytes.split(|&byte| byte == 0).filter(|pair| !pair.is_empty()) {
            let pair = str::from_utf8(pair).map_err(|_| TextError::Malformed)?;
            let (key, value) = pair.split_once('=').ok_or(TextError::Malformed)?;
            let fits = !key.is_empty() && key.len() <= LONGEST_KEY && value.len() <= LONGEST_VALUE;
            if !fits || keys.0.len() == MOST_KEYS {
                return Err(TextError::Malformed);
            }
            if keys.get(key).is_some() {
                return Err(TextError::Twice);
            }
            keys.0.push((key.to_owned(), value.to_owned()));
        }
        Ok(keys)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(one, _)| one == key).map(|(_, value)| &**value)
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Appends a key.
pub fn put(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend([key, "=", value, "\0"].concat().into_bytes());
}

/// A binary value as text.
pub(super) fn encode(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{hex}")
}

/// A binary value: hexadecimal, or base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let form = text.get(..2)?.to_ascii_lowercase();
    let rest = &text[2..];
    match &*form {
        "0x" if !rest.is_empty() => {
            let odd = if rest.len() % 2 == 1 { format!("0{rest}") } else { rest.to_owned() };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
            odd.as_bytes().chunks_exact(2).map(byte).collect()
        }
        "0b" => base64(rest.trim_end_matches('=')),
        _ => None,
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_as_they_were_sent() {
        let keys = Keys::parse(b"A=1\0B=x=y\0\0C=\0").unwrap();
        assert_eq!(keys.iter().collect::<Vec<_>>(), [("A", "1"), ("B", "x=y"), ("C", "")]);
        assert_eq!(Keys::parse(b"A\0"), Err(TextError::Malformed));
        assert_eq!(Keys::parse(b"=1\0"), Err(TextError::Malformed));
        assert_eq!(Keys::parse(b"\xff=1\0"), Err(TextError::Malformed));
        assert_eq!(Keys::parse(b"A=1\0A=2\0"), Err(TextError::Twice));
    }

    #[test]
    fn binary_values_are_hexadecimal_or_base64() {
        assert_eq!(decode("0x0aFf").unwrap(), [0x0a, 0xff]);
        assert_eq!(decode("0XaFf").unwrap(), [0x0a, 0xff]);
        assert_eq!(decode("0bAP8=").unwrap(), [0x00, 0xff]);
        assert_eq!(decode(&encode(&[1, 0xfe])).unwrap(), [1, 0xfe]);
        for wrong in ["", "0", "0x", "0xg0", "0b*", "12", "ä1"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}

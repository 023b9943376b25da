//! Names and UUIDs as md users write them.

use core::fmt;

use super::Uuid;

/// Splits a 1.x array name into its home host and its own name: `server:data` is `(Some("server"), "data")`.
///
/// mdadm puts the name of the creating host before a colon, to distinguish foreign arrays from local ones.
pub fn split_name(name: &str) -> (Option<&str>, &str) {
    match name.split_once(':') {
        Some((host, own)) if !host.is_empty() => (Some(host), own),
        _ => (None, name),
    }
}

/// The name that mdadm gives a new 1.x array: `host:name`, unless the name has a host already, there is no host, or
/// both together do not stay below 32 bytes.
pub fn full_name(host: &str, name: &str) -> String {
    let fits = host.len().saturating_add(name.len()) < 31;
    if host.is_empty() || name.contains(':') || !fits { name.to_owned() } else { format!("{host}:{name}") }
}

/// Shows a UUID as mdadm does: four groups of eight hexadecimal digits with colons.
pub fn display_uuid(uuid: Uuid) -> impl fmt::Display {
    MdUuid(uuid)
}

struct MdUuid(Uuid);

impl fmt::Display for MdUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.as_bytes().iter().enumerate() {
            if i != 0 && i.is_multiple_of(4) {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Reads a UUID in mdadm's form or any other grouping of 32 hexadecimal digits by `:`, `-`, `.` or spaces.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    let mut value = 0u128;
    let mut digits = 0u32;
    for c in text.chars().filter(|c| !matches!(c, ':' | '-' | '.' | ' ')) {
        digits = digits.checked_add(1).filter(|&n| n <= 32)?;
        value = value.checked_shl(4)? | u128::from(c.to_digit(16)?);
    }
    (digits == 32).then(|| Uuid::from_u128(value))
}

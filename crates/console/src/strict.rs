//! JSON of others: each name once, few levels, nothing that is not known.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Levels within each other.
const MOST_LEVELS: u8 = 8;

/// Reads JSON.
///
/// # Errors
/// The reason, for people.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, String> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let value =
        Level(0).deserialize(&mut from).map_err(|error| format!("not JSON as it is needed: {error}"))?;
    from.end().map_err(|error| format!("not JSON as it is needed: {error}"))?;
    Ok(value)
}

/// The first field of `told` that `known` lacks, in both of which the same was read.
pub(crate) fn unknown(told: &Value, known: &Value) -> Option<String> {
    match (told, known) {
        (Value::Object(told), Value::Object(known)) => {
            told.iter().find_map(|(name, told)| match known.get(name) {
                Some(known) => unknown(told, known),
                // A field that is as it is by default may be left out.
                None if matches!(told, Value::Null | Value::Bool(false)) => None,
                None => Some(name.clone()),
            })
        }
        _ => None,
    }
}

struct Level(u8);

impl Level {
    fn below<E: Error>(&self) -> Result<Self, E> {
        if self.0 < MOST_LEVELS { Ok(Self(self.0 + 1)) } else { Err(E::custom("it has too many levels")) }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = from.next_element_seed(self.below()?)? {
            all.push(one);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let value = from.next_value_seed(self.below()?)?;
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("'{}' stands there twice", name.escape_debug())));
            }
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_stands_once_and_levels_are_few() {
        assert_eq!(
            read(br#"{"a": [1, -2, 0.5, "x", true, null]}"#).unwrap(),
            json!({"a": [1, -2, 0.5, "x", true, null]})
        );
        for (wrong, why) in [
            (&br#"{"a": 1, "a": 2}"#[..], "twice"),
            (br#"{"a": {"b": 1, "b": 1}}"#, "twice"),
            (b"{", "not JSON"),
            (b"{} {}", "not JSON"),
            (b"", "not JSON"),
            (b"\xff", "not JSON"),
            (b"[[[[[[[[[[1]]]]]]]]]]", "levels"),
        ] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        assert!(read(&deep).unwrap_err().contains("levels"));
    }

    #[test]
    fn what_is_not_known_is_named() {
        let known = json!({"ask": "add", "devices": ["a"]});
        assert_eq!(unknown(&json!({"ask": "add", "devices": ["a"], "force": false}), &known), None);
        assert_eq!(unknown(&json!({"ask": "add", "farce": true}), &known).as_deref(), Some("farce"));
    }
}

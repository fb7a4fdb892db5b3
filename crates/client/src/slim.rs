//! Trees of objects without the record of who wrote which field. That record is often the larger half of
//! an object, and of those who work with objects hardly anybody reads it.

use std::fmt;

use karmada_apimachinery::{Map, Value};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

const METADATA: &str = "metadata";
const RECORD: &str = "managedFields";

/// Reads an object as a tree and leaves the record out.
pub(crate) fn parse(text: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Part::Object.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
enum Part {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = match (self, key.as_str()) {
                (Self::Object, METADATA) => map.next_value_seed(Self::Metadata)?,
                (Self::Metadata, RECORD) => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => map.next_value()?,
            };
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn the_record_is_left_out_and_nothing_else() {
        let mut whole = json!({
            "kind": "Deployment", "spec": {"metadata": {"managedFields": [1]}, "paused": true},
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}], "generation": 3},
            "managedFields": [null, 1.5, -2, {"x": []}],
        });
        let parsed = parse(whole.to_string().as_bytes()).unwrap();
        whole["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(parsed, whole);
    }

    #[test]
    fn what_is_no_object_is_read_as_it_is() {
        for text in ["null", "[1,{\"metadata\":{\"managedFields\":1}}]", "\"a\"", "7", "true"] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), expected, "{text}");
        }
        assert!(parse(b"{} {}").is_err() && parse(b"{").is_err());
        let odd = json!({"metadata": null});
        assert_eq!(parse(odd.to_string().as_bytes()).unwrap(), odd);
    }
}

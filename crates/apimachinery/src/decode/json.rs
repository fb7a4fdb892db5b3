//! JSON text into a tree, noting duplicate and unknown fields in the order of the text.

use std::fmt;

use crate::{Map, Value};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Number;

use super::scalar::is_raw;
use super::{Decoded, Problems, Step, SyntaxError, Trail};
use crate::schema::Cursor;

/// Decodes an object of a built-in kind: fields the schema lacks are noted and dropped.
pub fn json(text: &[u8], schema: Cursor<'_>) -> Result<Decoded, SyntaxError> {
    decode(text, Knowledge::Typed(schema))
}

/// Decodes text without a schema: only duplicates are noted.
pub fn json_untyped(text: &[u8]) -> Result<Decoded, SyntaxError> {
    decode(text, Knowledge::Untyped)
}

fn decode(text: &[u8], knowledge: Knowledge<'_>) -> Result<Decoded, SyntaxError> {
    let mut reading = Reading::default();
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = Node { reading: &mut reading, knowledge }
        .deserialize(&mut parser)
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|error| syntax_error(text, &error))?;
    Ok(Decoded { value, problems: reading.problems })
}

/// Words an error as Go's parser does.
fn syntax_error(text: &[u8], error: &serde_json::Error) -> SyntaxError {
    if error.is_eof() {
        return SyntaxError("unexpected end of JSON input".into());
    }
    let line = text.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1));
    let rest =
        line.and_then(|line| line.get(error.column().saturating_sub(1)..)).unwrap_or_default();
    let found = String::from_utf8_lossy(rest).chars().next().unwrap_or('\u{fffd}');
    let place = if error.to_string().starts_with("trailing characters") {
        "after top-level value"
    } else if error.to_string().starts_with("recursion limit") {
        return SyntaxError("exceeded max depth".into());
    } else {
        "looking for beginning of value"
    };
    SyntaxError(format!("invalid character '{found}' {place}"))
}

#[derive(Debug, Default)]
struct Reading {
    trail: Trail,
    problems: Problems,
}

/// What is known about the value being read.
#[derive(Debug, Clone, Copy)]
enum Knowledge<'a> {
    Typed(Cursor<'a>),
    Untyped,
    /// Go keeps such values as raw text, so nothing inside is noted.
    Raw,
}

impl<'a> Knowledge<'a> {
    fn of(cursor: Cursor<'a>) -> Self {
        if is_raw(cursor) { Self::Raw } else { Self::Typed(cursor) }
    }

    /// What is known of the value under `key`; nothing when there is no such field.
    fn field(self, key: &str) -> Option<Self> {
        match self {
            Self::Typed(cursor) => cursor.field(key).map(Self::of),
            other => Some(other),
        }
    }

    fn items(self) -> Self {
        match self {
            Self::Typed(cursor) => cursor.items().map_or(Self::Raw, Self::of),
            other => other,
        }
    }
}

struct Node<'r, 'a> {
    reading: &'r mut Reading,
    knowledge: Knowledge<'a>,
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        // Beyond 64 signed bits Go falls back to floating point.
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let knowledge = self.knowledge.items();
        let mut items = Vec::new();
        loop {
            self.reading.trail.0.push(Step::Index(items.len()));
            let item = list.next_element_seed(Node { reading: &mut *self.reading, knowledge });
            self.reading.trail.0.pop();
            match item? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items.into())),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(knowledge) = self.knowledge.field(&key) else {
                map.next_value::<IgnoredAny>()?;
                let path = self.reading.trail.path_to(&key);
                self.reading.problems.unknown(&path);
                continue;
            };
            let earlier = fields.remove(&key);
            if earlier.is_some() && !matches!(self.knowledge, Knowledge::Raw) {
                let path = self.reading.trail.path_to(&key);
                self.reading.problems.duplicate(&path);
            }
            self.reading.trail.0.push(Step::Key(key));
            let value = map.next_value_seed(Node { reading: &mut *self.reading, knowledge });
            let Some(Step::Key(key)) = self.reading.trail.0.pop() else {
                return Err(A::Error::custom("the trail is uneven"));
            };
            fields.insert(key, repeated(earlier, value?, knowledge));
        }
        Ok(Value::Object(fields))
    }
}

/// What a field holds that was written twice: Go reads the second text into the same struct or map, so both
/// show; without a schema, and for lists and scalars, the second replaces the first.
fn repeated(earlier: Option<Value>, later: Value, knowledge: Knowledge<'_>) -> Value {
    match (earlier, later) {
        (Some(Value::Object(mut earlier)), Value::Object(later))
            if matches!(knowledge, Knowledge::Typed(_)) =>
        {
            earlier.extend(later);
            Value::Object(earlier)
        }
        (_, later) => later,
    }
}

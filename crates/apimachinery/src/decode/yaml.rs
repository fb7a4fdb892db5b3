//! YAML text into a tree, with the reading of YAML 1.1 that Kubernetes' converter has: `yes` and `off` are
//! booleans, keys become strings, the last of equal keys wins.

use std::borrow::Cow;
use std::fmt;

use crate::{Map, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{Decoded, Problems, SyntaxError, unknown_fields};
use crate::schema::Cursor;

/// Decodes an object of a built-in kind.
pub fn yaml(text: &[u8], schema: Cursor<'_>) -> Result<Decoded, SyntaxError> {
    let mut decoded = yaml_untyped(text)?;
    decoded.problems.extend(unknown_fields(&decoded.value, schema));
    Ok(decoded)
}

/// Decodes text without a schema.
pub fn yaml_untyped(text: &[u8]) -> Result<Decoded, SyntaxError> {
    let text = std::str::from_utf8(text)
        .map_err(|_| SyntaxError("yaml: control characters are not allowed".into()))?;
    let mut problems = Problems::default();
    let value = match read(text, DuplicateKeyPolicy::Error) {
        Ok(value) => value,
        Err(reason) => {
            let value = read(text, DuplicateKeyPolicy::LastWins)
                .map_err(|reason| SyntaxError(format!("yaml: {reason}")))?;
            let reason = duplicate_reason(&reason);
            problems.add(format!("yaml: unmarshal errors:\n  {reason}"));
            value
        }
    };
    Ok(Decoded { value, problems })
}

/// How much text is read again for the sake of lines that had to be moved.
const READ_AGAIN: usize = 32 << 20;

/// The tree of a text, or the first line of what is wrong with it.
fn read(original: &str, duplicates: DuplicateKeyPolicy) -> Result<Value, String> {
    let mut text = Cow::Borrowed(original);
    let mut left = READ_AGAIN;
    loop {
        let options = serde_saphyr::options! {
            duplicate_keys: duplicates,
            legacy_octal_numbers: true,
        };
        // Of several documents Kubernetes reads the first.
        let error = match serde_saphyr::from_multiple_with_options::<Tree>(&text, options) {
            Ok(trees) => return Ok(trees.into_iter().next().map_or(Value::Null, |tree| tree.0)),
            Err(error) => first_line(&error.to_string()).to_owned(),
        };
        let (Some(line), Some(rest)) = (misplaced(&error), left.checked_sub(text.len())) else {
            return Err(error);
        };
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let (before, after) = text.split_at_checked(start).unwrap_or((&text, ""));
        // Deeper than anything it can stand in.
        let margin = original.lines().map(indentation).max().unwrap_or_default() + 1;
        text = Cow::Owned(format!("{before}{}{after}", " ".repeat(margin)));
        left = rest;
    }
}

/// Go's parser takes a quoted text whose next line stands level with its key, and generators write such;
/// ours does not. Blanks at the start of that line are no part of the text, so there may be more.
fn misplaced(error: &str) -> Option<usize> {
    let (place, reason) = error.strip_prefix("error: line ")?.split_once(" column ")?;
    reason.contains("invalid indentation in multiline quoted scalar").then_some(())?;
    place.parse::<usize>().ok()?.checked_sub(1)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Compat: clients look for the words Go's parser has for a key that is there twice.
fn duplicate_reason(reason: &str) -> String {
    let words = || {
        let (place, rest) = reason.strip_prefix("error: line ")?.split_once(" column ")?;
        let (_, key) = rest.split_once(": duplicate mapping key: ")?;
        let (key, _) = key.split_once(", set DuplicateKeyPolicy").unwrap_or((key, ""));
        Some(format!("line {place}: key \"{key}\" already set in map"))
    };
    words().unwrap_or_else(|| reason.to_owned())
}

/// A value of any type.
struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Self)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
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
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // On its way through JSON a whole number such as `1e3` becomes an integer; the cast is exact.
        if value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 {
            return Ok(Value::from(value as i64));
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Tree(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((Tree(key), Tree(value))) = map.next_entry()? {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string().into(),
            };
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

//! A JSON text that is edited in places: what no edit touches keeps its spelling, and maps keep the
//! order of their keys.

use std::fmt;

use karmada_apimachinery::Value;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::pointer::{Shape, Tree};

/// A value, taken apart as far as paths have led into it.
#[derive(Debug)]
pub(super) enum Document {
    Raw(Box<RawValue>),
    Map(Vec<(String, Document)>),
    List(Vec<Document>),
}

impl Document {
    /// Takes a text apart by one level. One whose keys cannot be read stays whole.
    fn open(&mut self) {
        let Self::Raw(raw) = self else { return };
        let text = raw.get();
        let opened = match text.as_bytes().first() {
            Some(b'{') => serde_json::from_str(text).map(|Fields(fields)| Self::Map(fields)),
            Some(b'[') => serde_json::from_str(text).map(Self::List),
            _ => return,
        };
        if let Ok(opened) = opened {
            *self = opened;
        }
    }

    fn fields(&mut self) -> Option<&mut Vec<(String, Self)>> {
        self.open();
        if let Self::Map(fields) = self { Some(fields) } else { None }
    }

    fn items(&mut self) -> Option<&mut Vec<Self>> {
        self.open();
        if let Self::List(items) = self { Some(items) } else { None }
    }
}

impl Tree for Document {
    fn of(value: &Value) -> Self {
        Self::Raw(RawValue::from_string(value.to_string()).expect("a value is written as JSON"))
    }

    fn shape(&mut self) -> Shape {
        self.open();
        match self {
            Self::Raw(_) => Shape::Scalar,
            Self::Map(_) => Shape::Map,
            Self::List(items) => Shape::List(items.len()),
        }
    }

    fn field(&mut self, key: &str) -> Option<&mut Self> {
        let fields = self.fields()?;
        fields.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    fn item(&mut self, place: usize) -> Option<&mut Self> {
        self.items()?.get_mut(place)
    }

    fn set_field(&mut self, key: String, value: Self) {
        if let Some(held) = self.field(&key) {
            *held = value;
        } else if let Some(fields) = self.fields() {
            fields.push((key, value));
        }
    }

    fn remove_field(&mut self, key: &str) -> bool {
        let Some(fields) = self.fields() else { return false };
        let before = fields.len();
        fields.retain(|(name, _)| name != key);
        fields.len() < before
    }

    fn insert_item(&mut self, place: usize, value: Self) {
        if let Some(items) = self.items() {
            items.insert(place, value);
        }
    }

    fn remove_item(&mut self, place: usize) {
        if let Some(items) = self.items() {
            items.remove(place);
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(Self::Raw)
    }
}

struct Fields(Vec<(String, Document)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = access.next_entry::<String, Document>()? {
                    match fields.iter_mut().find(|(name, _)| *name == field.0) {
                        // A key that stands twice has its last value.
                        Some(held) => *held = field,
                        None => fields.push(field),
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Without spaces between the parts.
impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw(raw) => write_compact(f, raw.get()),
            Self::Map(fields) => {
                f.write_str("{")?;
                for (place, (key, value)) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{value}", Value::from(key.as_str()))?;
                }
                f.write_str("}")
            }
            Self::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Writes a JSON text without the spaces outside of its strings.
fn write_compact(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let (mut in_string, mut is_escaped) = (false, false);
    let is_left_out = |c: char| {
        let is_space = !in_string && c.is_ascii_whitespace();
        in_string ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_space
    };
    text.split(is_left_out).try_for_each(|run| f.write_str(run))
}

//! Whether a stored resource is in the shape its schema gives it, told from its text alone. Nearly all are, and a
//! tree of each of them is most of what a start with many resources would take.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::shape::{META_FIELDS, known_field};
use crate::Value;
use crate::schema::{Additional, Schema};

/// Whether [`super::shape_stored`] would leave the resource as it is. A no may be wrong, a yes is not.
pub(super) fn is_shaped(text: &[u8], schema: &Schema) -> bool {
    let mut text = serde_json::Deserializer::from_slice(text);
    Node { schema, embedded: true }.deserialize(&mut text).is_ok() && text.end().is_ok()
}

/// The same of a tree.
pub(super) fn is_in_shape(value: &Value, schema: &Schema) -> bool {
    has_shape(value, schema, true)
}

fn has_shape(value: &Value, schema: &Schema, embedded: bool) -> bool {
    match value {
        Value::Object(fields) => {
            // Fields and properties are both in the order of their names.
            let mut properties = schema.properties.iter().peekable();
            for (key, value) in fields {
                while let Some((_, absent)) = properties.next_if(|(name, _)| ***name < **key) {
                    if absent.default.is_some() {
                        return false;
                    }
                }
                let property = properties.next_if(|(name, _)| ***name == **key);
                let property = property.map(|(_, property)| property);
                if !field_has_shape(key, value, (schema, property), embedded) {
                    return false;
                }
            }
            properties.all(|(_, absent)| absent.default.is_none())
        }
        Value::Array(items) => match schema.items.as_deref() {
            Some(element) => {
                let embedded = element.extensions.embedded_resource;
                items.iter().all(|item| has_shape(item, element, embedded))
            }
            None => schema.extensions.preserve_unknown_fields || items.iter().all(is_scalar),
        },
        Value::Null => schema.nullable,
        _ => true,
    }
}

fn field_has_shape(
    key: &str,
    value: &Value,
    (schema, property): (&Schema, Option<&Schema>),
    embedded: bool,
) -> bool {
    let preserve = schema.extensions.preserve_unknown_fields;
    let field = match (property, &schema.additional) {
        (Some(property), _) => Some(Some(property)),
        (None, Additional::Unspecified) => None,
        (None, Additional::Allowed | Additional::Forbidden) => Some(None),
        (None, Additional::Schema(values)) => Some(Some(&**values)),
    };
    if embedded && META_FIELDS.contains(&key) {
        // As of text: what a schema says about metadata is rare.
        return !value.is_null() && !matches!(field, Some(Some(field)) if !is_plain(field));
    }
    match field {
        Some(Some(field)) => has_shape(value, field, field.extensions.embedded_resource),
        Some(None) => preserve || is_scalar(value),
        None => preserve,
    }
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

/// A value with a schema. Whatever the schema would change ends the reading with an error.
#[derive(Clone, Copy)]
struct Node<'s> {
    schema: &'s Schema,
    embedded: bool,
}

fn changes<T, E: Error>() -> Result<T, E> {
    Err(E::custom("it would be changed"))
}

impl Node<'_> {
    fn of(schema: &Schema) -> Node<'_> {
        Node { schema, embedded: schema.extensions.embedded_resource }
    }

    fn field<'de, A: MapAccess<'de>>(&self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let preserve = self.schema.extensions.preserve_unknown_fields;
        let field = known_field(Some(self.schema), key);
        if self.embedded && META_FIELDS.contains(&key) {
            return match field {
                // What a schema says about metadata is rare enough to be left to the tree.
                Some(Some(field)) if !is_plain(field) => changes(),
                _ => map.next_value_seed(Filled),
            };
        }
        match field {
            Some(Some(field)) => map.next_value_seed(Node::of(field)),
            Some(None) if !preserve => map.next_value_seed(Scalar),
            None if !preserve => changes(),
            _ => map.next_value::<IgnoredAny>().map(drop),
        }
    }
}

/// Whether the schema has nothing to say about what is inside.
fn is_plain(schema: &Schema) -> bool {
    schema.properties.is_empty()
        && schema.items.is_none()
        && !matches!(schema.additional, Additional::Schema(_))
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// What values without anything inside are to all visitors here.
macro_rules! scalars {
    () => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
            Ok(())
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
            Ok(())
        }
        fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
            Ok(())
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
            Ok(())
        }
        fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
            Ok(())
        }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value in its shape")
        }
    };
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    scalars!();

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if self.schema.nullable { Ok(()) } else { changes() }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let has_default = |key: &str| {
            self.schema.properties.get(key).is_some_and(|property| property.default.is_some())
        };
        let mut defaulted = 0;
        while let Some(key) = map.next_key_seed(Key)? {
            defaulted += usize::from(has_default(&key));
            self.field(&key, &mut map)?;
        }
        let properties = self.schema.properties.values();
        let defaults = properties.filter(|property| property.default.is_some()).count();
        if defaulted == defaults { Ok(()) } else { changes() }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        match self.schema.items.as_deref() {
            Some(element) => while items.next_element_seed(Node::of(element))?.is_some() {},
            None if self.schema.extensions.preserve_unknown_fields => {
                while items.next_element::<IgnoredAny>()?.is_some() {}
            }
            None => while items.next_element_seed(Scalar)?.is_some() {},
        }
        Ok(())
    }
}

/// A value that has nothing inside that could be unknown.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scalar {
    type Value = ();

    scalars!();
}

/// Any value but null.
struct Filled;

impl<'de> DeserializeSeed<'de> for Filled {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Filled {
    type Value = ();

    scalars!();

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// A key, borrowed from the text where it stands there as it is.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
}

#[cfg(test)]
mod tests {
    use crate::json;
    use proptest::prelude::*;

    use super::super::shape::{default, drop_nulls, prune};
    use super::super::shape_stored;
    use super::*;

    fn schema(text: Value) -> Schema {
        Schema::parse(&text).unwrap()
    }

    #[test]
    fn what_the_schema_gives_is_told_from_what_it_would_change() {
        let schema = schema(json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 1},
                "note": {"type": "string", "nullable": true},
                "word": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "whole": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            }},
        }}));
        let metadata = json!({"name": "n", "labels": {"a": "b"}, "managedFields": [{"f:x": {}}]});
        let cases = [
            (json!({"size": 1}), true),
            (json!({}), false),
            (json!({"size": 2, "other": 1}), false),
            (json!({"size": null}), false),
            (json!({"size": 1, "note": null}), true),
            (json!({"size": 1, "word": null}), false),
            (json!({"size": 1, "list": [{"a": "y"}, {"a": ""}]}), true),
            (json!({"size": 1, "list": [{"a": "y"}, {}]}), false),
            (json!({"size": 1, "map": {"any": "thing"}}), true),
            (json!({"size": 1, "map": {"any": null}}), false),
            (json!({"size": 1, "open": {"any": [null, {"b": null}]}}), true),
            (json!({"size": 1, "whole": {"kind": "K", "metadata": {"x": null}, "more": {}}}), true),
        ];
        for (spec, expected) in cases {
            let object =
                json!({"apiVersion": "g/v1", "kind": "K", "metadata": metadata, "spec": spec});
            assert_eq!(is_shaped(object.to_string().as_bytes(), &schema), expected, "{object}");
            assert_eq!(!shape_stored(&mut object.clone(), &schema), expected, "{object}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..9).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]|metadata|kind", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let flags = || (any::<bool>(), prop::option::of(0..3), any::<bool>(), any::<bool>());
        let dress =
            |mut schema: Value,
             (nullable, default, preserve, embedded): (bool, Option<i32>, bool, bool)| {
                schema["nullable"] = nullable.into();
                if let Some(default) = default {
                    schema["default"] = default.into();
                }
                schema["x-kubernetes-preserve-unknown-fields"] = preserve.into();
                schema["x-kubernetes-embedded-resource"] = embedded.into();
                schema
            };
        let leaf = flags().prop_map(move |flags| dress(json!({"type": "integer"}), flags));
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                (prop::collection::btree_map("[a-c]|metadata", inner.clone(), 0..4), flags())
                    .prop_map(move |(properties, flags)| dress(
                        json!({"type": "object", "properties": properties}),
                        flags
                    )),
                (inner.clone(), flags()).prop_map(move |(values, flags)| {
                    dress(json!({"type": "object", "additionalProperties": values}), flags)
                }),
                (any::<bool>(), flags()).prop_map(move |(allowed, flags)| {
                    dress(json!({"type": "object", "additionalProperties": allowed}), flags)
                }),
                (inner, flags()).prop_map(move |(items, flags)| dress(
                    json!({"type": "array", "items": items}),
                    flags
                )),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_that_would_be_changed_is_taken_for_shaped(schema in any_schema(), object in value()) {
            let schema = Schema::parse(&schema).unwrap();
            let told = is_shaped(object.to_string().as_bytes(), &schema);
            prop_assert_eq!(is_in_shape(&object, &schema), told);
            if told {
                let mut shaped = object.clone();
                prop_assert!(prune(&mut shaped, &schema).is_empty());
                prop_assert!(!drop_nulls(&mut shaped, &schema));
                prop_assert!(!default(&mut shaped, &schema));
                prop_assert_eq!(shaped, object);
            }
        }
    }
}

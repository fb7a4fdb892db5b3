//! Whether a value is surely valid. Nearly all are, and to know that takes no paths, no messages and no counting of what
//! passed; only the others go to the validator.

use serde_json::Number;

use super::validate::{MAX_DEPTH, types};
use super::{formats, pattern};
use crate::schema::{Additional, Limits, Schema, Type};
use crate::{Map, Value};

/// Whether [`super::validate`] has nothing to say about a value. A no may be wrong, a yes is not.
pub(super) fn accepts(value: &Value, schema: &Schema) -> bool {
    accepts_at(value, schema, 0)
}

fn accepts_at(value: &Value, schema: &Schema, depth: usize) -> bool {
    let limits = schema.limits.as_deref();
    if depth > MAX_DEPTH || limits.is_some_and(|limits| !fits_whole(value, limits, depth)) {
        return false;
    }
    let types = types(schema);
    if types.is_empty() && schema.format.is_some() {
        return false;
    }
    let has_type = |found: Type| types.is_empty() || types.contains(&found);
    match value {
        Value::Null => types.is_empty() || schema.nullable,
        Value::Bool(_) => has_type(Type::Boolean),
        Value::Number(number) => {
            let whole = number.as_i64();
            let fits_type = match whole {
                Some(_) => has_type(Type::Integer) || has_type(Type::Number),
                None => has_type(Type::Number),
            };
            fits_type
                && fits_format(number, schema)
                && limits.is_none_or(|limits| fits(whole, limits))
        }
        Value::String(text) => {
            has_type(Type::String)
                && limits.is_none_or(|limits| text_fits(text, limits))
                && schema
                    .format
                    .as_deref()
                    .is_none_or(|format| formats::fits(format, text) != Some(false))
        }
        Value::Array(items) => {
            has_type(Type::Array)
                && limits.is_none_or(|limits| {
                    !limits.unique_items && counts(items.len(), limits.min_items, limits.max_items)
                })
                && schema.items.as_deref().is_none_or(|element| {
                    items.iter().all(|item| accepts_at(item, element, depth + 1))
                })
        }
        Value::Object(fields) => {
            has_type(Type::Object)
                && limits.is_none_or(|limits| {
                    counts(fields.len(), limits.min_properties, limits.max_properties)
                })
                && schema.required.iter().all(|key| fields.contains_key(&**key))
                && accepts_fields(fields, schema, depth)
        }
    }
}

fn accepts_fields(fields: &Map, schema: &Schema, depth: usize) -> bool {
    // Fields and properties are both in the order of their names.
    let mut properties = schema.properties.iter().peekable();
    fields.iter().all(|(key, value)| {
        while properties.next_if(|(name, _)| ***name < **key).is_some() {}
        match (properties.next_if(|(name, _)| ***name == **key), &schema.additional) {
            (Some((_, property)), _) => accepts_at(value, property, depth + 1),
            (None, Additional::Schema(values)) => accepts_at(value, values, depth + 1),
            (None, Additional::Forbidden) => false,
            (None, Additional::Unspecified | Additional::Allowed) => true,
        }
    })
}

/// What is asked of values of every type.
fn fits_whole(value: &Value, limits: &Limits, depth: usize) -> bool {
    let alternative = |schema: &Schema| accepts_at(value, schema, depth + 1);
    // None of these is asked of null.
    let combines = value.is_null()
        || (limits.one_of.is_empty()
            && limits.not.is_none()
            && limits.all_of.iter().all(alternative)
            && (limits.any_of.is_empty() || limits.any_of.iter().any(alternative)));
    let allowed = limits.enumeration.as_ref().filter(|allowed| !allowed.is_empty());
    combines && allowed.is_none_or(|allowed| allowed.contains(value))
}

fn counts(size: usize, min: Option<u64>, max: Option<u64>) -> bool {
    let size = size as u64;
    min.is_none_or(|min| size >= min) && max.is_none_or(|max| size <= max)
}

fn text_fits(text: &str, limits: &Limits) -> bool {
    let is_counted = limits.min_length.is_some() || limits.max_length.is_some();
    (!is_counted || counts(text.chars().count(), limits.min_length, limits.max_length))
        && limits.pattern.as_deref().is_none_or(|wanted| {
            pattern::compile(wanted).is_ok_and(|compiled| compiled.is_match(text))
        })
}

fn fits_format(number: &Number, schema: &Schema) -> bool {
    match schema.format.as_deref() {
        None => true,
        Some("int32") => number.as_i64().is_some_and(|whole| i32::try_from(whole).is_ok()),
        Some("int64") => number.is_i64(),
        Some(_) => false,
    }
}

/// Whether a whole number is within bounds that are whole as well.
fn fits(number: Option<i64>, limits: &Limits) -> bool {
    let Limits { minimum, maximum, multiple_of, .. } = limits;
    if minimum.is_none() && maximum.is_none() && multiple_of.is_none() {
        return true;
    }
    let Some(number) = number.and_then(|number| i32::try_from(number).ok()) else { return false };
    let is_small = |bound: &f64| bound.fract() == 0.0 && bound.abs() <= f64::from(i32::MAX);
    let number = f64::from(number);
    multiple_of.is_none()
        && minimum.is_none_or(|min| {
            is_small(&min) && (number > min || (number == min && !limits.exclusive_minimum))
        })
        && maximum.is_none_or(|max| {
            is_small(&max) && (number < max || (number == max && !limits.exclusive_maximum))
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::validate::{check, check_change};
    use super::*;
    use crate::field::Path;
    use crate::json;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2..9).prop_map(Value::from),
            Just(json!(1.5)),
            Just(json!(3_000_000_000_u64)),
            Just(json!("2026-11-18T00:00:00Z")),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let keywords = prop::sample::subsequence(
            vec![
                ("nullable", json!(true)),
                ("enum", json!(["a", 1, null, 1.5])),
                ("minimum", json!(1)),
                ("maximum", json!(4)),
                ("minimum", json!(0.5)),
                ("exclusiveMinimum", json!(true)),
                ("multipleOf", json!(2)),
                ("minLength", json!(1)),
                ("maxLength", json!(2)),
                ("pattern", json!("^a")),
                ("minItems", json!(1)),
                ("maxItems", json!(2)),
                ("uniqueItems", json!(true)),
                ("minProperties", json!(1)),
                ("maxProperties", json!(2)),
                ("required", json!(["a"])),
                ("format", json!("int32")),
                ("format", json!("date-time")),
                ("additionalProperties", json!(false)),
                ("x-kubernetes-int-or-string", json!(true)),
            ],
            0..4,
        );
        let kinds = ["string", "integer", "number", "boolean", "object", "array", ""];
        let node = (prop::sample::select(kinds.to_vec()), keywords).prop_map(|(kind, keywords)| {
            let mut schema = json!({});
            if !kind.is_empty() {
                schema["type"] = kind.into();
            }
            keywords.into_iter().for_each(|(name, value)| schema[name] = value);
            schema
        });
        node.clone().prop_recursive(3, 16, 3, move |inner| {
            let parts = prop::collection::btree_map("[a-c]", inner.clone(), 0..3);
            let combined = prop::sample::select(&["allOf", "anyOf", "oneOf"][..]);
            let list = prop::collection::vec(inner.clone(), 1..3);
            prop_oneof![
                (node.clone(), parts).prop_map(|(mut schema, parts)| {
                    schema["properties"] = parts.into_iter().collect();
                    schema
                }),
                (node.clone(), inner.clone()).prop_map(|(mut schema, inner)| {
                    schema["items"] = inner;
                    schema
                }),
                (node.clone(), inner.clone()).prop_map(|(mut schema, inner)| {
                    schema["additionalProperties"] = inner;
                    schema
                }),
                (node.clone(), combined, list).prop_map(|(mut schema, name, list)| {
                    schema[name] = list.into();
                    schema
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_is_wrong_with_what_is_accepted(schema in any_schema(), value in any_value(), old in any_value()) {
            let schema = Schema::parse(&schema).expect("a schema");
            if accepts(&value, &schema) {
                prop_assert_eq!(check(&value, &schema, &Path::root()), []);
                prop_assert_eq!(check_change(&value, &old, &schema, &Path::root()), []);
            }
        }
    }
}

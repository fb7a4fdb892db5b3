//! What reading an object of a built-in kind into Go structs and writing it again makes of it: unknown and
//! empty fields go, required ones appear, times and quantities take their canonical form.

use crate::{Map, Value};

use super::Mismatch;
use super::mismatch::Place;
use super::scalar::{self, zero_of};
use crate::schema::{Additional, Cursor, Presence, Special, Type};

/// Deeper trees are refused; JSON text of such depth is refused already.
const MAX_DEPTH: usize = 200;

/// Brings an object into the shape the API server stores and answers.
pub fn normalise(mut value: Value, schema: Cursor<'_>) -> Result<Value, Mismatch> {
    normalise_in_place(&mut value, schema)?;
    Ok(value)
}

/// The same where the object stands; one that does not fit is left half done.
pub fn normalise_in_place(value: &mut Value, schema: Cursor<'_>) -> Result<(), Mismatch> {
    // Most objects come from somebody who read them here, and then stay shared.
    if is_normal(value, schema) {
        return Ok(());
    }
    shape(value, schema, &Place::root(), 0)
}

/// Whether [`normalise`] would leave a value as it is. A no may be wrong, a yes is not.
pub fn is_normal(value: &Value, schema: Cursor<'_>) -> bool {
    has_shape(value, schema, 0)
}

fn has_shape(value: &Value, cursor: Cursor<'_>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    if let Some(special) = cursor.special() {
        return match (special, value) {
            (Special::Raw, _) => true,
            (Special::Time, Value::String(text)) => scalar::is_plain_time(text),
            (Special::Quantity, Value::String(text)) => scalar::is_plain_quantity(text),
            (Special::IntOrString, Value::String(_)) => true,
            (Special::IntOrString, Value::Number(number)) => fits(number, Some("int32")),
            _ => false,
        };
    }
    let schema = cursor.schema();
    match (schema.kind, value) {
        (Type::Object | Type::Any, Value::Object(fields)) if is_map(cursor) => cursor
            .values()
            .is_none_or(|values| fields.values().all(|value| has_shape(value, values, depth + 1))),
        (Type::Object | Type::Any, Value::Object(fields)) => {
            let Some(persistent) = cursor.persistent() else { return false };
            persistent.iter().all(|name| fields.contains_key(&**name))
                && fields.iter().all(|(name, value)| {
                    let field = cursor.property(name);
                    field.is_some_and(|field| field_has_shape(value, field, depth + 1))
                })
        }
        (Type::Array, Value::Array(items)) => cursor
            .items()
            .is_none_or(|element| items.iter().all(|item| has_shape(item, element, depth + 1))),
        (Type::String, Value::String(_)) => schema.format.as_deref() != Some("byte"),
        (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => true,
        (Type::Integer, Value::Number(number)) => fits(number, schema.format.as_deref()),
        _ => false,
    }
}

fn field_has_shape(value: &Value, field: Cursor<'_>, depth: usize) -> bool {
    let presence = field.site().presence;
    if value.is_null() {
        return presence == Presence::Nullable;
    }
    let goes = match presence {
        Presence::OmitEmpty => !is_struct(field) && is_empty(value),
        Presence::Always => !is_struct(field) && is_empty_collection(value),
        _ => false,
    };
    !goes && has_shape(value, field, depth)
}

/// Where a request holds empty lists, as JSON pointers.
pub fn empty_lists(request: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if holds_empty_list(request) {
        collect_empty_lists(request, &mut String::new(), &mut found);
    }
    found
}

fn collect_empty_lists(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let at = path.len();
    let mut descend = |step: &str, value: &Value| {
        path.push('/');
        path.push_str(&step.replace('~', "~0").replace('/', "~1"));
        collect_empty_lists(value, path, found);
        path.truncate(at);
    };
    match value {
        Value::Array(items) if items.is_empty() => found.push(path.clone()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| descend(&index.to_string(), item));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| descend(name, value)),
        _ => {}
    }
}

/// Puts empty lists back where the client wrote them and [`normalise`] made them null: until the object is
/// stored, whoever writes an empty list owns it.
pub fn carry_empty_lists(pointers: &[String], decoded: &mut Value) {
    for pointer in pointers {
        if let Some(value @ Value::Null) = decoded.pointer_mut(pointer) {
            *value = Value::Array(Default::default());
        }
    }
}

/// Makes empty lists null where storage does not tell them from absent ones.
pub fn drop_empty_lists(object: &mut Value, schema: Cursor<'_>) {
    // Most objects have none, and looking is cheap without a schema.
    if holds_empty_list(object) {
        drop_within(object, schema);
    }
}

fn holds_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(holds_empty_list),
        Value::Object(fields) => fields.values().any(holds_empty_list),
        _ => false,
    }
}

fn drop_within(value: &mut Value, cursor: Cursor<'_>) {
    if cursor.special().is_some() {
        return;
    }
    match value {
        Value::Object(fields) if is_map(cursor) => {
            let Some(values) = cursor.values() else { return };
            fields.values_mut().for_each(|value| drop_within(value, values));
        }
        Value::Object(fields) => {
            for (name, field) in cursor.properties() {
                match fields.get_mut(name) {
                    Some(value @ Value::Array(_))
                        if field.site().presence == Presence::Always
                            && is_empty_collection(value) =>
                    {
                        *value = Value::Null;
                    }
                    Some(value) => drop_within(value, field),
                    None => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(element) = cursor.items() else { return };
            items.iter_mut().for_each(|item| drop_within(item, element));
        }
        _ => {}
    }
}

fn shape(
    value: &mut Value,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<(), Mismatch> {
    if depth > MAX_DEPTH {
        return Err(Mismatch::custom("exceeded max depth"));
    }
    if let Some(special) = cursor.special() {
        return shape_special(value, special, cursor, place, depth);
    }
    let schema = cursor.schema();
    match (schema.kind, &mut *value) {
        (_, Value::Null) => *value = zero(cursor, depth)?,
        (Type::Object | Type::Any, Value::Object(fields)) => {
            if is_map(cursor) {
                let Some(values) = cursor.values() else { return Ok(()) };
                for value in fields.values_mut() {
                    shape(value, values, place, depth + 1)?;
                }
            } else {
                shape_struct(fields, cursor, place, depth)?;
            }
        }
        (Type::Array, Value::Array(items)) => {
            let Some(element) = cursor.items() else { return Ok(()) };
            for item in items {
                shape(item, element, place, depth + 1)?;
            }
        }
        (Type::String, Value::String(text)) => {
            if schema.format.as_deref() == Some("byte") {
                *value = scalar::bytes(text)?;
            }
        }
        (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => {}
        (Type::Integer, Value::Number(number)) if fits(number, schema.format.as_deref()) => {}
        (_, value) => return Err(Mismatch::new(value, cursor, place)),
    }
    Ok(())
}

fn fits(number: &serde_json::Number, format: Option<&str>) -> bool {
    match (number.as_i64(), format) {
        (Some(number), Some("int32")) => i32::try_from(number).is_ok(),
        (Some(_), _) => true,
        (None, _) => false,
    }
}

fn is_map(cursor: Cursor<'_>) -> bool {
    cursor.definition().is_none() && !matches!(cursor.schema().additional, Additional::Unspecified)
}

fn shape_special(
    value: &mut Value,
    special: Special,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<(), Mismatch> {
    match (special, &mut *value) {
        (Special::Raw, _) => {}
        (special, Value::Null) => *value = zero_of(special),
        (Special::Time, Value::String(text)) => *value = scalar::time(text, false)?,
        (Special::MicroTime, Value::String(text)) => *value = scalar::time(text, true)?,
        (Special::Quantity, amount) => *value = scalar::quantity(amount)?,
        (Special::IntOrString, Value::String(_)) => {}
        (Special::IntOrString, Value::Number(number)) if fits(number, Some("int32")) => {}
        (Special::SchemaOr, Value::Object(fields)) => {
            if let Some(props) = cursor.definitions().cursor(&Special::schema_props()) {
                shape_struct(fields, props, place, depth + 1)?;
            }
        }
        (Special::SchemaOr, Value::Array(items)) => {
            for item in items.iter_mut().filter(|item| item.is_object() || item.is_array()) {
                shape_special(item, special, cursor, place, depth + 1)?;
            }
        }
        (Special::SchemaOr, Value::Bool(_)) => {}
        (_, value) => return Err(Mismatch::new(value, cursor, place)),
    }
    Ok(())
}

fn shape_struct(
    fields: &mut Map,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<(), Mismatch> {
    let mut outcome = Ok(());
    fields.retain(|name, value| {
        if outcome.is_err() {
            return true;
        }
        let Some(field) = cursor.property(name) else { return false };
        let place = place.field(name, cursor.definition());
        let kept = shape_field(value, field, &place, depth);
        kept.unwrap_or_else(|mismatch| {
            outcome = Err(mismatch);
            true
        })
    });
    outcome?;
    let mut complete = |name: &str, field: Cursor<'_>| -> Result<(), Mismatch> {
        if !fields.contains_key(name) {
            let mut value = Value::Null;
            if shape_field(&mut value, field, place, depth)? {
                fields.insert(name.to_owned(), value);
            }
        }
        Ok(())
    };
    match cursor.persistent() {
        // What was left out for being empty is none of these.
        Some(persistent) => {
            for name in persistent {
                if let Some(field) = cursor.property(name) {
                    complete(name, field)?;
                }
            }
            Ok(())
        }
        None => cursor.properties().try_for_each(|(name, field)| complete(name, field)),
    }
}

/// Shapes the value of a field, null where nothing was given; whether the field is written.
fn shape_field(
    value: &mut Value,
    field: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<bool, Mismatch> {
    let presence = field.site().presence;
    if value.is_null() {
        match presence {
            Presence::Pointer | Presence::OmitZero => return Ok(false),
            Presence::Nullable => return Ok(true),
            Presence::OmitEmpty if !is_struct(field) => return Ok(false),
            _ => *value = zero(field, depth + 1)?,
        }
    } else {
        shape(value, field, place, depth + 1)?;
    }
    match presence {
        Presence::OmitEmpty if !is_struct(field) && is_empty(value) => return Ok(false),
        Presence::OmitZero if value.is_null() => return Ok(false),
        // Lists and maps that hold nothing do not survive storage.
        Presence::Always if is_empty_collection(value) && !is_struct(field) => *value = Value::Null,
        _ => {}
    }
    Ok(true)
}

/// Whether Go holds the value in a struct, which is never empty.
fn is_struct(cursor: Cursor<'_>) -> bool {
    cursor.definition().is_some()
}

/// What Go writes for a value that was never set.
fn zero(cursor: Cursor<'_>, depth: usize) -> Result<Value, Mismatch> {
    if let Some(special) = cursor.special() {
        return Ok(zero_of(special));
    }
    Ok(match cursor.schema().kind {
        Type::Object | Type::Any if is_struct(cursor) => {
            let mut fields = Map::new();
            shape_struct(&mut fields, cursor, &Place::root(), depth + 1)?;
            Value::Object(fields)
        }
        Type::String if cursor.schema().format.as_deref() == Some("byte") => Value::Null,
        Type::String => "".into(),
        Type::Integer | Type::Number => 0.into(),
        Type::Boolean => false.into(),
        _ => Value::Null,
    })
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => is_empty_collection(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::with_deployment;
    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let texts = ["", "a", "2026-11-18T00:00:00Z", "2026-11-18T00:00:00+01:00", "64Mi", "1000m"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            prop::sample::select(texts.to_vec()).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let names = "apiVersion|metadata|spec|data|raw|name|created|replicas|paused|since|memory|containers|image";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(names, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_normal_stays_as_it_is(value in any_value()) {
            with_deployment(|schema| {
                let mut shaped = value.clone();
                let done = shape(&mut shaped, schema, &Place::root(), 0);
                if is_normal(&value, schema) {
                    prop_assert_eq!(done, Ok(()));
                    prop_assert_eq!(&shaped, &value);
                }
                Ok(())
            })?;
        }
    }
}

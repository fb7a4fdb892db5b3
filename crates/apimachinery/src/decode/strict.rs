//! Unknown fields of a tree that is already decoded: after a patch, or when the text was YAML.

use crate::Value;

use super::scalar::is_raw;
use super::{Problems, Step, Trail};
use crate::schema::Cursor;

/// Lists the fields the schema lacks, in the order of their names.
pub fn unknown_fields(value: &Value, schema: Cursor<'_>) -> Problems {
    let mut problems = Problems::default();
    // Most objects have none, and looking is cheap as long as nobody asks where.
    if has_unknown(value, schema) {
        walk(value, schema, &mut Trail::default(), &mut problems);
    }
    problems
}

fn has_unknown(value: &Value, schema: Cursor<'_>) -> bool {
    if is_raw(schema) {
        return false;
    }
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| match schema.field(key) {
            None => true,
            Some(field) => has_unknown(value, field),
        }),
        Value::Array(items) => {
            schema.items().is_some_and(|schema| items.iter().any(|item| has_unknown(item, schema)))
        }
        _ => false,
    }
}

fn walk(value: &Value, schema: Cursor<'_>, trail: &mut Trail, problems: &mut Problems) {
    if is_raw(schema) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match schema.field(key) {
                    None => problems.unknown(&trail.path_to(key)),
                    Some(field) => {
                        trail.0.push(Step::Key(key.to_string()));
                        walk(value, field, trail, problems);
                        trail.0.pop();
                    }
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                trail.0.push(Step::Index(index));
                walk(item, schema, trail, problems);
                trail.0.pop();
            }
        }
        _ => {}
    }
}

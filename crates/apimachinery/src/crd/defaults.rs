//! Whether the defaults in a schema would pass the schema themselves.

use super::resource::validate_embedded;
use super::shape::prune_part;
use super::validate::validate;
use crate::field::{FieldError, Path};
use crate::schema::Schema;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Checks every default of a schema that is known to be structural.
pub(super) fn validate_defaults(schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, path, true, false, &mut errors);
    errors
}

fn check(
    schema: &Schema,
    path: &Path,
    is_resource: bool,
    inside_meta: bool,
    errors: &mut Vec<FieldError>,
) {
    let is_resource = is_resource || schema.extensions.embedded_resource;
    let inside_meta = inside_meta && !is_resource;
    if let Some(default) = &schema.default {
        let place = path.child("default");
        let mut pruned = (**default).clone();
        prune_part(&mut pruned, schema);
        if !inside_meta && pruned != **default {
            errors.push(FieldError::invalid(
                &place,
                (**default).clone(),
                "must not have unknown fields",
            ));
        }
        let embedded = validate_embedded(default, schema, &place);
        errors.extend(if embedded.is_empty() {
            validate(default, schema, &place)
        } else {
            embedded
        });
    }
    if let Some(items) = schema.items.as_deref() {
        check(items, &path.child("items"), false, inside_meta, errors);
    }
    for (name, property) in &schema.properties {
        let inside_meta = inside_meta || (is_resource && META_FIELDS.contains(&&**name));
        check(property, &path.child("properties").key(name), false, inside_meta, errors);
    }
}

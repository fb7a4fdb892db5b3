//! The parts a version of a definition declares: schema, subresources, columns, selectable fields.

use crate::{Map, Value};

use super::resource::{Rules, has_rules};
use super::schema_rules::{self, Brackets, find_field};
use super::{defaults, structural};
use crate::field::{FieldError, Path};
use crate::object::ObjectExt;
use crate::schema::Schema;

const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
const MAX_SELECTABLE_FIELDS: usize = 8;

/// Keywords allowed at the root of a schema beside a status subresource; the names are Go's.
const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum \
    ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items \
    Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
const REFUSED_AT_ROOT: &[&str] = &[
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "definitions",
    "dependencies",
    "enum",
    "id",
    "maxProperties",
    "minProperties",
    "not",
    "nullable",
    "oneOf",
    "patternProperties",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

pub(super) fn validate_schema(
    validation: &Value,
    path: &Path,
    has_status: bool,
    rules: &dyn Rules,
) -> Vec<FieldError> {
    let Some(schema) = validation.get("openAPIV3Schema").filter(|schema| schema.is_object()) else {
        return Vec::new();
    };
    let path = path.child("openAPIV3Schema");
    let mut errors = Vec::new();
    if has_status {
        errors.extend(validate_root_keywords(schema, &path));
    }
    if schema.bool_at(&["nullable"]) == Some(true) {
        let place = path.child("nullable");
        errors.push(FieldError::forbidden(&place, "nullable cannot be true at the root"));
    }
    let is_readable = structural::is_readable(schema);
    let mut structural_errors = Vec::new();
    let parsed = Schema::parse(schema).ok();
    if is_readable {
        structural_errors = structural::validate(schema, &path);
        if let Some(parsed) = parsed.as_ref().filter(|_| structural_errors.is_empty()) {
            structural_errors = defaults::validate_defaults(parsed, &path);
        }
    }
    let is_sound = is_readable && structural_errors.is_empty();
    errors.extend(structural_errors);
    let shape_errors = schema_rules::validate(schema, &path);
    let rules_apply = is_sound && shape_errors.is_empty();
    errors.extend(shape_errors);
    if let Some(parsed) = parsed.filter(|parsed| rules_apply && has_rules(parsed)) {
        errors.extend(rules.check_definition(&parsed, &path));
    }
    errors
}

/// Beside a status subresource the root may not say what would be lost for the status alone.
fn validate_root_keywords(schema: &Value, path: &Path) -> Option<FieldError> {
    let map: &Map = schema.as_object()?;
    let kind = schema.str_at(&["type"]).unwrap_or_default();
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                      subresource is enabled";
        return Some(FieldError::invalid(&path.child("type"), kind, detail));
    }
    REFUSED_AT_ROOT.iter().any(|keyword| structural::present(map, keyword)).then(|| {
        let detail = format!(
            "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status \
             subresource is enabled"
        );
        FieldError::invalid(path, schema.clone(), detail)
    })
}

pub(super) fn validate_subresources(subresources: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(scale) = subresources.get("scale").filter(|scale| scale.is_object()) else {
        return errors;
    };
    for (key, prefixes, required, where_text) in [
        ("specReplicasPath", &[".spec."][..], true, ".spec"),
        ("statusReplicasPath", &[".status."][..], true, ".status"),
        ("labelSelectorPath", &[".spec.", ".status."][..], false, "either .spec or .status"),
    ] {
        let place = path.child(&format!("scale.{key}"));
        let value = scale.str_at(&[key]).unwrap_or_default();
        if value.is_empty() {
            if required {
                errors.push(FieldError::required(&place, ""));
            }
        } else if let Some(error) = simple_path_error(value, &place) {
            errors.push(error);
        } else if !prefixes.iter().any(|prefix| value.starts_with(prefix)) {
            let detail = format!("should be a json path under {where_text}");
            errors.push(FieldError::invalid(&place, value, detail));
        }
    }
    errors
}

fn simple_path_error(value: &str, place: &Path) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!value.starts_with('.')).then(|| FieldError::invalid(place, value, detail))
}

pub(super) fn validate_column(column: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = |key: &str| column.str_at(&[key]).unwrap_or_default();
    if field("name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let detail = format!("must be one of {COLUMN_TYPES}");
    match field("type") {
        "" => errors.push(FieldError::required(&path.child("type"), detail)),
        kind if !COLUMN_TYPES.split(',').any(|known| known == kind) => {
            errors.push(FieldError::invalid(&path.child("type"), kind, detail));
        }
        _ => {}
    }
    let format = field("format");
    if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
        let detail = format!("must be one of {COLUMN_FORMATS}");
        errors.push(FieldError::invalid(&path.child("format"), format, detail));
    }
    let place = path.child("JSONPath");
    match field("jsonPath") {
        "" => errors.push(FieldError::required(&place, "")),
        value => errors.extend(simple_path_error(value, &place)),
    }
    errors
}

pub(super) fn validate_selectable(fields: &Value, schema: &Map, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let place = path.index(index).child("jsonPath");
        let json_path = field.str_at(&["jsonPath"]).unwrap_or_default();
        if json_path.is_empty() {
            errors.push(FieldError::required(&place, ""));
            continue;
        }
        let found = match find_field(schema, json_path, Brackets::Refused) {
            Ok(found) => found,
            Err(reason) => {
                let detail = format!("is an invalid path: {reason}");
                errors.push(FieldError::invalid(&place, json_path, detail));
                continue;
            }
        };
        if json_path.trim_start_matches('.').split('.').next() == Some("metadata") {
            let detail = "must not point to fields in metadata";
            errors.push(FieldError::invalid(&place, json_path, detail));
        }
        let kind = found.get("type").and_then(Value::as_str).unwrap_or_default();
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and \
                          strings with formats are allowed.";
            errors.push(FieldError::invalid(&place, json_path, detail));
        }
        if seen.contains(&json_path) {
            errors.push(FieldError::duplicate(&place, json_path));
        } else {
            seen.push(json_path);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    errors
}

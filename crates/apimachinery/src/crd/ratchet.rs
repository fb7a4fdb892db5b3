//! What of an updated object is as it was, place by place.

use crate::Value;

use crate::schema::{Additional, Extensions, Schema};

/// The earlier form of a list element; only lists that are maps let one find it.
pub fn correlated_item<'o>(item: &Value, old: &'o Value, schema: &Schema) -> Option<&'o Value> {
    let Extensions { list_type, list_map_keys, .. } = &schema.extensions;
    if list_type.as_deref() != Some("map") {
        return None;
    }
    let same = |candidate: &&Value| {
        list_map_keys
            .iter()
            .all(|key| item.get(key).is_some() && candidate.get(key) == item.get(key))
    };
    old.as_array()?.iter().find(same)
}

/// Whether a value is as it was. Compat: fields the schema does not describe count as changed, so objects
/// with preserved fields are judged anew.
pub fn is_unchanged(value: &Value, old: &Value, schema: &Schema) -> bool {
    match (value, old) {
        (Value::Array(items), Value::Array(old_items)) => {
            if items.len() != old_items.len() {
                return false;
            }
            if schema.extensions.list_type.as_deref() != Some("map") || items.is_empty() {
                return items == old_items;
            }
            let Some(element) = schema.items.as_deref() else { return false };
            items.iter().all(|item| {
                let earlier = correlated_item(item, old, schema);
                earlier.is_some_and(|earlier| is_unchanged(item, earlier, element))
            })
        }
        (Value::Object(fields), Value::Object(old_fields)) => {
            fields.len() == old_fields.len()
                && fields.iter().all(|(key, value)| {
                    let property = match (schema.properties.get(key.as_str()), &schema.additional) {
                        (Some(property), _) => property,
                        (None, Additional::Schema(values)) => values,
                        (None, _) => return false,
                    };
                    let earlier = old_fields.get(key);
                    earlier.is_some_and(|earlier| is_unchanged(value, earlier, property))
                })
        }
        _ => value == old,
    }
}

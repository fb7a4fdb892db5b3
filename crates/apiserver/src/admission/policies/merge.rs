//! An object and what somebody wants it to be, merged as apply merges: by the types in the schema.

use karmada_apimachinery::Value;
use karmada_apimachinery::schema::{Cursor, ListType, MapType};

/// The object with everything the configuration says.
pub(super) fn merged(object: &Value, wanted: &Value, schema: Option<Cursor<'_>>) -> Value {
    match (object, wanted) {
        (Value::Object(own), Value::Object(fields)) => {
            if schema.is_some_and(|schema| schema.map_type() == MapType::Atomic) {
                return wanted.clone();
            }
            let mut merged_fields = own.clone();
            for (name, value) in fields {
                let inner = schema.and_then(|s| s.field(name).or_else(|| s.values()));
                let value = match own.get(name) {
                    Some(before) => merged(before, value, inner),
                    None => value.clone(),
                };
                merged_fields.insert(name.clone(), value);
            }
            Value::Object(merged_fields)
        }
        (Value::Array(own), Value::Array(items)) => match schema.map(Cursor::list_type) {
            Some(ListType::Set) => {
                let mut all = own.clone();
                all.extend(items.iter().filter(|item| !own.contains(item)).cloned());
                Value::Array(all)
            }
            Some(ListType::Map(keys)) => {
                let inner = schema.and_then(Cursor::items);
                let mut all = own.clone();
                for item in items {
                    let same =
                        |other: &&mut Value| keys.iter().all(|key| other.get(key) == item.get(key));
                    match all.iter_mut().find(same) {
                        Some(found) => *found = merged(found, item, inner),
                        None => all.push(item.clone()),
                    }
                }
                Value::Array(all)
            }
            _ => wanted.clone(),
        },
        _ => wanted.clone(),
    }
}

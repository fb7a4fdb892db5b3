//! Changing objects by patches: JSON patch, merge patch and strategic merge patch. Results are plain
//! trees; decoding, defaulting and validating them is the caller's part. Server-side apply is in
//! [`crate::managed`].

pub mod json;
pub mod merge;
pub mod strategic;

use crate::Value;

/// The word Go's JSON decoder uses for a value of the wrong type.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Prints a value as Go's `%v` does, for messages that quote a map or a list.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}:{}", go_print(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests;

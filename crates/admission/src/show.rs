//! How errors show the value they complain about: as Go prints the struct, in the order of its fields.

use karmada_apimachinery::field::Shown;
use serde::Serialize;

/// The value as compact JSON with Go's escapes.
pub(crate) fn shown(value: &impl Serialize) -> Shown {
    Shown::Verbatim(go_text(value))
}

pub(crate) fn go_text(value: &impl Serialize) -> String {
    let mut out = String::new();
    for c in serde_json::to_string(value).unwrap_or_default().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

//! What the server itself does to an object between defaulting and validation: keeps or drops
//! status, counts generations, fills in what only the server may say.

use karmada_apimachinery::Value;

/// Prepares an object about to be created; its system metadata (name, uid, creation time) is set.
pub fn prepare_create(group: &str, kind: &str, object: &mut Value) {
    let _ = (group, kind, object);
}

/// Prepares an update; `subresource` is empty for the object itself. Metadata the server owns has
/// already been taken over from `old`.
pub fn prepare_update(group: &str, kind: &str, subresource: &str, new: &mut Value, old: &Value) {
    let _ = (group, kind, subresource, new, old);
}

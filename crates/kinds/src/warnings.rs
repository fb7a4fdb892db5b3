//! Warnings that accompany an accepted write: deprecated fields and settings without effect.

use karmada_apimachinery::Value;

/// Returns the warnings a create (`old` absent) or an update earns.
pub fn warnings(
    group: &str,
    version: &str,
    kind: &str,
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let _ = (group, version, kind, new, old);
    Vec::new()
}

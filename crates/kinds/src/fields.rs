//! Which fields a list or watch may select on, per kind.

use karmada_apimachinery::Value;

/// Checks a field-selector label; returns its canonical form, or the message of the 400 answer.
pub fn canonical<'a>(group: &str, kind: &str, label: &'a str) -> Result<&'a str, String> {
    let _ = (group, kind);
    Ok(label)
}

/// Returns the text a selector compares for a canonical label; absent fields read as empty.
pub fn value(group: &str, kind: &str, label: &str, object: &Value) -> String {
    let _ = (group, kind);
    let text = label.split('.').try_fold(object, |value, step| value.get(step));
    text.and_then(Value::as_str).unwrap_or_default().to_owned()
}

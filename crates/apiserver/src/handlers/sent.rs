//! What was sent, for refusals that show it.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Shown};

use crate::call::Call;

/// Collections that were sent empty are gone once an object is in shape; refusals show them as they came.
pub(crate) fn show_empty(call: &Call, errors: &mut [FieldError]) {
    let missing = |error: &&mut FieldError| error.value == Shown::Json(Value::Null);
    let mut missing = errors.iter_mut().filter(missing).peekable();
    if missing.peek().is_none() {
        return;
    }
    let Ok(sent) = serde_json::from_slice::<Value>(&call.body.text()) else { return };
    for error in missing {
        if let Some(found) = at(&sent, error.path.as_str()).filter(|found| is_empty(found)) {
            error.value = Shown::Json(found.clone());
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The value at a path as errors write it: `spec.rules[0].host`, `metadata.labels[a/b]`.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty()).try_fold(value, |value, step| {
        match step.parse::<usize>() {
            Ok(index) if value.is_array() => value.get(index),
            _ => value.get(step),
        }
    })
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    #[test]
    fn paths_of_errors_lead_to_what_was_sent() {
        let sent = json!({"spec": {"rules": [{"paths": []}], "labels": {}}});
        assert_eq!(at(&sent, "spec.rules[0].paths"), Some(&json!([])));
        assert_eq!(at(&sent, "spec.labels"), Some(&json!({})));
        assert_eq!(at(&sent, "spec.rules[1].paths"), None);
    }
}

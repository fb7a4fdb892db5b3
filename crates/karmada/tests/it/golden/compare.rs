//! Where an answer differs from the recorded one.

use std::fmt;

use karmada_apimachinery::{Value, json};

/// The first difference of a case.
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) expected: Value,
    pub(super) got: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brief = |value: &Value| value.to_string().chars().take(400).collect::<String>();
        write!(
            f,
            "    at       {}\n    expected {}\n    got      {}",
            self.path,
            brief(&self.expected),
            brief(&self.got)
        )
    }
}

/// Compares the normalised answers with what was recorded.
pub(super) fn compare(case: &Value, answers: &[Value]) -> Option<Difference> {
    let steps = case["steps"].as_array()?;
    for (index, (step, got)) in steps.iter().zip(answers).enumerate() {
        let Some(want) = step.get("response").filter(|response| !response.is_null()) else {
            continue;
        };
        let path = format!("steps[{index}].response");
        if want["code"] != got["code"] {
            let got = json!({"code": got["code"], "body": got.get("body")});
            return Some(Difference {
                path: format!("{path}.code"),
                expected: want["code"].clone(),
                got,
            });
        }
        let (mut want, mut got) = (want.clone(), got.clone());
        if step.get("loose") == Some(&Value::Bool(true)) && want.get("body").is_some() {
            loosen(&mut want["body"]);
            loosen(&mut got["body"]);
        }
        if let Some(difference) = difference(&want, &got, path) {
            return Some(difference);
        }
    }
    None
}

/// Removes the wording of errors that quote the internals of the recorded server.
fn loosen(body: &mut Value) {
    if body.get("kind") != Some(&json!("Status")) {
        return;
    }
    if let Some(status) = body.as_object_mut() {
        status.remove("message");
    }
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        for cause in causes.iter_mut().filter_map(Value::as_object_mut) {
            cause.remove("message");
        }
    }
}

fn difference(want: &Value, got: &Value, path: String) -> Option<Difference> {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => difference(a, b, path),
                    (a, b) => Some(Difference { path, expected: shown(a), got: shown(b) }),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|index| {
            let path = format!("{path}[{index}]");
            match (a.get(index), b.get(index)) {
                (Some(a), Some(b)) => difference(a, b, path),
                (a, b) => Some(Difference { path, expected: shown(a), got: shown(b) }),
            }
        }),
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (Value::String(a), Value::String(b)) if path.contains(".cells[") && is_young(a, b) => None,
        _ if want == got => None,
        _ => Some(Difference { path, expected: want.clone(), got: got.clone() }),
    }
}

/// Whether both are the age of something just made: a slow machine asks a little later. Columns that say
/// they hold ages never get here.
fn is_young(recorded: &str, got: &str) -> bool {
    recorded == "0s" && got.strip_suffix('s').is_some_and(|age| age.parse::<u32>().is_ok())
}

fn shown(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or_else(|| json!("<absent>"))
}

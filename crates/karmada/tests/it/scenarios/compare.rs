//! Finds the first difference between what was recorded and what was observed.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::normal::tidy;

/// The most telling sections first.
const SECTIONS: [&str; 7] =
    ["bindings", "works", "members", "templates", "policies", "clusters", "events"];

/// Compares the answers to the actions, then the states after the waits.
pub(super) fn difference(
    recorded: &[Value],
    results: &[Value],
    expected: &[Value],
    observed: &[Value],
) -> Option<String> {
    for (at, (want, got)) in recorded.iter().zip(results).enumerate() {
        if let Some(found) = differs(want, got, &format!("results[{at}]")) {
            return Some(found);
        }
    }
    let mut pairs = expected.iter().zip(observed).enumerate();
    pairs.find_map(|(at, (want, got))| states(want, got, at)).or_else(|| {
        (expected.len() != observed.len())
            .then(|| format!("{} states instead of {}", observed.len(), expected.len()))
    })
}

/// Compares one state.
pub(super) fn states(want: &Value, got: &Value, at: usize) -> Option<String> {
    SECTIONS.into_iter().find_map(|section| {
        differs(&want[section], &got[section], &format!("expect[{at}].{section}"))
    })
}

fn identity(object: &Value) -> String {
    format!("{}/{}/{}", object.kind(), object.namespace(), object.name())
}

/// Objects that did not change since the state before are recorded by name alone.
pub(super) fn expand(recorded: &[Value]) -> Vec<Value> {
    let mut states: Vec<Value> = Vec::new();
    for state in recorded {
        let mut state = state.clone();
        let before = states.last().cloned().unwrap_or_default();
        for section in ["templates", "policies", "bindings", "works"] {
            restore(&mut state[section], &before[section]);
        }
        if let Some(members) = state.get_mut("members").and_then(Value::as_object_mut) {
            for (member, objects) in members {
                restore(objects, &before["members"][member.as_str()]);
            }
        }
        tidy(&mut state);
        states.push(state);
    }
    states
}

fn restore(objects: &mut Value, before: &Value) {
    let past = before.as_array().map(|it| it.as_slice()).unwrap_or_default();
    for object in objects.as_array_mut().into_iter().flatten() {
        if let Some(name) = object["unchanged"].as_str()
            && let Some(old) = past.iter().find(|old| identity(old) == name)
        {
            *object = old.clone();
        }
    }
}

fn differs(want: &Value, got: &Value, path: &str) -> Option<String> {
    match (want, got) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(want), Some(got)) => differs(want, got, &path),
                    (want, got) => Some(told(&path, want, got)),
                }
            })
        }
        (Value::Array(a), Value::Array(b)) => (0..a.len().max(b.len())).find_map(|at| {
            let path = format!("{path}[{at}]");
            match (a.get(at), b.get(at)) {
                (Some(want), Some(got)) => differs(want, got, &path),
                (want, got) => Some(told(&path, want, got)),
            }
        }),
        // A section that is empty may be left out.
        (Value::Null, got) if got.as_array().is_some_and(|it| it.is_empty()) => None,
        _ if want == got => None,
        _ => Some(told(path, Some(want), Some(got))),
    }
}

fn told(path: &str, want: Option<&Value>, got: Option<&Value>) -> String {
    let brief = |value: Option<&Value>| {
        let text = value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
        text.chars().take(400).collect::<String>()
    };
    format!("at {path}\n      recorded {}\n      observed {}", brief(want), brief(got))
}

//! The normal form in which states are compared: ids, times and versions become placeholders.

use std::collections::HashMap;
use std::sync::LazyLock;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use regex::{Captures, Regex};

static UUID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap());
static STAMP: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} \w+( m=[+-][\d.]+)?").unwrap()
});
/// A part of the text without which the pattern cannot match, the pattern, and what stands for it.
static REST: LazyLock<Vec<(&str, Regex, &str)>> = LazyLock::new(|| {
    [
        ("0x", "0x[0-9a-f]{6,}", "<pointer>"),
        ("10.", r"\b10\.(?:9[6-9]|10\d|11[01])\.\d{1,3}\.\d{1,3}\b", "<clusterIP>"),
        ("resourceVersion", r#"(resourceVersion\\*":\\*")\d+"#, "${1}<rv>"),
        ("kube-api-access-", "kube-api-access-[a-z0-9]{5}", "kube-api-access-<suffix>"),
        ("https://127", r"https://127\.0\.0\.1:\d+", "<server>"),
    ]
    .map(|(part, pattern, word)| (part, Regex::new(pattern).unwrap(), word))
    .into()
});

/// Messages of lost races, and of what the original says or not by chance.
pub(super) static NOISE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"object\(ReplicaSet/\S+-[0-9a-z]{6,10}\)|skip schedule deleting |",
        r#"(resourcebindings|works)\.work\.karmada\.io "[^"]*" already exists|"#,
        "object has been modified|context deadline|not yet synced|the cache is not started"
    ))
    .unwrap()
});

const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";

/// Placeholders that stay the same for the same value within one scenario.
#[derive(Default, Clone)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.len() >= 36 && text.contains('-') {
            let ids = &mut self.0;
            text = UUID
                .replace_all(&text, |found: &Captures<'_>| {
                    let next = format!("<uid:{}>", ids.len() + 1);
                    ids.entry(found[0].to_owned()).or_insert(next).clone()
                })
                .into_owned();
        }
        if text.contains('-') && text.contains(':') {
            text = STAMP
                .replace_all(&text, |found: &Captures<'_>| {
                    if found[0].starts_with("2020-") {
                        found[0].to_owned()
                    } else {
                        "<time>".into()
                    }
                })
                .into_owned();
            text = CLOCK.replace_all(&text, "<time>").into_owned();
        }
        for (part, pattern, word) in REST.iter() {
            if text.contains(part) {
                text = pattern.replace_all(&text, *word).into_owned();
            }
        }
        text
    }

    pub(super) fn walk(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut sorted: Vec<_> = map.iter().collect();
                sorted.sort_by_key(|(key, _)| *key);
                let kept = sorted
                    .into_iter()
                    .filter(|(key, _)| !matches!(key.as_str(), "managedFields" | "selfLink"));
                let entries: Vec<(String, Value)> =
                    kept.map(|(key, value)| (self.text(key), self.field(key, value))).collect();
                Value::Object(entries.into_iter().collect())
            }
            Value::Array(list) => Value::Array(list.iter().map(|item| self.walk(item)).collect()),
            Value::String(text) => Value::String(self.text(text).into()),
            other => other.clone(),
        }
    }

    fn field(&mut self, key: &str, value: &Value) -> Value {
        let is_version = |text: &str| {
            text != "0" && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
        };
        match key {
            "resourceVersion" if value.as_str().is_some_and(is_version) => "<rv>".into(),
            "nodePort" | "healthCheckNodePort"
                if value.as_i64().is_some_and(|port| (30000..=32767).contains(&port)) =>
            {
                "<nodePort>".into()
            }
            "podIP" | "podIPs" | "hostIP" | "hostIPs" => format!("<{key}>").into(),
            _ => self.walk(value),
        }
    }
}

/// Dependencies are listed by the original in any order.
pub(super) fn sort_dependencies(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut(DEPENDENCIES)
                && let Ok(mut list) = serde_json::from_str::<Vec<Value>>(text)
            {
                list.sort_by_cached_key(ToString::to_string);
                *text = list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").into();
            }
            map.values_mut().for_each(sort_dependencies);
        }
        Value::Array(list) => list.iter_mut().for_each(sort_dependencies),
        Value::String(text) => {
            if let Some(rest) = text.strip_prefix("Get dependencies([{")
                && let Some((list, end)) = rest.split_once("}])")
            {
                let mut list: Vec<&str> = list.split("} {").collect();
                list.sort_unstable();
                *text = format!("Get dependencies([{{{}}}]){end}", list.join("} {")).into();
            }
        }
        _ => {}
    }
}

/// An autoscaler of a member looks at its workload fifteen seconds after it came. Recordings were made
/// before that; a busy machine may be later.
fn forget_first_look(value: &mut Value) {
    match value {
        Value::Object(map) if map.contains_key("desiredReplicas") => {
            *value = json!({"currentMetrics": null, "desiredReplicas": 0});
        }
        Value::Object(map) => map.values_mut().for_each(forget_first_look),
        Value::Array(list) => list.iter_mut().for_each(forget_first_look),
        _ => {}
    }
}

/// Sorts what has no order, and drops verdicts about health that were superseded.
pub(super) fn tidy(state: &mut Value) {
    forget_first_look(state);
    let mut health = HashMap::new();
    for section in ["bindings", "works"] {
        let Some(objects) = state.get_mut(section).and_then(Value::as_array_mut) else { continue };
        for object in objects {
            if let Some(conditions) =
                object.pointer_mut("/status/conditions").and_then(Value::as_array_mut)
            {
                conditions.sort_by_key(|condition| condition["type"].to_string());
            }
            for status in object.list_at(&["status", "manifestStatuses"]) {
                let verdict = status["health"].as_str().unwrap_or_default().to_lowercase();
                let key = (object.namespace().to_owned(), object.name().to_owned());
                health.insert(key, verdict);
            }
        }
    }
    sort_dependencies(state);
    let Some(events) = state.get_mut("events").and_then(Value::as_array_mut) else { return };
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    events.retain(|event| {
        let message = text(event, "message");
        let key = (text(event, "namespace"), text(event, "name"));
        let superseded = text(event, "reason") == "InterpretHealthSucceed"
            && health.get(&key).is_none_or(|now| !message.ends_with(&format!(" as {now}.")));
        !superseded && !NOISE.is_match(&message)
    });
    events.sort_by_cached_key(|event| {
        ["kind", "namespace", "name", "reason", "message", "type", "component"]
            .map(|key| text(event, key))
    });
    let mut once = Vec::from(std::mem::take(events));
    once.dedup();
    *events = once.into();
}

//! Events: both groups keep the same facts under different names.

use karmada_apimachinery::{Map, Value, json};

/// Names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

pub(super) fn to_events(event: &mut Value) {
    let Some(map) = event.as_object_mut() else { return };
    for (core, events) in NAMES {
        rename(map, core, events);
    }
    for field in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        map.entry(field).or_insert(Value::Null);
    }
    for field in ["regarding", "deprecatedSource"] {
        map.entry(field).or_insert_with(|| json!({}));
    }
    // Fields that are always written in the core group are left out here when empty.
    map.retain(|key, value| {
        !(matches!(key.as_str(), "reportingController" | "reportingInstance" | "note")
            && value == "")
    });
}

pub(super) fn to_core(event: &mut Value) {
    let Some(map) = event.as_object_mut() else { return };
    for (core, events) in NAMES {
        rename(map, events, core);
    }
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        map.entry(field).or_insert(Value::Null);
    }
    for field in ["involvedObject", "source"] {
        map.entry(field).or_insert_with(|| json!({}));
    }
    for field in ["reportingComponent", "reportingInstance"] {
        map.entry(field).or_insert_with(|| "".into());
    }
    map.retain(|key, value| !(key == "message" && value == ""));
}

fn rename(map: &mut Map, from: &str, to: &str) {
    if from != to
        && let Some(value) = map.remove(from)
    {
        map.insert(to.to_owned(), value);
    }
}

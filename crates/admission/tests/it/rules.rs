//! The rules one by one: an example that is refused, with the exact words, and one that passes.
//!
//! The tables lie in `tests/rules`, one file per kind. `refused` and `accepted` are merged into `base`, or set
//! where a JSON pointer says; `because` is the whole message; `filledIn` is what the stored object holds
//! afterwards, null for "nothing". With `update` the example changes the stored base (`status`: after its status was
//! written; `delete`: the example is stored and then deleted); with `gates` all feature gates are on.

use std::collections::BTreeSet;

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};

use crate::plane::{Plane, Target};

/// Every rule; PP-V3 and PP-V24 cannot be broken by a request, because defaults come first, and DEP-V1 is no
/// business of a write.
const RULES: &[(&str, &[u32])] = &[
    ("PP-M", &[1, 2, 3, 4, 5, 6, 7, 8]),
    (
        "PP-V",
        &[
            1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25, 26,
            27, 28, 29,
        ],
    ),
    ("OP-M", &[1]),
    ("OP-V", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
    ("FRQ-V", &[1, 2, 3, 4, 5, 6, 7]),
    ("CTP-V", &[1, 2]),
    ("RB-M", &[1]),
    ("CRB-M", &[1]),
    ("RB-V", &[1, 2, 3, 4]),
    ("WK-M", &[1, 2, 3, 4]),
    ("FHPA-M", &[1, 2, 3, 4]),
    ("FHPA-V", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
    ("CRON-V", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("MCS-M", &[1]),
    ("MCS-V", &[1, 2, 3, 4, 5, 6, 7, 8]),
    ("MCI-V", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("RIWC-V", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("RIC-V", &[1, 2]),
    ("DEL-V", &[1]),
    ("CL-M", &[1, 2, 3, 4, 5, 6]),
    ("CL-V", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ("RR-V", &[1, 2, 3, 4]),
];

fn tables() -> Vec<Value> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .map(|text| serde_saphyr::from_str(&text).unwrap())
        .collect()
}

/// The base with the example merged into it, or with values set where its keys point.
fn put(base: &Value, example: &Value) -> Value {
    let mut object = base.clone();
    let fields = example.as_object().unwrap();
    if fields.is_empty() || !fields.keys().all(|key| key.starts_with('/')) {
        return merge::apply(base, example).unwrap();
    }
    for (pointer, value) in fields {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    object
}

/// Sends an example of a rule and returns code and body.
fn send(table: &Value, rule: &Value, example: &Value) -> (u16, Value) {
    let mut plane = Plane::new(rule.bool_at(&["gates"]) == Some(true));
    for stored in rule.list_at(&["stored"]) {
        let target = Target::parse(stored.str_at(&["path"]).unwrap()).unwrap();
        assert_eq!(plane.answer("POST", &target, &stored["object"]).0, 201);
    }
    let path = table.str_at(&["path"]).unwrap();
    let all = Target::parse(path).unwrap();
    let base = &table["base"];
    let one = Target::parse(&format!("{path}/{}", base.name())).unwrap();
    let merged = put(base, example);
    match &rule["update"] {
        Value::Bool(true) => {
            assert_eq!(plane.answer("POST", &all, base).0, 201);
            plane.answer("PATCH", &one, example)
        }
        Value::String(how) if how == "status" => {
            assert_eq!(plane.answer("POST", &all, base).0, 201);
            let status = Target { writes_status: true, ..one.clone() };
            assert_eq!(plane.answer("PATCH", &status, example).0, 200);
            let touch = json!({"metadata": {"annotations": {"a": "b"}}});
            plane.answer("PATCH", &one, &touch)
        }
        Value::String(_) => {
            assert_eq!(plane.answer("POST", &all, &merged).0, 201);
            plane.answer("DELETE", &one, &Value::Null)
        }
        _ => plane.answer("POST", &all, &merged),
    }
}

/// Whether `object` holds everything in `part`; `<new>` and `<time>` stand for fresh values.
fn holds(object: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) => {
            fields.iter().all(|(key, part)| holds(object.get(key).unwrap_or(&Value::Null), part))
        }
        Value::Array(items) => {
            items.iter().enumerate().all(|(i, part)| object.get(i).is_some_and(|o| holds(o, part)))
        }
        Value::String(text) if text == "<new>" => {
            object.as_str().is_some_and(|id| id.starts_with("00000000-"))
        }
        Value::String(text) if text == "<time>" => object.is_string(),
        other => object == other,
    }
}

fn check(table: &Value, rule: &Value) -> Result<(), String> {
    if let Some(example) = rule.get("refused") {
        let (code, body) = send(table, rule, example);
        let message = body.str_at(&["message"]).unwrap_or_default();
        let said = message.split_once("denied the request: ").map_or(message, |(_, said)| said);
        let because = rule.str_at(&["because"]).unwrap_or_default();
        if code < 400 || said != because {
            return Err(format!("expected refusal: {because}\n  observed {code}: {said}"));
        }
    }
    if let Some(example) = rule.get("accepted") {
        let (code, body) = send(table, rule, example);
        let filled_in = rule.get("filledIn").cloned().unwrap_or_default();
        if code >= 300 || (!filled_in.is_null() && !holds(&body, &filled_in)) {
            return Err(format!("expected acceptance with {filled_in}\n  observed {code}: {body}"));
        }
    }
    Ok(())
}

#[test]
fn each_rule_refuses_and_accepts_its_examples() {
    let mut failures = Vec::new();
    for table in tables() {
        for rule in table.list_at(&["rules"]) {
            if let Err(difference) = check(&table, rule) {
                let kind = table["base"].kind();
                failures.push(format!("{kind} {}: {difference}", rule["id"]));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A rule that refuses needs an example of both sides, one that fills in needs what it fills in.
#[test]
fn no_rule_is_without_its_examples() {
    let mut shown: BTreeSet<(String, &str)> = BTreeSet::new();
    for table in tables() {
        for rule in table.list_at(&["rules"]) {
            let id = rule.str_at(&["id"]).unwrap().to_owned();
            let sides = ["refused", "accepted", "filledIn"];
            shown.extend(
                sides.into_iter().filter(|s| rule.get(*s).is_some()).map(|s| (id.clone(), s)),
            );
        }
    }
    let mut missing = Vec::new();
    for (prefix, numbers) in RULES {
        let needed: &[&str] =
            if prefix.ends_with("-M") { &["filledIn"] } else { &["refused", "accepted"] };
        for (number, side) in numbers.iter().flat_map(|n| needed.iter().map(move |side| (n, side)))
        {
            let id = format!("{prefix}{number}");
            if !shown.contains(&(id.clone(), *side)) {
                missing.push(format!("{id} {side}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

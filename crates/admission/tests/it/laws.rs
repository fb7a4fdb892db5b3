//! Laws of the hooks: no input makes them panic, and defaulting twice changes nothing more.

use std::borrow::Cow;

use karmada_admission::{Operation, Phase, Request, Settings, convert, hooks, review};
use karmada_api::crd::crds;
use karmada_api::features::Gates;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Map, Value, json};
use proptest::prelude::*;

/// Any JSON, wherever one may stand.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e3..1e3).prop_map(Value::from),
        "[a-zA-Z0-9 /:.%*@-]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// JSON that mostly follows a schema, so that rules are reached; the seed decides everything.
fn following(schema: &Value, seed: &mut u64, depth: usize) -> Value {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let roll = (*seed >> 33) % 100;
    if depth == 0 || roll < 2 {
        return Value::Null;
    }
    if let Some(Value::Array(words)) = schema.get("enum") {
        return words[(roll as usize) % words.len()].clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => object_following(schema, seed, depth),
        Some("array") => {
            let items = schema.get("items").cloned().unwrap_or_default();
            (0..roll % 3).map(|_| following(&items, seed, depth - 1)).collect()
        }
        Some("integer") => json!((roll as i64) - 30),
        Some("boolean") => json!(roll.is_multiple_of(2)),
        Some("string") => {
            let words = [
                "",
                "a",
                "A b",
                "*",
                "cluster",
                "region",
                "x/y",
                "1.2.3.4",
                "/p",
                "é",
                "@x",
                "http://u:p@h/?q#f",
            ];
            json!(words[(roll as usize) % words.len()])
        }
        _ => {
            let words = [json!(1), json!("2Gi"), json!("-1"), json!("x"), json!(null)];
            words[(roll as usize) % words.len()].clone()
        }
    }
}

fn object_following(schema: &Value, seed: &mut u64, depth: usize) -> Value {
    let mut object = Map::new();
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, node) in properties {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
            if (*seed >> 33) % 100 < 60 {
                object.insert(name.clone(), following(node, seed, depth - 1));
            }
        }
    }
    if let Some(node) = schema.get("additionalProperties") {
        object.insert("k".to_owned(), following(node, seed, depth - 1));
    }
    Value::Object(object)
}

/// An object of each kind with hooks, grown from the seed.
fn objects(seed: u64) -> Vec<(Value, Gvr)> {
    let mut seed = seed;
    crds()
        .iter()
        .map(|crd| {
            let spec = &crd.object["spec"];
            let version = spec["versions"].as_array().unwrap().last().unwrap();
            let mut object = following(&version["schema"]["openAPIV3Schema"], &mut seed, 9);
            let (group, name) =
                (spec.str_at(&["group"]).unwrap(), version.str_at(&["name"]).unwrap());
            if !object.is_object() {
                object = json!({});
            }
            object["apiVersion"] = format!("{group}/{name}").into();
            object["kind"] = spec["names"]["kind"].clone();
            object["metadata"] = json!({"name": "n", "namespace": "ns", "labels": {"a": "b"}});
            (object, Gvr::new(group, name, spec.str_at(&["names", "plural"]).unwrap()))
        })
        .collect()
}

fn request<'a>(object: &'a Value, resource: &Gvr, operation: Operation) -> Request<'a> {
    Request {
        kind: Gvk::new(&*resource.group, &*resource.version, object.kind()),
        resource: resource.clone(),
        subresource: String::new(),
        name: "n".into(),
        namespace: "ns".into(),
        operation,
        object: Cow::Borrowed(object),
        old_object: Cow::Borrowed(object),
        dry_run: false,
    }
}

fn settings() -> Settings {
    Settings {
        gates: Gates::parse("AllAlpha=true,AllBeta=true").unwrap(),
        id: "id".into(),
        ..Settings::default()
    }
}

/// All places in a value, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let step = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &step(name), found));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, value)| places(value, &step(&index.to_string()), found));
        }
        _ => {}
    }
    found.push(at.to_owned());
}

/// Changes one place of the object.
fn disturb(object: &mut Value, seed: u64) {
    let words = [
        json!(null),
        json!(""),
        json!("word"),
        json!("2020-02-03T04:05:06Z"),
        json!("2021-02-29T04:05:06Z"),
        json!("2020-01-02T03:04:05.5Z"),
        json!("1500m"),
        json!("1.5"),
        json!(0),
        json!(7),
        json!(-1),
        json!(1.0),
        json!(1.25),
        json!(u64::MAX),
        json!(i64::from(i32::MAX) + 1),
        json!(true),
        json!(false),
        json!([]),
        json!([null]),
        json!(["a"]),
        json!({}),
        json!({"a": null}),
        json!({"a": "b"}),
        json!({"a": {"b": [1, 0.5]}}),
    ];
    let mut found = Vec::new();
    places(object, "", &mut found);
    let place = &found[(seed % found.len() as u64) as usize];
    let (parent, name) = place.rsplit_once('/').unwrap_or_default();
    let word = &words[(seed / 1000 % words.len() as u64) as usize];
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) if (seed / 100_000).is_multiple_of(4) => {
            fields.remove(name.replace("~1", "/").replace("~0", "~"));
        }
        _ => *object.pointer_mut(place).unwrap() = word.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_makes_a_hook_panic(object in any_json(), old in any_json()) {
        for hook in hooks() {
            let review = json!({"request": {"uid": "u", "operation": "UPDATE", "object": object, "oldObject": old}});
            review::answer(hook.path, &review, &settings());
            review::answer(hook.path, &object, &settings());
        }
        let _ = convert::review(&object);
    }

    #[test]
    fn no_object_near_the_schema_makes_a_hook_panic(seed in any::<u64>()) {
        for (object, resource) in objects(seed) {
            for operation in [Operation::Create, Operation::Update, Operation::Delete] {
                let request = request(&object, &resource, operation);
                for hook in hooks().iter().filter(|hook| hook.concerns(&request)) {
                    let _ = hook.run(&request, &settings());
                }
            }
        }
    }

    #[test]
    fn defaulting_twice_changes_nothing_more(seed in any::<u64>()) {
        for (object, resource) in objects(seed) {
            for operation in [Operation::Create, Operation::Update] {
                let first = request(&object, &resource, operation);
                for hook in hooks().iter().filter(|h| h.phase == Phase::Mutating && h.concerns(&first)) {
                    let Ok(verdict) = hook.run(&first, &settings()) else { continue };
                    let once = verdict.object.unwrap();
                    let again = hook.run(&request(&once, &resource, operation), &settings()).unwrap();
                    prop_assert_eq!(&Some(once), &again.object, "{}", hook.path);
                }
            }
        }
    }

    /// Objects that look as their type writes them are not read into it. A field that the type does not know
    /// makes them different, and is lost on the way through.
    #[test]
    fn objects_that_are_not_read_are_defaulted_as_if_they_were(seed in any::<u64>(), changes in prop::collection::vec(any::<u64>(), 24)) {
        for (mut object, resource) in objects(seed) {
            object["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
            object["metadata"]["finalizers"] = json!(["f"]);
            object["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": {"f:spec": {}}, "x": 1.5}]);
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]);
            let first = request(&object, &resource, Operation::Create);
            let hooks = || hooks().iter().filter(|hook| hook.concerns(&first));
            for hook in hooks().filter(|hook| hook.phase == Phase::Mutating) {
                let Ok(verdict) = hook.run(&first, &settings()) else { continue };
                let written = verdict.object.unwrap();
                for change in &changes {
                    let mut plain = written.clone();
                    disturb(&mut plain, *change);
                    if change % 3 == 0 {
                        disturb(&mut plain, change / 3);
                    }
                    let mut odd = plain.clone();
                    let Some(fields) = odd.as_object_mut() else { continue };
                    fields.insert("zzz", json!(1));
                    for hook in hooks() {
                        let answer = hook.run(&request(&plain, &resource, Operation::Create), &settings());
                        let expected = hook.run(&request(&odd, &resource, Operation::Create), &settings());
                        prop_assert_eq!(answer, expected, "{} {}", hook.path, plain);
                    }
                }
            }
        }
    }

    #[test]
    fn defaulting_a_cluster_twice_changes_nothing_more(zone in "[a-z]{0,3}", grades in prop::collection::vec(0u64..5, 0..4)) {
        let models: Vec<Value> = grades
            .iter()
            .map(|grade| json!({"grade": grade, "ranges": [{"name": "cpu", "min": grade, "max": grade + 1}]}))
            .collect();
        let mut cluster: karmada_api::cluster::Cluster = karmada_apimachinery::from_value(json!({
            "metadata": {"name": "m"},
            "spec": {"syncMode": "Pull", "zone": zone, "resourceModels": models, "taints": [{"key": "a", "effect": "NoExecute"}]},
        })).unwrap();
        let gates = Gates::default();
        let now = "2020-01-01T00:00:00Z".parse().unwrap();
        karmada_admission::cluster::prepare_create(&mut cluster, &gates);
        karmada_admission::cluster::canonicalize(&mut cluster, now);
        let once = cluster.clone();
        karmada_admission::cluster::prepare_create(&mut cluster, &gates);
        karmada_admission::cluster::canonicalize(&mut cluster, now);
        prop_assert_eq!(once, cluster);
    }
}

use crate::{Map, Value, json};
use proptest::prelude::*;

use super::*;
use crate::schema::{Cursor, Schema};

#[test]
fn json_patches_do_what_kubernetes_lets_them() {
    let document = json!({"a": {"b": 1}, "l": [1, 2], "x/y": 0});
    let cases = [
        (json!([]), Some(document.clone())),
        (
            json!([{"op": "add", "path": "/l/-", "value": 3}]),
            Some(json!({"a": {"b": 1}, "l": [1, 2, 3], "x/y": 0})),
        ),
        (
            json!([{"op": "add", "path": "/l/0", "value": 0}]),
            Some(json!({"a": {"b": 1}, "l": [0, 1, 2], "x/y": 0})),
        ),
        (
            json!([{"op": "remove", "path": "/l/-1"}]),
            Some(json!({"a": {"b": 1}, "l": [1], "x/y": 0})),
        ),
        // A missing map key may be replaced, a missing list index may not.
        (
            json!([{"op": "replace", "path": "/a/c", "value": 1}]),
            Some(json!({"a": {"b": 1, "c": 1}, "l": [1, 2], "x/y": 0})),
        ),
        (json!([{"op": "replace", "path": "/l/2", "value": 1}]), None),
        (
            json!([{"op": "move", "from": "/a/b", "path": "/x~1y"}]),
            Some(json!({"a": {}, "l": [1, 2], "x/y": 1})),
        ),
        (
            json!([{"op": "copy", "from": "/l", "path": "/a/l"}]),
            Some(json!({"a": {"b": 1, "l": [1, 2]}, "l": [1, 2], "x/y": 0})),
        ),
        (json!([{"op": "test", "path": "/a", "value": {"b": 1}}]), Some(document.clone())),
        (json!([{"op": "test", "path": "/a/b", "value": 2}]), None),
        (json!([{"op": "test", "path": "/a/z", "value": null}]), Some(document.clone())),
        (json!([{"op": "remove", "path": "/zz"}]), None),
        (json!([{"op": "add", "path": "/z/z", "value": 1}]), None),
        (json!([{"path": "/a"}]), None),
        (json!([{"op": "explode", "path": "/a"}]), None),
        (json!([{"op": "replace", "path": "", "value": {"n": 1}}]), Some(json!({"n": 1}))),
        (json!([{"op": "replace", "path": "", "value": 1}]), None),
    ];
    for (patch, expected) in cases {
        match (json::apply(&document, &patch), expected) {
            (Ok(result), Some(expected)) => assert_eq!(result, expected, "{patch}"),
            (Err(status), None) => assert_eq!((status.code, status.reason), (422, "Invalid")),
            (result, _) => panic!("{patch}: {result:?}"),
        }
    }
}

#[test]
fn json_patches_that_are_no_list_or_too_long_are_refused() {
    let refused = |patch: Value| json::apply(&json!({}), &patch).expect_err("refused").code;
    assert_eq!(refused(json!({"op": "add"})), 400);
    assert_eq!(refused(json!(["add"])), 400);
    let long = vec![json!({"op": "test", "path": "/a", "value": null}); json::MAX_OPERATIONS + 1];
    assert_eq!(refused(Value::Array(long.into())), 413);
}

#[test]
fn merge_patches_remove_by_null_and_replace_lists() {
    let cases = [
        (json!({"a": 1}), json!({"a": null, "b": 2}), json!({"b": 2})),
        (json!({"l": [1, 2]}), json!({"l": [3]}), json!({"l": [3]})),
        (
            json!({"m": {"x": 1}}),
            json!({"m": {"y": {"z": null, "k": 1}}}),
            json!({"m": {"x": 1, "y": {"k": 1}}}),
        ),
        (json!({"l": []}), json!({"l": [{"a": null, "b": 1}]}), json!({"l": [{"b": 1}]})),
        (json!({"a": null}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
    ];
    for (document, patch, expected) in cases {
        assert_eq!(merge::apply(&document, &patch).expect("a map"), expected, "{patch}");
    }
    assert_eq!(merge::apply(&json!({}), &json!([])).expect_err("no map").code, 400);
    assert_eq!(merge::apply(&json!({}), &json!(null)).expect_err("no map").code, 400);
}

fn pod_like() -> Schema {
    let by_name = |items: Value| {
        json!({
            "type": "array", "items": items,
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        })
    };
    let variable = json!({"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}});
    let container = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "image": {"type": "string"},
        "command": {"type": "array", "items": {"type": "string"}},
        "env": by_name(variable),
    }});
    let schema = json!({"type": "object", "properties": {
        "containers": by_name(container),
        "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "properties": {
            "type": {"type": "string"}, "rolling": {"type": "object"}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "source": {"type": "object", "x-kubernetes-patch-strategy": "replace", "additionalProperties": {"type": "string"}},
    }});
    Schema::parse(&schema).expect("a schema")
}

fn strategic(document: Value, patch: Value) -> Result<Value, crate::status::Status> {
    let schema = pod_like();
    strategic::apply(&document, &patch, Some(Cursor::alone(&schema)))
}

#[test]
fn strategic_patches_merge_lists_by_key_and_obey_directives() {
    let ab = || json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
    let cases = [
        (
            ab(),
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
        ),
        // A new element goes before those the server alone has only if the order says so.
        (
            ab(),
            json!({"containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
        ),
        (
            ab(),
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b", "image": "1"}]}),
        ),
        (
            ab(),
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
            json!({"containers": [{"name": "z"}]}),
        ),
        (
            ab(),
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "2"}]}),
            json!({"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "2"}]}),
        ),
        (
            json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "command": ["x"]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": null}], "command": ["y"]}]}),
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": null}, {"name": "X", "value": "1"}], "command": ["y"]}]}),
        ),
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"finalizers": ["c", "a"]}),
            json!({"finalizers": ["c", "a", "b"]}),
        ),
        (
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["b"]}),
            json!({"finalizers": ["a", "c"]}),
        ),
        (
            json!({"finalizers": ["a", "b"]}),
            json!({"$setElementOrder/finalizers": ["b", "a"]}),
            json!({"finalizers": ["b", "a"]}),
        ),
        (
            json!({"strategy": {"type": "Rolling", "rolling": {"x": 1}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        (
            json!({"labels": {"a": "1", "b": "2"}}),
            json!({"labels": {"$patch": "replace", "c": "3"}}),
            json!({"labels": {"c": "3"}}),
        ),
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "delete"}}),
            json!({"labels": {}}),
        ),
        (json!({}), json!({"labels": {"$patch": "delete"}}), json!({})),
        (
            json!({"source": {"a": "1"}}),
            json!({"source": {"b": "1"}}),
            json!({"source": {"b": "1"}}),
        ),
        (
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"a": null, "z": null}}),
            json!({"labels": {}}),
        ),
        (
            json!({}),
            json!({"containers": [{"name": "a", "image": null}]}),
            json!({"containers": [{"name": "a"}]}),
        ),
    ];
    for (document, patch, expected) in cases {
        assert_eq!(strategic(document, patch.clone()).expect("applies"), expected, "{patch}");
    }
}

#[test]
fn strategic_patches_are_refused_with_kubernetes_codes() {
    let one = || json!({"containers": [{"name": "a"}], "strategy": {}, "finalizers": ["a"]});
    let cases = [
        (
            json!({"containers": [{"image": "x"}]}),
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"strategy": {"$patch": "explode"}}),
            500,
            "unknown patch type: explode in map: map[$patch:explode]",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"strategy": {"$retainKeys": ["rolling"], "type": "x"}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (json!({"$deleteFromPrimitiveList": ["a"]}), 400, "invalid patch format of primitive list"),
        (
            json!({"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["a", "b"]}),
            500,
            "The order in patch list:\n[a b]\n doesn't match $setElementOrder list:\n[b a]\n",
        ),
    ];
    for (patch, code, message) in cases {
        let status = strategic(one(), patch).expect_err(message);
        assert_eq!((status.code, &*status.message), (code, message));
    }
}

/// Maps of small trees without nulls.
fn tree() -> impl Strategy<Value = Map> {
    let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "[a-c]{1,2}".prop_map(Value::from)];
    let value = leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-d]", value, 0..4).prop_map(|map| map.into_iter().collect())
}

/// Documents and patches that mostly fit the schema of `pod_like`, with stray directives.
fn pod_tree() -> impl Strategy<Value = Value> {
    let item = ("[a-c]", "[x-z]").prop_map(|(name, image)| json!({"name": name, "image": image}));
    let containers = prop::collection::btree_map("[a-c]", item, 0..3).prop_map(|items| {
        let named = items.into_iter().map(|(name, mut item)| {
            item["name"] = name.into();
            item
        });
        Value::Array(named.collect())
    });
    let labels = prop::collection::btree_map("[a-c]", "[a-c]", 0..3);
    let finalizers = prop::collection::vec("[a-c]", 0..3);
    (containers, labels, finalizers).prop_map(|(containers, labels, finalizers)| {
        json!({"containers": containers, "labels": labels, "finalizers": finalizers})
    })
}

proptest! {
    #[test]
    fn applying_a_merge_diff_gives_the_other_document(from in tree(), to in tree()) {
        let patch = Value::Object(merge::diff(&from, &to));
        let result = merge::apply(&Value::Object(from), &patch).expect("a map");
        prop_assert_eq!(result, Value::Object(to));
    }

    #[test]
    fn a_strategic_patch_applied_twice_changes_nothing_more(document in pod_tree(), patch in pod_tree()) {
        let once = strategic(document, patch.clone()).expect("applies");
        let twice = strategic(once.clone(), patch).expect("applies");
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn arbitrary_patches_never_panic(document in tree(), patch in tree()) {
        let (document, patch) = (Value::Object(document), Value::Object(patch));
        let _ = strategic(document.clone(), patch.clone());
        let _ = json::apply(&document, &json!([patch]));
        let _ = merge::apply(&patch, &document);
    }
}

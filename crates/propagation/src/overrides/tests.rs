//! Whole policies, the worked examples among them, and what hostile input leads to.

use karmada_api::cluster::Cluster;
use karmada_api::policy::{ClusterOverridePolicy, OverridePolicy};
use karmada_apimachinery::json;
use proptest::prelude::*;

use super::document::Document;
use super::edit::Edit;
use super::pointer::Tree;
use super::*;

fn cluster(name: &str) -> Cluster {
    karmada_apimachinery::from_value(json!({"metadata": {"name": name, "labels": {"env": "prod"}}}))
        .unwrap()
}

fn policy(name: &str, selectors: Value, overriders: Value) -> OverridePolicy {
    karmada_apimachinery::from_value(json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"resourceSelectors": selectors, "overrideRules": [{"overriders": overriders}]},
    }))
    .unwrap()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "labels": {"k": "1"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "web", "image": "perl:5.34.0", "args": ["a", "b", "a"]},
        ]}}},
    })
}

fn overridden(object: &Value, policies: &[OverridePolicy]) -> Result<Value, OverrideError> {
    let mut index = OverrideIndex::default();
    policies.iter().for_each(|policy| index.insert(policy));
    let mut object = object.clone();
    Overrides::find(&OverrideIndex::default(), &index, &object).apply(
        &mut object,
        &cluster("m1"),
        None,
    )?;
    Ok(object)
}

#[test]
fn overriders_change_what_they_name() {
    let container = "/spec/template/spec/containers/0";
    let cases = [
        // Example: I26
        (
            json!({"imageOverrider": [{"component": "Registry", "operator": "add", "value": "registry.k8s.io"}]}),
            format!("{container}/image"),
            json!("registry.k8s.io/perl:5.34.0"),
        ),
        (
            json!({"imageOverrider": [{"predicate": {"path": format!("{container}/image")},
                   "component": "Tag", "operator": "replace", "value": "6"}]}),
            format!("{container}/image"),
            json!("perl:6"),
        ),
        // Example: I30
        (
            json!({"argsOverrider": [{"containerName": "web", "operator": "remove", "value": ["a"]}]}),
            format!("{container}/args"),
            json!(["b"]),
        ),
        (
            json!({"commandOverrider": [{"containerName": "web", "operator": "add", "value": ["x"]}]}),
            format!("{container}/command"),
            json!(["x"]),
        ),
        // Example: I31
        (
            json!({"labelsOverrider": [
                {"operator": "replace", "value": {"k": "2", "z": "3"}},
                {"operator": "remove", "value": {"q": ""}},
                {"operator": "add", "value": {"p/q": "4"}},
            ]}),
            "/metadata/labels".to_owned(),
            json!({"k": "2", "p/q": "4"}),
        ),
        (
            json!({"annotationsOverrider": [{"operator": "add", "value": {"a": "b"}}]}),
            "/metadata/annotations".to_owned(),
            json!({"a": "b"}),
        ),
        (
            json!({"plaintext": [
                {"path": "/spec/replicas", "operator": "replace", "value": 2},
                {"path": "/spec/paused", "operator": "add", "value": true},
                {"path": "/spec/paused", "operator": "remove"},
            ]}),
            "/spec/replicas".to_owned(),
            json!(2),
        ),
    ];
    for (overriders, path, expected) in cases {
        let result =
            overridden(&deployment(), &[policy("p", json!([]), overriders.clone())]).unwrap();
        assert_eq!(result.pointer(&path), Some(&expected), "{overriders}");
    }
}

// Example: I28
#[test]
fn two_edits_of_an_image_are_made_one_after_the_other() {
    let mut object = deployment();
    object["spec"]["template"]["spec"]["containers"][0]["image"] =
        "subpath/imagename:v1.0.0".into();
    let overriders = json!({"imageOverrider": [
        {"component": "Repository", "operator": "add", "value": "/x"},
        {"component": "Tag", "operator": "replace", "value": "v2"},
    ]});
    let result = overridden(&object, &[policy("p", json!([]), overriders)]).unwrap();
    let image = &result["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "subpath/imagename/x:v2");
}

// Example: I34
#[test]
fn documents_inside_strings_are_edited() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"},
                        "data": {"cfg": "a: 1\nb: 2", "json": "{\"x\":{\"y\":1}}"}});
    let overriders = json!({"fieldOverrider": [
        {"fieldPath": "/data/cfg", "yaml": [{"subPath": "/a", "operator": "replace", "value": 5}]},
        {"fieldPath": "/data/json", "json": [{"subPath": "/x/z", "operator": "add", "value": "<"}]},
    ]});
    let result = overridden(&config, &[policy("p", json!([]), overriders)]).unwrap();
    assert_eq!(result["data"]["cfg"], "a: 5\nb: 2\n");
    assert_eq!(result["data"]["json"], r#"{"x":{"y":1,"z":"\u003c"}}"#);
    let mut empty = config.clone();
    empty["data"]["json"] = "".into();
    let add = json!({"fieldOverrider": [{"fieldPath": "/data/json", "json": [
        {"subPath": "/x", "operator": "add", "value": 1}]}]});
    assert_eq!(overridden(&empty, &[policy("p", json!([]), add)]).unwrap(), empty);
    // Quirk 21 of the register: fixed, an overrider without edits changes nothing.
    let result = overridden(
        &config,
        &[policy("p", json!([]), json!({"fieldOverrider": [{"fieldPath": "/data/cfg"}]}))],
    );
    assert_eq!(result.unwrap(), config);
}

#[test]
fn a_json_document_keeps_its_order_and_its_spelling() {
    let edit = |operator: &str, path: &str, value: Value| json!({"subPath": path, "operator": operator, "value": value});
    let text = r#" {"z": 1.0, "a": {"y": [1e3, { "q" : "a b\"c\\" }, null], "b": "\u0041<"}, "m": 12345678901234567890} "#;
    for (edits, expected) in [
        (
            json!([edit("replace", "/z", json!(2))]),
            r#"{"z":2,"a":{"y":[1e3,{"q":"a b\"c\\"},null],"b":"\u0041\u003c"},"m":12345678901234567890}"#,
        ),
        (
            json!([
                edit("add", "/n", json!({"k": 1})),
                edit("add", "/n/c", json!(true)),
                edit("add", "/d", json!([]))
            ]),
            r#"{"z":1.0,"a":{"y":[1e3,{"q":"a b\"c\\"},null],"b":"\u0041\u003c"},"m":12345678901234567890,"n":{"k":1,"c":true},"d":[]}"#,
        ),
        (
            json!([
                edit("remove", "/m", json!(null)),
                edit("remove", "/a/y/1", json!(null)),
                edit("add", "/a/y/-", json!("x")),
                edit("add", "/a/y/0", json!(0)),
                edit("replace", "/a/b", json!("é"))
            ]),
            r#"{"z":1.0,"a":{"y":[0,1e3,null,"x"],"b":"é"}}"#,
        ),
        (
            json!([edit("remove", "/z", json!(null)), edit("add", "/z", json!(1))]),
            r#"{"a":{"y":[1e3,{"q":"a b\"c\\"},null],"b":"\u0041\u003c"},"m":12345678901234567890,"z":1}"#,
        ),
        (json!([edit("replace", "", json!({"b": 1, "a": 2}))]), r#"{"a":2,"b":1}"#),
    ] {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"json": text}});
        let overriders = json!({"fieldOverrider": [{"fieldPath": "/data/json", "json": edits}]});
        let result = overridden(&config, &[policy("p", json!([]), overriders)]).unwrap();
        assert_eq!(result["data"]["json"], expected, "{edits}");
    }
}

// Example: I32
#[test]
fn the_most_precise_policy_has_the_last_word() {
    let replicas = |count: i32| json!({"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": count}]});
    let of_kind = |extra: Value| {
        let mut selector = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        for (key, value) in extra.as_object().unwrap() {
            selector[key] = value.clone();
        }
        json!([selector])
    };
    let policies = [
        policy("p1", json!([]), replicas(1)),
        policy("p0", of_kind(json!({"name": "web"})), replicas(2)),
        policy("p2", of_kind(json!({"labelSelector": {"matchLabels": {"k": "1"}}})), replicas(3)),
    ];
    let mut index = OverrideIndex::default();
    policies.iter().for_each(|policy| index.insert(policy));
    let (mut object, mut trace) = (deployment(), Vec::new());
    Overrides::find(&OverrideIndex::default(), &index, &object)
        .apply(&mut object, &cluster("m1"), Some(&mut trace))
        .unwrap();
    let order: Vec<_> = trace.iter().map(|step| step.policy.as_str()).collect();
    assert_eq!(order, ["OverridePolicy ns/p1", "OverridePolicy ns/p2", "OverridePolicy ns/p0"]);
    assert_eq!(object["spec"]["replicas"], 2);
}

// Example: I33
#[test]
fn a_failing_edit_fails_the_cluster_and_names_the_place() {
    let overriders = json!({"plaintext": [
        {"path": "/spec/replicas", "operator": "replace", "value": 2},
        {"path": "/spec/missing", "operator": "remove"},
    ]});
    let mut index = OverrideIndex::default();
    index.insert(&policy("p", json!([]), overriders));
    let overrides = Overrides::find(&OverrideIndex::default(), &index, &deployment());
    let mut trace = Vec::new();
    let error = overrides.apply(&mut deployment(), &cluster("m1"), Some(&mut trace)).unwrap_err();
    assert_eq!(trace, []);
    assert_eq!(
        error.to_string(),
        "OverridePolicy ns/p: plaintext overrider: error in remove for path: '/spec/missing': unable to remove nonexistent key: missing: missing value"
    );
}

#[test]
fn what_cannot_be_applied_is_told_in_the_words_of_the_original() {
    let containers = "/spec/template/spec/containers";
    let plain = |operator: &str, path: &str| json!({"plaintext": [{"path": path, "operator": operator, "value": "v"}]});
    let image = |path: &str| json!({"imageOverrider": [{"predicate": {"path": path}, "component": "Tag", "operator": "replace", "value": "v"}]});
    let field = |path: &str, sub_path: &str| json!({"fieldOverrider": [{"fieldPath": path, "json": [{"subPath": sub_path, "operator": "replace", "value": 1}]}]});
    let missing = |operator: &str, part: &str, path: &str| {
        format!("{operator} operation does not apply: doc is missing {part}: {path}: missing value")
    };
    let refused = |operator: &str, path: &str, problem: &str| {
        format!("error in {operator} for path: '{path}': {problem}")
    };
    let no_image = |path: &str, problem: &str| {
        format!("failed to obtain imageValue with predicate path({path}), error: {problem}")
    };
    let at = |below: &str| format!("{containers}{below}");
    let out =
        |index: i64| format!("Unable to access invalid index: {index}: invalid index referenced");
    for (overriders, expected) in [
        (plain("replace", "/data/x/y"), missing("replace", "path", "/data/x/y")),
        (plain("replace", &at("/5/image")), missing("replace", "path", &at("/5/image"))),
        (plain("replace", "/spec/replicas/x"), missing("replace", "path", "/spec/replicas/x")),
        (plain("replace", &at("/5")), missing("replace", "key", &at("/5"))),
        (plain("replace", &at("/x")), missing("replace", "key", &at("/x"))),
        (plain("replace", "/spec/x"), missing("replace", "key", "/spec/x")),
        (plain("add", "/data/x"), missing("add", "path", "\"/data/x\"")),
        (plain("add", "/spec/replicas/x"), missing("add", "path", "\"/spec/replicas/x\"")),
        (plain("add", &at("/5")), refused("add", &at("/5"), &out(5))),
        (plain("add", &at("/-3")), refused("add", &at("/-3"), &out(-3))),
        (
            plain("add", &at("/x")),
            refused(
                "add",
                &at("/x"),
                "value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
        ),
        (plain("remove", "/data/x"), missing("remove", "path", "\"/data/x\"")),
        (plain("remove", &at("/1")), refused("remove", &at("/1"), &out(1))),
        (
            plain("remove", "/spec/a~1b"),
            refused("remove", "/spec/a~1b", "unable to remove nonexistent key: a/b: missing value"),
        ),
        (
            image("/spec/replicas/x"),
            no_image(
                "/spec/replicas/x",
                "path(replicas) of rawObj's type is not map[string]interface{} and []interface{}",
            ),
        ),
        (
            image("/spec/replicas"),
            no_image("/spec/replicas", "failed to convert path(replicas) to string"),
        ),
        (
            image(&at("/web/image")),
            no_image(&at("/web/image"), "path(web) of rawObj's is not number"),
        ),
        (
            image("/metadata/labels/k8s"),
            no_image("/metadata/labels/k8s", "failed to convert path(k8s) to string"),
        ),
        (
            image("/metadata/annotations/a"),
            "failed to parse image value(No Image), error: invalid reference format".to_owned(),
        ),
        (
            field("/spec/replicas", "/a"),
            "Get object's value by overrider's path(/spec/replicas) is not string".to_owned(),
        ),
        (field("/spec/x", "/a"), "object has no key \"x\": JSON pointer error".to_owned()),
        (field("/metadata/name", "/a"), "invalid state detected".to_owned()),
        (field("/metadata/annotations/json", "/a/b"), missing("replace", "path", "/a/b")),
    ] {
        let mut object = deployment();
        object.set(&["metadata", "annotations"], json!({"a": "No Image", "json": "{}"}));
        let error = overridden(&object, &[policy("p", json!([]), overriders.clone())]).unwrap_err();
        assert_eq!(error.cause.to_string(), expected, "{overriders}");
    }
}

#[test]
fn an_error_names_the_policies_that_were_applied_before() {
    let label = json!({"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]});
    let bad = json!({"plaintext": [{"path": "/spec/missing", "operator": "remove"}]});
    let everywhere: ClusterOverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "cop"},
        "spec": {"overrideRules": [{"overriders": label}, {"overriders": label}]},
    }))
    .unwrap();
    let elsewhere: OverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"overrideRules": [
            {"targetCluster": {"clusterNames": ["m2"]}, "overriders": label}]},
    }))
    .unwrap();
    let (mut cluster_scoped, mut namespaced) = (OverrideIndex::default(), OverrideIndex::default());
    cluster_scoped.insert(&everywhere);
    namespaced.insert(&elsewhere);
    for (name, overriders) in [("b", &label), ("c", &bad), ("d", &label)] {
        namespaced.insert(&policy(name, json!([]), overriders.clone()));
    }
    let error = Overrides::find(&cluster_scoped, &namespaced, &deployment())
        .apply(&mut deployment(), &cluster("m1"), None)
        .unwrap_err();
    assert_eq!(error.applied, ["ClusterOverridePolicy cop", "OverridePolicy ns/b"]);
    assert_eq!(error.policy, "OverridePolicy ns/c");
}

#[test]
fn rules_concern_the_clusters_they_name_and_are_recorded() {
    let policy: ClusterOverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "cop"},
        "spec": {"overrideRules": [
            {"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}},
            {"targetCluster": {"labelSelector": {"matchLabels": {"env": "test"}}}, "overriders": {"plaintext": [{"path": "/x", "operator": "remove"}]}},
        ]},
    }))
    .unwrap();
    let mut index = OverrideIndex::default();
    index.insert(&policy);
    let overrides = Overrides::find(&index, &OverrideIndex::default(), &deployment());
    let mut trace = Vec::new();
    let applied = overrides.apply(&mut deployment(), &cluster("m1"), Some(&mut trace)).unwrap();
    assert_eq!(
        applied.cluster_scoped().unwrap(),
        r#"[{"policyName":"cop","overriders":{"labelsOverrider":[{"operator":"add","value":{"a":"b"}}]}}]"#
    );
    assert_eq!(applied.namespaced(), None);
    assert_eq!(trace[0].changes, ["add /metadata/labels/a"]);
    let elsewhere = overrides.apply(&mut deployment(), &cluster("m2"), None).unwrap();
    assert_eq!(elsewhere, Applied::default());
}

proptest! {
    #[test]
    fn no_path_and_no_object_makes_an_override_panic(path in "(/[a-z0-9~-]{0,3}){0,4}|[a-z]{0,4}", operator in "add|remove|replace|move", value in 0i64..5) {
        let overriders = json!({
            "plaintext": [{"path": path.clone(), "operator": operator, "value": value}],
            "imageOverrider": [{"predicate": {"path": path}, "component": "Tag", "operator": "add", "value": "x"}],
        });
        for object in [deployment(), json!(null), json!([1]), json!({"kind": "Pod", "spec": {"containers": 3}})] {
            let _ = overridden(&object, &[policy("p", json!([]), overriders.clone())]);
        }
    }

    #[test]
    fn an_edited_document_is_what_editing_its_values_gives(path in "(/[a-c0-2-]{0,2}){0,3}", operator in "add|remove|replace", value in 0i64..5) {
        let mut values = json!({"a": [1, {"b": [2]}], "b": {"c": "x y", "a": {"b": null}}, "1": [[0], []]});
        let mut document = Document::of(&values);
        let edit = Edit { path: &path, operator: &operator.as_str().into(), value: &value.into() };
        prop_assert_eq!(edit.perform(&mut document), edit.perform(&mut values));
        prop_assert_eq!(serde_json::from_str::<Value>(&document.to_string()).unwrap(), values);
    }

    #[test]
    fn any_text_is_an_image_or_refused(text in "[a-zA-Z0-9@:/._-]{0,40}") {
        if let Ok(image) = Image::parse(&text) {
            prop_assert_eq!(Image::parse(&image.to_string()), Ok(image));
        }
    }
}

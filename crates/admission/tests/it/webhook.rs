//! The hooks as webhooks: what goes over the wire and how they are registered.

use base64::Engine as _;
use karmada_admission::review::{CONVERT_PATH, answer};
use karmada_admission::{
    Settings, convert, mutating_configuration, registrations, validating_configuration,
};
use karmada_apimachinery::{Value, json};

fn review(object: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "namespace": "ns", "name": "a",
            "kind": {"group": "policy.karmada.io", "version": "v1alpha1", "kind": "PropagationPolicy"},
            "resource": {"group": "policy.karmada.io", "version": "v1alpha1", "resource": "propagationpolicies"},
            "object": object,
        },
    })
}

fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
    })
}

#[test]
fn a_mutating_answer_carries_a_patch_to_the_defaulted_object() {
    let settings = Settings { id: "fresh".into(), ..Settings::default() };
    let answer = answer("/mutate-propagationpolicy", &review(policy()), &settings).unwrap();
    let response = &answer.review["response"];
    assert_eq!(response["uid"], "u-1");
    assert_eq!(response["allowed"], true);
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = base64::engine::general_purpose::STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let object = karmada_apimachinery::patch::json::apply(&policy(), &patch).unwrap();
    assert_eq!(object["spec"]["resourceSelectors"][0]["namespace"], "ns");
    assert_eq!(object["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], "fresh");
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["karmada.io/propagation-policy-controller"])
    );
}

#[test]
fn a_refusal_carries_code_reason_and_message() {
    let answer = answer("/validate-propagationpolicy", &review(policy()), &Settings::default());
    let response = &answer.unwrap().review["response"];
    assert_eq!(response["allowed"], false);
    assert_eq!(
        response["status"],
        json!({
            "metadata": {}, "code": 403, "reason": "Forbidden",
            "message": "label propagationpolicy.karmada.io/permanent-id is required, it should be set by the mutating admission webhook during creation",
        })
    );
}

#[test]
fn unreadable_reviews_are_answered_not_dropped() {
    for body in [json!(null), json!({}), json!({"request": {"operation": "SHOUT"}})] {
        let answer = answer("/mutate-work", &body, &Settings::default()).unwrap();
        assert_eq!(answer.review["response"]["allowed"], false);
        assert_eq!(answer.review["response"]["status"]["code"], 400);
    }
    assert!(answer("/nowhere", &json!({}), &Settings::default()).is_none());
}

#[test]
fn registration_follows_the_table_of_the_original() {
    assert_eq!(registrations().len(), 22);
    let url = |path: &str| json!({"url": format!("https://hooks:443{path}")});
    let mutating = mutating_configuration(url);
    let validating = validating_configuration(url);
    assert_eq!(mutating["metadata"]["name"], "mutating-config");
    assert_eq!(mutating["webhooks"].as_array().unwrap().len(), 8);
    let hooks = validating["webhooks"].as_array().unwrap();
    assert_eq!(hooks.len(), 14);
    for hook in hooks {
        let path = hook["clientConfig"]["url"].as_str().unwrap();
        let timeout = if path.ends_with("customization") { 10 } else { 3 };
        let effects = if path.ends_with("-resourcebinding") { "NoneOnDryRun" } else { "None" };
        assert_eq!(hook["timeoutSeconds"], timeout, "{path}");
        assert_eq!(hook["sideEffects"], effects, "{path}");
        assert_eq!(hook["rules"][0]["apiVersions"], json!(["*"]));
        assert_eq!(hook.get("objectSelector").is_some(), path.ends_with("protection"), "{path}");
    }
}

#[test]
fn conversion_reviews_convert_every_object_or_say_why_not() {
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "a"},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Pod", "name": "p"}, "replicas": 2},
    });
    let review = |objects: Value| {
        convert::review(&json!({"request": {
            "uid": "u", "desiredAPIVersion": "work.karmada.io/v1alpha1", "objects": objects,
        }}))
    };
    let converted = review(json!([binding]));
    assert_eq!(converted["response"]["result"]["status"], "Success");
    assert_eq!(converted["response"]["convertedObjects"][0]["spec"]["resource"]["replicas"], 2);
    let refused = review(json!([{"apiVersion": "v1", "kind": "Pod"}]));
    assert_eq!(refused["response"]["result"]["status"], "Failure");
    assert_eq!(refused["response"]["uid"], "u");
    assert_eq!(CONVERT_PATH, "/convert");
}

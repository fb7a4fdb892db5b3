use jiff::Timestamp;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("in range")
}

#[test]
fn a_workload_shows_its_scale() {
    let deployment = json!({
        "kind": "Deployment",
        "metadata": {"name": "d", "uid": "u", "labels": {"a": "b"}},
        "spec": {"replicas": 2, "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "t", "operator": "NotIn", "values": ["b", "a"]},
                {"key": "e", "operator": "DoesNotExist"},
            ],
        }},
        "status": {},
    });
    let scale = scale_of(&deployment);
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=web,!e,t notin (a,b)"}));
    assert_eq!(scale["metadata"], json!({"name": "d", "uid": "u"}));
    let mut scaled = deployment;
    apply_scale(&mut scaled, &json!({"spec": {}}));
    assert_eq!(scaled["spec"]["replicas"], 0);
}

#[test]
fn a_pod_is_bound_once() {
    let binding = json!({"metadata": {"annotations": {"a": "b"}}, "target": {"name": "n1"}});
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {}, "status": {}});
    bind(&mut pod, &binding, now()).expect("the pod is free");
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod.annotation("a"), Some("b"));
    assert_eq!(pod["status"]["conditions"][0]["status"], "True");
    let refused = bind(&mut pod, &binding, now()).expect_err("the pod is bound");
    assert_eq!(
        refused.message,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
    let refused = check_binding(&json!({"target": {"kind": "Moon", "name": "m"}}));
    assert_eq!(
        refused.expect_err("pods run on nodes").message,
        "target.kind: Unsupported value: \"Moon\": supported values: \"Node\", \"<empty>\""
    );
}

fn budget(status: Value) -> Value {
    json!({
        "metadata": {"name": "b", "generation": 1},
        "spec": {"selector": {"matchLabels": {"a": "b"}}},
        "status": status,
    })
}

#[test]
fn evictions_respect_budgets() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let pod = json!({
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "status": {"phase": "Running", "conditions": ready},
    });
    let mut pending = pod.clone();
    pending["status"]["phase"] = json!("Pending");
    let full = budget(json!({"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1}));
    let stale = budget(json!({"disruptionsAllowed": 1}));
    let open = budget(json!({"observedGeneration": 1, "disruptionsAllowed": 1}));

    assert_eq!(evict(&pod, &[], now()), Ok(Eviction::Allowed { guarded: false }));
    assert_eq!(
        evict(&pending, std::slice::from_ref(&full), now()),
        Ok(Eviction::Allowed { guarded: true })
    );
    for (budgets, code, cause) in [
        (
            vec![full.clone()],
            429,
            "The disruption budget b needs 1 healthy pods and has 1 currently",
        ),
        (vec![stale], 429, "The disruption budget b is still being processed by the server."),
        (vec![full, open.clone()], 500, ""),
    ] {
        let refused = evict(&pod, &budgets, now()).expect_err("the budget is exhausted");
        assert_eq!(refused.code, code);
        let causes = refused.details.map(|details| details.causes).unwrap_or_default();
        assert_eq!(causes.first().map_or("", |c| c.message.as_str()), cause);
    }
    let Ok(Eviction::Counted { budget }) = evict(&pod, &[open], now()) else {
        panic!("the budget allows one")
    };
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(budget["status"]["disruptedPods"], json!({"p": "1970-01-12T13:46:40Z"}));
    assert_eq!(budget["status"]["conditions"][0]["reason"], "InsufficientPods");
}

//! Promises about the facade as a whole: precedence, webhooks, and input that no controller would write.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_api::config::{
    ResourceInterpreterContext, ResourceInterpreterCustomization,
    ResourceInterpreterWebhookConfiguration,
};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Map, Value, json};
use proptest::prelude::*;

use crate::testing::{interpreter, members};
use crate::webhook::{Caller, Hook};
use crate::{Error, Interpreter, Operation, Source, native, thirdparty};

/// A webhook that notes whom it was asked as and gives a fixed answer.
struct Fixed {
    answer: Value,
    asked: Mutex<Vec<(String, Value)>>,
}

impl Caller for Fixed {
    fn fresh_uid(&self) -> String {
        "uid-1".to_owned()
    }

    fn call(
        &self,
        hook: &Hook,
        question: &ResourceInterpreterContext,
    ) -> Result<ResourceInterpreterContext, String> {
        let question = karmada_apimachinery::to_value(question).unwrap();
        self.asked.lock().unwrap().push((hook.id.clone(), question));
        karmada_apimachinery::from_value(json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
            "response": self.answer,
        }))
        .map_err(|e| e.to_string())
    }
}

fn webhooks(name: &str, hook: &str, kinds: &str) -> ResourceInterpreterWebhookConfiguration {
    karmada_apimachinery::from_value(json!({"metadata": {"name": name}, "webhooks": [{
        "name": hook, "interpreterContextVersions": ["v1alpha1"],
        "rules": [{"operations": ["*"], "apiGroups": ["x.io"], "apiVersions": ["*"], "kinds": [kinds]}]}]}))
    .unwrap()
}

fn asking(answer: Value) -> (Interpreter, Arc<Fixed>) {
    let caller = Arc::new(Fixed { answer, asked: Mutex::default() });
    let interpreter = interpreter().with_caller(caller.clone());
    interpreter.set_webhooks(&[
        webhooks("x", "hook2", "*"),
        webhooks("a", "hook9", "Widget"),
        webhooks("0", "other", "Gadget"),
    ]);
    (interpreter, caller)
}

fn widget() -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "n"}, "spec": {"size": 1}})
}

fn success(fields: Value) -> Value {
    let mut answer = json!({"uid": "uid-1", "successful": true});
    answer.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    answer
}

// Example: I24
#[test]
fn the_webhook_with_the_smallest_id_is_asked() {
    let (interpreter, caller) = asking(success(json!({"healthy": true})));
    assert!(interpreter.interpret_health(&widget()).unwrap());
    let asked = caller.asked.lock().unwrap();
    assert_eq!(asked[0].0, "a/hook9");
    assert_eq!(
        asked[0].1["request"],
        json!({"uid": "uid-1", "kind": {"group": "x.io", "version": "v1", "kind": "Widget"}, "name": "w",
               "namespace": "n", "operation": "InterpretHealth", "object": widget(), "replicas": 0})
    );
}

#[test]
fn answers_of_webhooks_are_applied() {
    // Example: I25
    let (interpreter, _) = asking(success(json!({})));
    assert_eq!(interpreter.retain(widget(), &widget()).unwrap(), widget());
    let patch = STANDARD.encode(r#"[{"op": "replace", "path": "/spec/size", "value": 5}]"#);
    let (interpreter, caller) = asking(success(json!({"patch": patch, "patchType": "JSONPatch"})));
    assert_eq!(interpreter.revise_replica(widget(), 5).unwrap()["spec"]["size"], json!(5));
    assert_eq!(caller.asked.lock().unwrap()[0].1["request"]["replicas"], json!(5));
    let (interpreter, _) = asking(success(
        json!({"replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}),
    ));
    let answer = interpreter.interpret_replica(&widget()).unwrap();
    assert_eq!((answer.replicas, answer.requirements.is_some()), (3, true));
    let (interpreter, _) = asking(success(json!({"rawStatus": {"a": 1}})));
    assert_eq!(interpreter.interpret_status(&widget()).unwrap(), Some(json!({"a": 1})));
}

#[test]
fn wrong_answers_of_webhooks_are_errors() {
    let cases = [
        json!({"uid": "other", "successful": true, "healthy": true}),
        json!({"uid": "uid-1", "successful": true}),
        json!({"uid": "uid-1", "successful": false}),
        json!({"uid": "uid-1", "successful": false, "status": {"code": 403, "message": "no"}}),
    ];
    for answer in cases {
        let (interpreter, _) = asking(answer.clone());
        let error = interpreter.interpret_health(&widget()).unwrap_err().to_string();
        assert!(error.starts_with("webhook a/hook9: "), "{answer}: {error}");
    }
    for answer in [
        json!({"patch": "W10="}),
        json!({"patchType": "JSONPatch"}),
        json!({"patch": "%", "patchType": "JSONPatch"}),
    ] {
        let (interpreter, _) = asking(success(answer.clone()));
        assert!(interpreter.retain(widget(), &widget()).is_err(), "{answer}");
    }
    let (interpreter, _) = asking(success(json!({"dependencies": [{"kind": "Secret"}]})));
    assert!(interpreter.interpret_dependency(&widget()).is_err());
}

#[test]
fn answerers_are_asked_in_order() {
    let (interpreter, _) = asking(success(json!({"healthy": false})));
    let gvk = widget().gvk();
    assert_eq!(interpreter.source(&gvk, Operation::InterpretHealth), Some(Source::Webhook));
    let script = "function InterpretHealth() return true end";
    let customization: ResourceInterpreterCustomization = karmada_apimachinery::from_value(json!({
        "spec": {"target": {"apiVersion": "x.io/v1", "kind": "Widget"}, "customizations": {"healthInterpretation": {"luaScript": script}}}}))
    .unwrap();
    interpreter.set_customizations([&customization]);
    assert_eq!(interpreter.source(&gvk, Operation::InterpretHealth), Some(Source::Declarative));
    assert_eq!(interpreter.source(&gvk, Operation::Retain), Some(Source::Webhook));
    assert!(interpreter.interpret_health(&widget()).unwrap());

    let sources = [
        ("apps/v1", "Deployment", Operation::Retain, Some(Source::Native)),
        ("apps/v1beta1", "Deployment", Operation::Retain, None),
        ("apps.kruise.io/v1alpha1", "CloneSet", Operation::Retain, None),
        (
            "apps.kruise.io/v1alpha1",
            "CloneSet",
            Operation::InterpretHealth,
            Some(Source::ThirdParty),
        ),
        ("any.io/v1", "Thing", Operation::InterpretStatus, Some(Source::Native)),
        ("any.io/v1", "Thing", Operation::InterpretHealth, None),
    ];
    for (api_version, kind, operation, expected) in sources {
        let gvk = json!({"apiVersion": api_version, "kind": kind}).gvk();
        assert_eq!(interpreter.source(&gvk, operation), expected, "{kind} {operation}");
        assert_eq!(interpreter.hook_enabled(&gvk, operation), expected.is_some());
    }
    assert_eq!(
        interpreter
            .interpret_component(&json!({"apiVersion": "v1", "kind": "Pod"}))
            .unwrap_err()
            .to_string(),
        "interface GetComponents not implemented yet"
    );
}

/// Asks every question about an object, in every role it can have; nothing may panic.
fn ask_everything(interpreter: &Interpreter, object: &Value, other: &Value) {
    let items = members(&[
        ("m1", other["status"].clone()),
        ("m2", object["status"].clone()),
        ("m3", Value::Null),
    ]);
    let _ = interpreter.interpret_replica(object);
    let _ = interpreter.interpret_component(object);
    let _ = interpreter.revise_replica(object.clone(), 7);
    let _ = interpreter.retain(object.clone(), other);
    let _ = interpreter.interpret_status(object);
    let _ = interpreter.interpret_health(object);
    for items in [&items[..], &items[..1], &[]] {
        let _ = interpreter.aggregate_status(object.clone(), items);
    }
    let _ = interpreter.interpret_dependency(object);
}

/// Values of any shape, with keys that the rules look for.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9.:%-]{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["True", "Ready", "1Gi", "2026-01-01T00:00:00Z", "LoadBalancer"])
            .prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "spec",
        "status",
        "metadata",
        "template",
        "containers",
        "initContainers",
        "resources",
        "requests",
        "limits",
        "volumes",
        "conditions",
        "type",
        "replicas",
        "parallelism",
        "name",
        "generation",
        "annotations",
        "tasks",
        "driver",
        "workerGroupSpecs",
        "headGroupSpec",
        "rayClusterConfig",
        "rayClusterSpec",
        "replicaStatuses",
        "Worker",
        "containerState",
        "loadBalancer",
        "ingress",
        "ports",
        "memory",
        "cores",
        "mpiReplicaSpecs",
        "phase",
        "taskStatusCount",
        "jobStatus",
        "rulecount",
        "active",
        "disruptedPods",
        "tls",
        "secrets",
        "cpu",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|entries| entries
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map>()
                .into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_object_makes_any_rule_panic(spec in any_value(), status in any_value(), metadata in any_value()) {
        let interpreter = interpreter();
        for rules in native::TABLE.iter().chain(thirdparty::TABLE) {
            let object = json!({"apiVersion": rules.api_version, "kind": rules.kind,
                                "metadata": metadata, "spec": spec, "status": status});
            let other = json!({"metadata": spec, "spec": status, "status": spec});
            ask_everything(&interpreter, &object, &other);
        }
        ask_everything(&interpreter, &spec, &status);
    }

    #[test]
    fn any_object_passes_through_a_script_unchanged_but_for_what_lua_cannot_tell(spec in any_value()) {
        let customization: ResourceInterpreterCustomization = karmada_apimachinery::from_value(json!({
            "spec": {"target": {"apiVersion": "x.io/v1", "kind": "Widget"},
                     "customizations": {"retention": {"luaScript": "function Retain(desired) return desired end"}}}})).unwrap();
        let interpreter = interpreter();
        interpreter.set_customizations([&customization]);
        let object = json!({"apiVersion": "x.io/v1", "kind": "Widget", "spec": {"inner": spec}});
        if let Ok(first) = interpreter.retain(object.clone(), &object) {
            // What has been through once comes back the same.
            prop_assert_eq!(interpreter.retain(first.clone(), &first).unwrap(), first);
        }
    }
}

/// Every question about the object; what nobody answers is left out.
fn errors(object: &Value) -> Vec<Error> {
    let interpreter = interpreter();
    let items = members(&[("m1", object["status"].clone())]);
    let all = [
        interpreter.interpret_replica(object).err(),
        interpreter.interpret_component(object).err(),
        interpreter.revise_replica(object.clone(), 2).err(),
        interpreter.retain(object.clone(), object).err(),
        interpreter.interpret_status(object).err(),
        interpreter.interpret_health(object).err(),
        interpreter.aggregate_status(object.clone(), &items).err(),
        interpreter.interpret_dependency(object).err(),
    ];
    let unanswered =
        |error: &Error| matches!(error, Error::NotImplemented(_) | Error::NoInterpreter { .. });
    all.into_iter().flatten().filter(|error| !unanswered(error)).collect()
}

#[test]
fn a_field_of_the_wrong_type_is_named_whatever_is_asked() {
    let kinds = [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "Pod"),
        ("v1", "Service"),
        ("networking.k8s.io/v1", "Ingress"),
        ("v1", "PersistentVolume"),
        ("v1", "PersistentVolumeClaim"),
        ("policy/v1", "PodDisruptionBudget"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("flink.apache.org/v1beta1", "FlinkDeployment"),
        ("ray.io/v1", "RayCluster"),
        ("kubeflow.org/v1", "TFJob"),
    ];
    let paths: &[&[&str]] = &[
        &["spec"],
        &["status"],
        &["spec", "replicas"],
        &["spec", "template"],
        &["spec", "template", "spec"],
        &["spec", "tasks"],
        &["spec", "jobManager"],
        &["status", "conditions"],
        &["status", "replicas"],
        &["status", "phase"],
    ];
    let (mut named, mut unnamed) = (0, Vec::new());
    for (api_version, kind) in kinds {
        for path in paths {
            for wrong in [json!("x"), json!([1]), json!(1.5), json!(true)] {
                let mut object = json!({
                    "apiVersion": api_version, "kind": kind,
                    "metadata": {"name": "a", "namespace": "n", "generation": 1,
                        "annotations": {"resourcetemplate.karmada.io/generation": "1"}},
                    "spec": {"replicas": 1, "template": {"spec": {"containers": []}}},
                    "status": {"replicas": 1},
                });
                object.set(path, wrong.clone());
                let field = path.last().unwrap();
                for error in errors(&object) {
                    named += 1;
                    if !error.to_string().contains(field) {
                        unnamed.push(format!("{kind} {path:?} = {wrong}: {error}"));
                    }
                }
            }
        }
    }
    assert_eq!(unnamed, Vec::<String>::new());
    assert!(named > 100, "only {named} errors were seen");
}

//! Tables of manifests and what is said about them, kind by kind.

mod core;
mod groups;
mod options;
mod random;
mod updates;
mod workloads;

use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::{Value, json};

use super::{RULES, Scope, validate_create};
use crate::{defaults, resource, strategy};

/// Completes a manifest as the server would before it validates.
fn prepared(group: &str, kind: &str, mut object: Value) -> Value {
    let version = resource::find_kind(group, kind).map_or("v1", |resource| resource.version);
    object.set_default(&["metadata", "name"], "x");
    object.set_default(&["metadata", "uid"], "uid-1");
    object.set_default(&["metadata", "resourceVersion"], "1");
    if RULES.iter().any(|r| r.group == group && r.kind == kind && r.scope == Scope::Namespaced) {
        object.set_default(&["metadata", "namespace"], "n");
    }
    defaults::apply(group, version, kind, &mut object);
    strategy::prepare_create(group, kind, &mut object);
    object
}

/// Asserts what creating a manifest is refused with; nothing means it is accepted.
#[track_caller]
fn check(group: &str, kind: &str, manifest: Value, expected: &[&str]) {
    let object = prepared(group, kind, manifest);
    let errors: Vec<String> =
        validate_create(group, kind, &object).iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{kind}: {object:#}");
}

fn container() -> Value {
    json!({"name": "app", "image": "nginx"})
}

/// A pod whose spec carries these fields beside one container.
fn pod(fields: Value) -> Value {
    json!({"spec": with(json!({"containers": [container()]}), fields)})
}

/// A pod whose only container carries these fields.
fn pod_with(fields: Value) -> Value {
    json!({"spec": {"containers": [with(container(), fields)]}})
}

/// A workload with a matching selector and template.
fn workload(fields: Value) -> Value {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}});
    json!({"spec": with(json!({"selector": {"matchLabels": {"a": "b"}}, "template": template}), fields)})
}

fn with(mut base: Value, fields: Value) -> Value {
    if let (Some(base), Value::Object(fields)) = (base.as_object_mut(), fields) {
        base.extend(fields);
    }
    base
}

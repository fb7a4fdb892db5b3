//! The hooks as webhooks: AdmissionReview in and out, and the objects that register them with an API server.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_api::labels;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt;

use crate::hooks::{Hook, Phase, hooks};
use crate::request::{Denial, Environment, Operation, QuotaUse, Request};

pub const MUTATING_CONFIGURATION: &str = "mutating-config";
pub const VALIDATING_CONFIGURATION: &str = "validating-config";
/// Path of the conversion webhook of the bindings.
pub const CONVERT_PATH: &str = "/convert";

/// A hook as it is registered.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    pub hook: &'static Hook,
    pub timeout_seconds: u32,
    pub side_effects: &'static str,
}

/// How each hook is registered.
pub fn registrations() -> Vec<Registration> {
    hooks()
        .iter()
        .map(|hook| Registration {
            hook,
            // Scripts are parsed, which may take longer.
            timeout_seconds: match hook.path {
                "/validate-resourceinterpretercustomization" => 10,
                _ => 3,
            },
            // Admitting a binding changes the use of its quotas.
            side_effects: match hook.path {
                "/validate-resourcebinding" => "NoneOnDryRun",
                _ => "None",
            },
        })
        .collect()
}

/// The MutatingWebhookConfiguration; `client_config` tells how a path is reached.
pub fn mutating_configuration(client_config: impl Fn(&str) -> Value) -> Value {
    configuration(Phase::Mutating, client_config)
}

/// The ValidatingWebhookConfiguration; `client_config` tells how a path is reached.
pub fn validating_configuration(client_config: impl Fn(&str) -> Value) -> Value {
    configuration(Phase::Validating, client_config)
}

fn configuration(phase: Phase, client_config: impl Fn(&str) -> Value) -> Value {
    let (kind, name) = match phase {
        Phase::Mutating => ("MutatingWebhookConfiguration", MUTATING_CONFIGURATION),
        Phase::Validating => ("ValidatingWebhookConfiguration", VALIDATING_CONFIGURATION),
    };
    let webhooks: Vec<Value> = registrations()
        .into_iter()
        .filter(|registration| registration.hook.phase == phase)
        .map(|registration| registration.to_webhook(client_config(registration.hook.path)))
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": "karmada-webhook"}},
        "webhooks": webhooks,
    })
}

impl Registration {
    fn to_webhook(self, client_config: Value) -> Value {
        let hook = self.hook;
        let operations: Vec<&str> = hook.operations.iter().map(|op| op.as_str()).collect();
        let mut webhook = json!({
            "name": hook.name,
            "rules": [{
                "operations": operations,
                "apiGroups": [hook.group],
                "apiVersions": ["*"],
                "resources": [hook.resource],
                "scope": "*",
            }],
            "clientConfig": client_config,
            "failurePolicy": "Fail",
            "sideEffects": self.side_effects,
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": self.timeout_seconds,
        });
        if hook.is_deletion_protection() {
            webhook["objectSelector"] = json!({
                "matchExpressions": [{"key": labels::DELETION_PROTECTED, "operator": "Exists"}],
            });
        }
        webhook
    }
}

/// An answered AdmissionReview and what its admission entails.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub review: Value,
    /// Empty unless a binding was admitted whose quotas are enforced.
    pub quota_uses: Vec<QuotaUse>,
}

/// Answers an AdmissionReview that was sent to `path`; `None` if nothing is served there.
pub fn answer(path: &str, review: &Value, environment: &dyn Environment) -> Option<Answer> {
    let hook = hooks().iter().find(|hook| hook.path == path)?;
    let outcome = Request::from_review(review)
        .and_then(|request| Ok((hook.run(&request, environment)?, request)));
    let (mut response, quota_uses) = match outcome {
        Err(denial) => (refusal(&denial), Vec::new()),
        Ok((verdict, request)) => {
            let mut response = json!({"allowed": true, "status": {"metadata": {}, "code": 200}});
            if let Some(object) = &verdict.object {
                add_patch(&mut response, &request.object, object);
            }
            (response, verdict.quota_uses)
        }
    };
    response["uid"] = review.str_at(&["request", "uid"]).unwrap_or_default().into();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": response,
    });
    Some(Answer { review, quota_uses })
}

fn refusal(denial: &Denial) -> Value {
    let mut status = json!({"metadata": {}, "message": denial.message, "code": denial.code});
    if !denial.reason.is_empty() {
        status["reason"] = denial.reason.into();
    }
    json!({"allowed": false, "status": status})
}

fn add_patch(response: &mut Value, before: &Value, after: &Value) {
    let mut patch = Vec::new();
    collect_changes(before, after, String::new(), &mut patch);
    if patch.is_empty() {
        return;
    }
    response["patch"] = STANDARD.encode(Value::from(patch).to_string()).into();
    response["patchType"] = "JSONPatch".into();
}

/// The JSON Patch from `before` to `after`; lists that differ are replaced whole.
fn collect_changes(before: &Value, after: &Value, path: String, patch: &mut Vec<Value>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            patch.push(json!({"op": "replace", "path": path, "value": after}));
        }
        return;
    };
    let at = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.push(json!({"op": "remove", "path": at(key)}));
    }
    for (key, value) in new {
        match old.get(key) {
            Some(stored) => collect_changes(stored, value, at(key), patch),
            None => patch.push(json!({"op": "add", "path": at(key), "value": value})),
        }
    }
}

impl Request<'static> {
    /// Reads the request of an AdmissionReview.
    pub fn from_review(review: &Value) -> Result<Self, Denial> {
        let request = review
            .get("request")
            .filter(|request| request.is_object())
            .ok_or_else(|| Denial::unreadable("the review holds no request"))?;
        let text = |path: &[&str]| request.str_at(path).unwrap_or_default().to_owned();
        let word = text(&["operation"]);
        let operation = Operation::parse(&word)
            .ok_or_else(|| Denial::unreadable(format!("unknown operation {word}")))?;
        Ok(Self {
            kind: Gvk::new(
                text(&["kind", "group"]),
                text(&["kind", "version"]),
                text(&["kind", "kind"]),
            ),
            resource: Gvr::new(
                text(&["resource", "group"]),
                text(&["resource", "version"]),
                text(&["resource", "resource"]),
            ),
            subresource: text(&["subResource"]),
            name: text(&["name"]),
            namespace: text(&["namespace"]),
            operation,
            object: Cow::Owned(request.get("object").cloned().unwrap_or_default()),
            old_object: Cow::Owned(request.get("oldObject").cloned().unwrap_or_default()),
            dry_run: request.bool_at(&["dryRun"]).unwrap_or_default(),
        })
    }
}

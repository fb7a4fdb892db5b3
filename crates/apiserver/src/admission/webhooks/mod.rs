//! Admission by webhooks: whom to ask, what to send, and what to make of the answer.

mod client;
mod mutating;
mod validating;

use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::{Cause, Details, Status};
use karmada_apimachinery::{Value, json};
use karmada_kinds::expressions::{Available, Gives, compile_as, declarations};

use super::matching::{self, Conditions};
use super::request::{Subject, View};
use crate::call::Call;

pub(crate) use client::Client;
pub(crate) use mutating::mutating;
pub(crate) use validating::validate;

/// One webhook of a configuration.
#[derive(Clone)]
struct Hook {
    configuration: Arc<Value>,
    index: usize,
}

impl Hook {
    fn spec(&self) -> &Value {
        &self.configuration.list_at(&["webhooks"])[self.index]
    }

    fn name(&self) -> &str {
        self.spec().str_at(&["name"]).unwrap_or_default()
    }

    fn ignores_failures(&self) -> bool {
        self.spec().str_at(&["failurePolicy"]) == Some("Ignore")
    }
}

/// All webhooks of one kind of configuration, in the order they are asked.
fn hooks(call: &Call, resource: &str) -> Vec<Hook> {
    let resource = GroupResource::new("admissionregistration.k8s.io", resource);
    let configurations = call.state.objects.list(&resource, None);
    let hooks = configurations.into_iter().flat_map(|configuration| {
        let count = configuration.list_at(&["webhooks"]).len();
        (0..count).map(move |index| Hook { configuration: configuration.clone(), index })
    });
    hooks.collect()
}

/// What a webhook wants to see of a write; nothing if it does not want to be asked.
async fn wants(hook: &Hook, subject: &Subject<'_>) -> Result<Option<View>, Status> {
    let spec = hook.spec();
    if !matching::selected(subject, spec) {
        return Ok(None);
    }
    let equivalent = spec.str_at(&["matchPolicy"]) != Some("Exact");
    let rules = spec.list_at(&["rules"]);
    let Some(version) = matching::matched_version(subject, rules, equivalent) else {
        return Ok(None);
    };
    let view = subject.view(version).await?;
    let conditions = spec.list_at(&["matchConditions"]);
    if conditions.is_empty() {
        return Ok(Some(view));
    }
    let known = declarations(Available::default(), None);
    let text = |of: &Value, key: &str| of.str_at(&[key]).unwrap_or_default().to_owned();
    let programs: Vec<_> = conditions
        .iter()
        .map(|c| (text(c, "name"), compile_as(&text(c, "expression"), &known, Gives::Bool)))
        .collect();
    match matching::conditions(&programs, &matching::bindings(subject, &view)) {
        Conditions::Met => Ok(Some(view)),
        Conditions::Unmet => Ok(None),
        Conditions::Failed(_) if hook.ignores_failures() => Ok(None),
        Conditions::Failed(why) => {
            let attributes = subject.attributes;
            Err(Status::forbidden(&attributes.group_resource(), &attributes.name, why))
        }
    }
}

/// The part of an answer that counts.
struct Verdict {
    patch: Option<Value>,
}

/// Asks a webhook. Nothing comes back if it could not be asked and that is to be ignored.
async fn ask(hook: &Hook, subject: &Subject<'_>, view: &View) -> Result<Option<Verdict>, Status> {
    let name = hook.name();
    let spec = hook.spec();
    let harmless = matches!(spec.str_at(&["sideEffects"]), Some("None" | "NoneOnDryRun"));
    if subject.attributes.dry_run && !harmless {
        let why = format!("admission webhook \"{name}\" does not support dry run");
        return Err(Status::bad_request(why));
    }
    let uid = subject.call.state.config.chance.id();
    let request = subject.review(&uid, view);
    let seconds = spec.i64_at(&["timeoutSeconds"]).unwrap_or(10).clamp(1, 30);
    let limit = Duration::from_secs(seconds.unsigned_abs());
    let answer = match call_hook(spec, subject.call, &request, limit).await {
        Ok(answer) => answer,
        Err(why) => {
            let why = format!("failed calling webhook \"{name}\": {why}");
            if hook.ignores_failures() {
                tracing::warn!(webhook = name, why, "a webhook failed and is ignored");
                return Ok(None);
            }
            return Err(Status::internal(why));
        }
    };
    judge(hook, subject.call, &answer)
}

/// Sends the review; an error is the text that explains what went wrong.
async fn call_hook(
    spec: &Value,
    call: &Call,
    request: &Value,
    limit: Duration,
) -> Result<Value, String> {
    let versions = spec.list_at(&["admissionReviewVersions"]);
    let version =
        versions.iter().filter_map(Value::as_str).find(|v| matches!(*v, "v1" | "v1beta1"));
    let version =
        version.ok_or("webhook does not accept known AdmissionReview versions (v1, v1beta1)")?;
    let api_version = format!("admission.k8s.io/{version}");
    let review = json!({"kind": "AdmissionReview", "apiVersion": api_version, "request": request});
    let config = spec.at(&["clientConfig"]).unwrap_or(&Value::Null);
    let answer = call.state.webhooks.post(&*call.state.objects, config, &review, limit).await;
    let answer = answer.map_err(|why| format!("failed to call webhook: {why}"))?;
    if answer.kind() != "AdmissionReview" || answer.api_version() != api_version {
        return Err(format!(
            "expected webhook response of {api_version}, Kind=AdmissionReview, got {}, Kind={}",
            answer.api_version(),
            answer.kind()
        ));
    }
    let Some(response) = answer.at(&["response"]).filter(|response| response.is_object()) else {
        return Err("webhook response was absent".into());
    };
    let (wanted, found) = (
        request.str_at(&["uid"]).unwrap_or_default(),
        response.str_at(&["uid"]).unwrap_or_default(),
    );
    if wanted != found {
        return Err(format!("expected response.uid=\"{wanted}\", got \"{found}\""));
    }
    Ok(response.clone())
}

fn judge(hook: &Hook, call: &Call, response: &Value) -> Result<Option<Verdict>, Status> {
    use base64::Engine as _;
    let name = hook.name();
    for warning in response.list_at(&["warnings"]).iter().filter_map(Value::as_str) {
        call.warn(warning);
    }
    let annotations = response.at(&["auditAnnotations"]).and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flatten() {
        call.annotate(&format!("{name}/{key}"), value.as_str().unwrap_or_default().to_owned());
    }
    if response.bool_at(&["allowed"]) != Some(true) {
        return Err(denial(name, response.at(&["status"])));
    }
    let broken = |why: String| {
        let why = format!("failed calling webhook \"{name}\": {why}");
        if hook.ignores_failures() { Ok(None) } else { Err(Status::internal(why)) }
    };
    let Some(encoded) = response.str_at(&["patch"]).filter(|patch| !patch.is_empty()) else {
        return Ok(Some(Verdict { patch: None }));
    };
    if response.str_at(&["patchType"]) != Some("JSONPatch") {
        let found = response.str_at(&["patchType"]).unwrap_or_default();
        return broken(format!(
            "webhook returned response.patch but not response.patchType: \"{found}\""
        ));
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded);
    match bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        Some(patch) => Ok(Some(Verdict { patch: Some(patch) })),
        None => broken("response.patch is no JSON patch".into()),
    }
}

/// What a client is told when a webhook says no.
fn denial(name: &str, said: Option<&Value>) -> Status {
    let said = said.unwrap_or(&Value::Null);
    let denied = format!("admission webhook \"{name}\" denied the request");
    let text = |key: &str| said.str_at(&[key]).unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = said.i64_at(&["code"]).and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let status = Status::new(code.max(400), known_reason(text("reason")), message);
    match said.at(&["details"]).filter(|details| details.is_object()) {
        None => status,
        Some(details) => {
            let text = |key: &str| details.str_at(&[key]).unwrap_or_default().to_owned();
            let cause = |cause: &Value| Cause {
                reason: cause.str_at(&["reason"]).unwrap_or_default().to_owned(),
                message: cause.str_at(&["message"]).unwrap_or_default().to_owned(),
                field: cause.str_at(&["field"]).unwrap_or_default().to_owned(),
            };
            status.with_details(Details {
                name: text("name"),
                group: text("group"),
                kind: text("kind"),
                uid: text("uid"),
                causes: details.list_at(&["causes"]).iter().map(cause).collect(),
                ..Details::default()
            })
        }
    }
}

/// Reasons as Kubernetes knows them; others are not passed on.
fn known_reason(reason: &str) -> &'static str {
    const REASONS: &[&str] = &[
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    REASONS.iter().find(|known| **known == reason).copied().unwrap_or_default()
}

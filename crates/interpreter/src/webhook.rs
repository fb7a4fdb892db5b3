//! Webhooks that answer questions about objects: which one is asked, what is sent, and what its answer means.
//! The call itself is behind [`Caller`]; nothing here does I/O.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_api::config::{
    GROUP, InterpreterOperation, ResourceInterpreterContext, ResourceInterpreterRequest,
    ResourceInterpreterResponse, ResourceInterpreterWebhook,
    ResourceInterpreterWebhookConfiguration, RuleWithOperations,
};
use karmada_api::meta::GroupVersionKind;
use karmada_api::work::AggregatedStatusItem;
use karmada_apimachinery::gvk::Gvk;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, patch};

use crate::error::{Error, Result};
use crate::rules::Replicas;
use crate::{Operation, dependency};

/// How long an answer may take if the configuration does not say.
pub const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

const VERSION: &str = "v1alpha1";
const KIND: &str = "ResourceInterpreterContext";

/// Carries calls to webhooks. Calls block until the answer is there.
pub trait Caller: Send + Sync {
    /// An id that no other call has.
    fn fresh_uid(&self) -> String;

    /// Sends the question and returns the decoded answer; the error says what went wrong on the way.
    fn call(
        &self,
        hook: &Hook,
        question: &ResourceInterpreterContext,
    ) -> std::result::Result<ResourceInterpreterContext, String>;
}

/// A webhook and the id that decides between several.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// `<configuration>/<hook>`.
    pub id: String,
    pub webhook: ResourceInterpreterWebhook,
}

impl Hook {
    pub fn timeout_seconds(&self) -> i32 {
        self.webhook.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS)
    }

    fn answers(&self, gvk: &Gvk, operation: Operation) -> bool {
        self.webhook.rules.iter().any(|rule| matches(rule, gvk, operation))
    }
}

fn matches(rule: &RuleWithOperations, gvk: &Gvk, operation: Operation) -> bool {
    let has = |words: &[String], word: &str| words.iter().any(|w| w == "*" || w == word);
    let asked = |o: &InterpreterOperation| {
        *o == InterpreterOperation::All || o.as_str() == operation.name()
    };
    rule.operations.iter().any(asked)
        && has(&rule.rule.api_groups, &gvk.group)
        && has(&rule.rule.api_versions, &gvk.version)
        && has(&rule.rule.kinds, &gvk.kind)
}

/// All configured webhooks, sorted by id.
#[derive(Debug, Clone, Default)]
pub struct Webhooks(Vec<Arc<Hook>>);

impl Webhooks {
    pub fn new<'a>(
        configurations: impl IntoIterator<Item = &'a ResourceInterpreterWebhookConfiguration>,
    ) -> Self {
        let mut hooks = Vec::new();
        for configuration in configurations {
            for webhook in &configuration.webhooks {
                let id = format!("{}/{}", configuration.metadata.name, webhook.name);
                hooks.push(Arc::new(Hook { id, webhook: webhook.clone() }));
            }
        }
        hooks.sort_by(|a, b| a.id.cmp(&b.id));
        Self(hooks)
    }

    /// The webhook that is asked: the smallest id among those that match.
    pub fn find(&self, gvk: &Gvk, operation: Operation) -> Option<&Arc<Hook>> {
        self.0.iter().find(|hook| hook.answers(gvk, operation))
    }
}

/// What a question consists of beside the object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra<'a> {
    pub(crate) observed: Option<&'a Value>,
    pub(crate) replicas: i64,
    pub(crate) statuses: &'a [AggregatedStatusItem],
}

/// Makes the request about an object.
fn request(
    uid: String,
    operation: Operation,
    object: &Value,
    extra: &Extra<'_>,
) -> ResourceInterpreterRequest {
    let Gvk { group, version, kind } = object.gvk();
    let replicas = i32::try_from(extra.replicas).unwrap_or(i32::MAX);
    ResourceInterpreterRequest {
        uid,
        kind: GroupVersionKind { group, version, kind },
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        operation: InterpreterOperation::from(operation.name()),
        object: object.clone(),
        observed_object: extra.observed.cloned(),
        desired_replicas: Some(replicas),
        aggregated_status: extra.statuses.to_vec(),
    }
}

/// Asks a webhook and checks its answer.
pub(crate) fn ask(
    caller: &dyn Caller,
    hook: &Hook,
    operation: Operation,
    object: &Value,
    extra: &Extra<'_>,
) -> Result<ResourceInterpreterResponse> {
    let uid = caller.fresh_uid();
    let question = ResourceInterpreterContext {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: KIND.to_owned(),
        request: Some(request(uid.clone(), operation, object, extra)),
        response: None,
    };
    let fail = |problem: String| Error::Webhook { hook: hook.id.clone(), problem };
    let answer = caller.call(hook, &question).map_err(fail)?;
    check(answer, &uid, operation).map_err(fail)
}

/// Checks that an answer belongs to the question and holds what the question needs.
pub fn check(
    answer: ResourceInterpreterContext,
    uid: &str,
    operation: Operation,
) -> std::result::Result<ResourceInterpreterResponse, String> {
    if answer.kind != KIND || answer.api_version != format!("{GROUP}/{VERSION}") {
        return Err(format!(
            "expected {GROUP}/{VERSION} {KIND}, got {:?} {:?}",
            answer.api_version, answer.kind
        ));
    }
    let response = answer.response.ok_or("webhook resp is nil")?;
    if response.uid != uid {
        return Err(format!("expected response.uid {uid:?}, got {:?}", response.uid));
    }
    if !response.successful {
        let status = response
            .status
            .ok_or("webhook require response.status when response.successful is false")?;
        return Err(format!(
            "webhook call failed, get status code: {}, msg: {}",
            status.code, status.message
        ));
    }
    let missing = match operation {
        Operation::InterpretReplica => response.replicas.is_none().then_some("replicas"),
        Operation::InterpretStatus => response.raw_status.is_none().then_some("rawStatus"),
        Operation::InterpretHealth => response.healthy.is_none().then_some("healthy"),
        Operation::ReviseReplica | Operation::Retain | Operation::AggregateStatus => {
            let patch = !response.patch.0.is_empty();
            let patch_type = response.patch_type.as_deref();
            if patch_type.is_some_and(|word| word != "JSONPatch") {
                return Err(format!(
                    "response.patchType {:?} is not known",
                    patch_type.unwrap_or_default()
                ));
            }
            match (patch, patch_type.is_some()) {
                (true, false) => Some("patchType"),
                (false, true) => Some("patch"),
                _ => None,
            }
        }
        Operation::InterpretComponent | Operation::InterpretDependency => None,
    };
    match missing {
        Some(field) => Err(format!("webhook returned nil response.{field}")),
        None => Ok(response),
    }
}

/// The object of the question with the patch of the answer applied.
pub(crate) fn patched(
    hook: &Hook,
    object: &Value,
    response: &ResourceInterpreterResponse,
) -> Result<Value> {
    if response.patch.0.is_empty() {
        return Ok(object.clone());
    }
    let fail = |problem: String| Error::Webhook { hook: hook.id.clone(), problem };
    let bytes =
        STANDARD.decode(&response.patch.0).map_err(|e| fail(format!("decode patch: {e}")))?;
    let operations: Value =
        serde_json::from_slice(&bytes).map_err(|e| fail(format!("decode patch: {e}")))?;
    patch::json::apply(object, &operations).map_err(|e| fail(format!("apply patch: {}", e.message)))
}

pub(crate) fn replicas(response: ResourceInterpreterResponse) -> Replicas {
    Replicas {
        replicas: response.replicas.unwrap_or(0),
        requirements: response.replica_requirements,
    }
}

pub(crate) fn dependencies(
    response: ResourceInterpreterResponse,
) -> Result<Vec<karmada_api::config::DependentObjectReference>> {
    dependency::validate(&response.dependencies)?;
    Ok(response.dependencies)
}

//! What a hook is asked, what it may know besides, and what it answers.

use std::borrow::Cow;

use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::core::ResourceList;
use karmada_api::features::Gates;
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, join_errors, quote};
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::status::Status;

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The word of an AdmissionReview.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }
}

/// One write that wants to be admitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Request<'a> {
    pub kind: Gvk,
    pub resource: Gvr,
    /// Empty for the object itself; hooks never look at subresources.
    pub subresource: String,
    pub name: String,
    pub namespace: String,
    pub operation: Operation,
    /// The object as it would be stored; null on delete.
    pub object: Cow<'a, Value>,
    /// The object as it is stored; null on create.
    pub old_object: Cow<'a, Value>,
    pub dry_run: bool,
}

impl Request<'_> {
    /// The same request about another object.
    pub(crate) fn about(&self, object: Value) -> Request<'_> {
        Request {
            kind: self.kind.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            operation: self.operation,
            object: Cow::Owned(object),
            old_object: Cow::Borrowed(&*self.old_object),
            dry_run: self.dry_run,
        }
    }
}

/// What rules may know besides the request.
pub trait Environment {
    fn gates(&self) -> &Gates;

    /// Whether ClusterTaintPolicies may use the effect NoExecute.
    fn allows_no_execute_taints(&self) -> bool {
        false
    }

    /// A fresh permanent id.
    fn new_id(&self) -> String;

    /// All stored customizations.
    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        Vec::new()
    }

    /// The quotas of a namespace, as last stored.
    fn quotas(&self, _namespace: &str) -> Vec<FederatedResourceQuota> {
        Vec::new()
    }
}

/// An environment of plain values, for tests and for servers that gather beforehand.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub gates: Gates,
    pub allow_no_execute_taints: bool,
    pub id: String,
    pub customizations: Vec<ResourceInterpreterCustomization>,
    pub quotas: Vec<FederatedResourceQuota>,
}

impl Environment for Settings {
    fn gates(&self) -> &Gates {
        &self.gates
    }
    fn allows_no_execute_taints(&self) -> bool {
        self.allow_no_execute_taints
    }
    fn new_id(&self) -> String {
        self.id.clone()
    }
    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        self.customizations.clone()
    }
    fn quotas(&self, namespace: &str) -> Vec<FederatedResourceQuota> {
        let inside = |quota: &&FederatedResourceQuota| quota.metadata.namespace == namespace;
        self.quotas.iter().filter(inside).cloned().collect()
    }
}

/// A quota whose use grows or shrinks with an admitted binding. Whoever admits writes it to
/// `status.overallUsed` (not on a dry run) and asks again if it was changed meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaUse {
    pub namespace: String,
    pub name: String,
    pub overall_used: ResourceList,
}

/// What a hook says to an admitted request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// The object with defaults filled in, if the hook mutates.
    pub object: Option<Value>,
    pub quota_uses: Vec<QuotaUse>,
}

/// What all hooks together say to an admitted request.
#[derive(Debug, Clone, PartialEq)]
pub struct Admitted {
    /// The object with defaults filled in, if a hook mutated it.
    pub object: Option<Value>,
    pub warnings: Vec<String>,
    pub quota_uses: Vec<QuotaUse>,
}

/// Why a hook refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub code: u16,
    /// Empty where the original gives no reason.
    pub reason: &'static str,
    pub message: String,
}

impl Denial {
    /// A rule is broken.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { code: 403, reason: "Forbidden", message: message.into() }
    }

    /// The object cannot be read.
    pub fn unreadable(message: impl Into<String>) -> Self {
        Self { code: 400, reason: "", message: message.into() }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self { code: 500, reason: "", message: message.into() }
    }

    /// The Status the API server answers with when the hook called `hook` refuses.
    pub fn to_status(&self, hook: &str) -> Status {
        let message =
            format!("admission webhook {} denied the request: {}", quote(hook), self.message);
        Status::new(self.code, self.reason, message)
    }
}

/// Refuses if there are errors.
pub(crate) fn refuse_any(errors: &[FieldError]) -> Result<(), Denial> {
    if errors.is_empty() { Ok(()) } else { Err(Denial::forbidden(join_errors(errors))) }
}

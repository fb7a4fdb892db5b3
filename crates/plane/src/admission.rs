//! Karmada's admission inside the API server: the same functions that the webhook serves, and the
//! conversion between the versions of a binding.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use karmada_admission::{self as admission, Environment, Phase, convert};
use karmada_api::Kind;
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::features::Gates;
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupResource, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::status::Status;
use karmada_apiserver::Handle;
use karmada_apiserver::admission::{Admission, Attributes, Operation, Warning};
use karmada_apiserver::auth::Objects;
use karmada_apiserver::registry::Converter;

use crate::{Settings, quota};

/// Runs Karmada's hooks on every write.
pub(crate) struct Hooks {
    settings: Settings,
    /// Known once the server runs; hooks that look at other objects see none before.
    objects: Arc<OnceLock<Arc<dyn Objects>>>,
}

impl Hooks {
    pub(crate) fn new(settings: Settings, objects: Arc<OnceLock<Arc<dyn Objects>>>) -> Self {
        Self { settings, objects }
    }

    fn stored<K: Kind>(&self, namespace: Option<&str>) -> Vec<K> {
        let Some(objects) = self.objects.get() else { return Vec::new() };
        let resource = GroupResource::new(K::GROUP, K::PLURAL);
        let read = |object: &Arc<Value>| K::from_value(object).ok();
        objects.list(&resource, namespace).iter().filter_map(read).collect()
    }
}

impl Environment for Hooks {
    fn gates(&self) -> &Gates {
        &self.settings.gates
    }

    fn allows_no_execute_taints(&self) -> bool {
        self.settings.allow_no_execute_taints
    }

    fn new_id(&self) -> String {
        (self.settings.new_id)()
    }

    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        self.stored(None)
    }

    fn quotas(&self, namespace: &str) -> Vec<FederatedResourceQuota> {
        self.stored(Some(namespace))
    }
}

fn request<'a>(
    attributes: &Attributes,
    object: &'a Value,
    old: Option<&'a Value>,
) -> admission::Request<'a> {
    let gvk = attributes.gvk.clone();
    admission::Request {
        resource: Gvr::new(&*gvk.group, &*gvk.version, &*attributes.resource),
        kind: gvk,
        subresource: attributes.subresource.to_string(),
        name: attributes.name.to_string(),
        namespace: attributes.namespace.to_string(),
        operation: operation(attributes),
        object: Cow::Borrowed(object),
        old_object: Cow::Borrowed(old.unwrap_or(&Value::Null)),
        dry_run: attributes.dry_run,
    }
}

fn operation(attributes: &Attributes) -> admission::Operation {
    match attributes.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => admission::Operation::Delete,
        Operation::Connect => admission::Operation::Connect,
    }
}

/// Whether any hook has a say; most writes concern none, and must not pay for copies.
fn concerns(phase: Phase, attributes: &Attributes, old: Option<&Value>) -> bool {
    let resource = (attributes.gvk.group.as_str(), attributes.resource.as_str());
    let protected = || {
        old.is_some_and(|old| old.label(karmada_api::labels::DELETION_PROTECTED).is_some())
            && attributes.operation == Operation::Delete
    };
    attributes.subresource.is_empty()
        && (admission::concerned(phase, resource, operation(attributes)) || protected())
}

impl Admission for Hooks {
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if !concerns(Phase::Mutating, attributes, old) || attributes.operation == Operation::Delete
        {
            return Ok(Vec::new());
        }
        let admitted = admission::mutate(&request(attributes, object, old), self)?;
        if let Some(changed) = admitted.object {
            *object = changed;
        }
        Ok(admitted.warnings)
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if !concerns(Phase::Validating, attributes, old) {
            return Ok(Vec::new());
        }
        Ok(admission::validate(&request(attributes, object, old), self)?.warnings)
    }

    fn settle<'a>(
        &'a self,
        server: Handle,
        attributes: &'a Attributes,
        object: &'a Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            // Most writes concern no quota, and must not pay for copies.
            if !quota::counts(attributes, &self.settings.gates) {
                return Ok(());
            }
            let request = request(attributes, object, old);
            let uses = admission::validate(&request, self)?.quota_uses;
            let known = self.quotas(&request.namespace);
            quota::charge(&server, &request, &self.settings.gates, uses, known).await
        })
    }
}

/// Converts bindings between their versions.
pub(crate) struct Bindings;

impl Converter for Bindings {
    fn knows(&self, group: &str, kind: &str) -> bool {
        group == "work.karmada.io" && matches!(kind, "ResourceBinding" | "ClusterResourceBinding")
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        convert::convert(object, api_version)
    }
}

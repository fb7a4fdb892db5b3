//! Namespaces as a condition of what lives in them: nothing is created where there is none, or in one
//! that is going away; the ones the system lives in stay.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::{Cause, Status};

use super::{Admission, Attributes, Operation, Warning};
use crate::auth::Objects;

const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

pub(super) struct NamespaceLifecycle {
    pub(super) objects: Arc<dyn Objects>,
}

impl Admission for NamespaceLifecycle {
    fn admit(
        &self,
        attributes: &Attributes,
        _object: &mut Value,
        _old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        let is_namespace = attributes.gvk.group.is_empty() && attributes.resource == "namespaces";
        let namespaces = GroupResource::new("", "namespaces");
        if attributes.operation == Operation::Delete {
            if is_namespace && IMMORTAL.contains(&attributes.name.as_str()) {
                let why = "this namespace may not be deleted";
                return Err(Status::forbidden(&namespaces, &attributes.name, why));
            }
            return Ok(Vec::new());
        }
        let is_review = attributes.resource == "localsubjectaccessreviews";
        if is_namespace || is_review || attributes.namespace.is_empty() {
            return Ok(Vec::new());
        }
        let Some(namespace) = self.objects.get(&namespaces, "", &attributes.namespace) else {
            return Err(Status::not_found(&namespaces, &attributes.namespace));
        };
        let going = namespace.str_at(&["status", "phase"]) == Some("Terminating");
        if going && attributes.operation == Operation::Create && attributes.subresource.is_empty() {
            return Err(terminating(attributes));
        }
        Ok(Vec::new())
    }
}

fn terminating(attributes: &Attributes) -> Status {
    let namespace = &attributes.namespace;
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = Status::forbidden(&attributes.group_resource(), &attributes.name, why);
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}

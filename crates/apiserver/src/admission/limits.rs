//! The step that applies LimitRanges: [`karmada_kinds::limits`] with the ranges of the namespace.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::status::Status;
use karmada_kinds::limits;

use super::{Admission, Attributes, Operation, Warning};
use crate::auth::Objects;

pub(super) struct Limits {
    pub(super) objects: Arc<dyn Objects>,
}

impl Limits {
    /// The ranges that apply to a write.
    fn ranges(&self, attributes: &Attributes) -> Vec<Arc<Value>> {
        let kind = attributes.gvk.kind.as_str();
        let concerned = attributes.gvk.group.is_empty()
            && attributes.subresource.is_empty()
            && match attributes.operation {
                Operation::Create => matches!(kind, "Pod" | "PersistentVolumeClaim"),
                // What containers ask for cannot change; what claims ask for can.
                Operation::Update => kind == "PersistentVolumeClaim",
                _ => false,
            };
        if !concerned {
            return Vec::new();
        }
        let resource = GroupResource::new("", "limitranges");
        self.objects.list(&resource, Some(&attributes.namespace))
    }
}

impl Admission for Limits {
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        _old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if attributes.gvk.kind == "Pod" {
            for range in self.ranges(attributes) {
                limits::complete_pod(object, &range);
            }
        }
        Ok(Vec::new())
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: &Value,
        _old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        for range in self.ranges(attributes) {
            let problems = limits::check(&attributes.gvk.kind, object, &range);
            let why = match problems.as_slice() {
                [] => continue,
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            return Err(Status::forbidden(&attributes.group_resource(), &attributes.name, why));
        }
        Ok(Vec::new())
    }
}

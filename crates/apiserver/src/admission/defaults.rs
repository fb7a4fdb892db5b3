//! The built-in steps that complete new objects: [`karmada_kinds::admission`] with what it looks up.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_kinds::admission;

use super::{Admission, Attributes, Operation, Warning};
use crate::auth::Objects;
use crate::chance::Chance;
use crate::config::Role;
use crate::handlers::meta;

pub(super) struct Defaults {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) role: Role,
    pub(super) chance: Chance,
}

impl Admission for Defaults {
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if !attributes.subresource.is_empty() {
            return Ok(Vec::new());
        }
        let kind = (attributes.gvk.group.as_str(), attributes.gvk.kind.as_str());
        match (attributes.operation, kind) {
            (Operation::Create, ("", "Pod")) => self.complete_pod(attributes, object)?,
            (Operation::Update, ("", "Pod")) => {
                if let Some(old) = old {
                    admission::keep_priority(object, old);
                    admission::default_tolerations(object);
                }
            }
            (Operation::Create, ("", "Node")) => admission::taint_new_node(object),
            (Operation::Create, ("", "PersistentVolumeClaim")) => {
                let classes = self.list("storage.k8s.io", "storageclasses");
                admission::default_class("PersistentVolumeClaim", object, &classes);
                self.protect(kind.1, object);
            }
            (Operation::Create, ("", "PersistentVolume"))
            | (Operation::Create, ("storage.k8s.io", "VolumeAttributesClass")) => {
                self.protect(kind.1, object);
            }
            (Operation::Create, ("networking.k8s.io", "Ingress")) => {
                let classes = self.list("networking.k8s.io", "ingressclasses");
                admission::default_class("Ingress", object, &classes);
            }
            _ => {}
        }
        Ok(Vec::new())
    }
}

impl Defaults {
    fn protect(&self, kind: &str, object: &mut Value) {
        if self.role == Role::Member {
            admission::protect_storage(kind, object);
        }
    }

    fn list(&self, group: &str, resource: &str) -> Vec<Value> {
        let found = self.objects.list(&GroupResource::new(group, resource), None);
        found.iter().map(|object| (**object).clone()).collect()
    }

    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        if name.is_empty() {
            return None;
        }
        self.objects.get(&GroupResource::new(group, resource), namespace, name)
    }

    fn complete_pod(&self, attributes: &Attributes, pod: &mut Value) -> Result<(), Status> {
        let refuse =
            |why: String| Status::forbidden(&attributes.group_resource(), &attributes.name, why);
        if self.role == Role::Member {
            let name = admission::service_account_name(pod).to_owned();
            let account = self.get("", "serviceaccounts", &attributes.namespace, &name);
            let suffix = meta::generate_name("", &self.chance);
            admission::service_account(pod, account.as_deref(), &suffix).map_err(refuse)?;
        }
        admission::default_tolerations(pod);
        let named = pod.str_at(&["spec", "priorityClassName"]).unwrap_or_default().to_owned();
        let class = self.get("scheduling.k8s.io", "priorityclasses", "", &named).or_else(|| {
            let classes = self
                .objects
                .list(&GroupResource::new("scheduling.k8s.io", "priorityclasses"), None);
            let default = classes.into_iter().find(|c| c.bool_at(&["globalDefault"]) == Some(true));
            default.filter(|_| named.is_empty())
        });
        admission::priority(pod, class.as_deref()).map_err(refuse)?;
        let named = pod.str_at(&["spec", "runtimeClassName"]).unwrap_or_default().to_owned();
        let class = self.get("node.k8s.io", "runtimeclasses", "", &named);
        admission::runtime_class(pod, class.as_deref()).map_err(refuse)
    }
}

//! What a pod template tells: the needs of one replica, and the objects it refers to.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::config::DependentObjectReference;
use karmada_api::core::ResourceList;
use karmada_api::work::{NodeClaim, ReplicaRequirements};
use karmada_apimachinery::Value;
use karmada_apimachinery::names::qualified_name;
use karmada_apimachinery::quantity::{Format, Quantity};

use crate::Gates;
use crate::error::{Error, Result};
use crate::fields::{decode, list, map, string_map, text, walk};

/// The needs of one replica made from a pod spec; none if it asks for nothing.
pub(crate) fn requirements(spec: &Value, gates: Gates) -> Result<Option<ReplicaRequirements>> {
    let node_claim = node_claim(spec)?;
    let resource_request = resource_request(spec)?;
    if node_claim.is_none() && resource_request.is_empty() {
        return Ok(None);
    }
    let priority_class_name = if gates.quota_estimate {
        text(spec, &["priorityClassName"])?.to_owned()
    } else {
        String::new()
    };
    Ok(Some(ReplicaRequirements {
        node_claim,
        resource_request,
        namespace: String::new(),
        priority_class_name,
    }))
}

/// The same for a pod template that may be missing.
pub(crate) fn template_requirements(
    object: &Value,
    template: &[&str],
    gates: Gates,
) -> Result<Option<ReplicaRequirements>> {
    let path = [template, &["spec"]].concat();
    match walk(object, &path)? {
        None => Ok(None),
        Some(spec) => requirements(spec, gates).map_err(|e| e.under(&path.join("."))),
    }
}

/// The nodes a pod can run on, as far as they must be so.
pub(crate) fn node_claim(spec: &Value) -> Result<Option<NodeClaim>> {
    const REQUIRED: &[&str] =
        &["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let selector = string_map(spec, &["nodeSelector"])?;
    let claim = NodeClaim {
        hard_node_affinity: decode(spec, REQUIRED)?,
        node_selector: decode(spec, &["nodeSelector"])?.unwrap_or_default(),
        tolerations: decode(spec, &["tolerations"])?.unwrap_or_default(),
    };
    // Compat: an empty selector counts as one.
    let says_something =
        selector.is_some() || claim.hard_node_affinity.is_some() || !claim.tolerations.is_empty();
    Ok(says_something.then_some(claim))
}

/// Sum over containers, at least what each init container needs, plus overhead.
fn resource_request(spec: &Value) -> Result<ResourceList> {
    let mut total = BTreeMap::new();
    for (index, container) in list(spec, &["containers"])?.iter().enumerate() {
        let requests =
            container_requests(container).map_err(|e| e.under(&format!("containers[{index}]")))?;
        for (name, amount) in requests {
            let sum: &mut i64 = total.entry(name).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    for (index, container) in list(spec, &["initContainers"])?.iter().enumerate() {
        let requests = container_requests(container)
            .map_err(|e| e.under(&format!("initContainers[{index}]")))?;
        for (name, amount) in requests {
            let most: &mut i64 = total.entry(name).or_default();
            *most = (*most).max(amount);
        }
    }
    for (name, amount) in amounts(spec, &["overhead"])? {
        let sum: &mut i64 = total.entry(name).or_default();
        *sum = sum.saturating_add(amount);
    }
    let positive = total.into_iter().filter(|(_, amount)| *amount > 0);
    Ok(positive.map(|(name, amount)| (name.to_owned(), quantity(name, amount))).collect())
}

/// Requests of a container; a limit without a request stands for one.
fn container_requests(container: &Value) -> Result<BTreeMap<&str, i64>> {
    let mut requests = amounts(container, &["resources", "limits"])?;
    requests.extend(amounts(container, &["resources", "requests"])?);
    Ok(requests)
}

/// The amounts of a resource list that are kept track of: processors in thousandths, the rest in units.
fn amounts<'a>(value: &'a Value, path: &[&str]) -> Result<BTreeMap<&'a str, i64>> {
    let mut amounts = BTreeMap::new();
    for (name, amount) in map(value, path)?.into_iter().flatten() {
        let parsed = Quantity::from_value(amount)
            .map_err(|e| Error::invalid(&[path, &[name.as_str()]].concat(), e))?;
        if is_tracked(name) {
            let units = if name == "cpu" { parsed.milli_value() } else { parsed.value() };
            amounts.insert(name.as_str(), units);
        }
    }
    Ok(amounts)
}

fn is_tracked(name: &str) -> bool {
    const NATIVE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];
    NATIVE.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || is_extended(name)
}

fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

fn quantity(name: &str, amount: i64) -> Quantity {
    let is_binary =
        matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    match name {
        "cpu" => Quantity::from_millis(amount),
        _ if is_binary => Quantity::new(amount, Format::BinarySi),
        _ => Quantity::new(amount, Format::DecimalSi),
    }
}

/// Objects in `namespace` that pods made from a spec refer to, sorted.
#[derive(Default)]
pub(crate) struct References<'a>(BTreeSet<(&'static str, &'a str)>);

impl<'a> References<'a> {
    pub(crate) fn of(spec: &'a Value) -> Result<Self> {
        let mut references = Self::default();
        references.add_pod(spec)?;
        Ok(references)
    }

    /// Adds a name found at a path, if one stands there.
    pub(crate) fn add(
        &mut self,
        kind: &'static str,
        value: &'a Value,
        path: &[&str],
    ) -> Result<()> {
        let name = text(value, path)?;
        if !name.is_empty() {
            self.0.insert((kind, name));
        }
        Ok(())
    }

    pub(crate) fn add_pod(&mut self, spec: &'a Value) -> Result<()> {
        for class in ["initContainers", "containers", "ephemeralContainers"] {
            for (index, container) in list(spec, &[class])?.iter().enumerate() {
                self.add_container(container).map_err(|e| e.under(&format!("{class}[{index}]")))?;
            }
        }
        for (index, secret) in list(spec, &["imagePullSecrets"])?.iter().enumerate() {
            self.add("Secret", secret, &["name"])
                .map_err(|e| e.under(&format!("imagePullSecrets[{index}]")))?;
        }
        for (index, volume) in list(spec, &["volumes"])?.iter().enumerate() {
            self.add_volume(volume).map_err(|e| e.under(&format!("volumes[{index}]")))?;
        }
        self.add_service_account(spec, &["serviceAccountName"])
    }

    /// Adds a service account; the one every namespace has is not worth mentioning.
    pub(crate) fn add_service_account(&mut self, value: &'a Value, path: &[&str]) -> Result<()> {
        if text(value, path)? == "default" {
            return Ok(());
        }
        self.add("ServiceAccount", value, path)
    }

    pub(crate) fn add_container(&mut self, container: &'a Value) -> Result<()> {
        for source in list(container, &["envFrom"])? {
            self.add("ConfigMap", source, &["configMapRef", "name"])?;
            self.add("Secret", source, &["secretRef", "name"])?;
        }
        for variable in list(container, &["env"])? {
            self.add("ConfigMap", variable, &["valueFrom", "configMapKeyRef", "name"])?;
            self.add("Secret", variable, &["valueFrom", "secretKeyRef", "name"])?;
        }
        Ok(())
    }

    pub(crate) fn add_volume(&mut self, volume: &'a Value) -> Result<()> {
        const PLACES: &[(&str, &[&str])] = &[
            ("ConfigMap", &["configMap", "name"]),
            ("PersistentVolumeClaim", &["persistentVolumeClaim", "claimName"]),
            ("Secret", &["secret", "secretName"]),
            ("Secret", &["azureFile", "secretName"]),
            ("Secret", &["cephfs", "secretRef", "name"]),
            ("Secret", &["cinder", "secretRef", "name"]),
            ("Secret", &["flexVolume", "secretRef", "name"]),
            ("Secret", &["rbd", "secretRef", "name"]),
            ("Secret", &["scaleIO", "secretRef", "name"]),
            ("Secret", &["iscsi", "secretRef", "name"]),
            ("Secret", &["storageos", "secretRef", "name"]),
            ("Secret", &["csi", "nodePublishSecretRef", "name"]),
        ];
        for (kind, path) in PLACES {
            self.add(kind, volume, path)?;
        }
        for source in list(volume, &["projected", "sources"])? {
            self.add("ConfigMap", source, &["configMap", "name"])?;
            self.add("Secret", source, &["secret", "name"])?;
        }
        Ok(())
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) {
        self.0.retain(|(kind, name)| keep(kind, name));
    }

    pub(crate) fn into_list(self, namespace: &str) -> Vec<DependentObjectReference> {
        self.0.into_iter().map(|(kind, name)| reference(kind, namespace, name)).collect()
    }
}

/// A reference to an object of the core group.
pub(crate) fn reference(kind: &str, namespace: &str, name: &str) -> DependentObjectReference {
    DependentObjectReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        label_selector: None,
    }
}

/// The references of a pod template at a path of an object, in the namespace of the object.
pub(crate) fn template_references<'a>(
    object: &'a Value,
    template: &[&str],
) -> Result<References<'a>> {
    let path = [template, &["spec"]].concat();
    match walk(object, &path)? {
        None => Ok(References::default()),
        Some(spec) => References::of(spec).map_err(|e| e.under(&path.join("."))),
    }
}

//! ResourceBinding and ClusterResourceBinding.

use karmada_api::annotations;
use karmada_api::config::DependentObjectReference;
use karmada_api::features::Gate;
use karmada_api::scopes::Binding;
use karmada_api::work::{Component, ResourceBinding};
use karmada_apimachinery::field::{FieldError, Path};

use super::quota_enforcement;
use crate::decode::{decode, encode};
use crate::request::{Denial, Environment, Operation, Request, Verdict, refuse_any};

/// Gives a new binding its permanent id.
pub(crate) fn mutate<B: Binding>(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    let mut binding: B = decode(&request.object)?;
    if binding.permanent_id().is_empty() {
        binding.metadata_mut().labels.insert(B::PERMANENT_ID.to_owned(), environment.new_id());
    }
    Ok(Verdict { object: Some(encode(&binding, &request.object)?), ..Verdict::default() })
}

pub(crate) fn validate(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    let binding: ResourceBinding = decode(&request.object)?;
    let old: Option<ResourceBinding> = match request.operation {
        Operation::Update => Some(decode(&request.old_object)?),
        _ => None,
    };
    refuse_any(&check_dependencies(&binding))?;
    let gates = environment.gates();
    let quota_uses = if gates.is_on(Gate::FederatedQuotaEnforcement) {
        quota_enforcement::admit(&binding, old.as_ref(), environment)?
    } else {
        Vec::new()
    };
    if gates.is_on(Gate::MultiplePodTemplatesScheduling) {
        let path = Path::new("spec").child("components");
        refuse_any(&check_components(&binding.spec.components, &path))?;
    }
    Ok(Verdict { object: None, quota_uses })
}

fn check_dependencies(binding: &ResourceBinding) -> Vec<FieldError> {
    let Some(text) = binding.metadata.annotations.get(annotations::DEPENDENCIES) else {
        return Vec::new();
    };
    // Null is a list without entries.
    if serde_json::from_str::<Option<Vec<DependentObjectReference>>>(text).is_ok() {
        return Vec::new();
    }
    let path = Path::new("metadata").child("annotations").child(annotations::DEPENDENCIES);
    vec![FieldError::invalid(&path, &**text, "annotation value must be a valid JSON")]
}

fn check_components(components: &[Component], path: &Path) -> Vec<FieldError> {
    components
        .iter()
        .enumerate()
        .filter_map(|(index, component)| {
            let taken = components[..index].iter().any(|earlier| earlier.name == component.name);
            let message = match (component.name.is_empty(), taken) {
                (true, _) => "component names must be non-empty",
                (false, true) => "component names must be unique",
                _ => return None,
            };
            let path = path.index(index).child("name");
            Some(FieldError::invalid(&path, &*component.name, message))
        })
        .collect()
}

//! ResourceBinding and ClusterResourceBinding.

use karmada_api::annotations;
use karmada_api::config::DependentObjectReference;
use karmada_api::features::Gate;
use karmada_api::scopes::Binding;
use karmada_api::work::{Component, ResourceBinding};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};

use super::quota_enforcement;
use crate::decode::{RECORD, check, decode, encode, put_back, set_aside, written};
use crate::request::{Denial, Environment, Operation, Request, Verdict, refuse_any};

/// Gives a new binding its permanent id.
pub(crate) fn mutate<B: Binding>(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    let object = match written::<B>(&request.object, &[]) {
        Some(object) => mutate_tree::<B>(object, environment),
        None => mutate_typed::<B>(&request.object, environment)?,
    };
    Ok(Verdict { object: Some(object), ..Verdict::default() })
}

/// Changes an object that the type itself would write as it is.
fn mutate_tree<B: Binding>(mut binding: Value, environment: &dyn Environment) -> Value {
    if binding.label(B::PERMANENT_ID).is_none_or(str::is_empty) {
        binding.set(&["metadata", "labels", B::PERMANENT_ID], environment.new_id());
    }
    binding
}

fn mutate_typed<B: Binding>(
    object: &Value,
    environment: &dyn Environment,
) -> Result<Value, Denial> {
    let (rest, aside) = set_aside(object, &[RECORD]);
    let mut binding: B = decode(&rest)?;
    if binding.permanent_id().is_empty() {
        binding.metadata_mut().labels.insert(B::PERMANENT_ID.to_owned(), environment.new_id());
    }
    let mut object = encode(&binding, &rest)?;
    put_back(&mut object, aside);
    Ok(object)
}

pub(crate) fn validate(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    check::<ResourceBinding>(&request.object)?;
    refuse_any(&check_dependencies(&request.object))?;
    let gates = environment.gates();
    let counts = gates.is_on(Gate::FederatedQuotaEnforcement);
    if !counts && !gates.is_on(Gate::MultiplePodTemplatesScheduling) {
        // Nobody else looks into the binding, so it need not be read.
        return Ok(Verdict::default());
    }
    let binding: ResourceBinding = decode(&request.object)?;
    let old: Option<ResourceBinding> = match request.operation {
        Operation::Update => Some(decode(&request.old_object)?),
        _ => None,
    };
    let quota_uses = if counts {
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

fn check_dependencies(binding: &Value) -> Vec<FieldError> {
    let Some(text) = binding.annotation(annotations::DEPENDENCIES) else { return Vec::new() };
    // Null is a list without entries.
    if serde_json::from_str::<Option<Vec<DependentObjectReference>>>(text).is_ok() {
        return Vec::new();
    }
    let path = Path::new("metadata").child("annotations").child(annotations::DEPENDENCIES);
    vec![FieldError::invalid(&path, text, "annotation value must be a valid JSON")]
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

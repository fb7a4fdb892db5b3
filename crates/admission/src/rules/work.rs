//! Work: what is taken off the objects before they are stored for a member, and what is recorded on them.

use karmada_api::labels::WORK_PERMANENT_ID;
use karmada_api::manifest;
use karmada_api::work::Work;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::value::List;

use crate::decode::{RECORD, decode, encode, put_back, set_aside, written};
use crate::request::{Denial, Environment, Request, Verdict};
use crate::show::go_text;

const MANIFESTS: &[&str] = &["spec", "workload", "manifests"];

pub(crate) fn mutate(request: &Request, environment: &dyn Environment) -> Result<Verdict, Denial> {
    let object = match written::<Work>(&request.object, MANIFESTS) {
        Some(object) => mutate_tree(object, environment)?,
        None => mutate_typed(&request.object, environment)?,
    };
    Ok(Verdict { object: Some(object), ..Verdict::default() })
}

/// Changes an object that the type itself would write as it is.
fn mutate_tree(mut work: Value, environment: &dyn Environment) -> Result<Value, Denial> {
    let id = match work.label(WORK_PERMANENT_ID).filter(|id| !id.is_empty()) {
        Some(id) => id.to_owned(),
        None => {
            let id = environment.new_id();
            work.set(&["metadata", "labels", WORK_PERMANENT_ID], &id);
            id
        }
    };
    if let Some(manifests) = work.at_mut(MANIFESTS).and_then(Value::as_array_mut) {
        prepare(manifests, &id)?;
    }
    Ok(work)
}

fn mutate_typed(object: &Value, environment: &dyn Environment) -> Result<Value, Denial> {
    let (rest, mut aside) = set_aside(object, &[MANIFESTS, RECORD]);
    let mut work: Work = decode(&rest)?;
    let labels = &mut work.metadata.labels;
    if labels.get(WORK_PERMANENT_ID).is_none_or(String::is_empty) {
        labels.insert(WORK_PERMANENT_ID.to_owned(), environment.new_id());
    }
    let id = labels.get(WORK_PERMANENT_ID).cloned().unwrap_or_default();
    for (_, manifests) in aside.iter_mut().filter(|(path, _)| *path == MANIFESTS) {
        prepare(manifests, &id)?;
    }
    let mut object = encode(&work, &rest)?;
    put_back(&mut object, aside);
    Ok(object)
}

fn prepare(manifests: &mut List, id: &str) -> Result<(), Denial> {
    for object in manifests {
        check_manifest(object)?;
        manifest::prune(object);
        manifest::stamp(object, Some(id));
    }
    Ok(())
}

fn check_manifest(manifest: &Value) -> Result<(), Denial> {
    if !manifest.is_object() {
        let kind = match manifest {
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        return Err(Denial::internal(format!(
            "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )));
    }
    if manifest.kind().is_empty() {
        return Err(Denial::internal(format!(
            "Object 'Kind' is missing in '{}'",
            go_text(manifest)
        )));
    }
    Ok(())
}

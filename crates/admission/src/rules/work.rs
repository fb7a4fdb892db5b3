//! Work: what is taken off the objects before they are stored for a member, and what is recorded on them.

use karmada_api::labels::WORK_PERMANENT_ID;
use karmada_api::manifest;
use karmada_api::work::Work;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use crate::decode::{RECORD, decode, encode, put_back, set_aside};
use crate::request::{Denial, Environment, Request, Verdict};
use crate::show::go_text;

const MANIFESTS: &[&str] = &["spec", "workload", "manifests"];

pub(crate) fn mutate(request: &Request, environment: &dyn Environment) -> Result<Verdict, Denial> {
    let (rest, mut aside) = set_aside(&request.object, &[MANIFESTS, RECORD]);
    let mut work: Work = decode(&rest)?;
    let labels = &mut work.metadata.labels;
    if labels.get(WORK_PERMANENT_ID).is_none_or(String::is_empty) {
        labels.insert(WORK_PERMANENT_ID.to_owned(), environment.new_id());
    }
    let id = labels.get(WORK_PERMANENT_ID).cloned().unwrap_or_default();
    let manifests = aside.iter_mut().filter(|(path, _)| *path == MANIFESTS);
    for manifest_object in manifests.flat_map(|(_, manifests)| manifests) {
        check_manifest(manifest_object)?;
        manifest::prune(manifest_object);
        manifest::stamp(manifest_object, Some(&id));
    }
    let mut object = encode(&work, &rest)?;
    put_back(&mut object, aside);
    Ok(Verdict { object: Some(object), ..Verdict::default() })
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

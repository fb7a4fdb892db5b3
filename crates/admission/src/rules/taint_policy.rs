//! ClusterTaintPolicy.

use karmada_api::core::TaintEffect;
use karmada_api::policy::{ClusterTaintPolicy, Taint};
use karmada_apimachinery::field::{FieldError, Path};

use crate::decode::decode;
use crate::request::{Denial, Environment, Request, Verdict, refuse_any};

pub(crate) fn validate(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    let policy: ClusterTaintPolicy = decode(&request.object)?;
    let path = Path::new("spec").child("taints");
    refuse_any(&check_taints(&policy.spec.taints, environment.allows_no_execute_taints(), &path))?;
    Ok(Verdict::default())
}

fn check_taints(taints: &[Taint], allow_no_execute: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        if !allow_no_execute && taint.effect == TaintEffect::NoExecute {
            errors.push(FieldError::forbidden(
                &path.index(index),
                "Configuring taint with NoExecute effect is not allowed, this capability must be explicitly enabled by administrators through command-line flags",
            ));
        }
        let is_same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
        if taints[index + 1..].iter().any(is_same) {
            // Compat: the explanation stands where the value belongs.
            let text = format!(
                "Duplicate taint with the same key({}) and effect({}) is not allowed",
                taint.key, taint.effect
            );
            errors.push(FieldError::duplicate(&path.index(index), text));
        }
    }
    errors
}
